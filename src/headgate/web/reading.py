"""Reading a request: the query and the body into the records that a handler takes."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request

from headgate.web.problems import Refusal
from headgate.web.route import Body, Query
from headgate.web.settings import WebSettings

Q = TypeVar("Q", bound=Query)
B = TypeVar("B", bound=Body)


def read_query(kind: type[Q], given: QueryParams) -> Q:
    """Texts become what the fields are. A field that is a tuple may be given several times, and with commas where its
    values come from a fixed set: others may have a comma in them."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    for name in given:
        many = _items(fields[name].type) if name in fields else None
        every = given.getlist(name)
        if many is None and len(every) > 1:
            raise Refusal("invalid", f"{name} is given {len(every)} times; it may stand once")
        if isinstance(many, msgspec.inspect.LiteralType):
            every = [part for one in every for part in one.split(",")]
        values[name] = every[0] if many is None else every
    return msgspec.convert(values, kind, strict=False)


def _items(kind: Any) -> msgspec.inspect.Type | None:
    """What a field has several of; None for one that has one value."""
    info = msgspec.inspect.type_info(kind)
    options = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    found = (option.item_type for option in options if isinstance(option, msgspec.inspect.VarTupleType))
    return next(found, None)


async def read_body(kind: type[B], request: Request, settings: WebSettings) -> B:
    """A JSON body; one that is too large or too slow is refused as soon as that is known."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    raw = await received(request, settings)
    if raw and media_type != "application/json" and not media_type.endswith("+json"):
        raise Refusal("media-type", f"the body must be application/json, not {media_type or 'untyped'}")
    return msgspec.json.decode(raw or b"{}", type=kind)


async def received(request: Request, settings: WebSettings) -> bytes:
    """A body, as far as it is allowed to go."""
    said = request.headers.get("content-length", "")
    if said.isdigit() and int(said) > settings.most_body:
        raise _too_large(settings)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(settings.body_timeout):
            async for part in request.stream():
                size += len(part)
                if size > settings.most_body:
                    raise _too_large(settings)
                parts.append(part)
    except TimeoutError:
        raise Refusal("too-slow", f"the body did not arrive within {settings.body_timeout:g} s") from None
    except ClientDisconnect:
        raise Refusal("too-slow", "the connection ended before the body had arrived") from None
    return b"".join(parts)


def _too_large(settings: WebSettings) -> Refusal:
    return Refusal(
        "too-large", f"a body may have {settings.most_body:,} bytes; pass a reference to large data"
    )
