"""Templates, and the few functions that they call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from headgate.clock import span

STATIC = files("headgate.web") / "static"
SHORT_ID = 16


@cache
def environment() -> Environment:
    """Everything is escaped, and a name that is not there is an error."""
    made = Environment(
        loader=PackageLoader("headgate.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    functions: dict[str, Any] = {
        "number": number, "short": short, "first_line": first_line, "pretty": pretty, "path": path, "first": first,
        "with_after": with_after, "span": span,
    }  # fmt: skip
    made.globals.update(functions)
    return made


def render(template: str, context: Mapping[str, Any]) -> str:
    """A template with its context."""
    return environment().get_template(template).render(context)


@cache
def asset_version(name: str) -> str:
    """Changes with the file, so that browsers may keep it for ever."""
    content = STATIC
    for part in name.split("/"):
        content = content / part
    return hashlib.sha256(content.read_bytes()).hexdigest()[:12]


def number(value: int | None) -> str:
    """12,094"""
    return "–" if value is None else f"{value:,}"


def short(id: str) -> str:
    """A job's id where there is little room: its beginning, which commands take as well."""
    return id if len(id) <= SHORT_ID + 2 else f"{id[:SHORT_ID]}…"


def first_line(error: str | None) -> str:
    """What went wrong, without the traceback."""
    return (error or "").strip().partition("\n")[0][:200]


def pretty(value: Any) -> str:
    """A payload as text."""
    return json.dumps(msgspec.to_builtins(value, str_keys=True), indent=2, ensure_ascii=False)


def path(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def _without_after(url: str) -> tuple[str, list[tuple[str, str]]]:
    before, _, query = url.partition("?")
    return before, [(name, value) for name, value in parse_qsl(query) if name != "after"]


def first(url: str) -> str:
    """The first page of a list."""
    before, query = _without_after(url)
    return f"{before}?{urlencode(query)}"


def with_after(url: str, after: str) -> str:
    """The next page of a list."""
    before, query = _without_after(url)
    return f"{before}?{urlencode([*query, ('after', after)])}"
