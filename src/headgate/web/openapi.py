"""The OpenAPI 3.1 document: made from the same records as the routes, so that it cannot say something else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import NODEFAULT

from headgate import __version__
from headgate.web.problems import TITLES, Problem
from headgate.web.roles import roles_with
from headgate.web.route import Created, Route

REFS = "#/components/schemas/{name}"
PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
ALWAYS = ("invalid", "unauthenticated", "forbidden", "unavailable")
WITH_BODY = ("too-large", "too-slow", "media-type")


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The whole document. Paths are relative to the API's own."""
    kinds = [
        Problem,
        *(kind for route in routes for kind in (route.body, _answer(route)) if _has_schema(kind)),
    ]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFS)
    known = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        path = re.sub(r":path\}", "}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, known)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headgate",
            "version": __version__,
            "description": "A job queue whose core is admission: look, enqueue, steer, and work in any language.",
        },
        "servers": [{"url": "/api/v1"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _answer(route: Route) -> Any:
    """The record that an operation answers with."""
    origin = getattr(route.answer, "__origin__", None)
    return route.answer.__args__[0] if origin is Created else route.answer


def _has_schema(kind: Any) -> bool:
    return kind is not None and not (isinstance(kind, type) and kind.__module__.startswith("starlette"))


def _operation(route: Route, known: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.tag],
        "summary": route.summary,
        "description": f"{route.text} Roles: {', '.join(roles_with(route.right))}.".strip(),
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_headers(route)],
        "responses": {str(route.status): _success(route, known), **_problems(route)},
    }
    if route.body is not None:
        content = {"application/json": {"schema": known[repr(route.body)]}}
        required = any(field.required for field in msgspec.structs.fields(route.body))
        operation["requestBody"] = {"required": required, "content": content}
    return operation


def _success(route: Route, known: dict[str, Any]) -> dict[str, Any]:
    kind = _answer(route)
    schema = known[repr(kind)] if _has_schema(kind) else {"type": "string"}
    return {"description": route.summary, "content": {route.media_type: {"schema": schema}}}


def _problems(route: Route) -> dict[str, Any]:
    kinds = [*ALWAYS, *route.problems, *(WITH_BODY if route.body is not None else ())]
    by_status: dict[str, list[str]] = {}
    for kind in kinds:
        by_status.setdefault(str(TITLES[kind][0]), []).append(TITLES[kind][1])
    return {
        status: {"description": "; ".join(titles), "content": PROBLEM} for status, titles in by_status.items()
    }


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"\{(\w+)", route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema: dict[str, Any] = msgspec.json.schema(route.query, ref_template=REFS)
    properties: dict[str, Any] = schema["$defs"][route.query.__name__]["properties"]
    fields = {field.encode_name: field for field in msgspec.structs.fields(route.query)}
    return [
        {"name": name, "in": "query", "required": fields[name].default is NODEFAULT, "schema": schema}
        for name, schema in properties.items()
    ]


def _headers(route: Route) -> list[dict[str, Any]]:
    if route.name != "enqueue":
        return []
    text = "Becomes the job's id, so that the request may be sent again."
    return [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string"},
            "description": text,
        }
    ]
