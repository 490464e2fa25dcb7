"""Fair shares: `share list`, `share set`, `share clear`."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli.exits import fail
from headgate.cli.options import AppName, Factory, Json, Url
from headgate.cli.overriding import SHOWN, By, Ends, Size, Why, said, shown
from headgate.cli.store import open_store
from headgate.errors import ConfigError

Share = Annotated[
    str, typer.Argument(metavar="SHARE", help="The share: a tenant, or what the queue is shared by.")
]

share = typer.Typer(
    name="share",
    help="See and weigh the fair shares of shared queues.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@share.command("list")
def list_shares(
    size: Size = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="SHARE", help="Go on after this share of the last page.")
    ] = None,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """List the shares that have ready or waiting jobs, or a weight of their own.

    headgate share list

    --json prints one share a line: share, weight, declared, override (weight,
    by, at, why, until), pending.
    """
    from headgate.cli.show import json_line, say, table

    with open_store(url, app, factory=factory) as opened:
        wanted = size or (None if json else SHOWN)
        found = opened.shares_sync(size=None if wanted is None else wanted + 1, after=after)
    more, found = wanted is not None and len(found) > wanted, found[:wanted]
    if json:
        for one in found:
            json_line(one)
    elif not found:
        say("No share has jobs or a weight.")
    else:
        rows = (
            (
                one.share,
                f"{one.weight:g}",
                one.pending,
                shown(one.override, f"{1 if one.declared is None else one.declared:g}"),
            )
            for one in found
        )
        table(("share", "weight", "pending", "override"), rows, right=("weight", "pending"))
        if more:
            from shlex import quote

            say(f"{len(found):,} shown; the next page: --after {quote(found[-1].share)}")


@share.command("set")
def set_share(
    share: Share,
    weight: Annotated[
        str, typer.Argument(metavar="WEIGHT", help="3 gets three starts for each of a share of 1.")
    ],
    why: Why = "",
    by: By = None,
    until: Ends = None,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """Give a share another weight, also for its jobs that wait, until it is cleared or runs out.

    headgate share set acme 3 --why "a big day" --until 2h
    headgate share set crawler 0.1

    --json prints one object: share, weight, changed.
    """
    from headgate.cli.show import json_line, say

    number = _number(weight)
    given = said(why, by, until)
    with open_store(url, app, factory=factory) as opened:
        opened.set_share_sync(share, number, **given)
    if json:
        json_line({"share": share, "weight": number, "changed": True})
    else:
        say(f"Share {share!r} has weight {number:g} now.")


@share.command("clear")
def clear_share(
    share: Share, json: Json = False, url: Url = None, app: AppName = None, factory: Factory = False
) -> None:
    """Take an operator's weight back; the declared one counts again, else 1. Exits with 1 if there was none.

    headgate share clear acme

    --json prints one object: share, changed.
    """
    from headgate.cli.exits import FAILED
    from headgate.cli.show import json_line, say

    with open_store(url, app, factory=factory) as opened:
        changed = opened.clear_share_sync(share)
    if json:
        json_line({"share": share, "changed": changed})
    elif changed:
        say(f"The weight of share {share!r} is gone; what is declared counts again.")
    else:
        fail(f"share {share!r} has no weight of an operator's; see `headgate share list`")
    if not changed:
        raise typer.Exit(FAILED)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"WEIGHT {text!r}: a number above 0 is needed, such as 3 or 0.5") from None
