"""Limits, and one key: what holds it, what waits for it, whose word counts."""

from __future__ import annotations

from urllib.parse import quote

from headgate.app.info import LimitInfo
from headgate.app.store_info import KeyInfo
from headgate.errors import LimitNotFound
from headgate.web.api.pages import cursor, place
from headgate.web.pages.view import ROWS, Context, View
from headgate.web.problems import Refusal

LINE = 25
"""Holders and waiters of a key that are shown."""


async def limits(view: View) -> Context:
    """A page of limits, each followed by its keys in use."""
    after = place(view.asked("after"), 3) if view.asked("after") else None
    name = view.asked("name")
    found = await view.app.limits(name or None, size=ROWS, after=after)  # pyright: ignore[reportArgumentType]
    last = found[-1] if len(found) == ROWS else None
    return {
        "limits": found,
        "name": name,
        "next": None if last is None else cursor((last.name, last.key, last.tenant or "")),
    }


async def key(view: View) -> Context:
    """One key, or a limit with the keys that are in use."""
    text, tenant = view.asked("key"), view.asked("tenant") or None
    if not text:
        raise Refusal("invalid", "a key is needed: /key?key=customer=42")
    limit, keys = await _family(view, text)
    found = None if keys else await _key(view, text, tenant)
    if found and not found.limit.tenant:
        tenant = None
    about = f"?tenant={quote(tenant, safe='')}" if tenant else ""
    return {
        "title": text,
        "tenant": tenant,
        "key": found,
        "limit": found.limit if found else limit,
        "keys": keys,
        "more_keys": len(keys) >= ROWS,
        "name": text.partition("=")[0],
        "override_path": f"/limits/{quote(text, safe='')}/override{about}",
        "may_override": not (tenant and text.partition("=")[0].startswith(("task:", "queue:"))),
    }


async def _family(view: View, text: str) -> tuple[LimitInfo | None, list[LimitInfo]]:
    """A limit as such and its keys; no keys where the limit has but one, which is called like it."""
    if "=" in text:
        return None, []
    found = await view.app.limits(text, size=ROWS + 1)
    keys = [one for one in found if one.key != text or one.tenant]
    return next((one for one in found if one.key == text and not one.tenant), None), keys


async def _key(view: View, text: str, tenant: str | None) -> KeyInfo | None:
    """The tenant's own key, or the shared one where its jobs use that."""
    try:
        found = await view.app.key(text, tenant=tenant, holders=LINE, waiters=LINE)
        if tenant is None or found.holders or found.waiters or found.limit.override:
            return found
        shared = await view.app.key(text, holders=LINE, waiters=LINE)
        return shared if shared.holders or shared.waiters or shared.limit.override else found
    except LimitNotFound:
        return None
