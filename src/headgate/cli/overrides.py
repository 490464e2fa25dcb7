"""Overriding limits: `limit set`, `limit clear`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from headgate.cli.exits import FAILED, fail
from headgate.cli.options import AppName, Factory, Json, Url
from headgate.cli.overriding import By, Ends, Why, said
from headgate.cli.store import open_store
from headgate.errors import ConfigError

Key = Annotated[str, typer.Argument(metavar="KEY", help="A limit (customer) or one key of it (customer=42).")]
OfTenant = Annotated[
    str | None, typer.Option("--tenant", metavar="TENANT", help="Only for this tenant; else for all of them.")
]

limit = typer.Typer(
    name="limit",
    help="Set and clear limits while everything runs.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


class _SetLimit(TyperCommand):
    """A number below 0 looks like an option; what is wrong with it is the number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if getattr(error, "option_name", "")[1:].isdecimal():
                raise ConfigError(
                    "MAX cannot be below 0: 0 closes the limit, none lifts it; a KEY that begins with - goes after --"
                ) from None
            raise


@limit.command("set", cls=_SetLimit)
def set_limit(
    key: Key,
    max: Annotated[
        str, typer.Argument(metavar="MAX", help="The number; 0 closes the key, none lifts the limit.")
    ],
    why: Why = "",
    by: By = None,
    until: Ends = None,
    tenant: OfTenant = None,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """Override a limit at once, until it is cleared or runs out. Deploys never undo it.

    headgate limit set api 4 --why "they are struggling" --until 2h
    headgate limit set customer=42 3
    headgate limit set customer=42 0                  close it: nothing new starts
    headgate limit set task:send none                 lift it

    --json prints one object: key, max, tenant, changed.
    """
    from headgate.cli.show import json_line, say

    number = _number(max)
    given = said(why, by, until)
    with open_store(url, app, factory=factory) as opened:
        opened.set_limit_sync(key, number, tenant=tenant, **given)
    if json:
        json_line({"key": key, "max": number, "tenant": tenant, "changed": True})
    else:
        say(f"{key} is {_words(number)} now{f' for tenant {tenant}' if tenant else ''}.")


@limit.command("clear")
def clear_limit(
    key: Key,
    tenant: OfTenant = None,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """Take an override back; the declared number counts again. Exits with 1 if there was none.

    headgate limit clear customer=42

    --json prints one object: key, tenant, changed.
    """
    from headgate.cli.show import json_line, say

    with open_store(url, app, factory=factory) as opened:
        changed = opened.clear_limit_sync(key, tenant=tenant)
    if json:
        json_line({"key": key, "tenant": tenant, "changed": changed})
    elif changed:
        say(f"The override of {key} is gone; what is declared counts again.")
    else:
        fail(f"{key} has no override{f' for tenant {tenant}' if tenant else ''}; see `headgate limits`")
    if not changed:
        raise typer.Exit(FAILED)


def _number(text: str) -> int | None:
    if text.lower() in ("none", "null"):
        return None
    if not text.isdecimal():
        raise ConfigError(f"MAX {text!r}: a whole number from 0 is needed, or none to lift the limit")
    return int(text)


def _words(number: int | None) -> str:
    if number is None:
        return "without a limit"
    return "closed" if number == 0 else f"limited to {number:,}"
