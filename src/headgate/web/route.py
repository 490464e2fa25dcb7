"""One operation of the API: what it takes, what it answers, who may call it.

The routes of the server and the OpenAPI document are both made from these records. What a handler takes and gives
stands in its signature: `query` and `body` are records that the request is read into, the return type is the answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, TypeVar, get_type_hints

import msgspec
from starlette.requests import Request

from headgate.app.app import App
from headgate.web.roles import Identity, Right
from headgate.web.settings import WebSettings
from headgate.web.streams import Streams

Method = Literal["GET", "POST", "PUT", "DELETE"]
T = TypeVar("T")
EVENT_STREAM = "text/event-stream"


class Call:
    """One request on its way through a handler."""

    __slots__ = ("app", "path", "request", "root", "settings", "streams", "who")

    def __init__(
        self, app: App, who: Identity, request: Request, root: str, settings: WebSettings, streams: Streams
    ) -> None:
        self.app = app
        self.who = who
        self.path: Mapping[str, str] = request.path_params
        self.request = request
        self.root = root
        """The path of the API, as the caller sees it."""
        self.settings = settings
        self.streams = streams


class Created(msgspec.Struct, Generic[T], frozen=True):
    """An answer with another status than the route's own, or with headers."""

    body: T
    status: int = 201
    headers: dict[str, str] = {}


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What may stand behind the question mark; a record of the route's own."""


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is sent as JSON; a record of the route's own."""

    def noted(self) -> str:
        """What the log says of a change beside its path: nothing of payloads."""
        return ""


Handler = Callable[..., Awaitable[Any]]


class Route:
    """An operation."""

    def __init__(
        self,
        method: Method,
        path: str,
        handler: Handler,
        *,
        right: Right,
        tag: str,
        status: int = 200,
        problems: tuple[str, ...] = (),
        media_type: str = "application/json",
        answer: Any = None,
        reads_only: bool = False,
        quiet: bool = False,
    ) -> None:
        hints = get_type_hints(handler)
        self.method: Method = method
        self.path = path
        self.handler = handler
        self.right: Right = right
        self.tag = tag
        self.status = status
        self.problems = problems
        self.media_type = media_type
        self.query: type[Query] | None = hints.get("query")
        self.body: type[Body] | None = hints.get("body")
        self.answer: Any = answer or hints.get("return", type(None))
        self.reads_only = reads_only or right == "look"
        """Whether it is answered by a server that only looks."""
        self.quiet = quiet
        """Whether it is of the kind that programs send all the time, so that a line of the log for each is too much."""
        self.summary, _, text = (inspect.getdoc(handler) or "").partition("\n")
        self.text = " ".join(text.split())

    @property
    def name(self) -> str:
        """The operation's id in the document."""
        return self.handler.__name__
