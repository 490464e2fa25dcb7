"""The OpenAPI document as a page for people: each operation with what it takes, answers and refuses."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from headgate.web.pages.answers import HEADERS
from headgate.web.pages.rendering import asset_version, render


def reference(described: dict[str, Any], root: str) -> Response:
    """The page; `root` is the path of the API, as the caller sees it."""
    sheet = f"{root.removesuffix('/api/v1')}/static/reference.css?v={asset_version('reference.css')}"
    context = {
        "title": f"{described['info']['title']} HTTP API",
        "described": described,
        "root": root,
        "sheet": sheet,
        "groups": _groups(described),
        "records": sorted(described["components"]["schemas"].items()),
        "kind": kind,
    }
    return Response(render("reference.html", context), headers=HEADERS, media_type="text/html")


def _groups(described: dict[str, Any]) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    """The operations by their tags."""
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    return groups


def kind(schema: dict[str, Any]) -> str:
    """A schema in few words: `text`, `list of Job`, `number or null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if options := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(kind(option) for option in options))
    if values := schema.get("enum"):
        return ", ".join("null" if value is None else str(value) for value in values)
    match schema.get("type"):
        case "array":
            items: dict[str, Any] = schema.get("items") or {}
            return f"list of {kind(items)}" if items else "list"
        case "string":
            return {"date-time": "time"}.get(schema.get("format", ""), "text")
        case None:
            return "any value"
        case other:
            return str(other)
