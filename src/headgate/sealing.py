"""Sealing: a codec of the program's own between payloads and the store, for encryption or compression.

What is sealed are arguments, results and progress. What stores, limits and operators need stays readable: names of
tasks and queues, keys, tenants, unique keys, metadata, headers, errors.

A sealed payload is JSON still, an object with one reserved name: a version, and base64 of what the codec made. So a
payload that was stored before there was a codec stays readable, and a reader without the codec sees what it has before
it.
"""

from __future__ import annotations

import inspect
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from headgate.errors import ConfigError, PayloadError
from headgate.signatures import signature

PayloadKind = Literal["args", "result", "progress"]

NAME = "$sealed"
MARK = f'{{"{NAME}":'
VERSION = "1"
OWN_TASKS = "floating:"
"""Jobs of Headgate's own are plain: their payloads are keys, which stores read."""


class PayloadContext(msgspec.Struct, frozen=True):
    """What a payload belongs to. `bytes()` of it is always the same for the same payload: associated data for AEAD."""

    kind: PayloadKind
    task: str
    job: str
    tenant: str | None = None

    def __bytes__(self) -> bytes:
        return msgspec.json.encode([self.kind, self.task, self.job, self.tenant])

    def __str__(self) -> str:
        return f"{self.kind} of job {self.job!r} ({self.task})"


class Codec(Protocol):
    """What `App(codec=…)` takes: from JSON to what is stored, and back. Called from any thread; what cannot be decoded
    raises. With an attribute `accept_plain` that is False, payloads that were stored without the codec are refused."""

    def encode(self, data: bytes, /) -> bytes: ...

    def decode(self, data: bytes, /) -> bytes: ...


class ContextCodec(Protocol):
    """A codec whose methods have a parameter `context`: it is told what the payload belongs to."""

    def encode(self, data: bytes, /, context: PayloadContext) -> bytes: ...

    def decode(self, data: bytes, /, context: PayloadContext) -> bytes: ...


class SealedPayload(msgspec.Struct, frozen=True):
    """Stands for a payload that cannot be read here, for lack of the codec."""

    size: int
    """Bytes, as the codec made them."""
    sealed: Literal[True] = True

    def __str__(self) -> str:
        return f"sealed, {self.size:,} bytes"


class Sealing:
    """Seals payloads before they are stored, and opens them; without a codec they are left as they are."""

    __slots__ = ("_accept_plain", "_decode", "_encode", "active", "limit")

    def __init__(self, codec: Any = None, limit: int = 2**63) -> None:
        self.active = codec is not None
        self.limit = limit
        """Bytes of one payload as it is stored."""
        if codec is not None:
            self._encode = _method(codec, "encode")
            self._decode = _method(codec, "decode")
            self._accept_plain = bool(getattr(codec, "accept_plain", True))

    def seal(self, kind: PayloadKind, text: str, task: str, job: str, tenant: str, limit: int = 0) -> str:
        """JSON text as it is stored."""
        if not self.active:
            if kind != "args" and text.startswith(MARK):  # parameters have names that Python can write
                raise PayloadError(f"{kind} of task {task!r}: the name {NAME!r} is reserved")
            return text
        context = PayloadContext(kind, task, job, tenant or None)
        try:
            data = self._encode(text.encode(), context)
        except Exception as error:
            raise PayloadError(f"{context}: the app's codec could not encode it: {_said(error)}") from error
        if not isinstance(data, bytes):
            raise PayloadError(f"{context}: the app's codec returned {type(data).__name__}, not bytes")
        sealed = f'{MARK}"{VERSION}.{b64encode(data).decode()}"}}'
        most = limit or self.limit
        if len(sealed) > most:
            raise PayloadError(
                f"{context}: {len(sealed):,} bytes as it is stored, more than the payload limit of {most:,}"
            )
        return sealed

    def open(self, kind: PayloadKind, text: str, task: str, job: str, tenant: str) -> str:
        """JSON text as it was before it was sealed."""
        if not text.startswith(MARK):
            if self.active and not self._accept_plain and not task.startswith(OWN_TASKS):
                raise PayloadError(
                    f"{PayloadContext(kind, task, job)}: stored without a codec, which accept_plain=False refuses"
                )
            return text
        context = PayloadContext(kind, task, job, tenant or None)
        data = _sealed_bytes(text, context)
        if not self.active:
            raise PayloadError(
                f"{context}: it is sealed, and this app has no codec; give App(codec=…) the one that sealed it"
            )
        try:
            return self._decode(data, context).decode()
        except Exception as error:
            raise PayloadError(
                f"{context}: the app's codec could not decode it, it may need another key: {_said(error)}"
            ) from error

    def stands_for(self, text: str) -> SealedPayload | None:
        """What is shown of a payload where it cannot be opened; None for one that was never sealed."""
        if not text.startswith(MARK):
            return None
        return SealedPayload(len(_raw(text) or b""))


PLAIN = Sealing()


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def _sealed_bytes(text: str, what: object) -> bytes:
    """What the codec made."""
    version = _word(text).partition(".")[0]
    if version != VERSION:
        raise PayloadError(
            f"{what}: it is sealed in version {version!r:.20}, and this Headgate reads version {VERSION}"
        )
    raw = _raw(text)
    if raw is None:
        raise PayloadError(f"{what}: it is sealed, and damaged in the store")
    return raw


def _word(text: str) -> str:
    try:
        return msgspec.json.decode(text, type=dict[str, str])[NAME]
    except (msgspec.MsgspecError, KeyError):
        return ""


def _raw(text: str) -> bytes | None:
    try:
        return b64decode(_word(text).partition(".")[2], validate=True)
    except ValueError:
        return None


def _method(codec: Any, name: str) -> Callable[[bytes, PayloadContext], Any]:
    """A method of a codec, called in one way whether it asks for the context or not."""
    method = getattr(codec, name, None)
    if not callable(method):
        raise ConfigError(
            f"codec={codec!r} has no method {name}(); a codec is an object with encode(bytes) and decode(bytes), both "
            "returning bytes"
        )
    if inspect.iscoroutinefunction(method):
        raise ConfigError(f"codec={codec!r}: {name}() is async; it is called where nothing can be awaited")
    if _takes_context(method):
        return lambda data, context: method(data, context=context)
    return lambda data, context: method(data)


def _takes_context(method: Callable[..., Any]) -> bool:
    try:
        return "context" in signature(method).parameters
    except (TypeError, ValueError):  # a built-in without a signature, such as zlib.compress
        return False
