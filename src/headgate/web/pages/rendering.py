"""Templates, and the few functions that they call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from headgate.app.no_room import when_no_room
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
        "with_after": with_after, "span": span, "lasting": lasting, "points": points, "rate": rate, "dom_id": dom_id,
        "plain": msgspec.to_builtins, "when_no_room": when_no_room,
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


def lasting(seconds: float) -> str:
    """How long, with up to two units: `4 m 3 s`. The page's script counts on in the same words."""
    if 0 < seconds < 10:
        return f"{seconds:.1f} s"
    rest, parts = round(seconds), list[str]()
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        many, rest = divmod(rest, size)
        if many:
            parts.append(f"{many} {unit}")
    return " ".join(parts[:2]) or "0 s"


def points(values: Sequence[float], width: int = 100, height: int = 24) -> str:
    """A small curve from zero up, as the points of an SVG line. What stands still is drawn half-way up, nothing at the
    foot."""
    if len(values) < 2 or len(set(values)) == 1:
        at = height / 2 if any(values) else height - 1
        return f"0,{at:g} {width},{at:g}"
    most, step = max(values), width / (len(values) - 1)
    return " ".join(
        f"{round(index * step, 1):g},{round(height - 1 - value / most * (height - 2), 1):g}"
        for index, value in enumerate(values)
    )


def rate(per: float) -> str:
    """The period of a rate: `s`, `min`, `10 s`."""
    return {1.0: "s", 60.0: "min", 3600.0: "h", 86400.0: "d"}.get(per, f"{per:g} s")


def dom_id(*parts: object) -> str:
    """A name for a piece of a page, by which it is found again when the page renews itself."""
    return "x" + hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


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
