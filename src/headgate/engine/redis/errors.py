"""What servers and scripts refuse, as Headgate's errors, with what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis import exceptions as redis_py

from headgate.engine.contract import Limit, LimitKind
from headgate.engine.redis.catalogue import VERSION
from headgate.engine.rules import turned_away
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.rules.refused import lapsed, stale
from headgate.errors import (
    BacklogFull,
    ConfigError,
    EngineError,
    EngineUnavailable,
    HeadgateError,
    JobExists,
)
from headgate.errors import SchemaMismatch as Mismatch
from headgate.keys import Key

_HOPELESS = {
    "WRONGPASS": "the user name or password is wrong",
    "NOAUTH": "a password is needed; write redis://user:password@host",
    "NOPERM": (
        "this user may not do what Headgate needs: +@read +@write +@scripting +@pubsub +@connection +info +time, on "
        "the keys ~{prefix:* and the channels &{prefix:*"
    ),
}
_NOT_ALLOWED = ("ACL failure in script", "user executing the script can't")
"""What a script hears of a command, a key or a channel that its user has no right to: since Redis 7, and before."""
_CODES = {
    redis_py.NoPermissionError: "NOPERM", redis_py.ReadOnlyError: "READONLY", redis_py.OutOfMemoryError: "OOM",
    redis_py.ClusterDownError: "CLUSTERDOWN", redis_py.BusyLoadingError: "LOADING", redis_py.TryAgainError: "TRYAGAIN",
    redis_py.AskError: "ASK", redis_py.MovedError: "MOVED", redis_py.MasterDownError: "MASTERDOWN",
}  # fmt: skip
_FOR_NOW = {
    "READONLY": "this server is a replica; name its master, or use redis+sentinel:// to follow it",
    "OOM": "the server is out of memory (maxmemory); nothing was changed",
    "LOADING": "the server is loading its data",
    "MASTERDOWN": "this replica has lost its master",
    "MISCONF": "the server cannot write its data to disk and refuses changes; see its log",
    "NOREPLICAS": "the server has fewer replicas than min-replicas-to-write demands",
    "CLUSTERDOWN": "the cluster is down: some of its slots are served by no master",
    "TRYAGAIN": "the slot of this partition is moving",
    "ASK": "the slot of this partition is moving",
    "MOVED": "the slot of this partition has just moved",
    "BUSY": "another script keeps the server busy",
    "UNKILLABLE": "another script keeps the server busy",
}
MOVING = ("non local key", "TRYAGAIN", "ASK ", "CLUSTERDOWN")
"""What a node says while a slot moves, or while a cluster finds a new master."""


def server_error(text: str, where: str) -> HeadgateError:
    """An error that the server itself answered with."""
    code = text.partition(" ")[0]
    if any(sign in text for sign in _NOT_ALLOWED):
        code = "NOPERM"
    if code in _HOPELESS:
        return EngineError(f"{where}: {_HOPELESS[code]} ({text})")
    for known, meaning in _FOR_NOW.items():
        if code == known or f"{known} " in text:
            return EngineUnavailable(f"{where}: {meaning} ({text})")
    if "non local key" in text:
        return EngineUnavailable(f"{where}: the slot of this partition is moving ({text})")
    if code == "WRONGTYPE":
        return Mismatch(
            f"{where}: a key of Headgate's is of another kind; does another program use this prefix? ({text})"
        )
    if "invalid DB index" in text or "out of range" in text:
        return ConfigError(f"{where}: {text}; the URL names a database that this server does not have")
    return EngineError(f"{where}: {text}")


def client_error(error: redis_py.RedisError, where: str) -> HeadgateError:
    """The same as redis-py raised it. It takes the code off some messages: that is put back."""
    text = str(error)
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), "")
    if isinstance(error, redis_py.AuthenticationError):
        code = "NOAUTH" if "required" in text else "WRONGPASS"
    return server_error(text if text.startswith(tuple(_HOPELESS)) else f"{code} {text}".strip(), where)


def refusal(answer: Sequence[Any], where: str) -> HeadgateError:
    """A refusal that a script answered with."""
    code, *about = answer
    match code:
        case "lapsed":
            return lapsed(about[0])
        case "stale":
            return stale(*about)
        case "kind":
            return _other_kind(*about)
        case "exists":
            return JobExists(f"a job with id {about[0]!r} exists already; nothing was enqueued", about[0])
        case "rival" | "started" | "other_task":
            return JobExists(wording(answer), about[0])
        case "full":
            return BacklogFull(turned_away.refused(*about), Key.of(about[0]).text)
        case "version":
            return unknown_version(about[0], where)
        case "undeclared" | "otherwise" | "unknown":
            return ConfigError(wording(answer))
        case _:
            return EngineError(f"{where}: {answer}")


def _other_kind(name: str, known: LimitKind, now: LimitKind) -> HeadgateError:
    """In the words of the rule book."""
    book = RuleBook()
    book.limits[name] = Limit(name, known, None)
    try:
        book.check_kind(Limit(name, now, None))
    except ConfigError as error:
        return error
    raise AssertionError(f"{name!r} is {known} and {now}")


def wording(answer: Sequence[Any]) -> str:
    """A refusal in words."""
    code, *about = answer
    match code:
        case "text":
            return about[0]
        case "rival":
            return f"job {about[0]!r} with unique key {about[1]!r} is {about[2]}"
        case "started":
            return f"job {about[0]!r} with unique key {about[1]!r} has started already"
        case "other_task":
            return f"job {about[0]!r} with unique key {about[1]!r} is of task {about[2]!r}"
        case "undeclared":
            return f"limit {about[0]!r} is not declared; declare it in the app that enqueues"
        case "otherwise":
            return f"limit {about[0]!r} is declared as {about[1]}, but this job uses it otherwise"
        case _:
            return f"no limit is named {about[0]!r}; see `headgate limits` for those there are"


def unknown_version(found: str, where: str) -> Mismatch:
    """Data that this code does not know."""
    return Mismatch(
        f"{where} holds data of version {found}; this Headgate knows version {VERSION}: use a matching release"
    )
