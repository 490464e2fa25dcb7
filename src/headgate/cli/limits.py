"""Looking at limits: `limits`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.exits import FAILED
from headgate.cli.options import AppName, Factory, Json, Url
from headgate.cli.overriding import SHOWN, Size, shown
from headgate.cli.store import open_store
from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.app.app import App
    from headgate.app.info import LimitInfo

USUAL = 7
"""How many columns are shown whether there is anything in them or not."""


def limits(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only this limit and its keys.")] = None,
    size: Size = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="KEY", help="Go on after this key of the last page.")
    ] = None,
    after_tenant: Annotated[
        str | None, typer.Option("--after-tenant", metavar="TENANT", help="The tenant of that key.")
    ] = None,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """List the limits, and their keys that are held, waited for or overridden.

    headgate limits
    headgate limits customer
    headgate limits customer --after customer=42

    --json prints one limit or key a line: name, key, tenant, kind, max,
    declared, override (max, by, at, why, until), held, waiting, per, burst,
    algorithm, exact, tokens, next_at, brought, brought_before, reason, opens_at,
    when_full, max_waiting, on_overflow.
    A max of null does not limit; where exact is false, held and waiting of a
    limit are lower bounds. Of a rate, tokens are there now, and next_at is when
    the next one comes.
    """
    from headgate.app.no_room import when_no_room
    from headgate.cli.show import json_line, say, table

    with open_store(url, app, factory=factory) as opened:
        wanted = size or (None if json else SHOWN)
        page, more = _page(opened, name, wanted, _place(after, after_tenant))
    if json:
        for limit in page:
            json_line(limit)
    elif not page:
        say(_none(name, after))
    else:
        columns = ["limit", "tenant", "kind", "max", "held", "waiting", "override", "no room", "now"]
        keyed = {limit.name for limit in page if limit.key != limit.name}
        rows = [
            (
                limit.key if limit.key == limit.name else f"  {limit.key}",
                limit.tenant,
                limit.kind,
                _max(limit),
                "" if limit.kind == "rate" else _at_least(limit.held, limit),
                _at_least(limit.waiting, limit),
                shown(limit.override, "no limit" if limit.declared is None else str(limit.declared)),
                "; ".join(when_no_room(limit)) if limit.key == limit.name else "",
                "" if limit.key == limit.name and limit.name in keyed else _now(limit),
            )
            for limit in page
        ]
        filled = [n for n in range(len(columns)) if n < USUAL or any(row[n] for row in rows)]
        columns, rows = [columns[n] for n in filled], [tuple(row[n] for n in filled) for row in rows]
        table(columns, rows, right=("max", "held", "waiting"))
        if more:
            say(f"{len(page):,} shown; the next page: {_next(page[-1])}")
    if name is not None and after is None and not page:
        raise typer.Exit(FAILED)


def _at_least(number: int, limit: LimitInfo) -> str:
    return str(number) if limit.exact else f"{number}+"


def _page(
    app: App, name: str | None, size: int | None, after: tuple[str, str, str] | None
) -> tuple[list[LimitInfo], bool]:
    """The records to show, and whether there are more behind them."""
    if size is None:
        return app.limits_sync(name, after=after), False
    found = app.limits_sync(name, size=size + 1, after=after)
    return found[:size], len(found) > size


def _place(key: str | None, tenant: str | None) -> tuple[str, str, str] | None:
    from headgate.keys import parse

    if key is None:
        if tenant is not None:
            raise ConfigError("--after-tenant belongs to --after KEY, which is missing")
        return None
    return parse(key)[0], key, tenant or ""


def _next(last: LimitInfo) -> str:
    """The options that continue, ready to be pasted into a shell."""
    from shlex import quote

    tenant = f" --after-tenant {quote(last.tenant)}" if last.tenant else ""
    return f"--after {quote(last.key)}{tenant}"


def _none(name: str | None, after: str | None) -> str:
    if after is not None:
        return "No more."
    return "No limits are declared." if name is None else f"No limit is named {name!r}."


def _max(limit: LimitInfo) -> str:
    if limit.max is None:
        return "no limit"
    return f"{limit.max:,} per {limit.per:g} s" if limit.per else f"{limit.max:,}"


def _now(limit: LimitInfo) -> str:
    """What is special about it now: tokens, numbers that jobs brought, a service that has closed it."""
    from headgate.cli.times import ago

    words: list[str] = []
    if limit.tokens is not None:
        next_one = f", the next {ago(limit.next_at)}" if limit.tokens <= 0 and limit.next_at else ""
        words.append(f"{limit.tokens:,} tokens{next_one}")
    if limit.opens_at is not None:
        words.append(f"throttled, opens {ago(limit.opens_at)}")
    if limit.brought_before is not None:
        words.append(f"jobs disagree: {limit.brought} now, {limit.brought_before} before")
    elif limit.brought is not None:
        words.append("brought by its jobs")
    if limit.reason:
        words.append(limit.reason)
    return "; ".join(words)
