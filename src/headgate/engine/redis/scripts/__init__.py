"""The Lua of this engine: `verbs/`, one file each, and `lib/`, the parts that stand in front of every verb.

Servers with functions (Redis 7, Valkey) load all verbs once, as one library named after its own digest, so that
releases do not get in each other's way. Redis 6.2 gets one script per verb.
"""

from __future__ import annotations

import hashlib
from functools import cache, cached_property
from importlib import resources
from typing import NamedTuple

PARTS = (
    "store", "by_state", "writing", "lines", "records", "salvage", "jobs", "rates", "in_force", "ledger", "holding",
    "admission", "full", "shares", "lifecycle", "blame", "newcomers", "transitions", "losing", "history", "reading",
    "transaction",
)  # fmt: skip
LONE = ("open", "move_lines")
READING = (
    "book", "clock", "counts", "explain", "find", "get", "history", "holders", "keys", "keys_in_use", "limit_counts",
    "limit_members", "limit_sums", "limits", "orphans", "paused_schedules", "queues", "snapshot", "snapshot_keys",
    "snapshot_rest", "shares", "states", "ticks", "tightest", "tokens", "waiters", "workers",
)  # fmt: skip
"""Verbs that write nothing: a server without memory still answers them."""
FREEING = ("cancel", "delete", "heartbeat", "report_lost", "resume_worker", "retire", "sweep")
"""Verbs that need no memory to speak of, or give some back: a server without memory does them."""


class Script:
    """A verb: as a function of the library; as a script, and the name under which a server keeps that."""

    def __init__(self, verb: str) -> None:
        self.function = f"headgate_{library().digest}_{verb}".encode()
        self._verb = verb

    @cached_property
    def text(self) -> bytes:
        """Made where a server has no functions: joining and hashing all parts takes a while."""
        run = f"return Transaction.run(verb, KEYS, ARGV, {_reads(self._verb)})"
        return "\n".join([_parts(), read("verbs", self._verb), run]).encode()

    @cached_property
    def sha(self) -> bytes:
        """Its digest."""
        return _sha(self.text).encode()


class Library(NamedTuple):
    """All verbs as functions."""

    text: bytes
    digest: str


@cache
def script(verb: str) -> Script:
    """One verb."""
    return Script(verb)


@cache
def library() -> Library:
    """All verbs together."""
    names = (path.name for path in resources.files(__name__).joinpath("verbs").iterdir())
    verbs = sorted(name[:-4] for name in names if name.endswith(".lua"))
    bodies = [(verb, read("verbs", verb)) for verb in verbs if verb not in LONE]
    digest = _sha((_parts() + "".join(body + _flags(verb) for verb, body in bodies)).encode())[:12]
    functions = [_function(verb, f"headgate_{digest}_{verb}", body) for verb, body in bodies]
    return Library("\n".join([f"#!lua name=headgate_{digest}", _parts(), *functions]).encode(), digest)


def _function(verb: str, name: str, body: str) -> str:
    run, flags = (
        f"function(keys, given) return Transaction.run(verb, keys, given, {_reads(verb)}) end",
        _flags(verb),
    )
    return f"do\n{body}\nredis.register_function{{function_name='{name}', callback={run}, flags={{{flags}}}}}\nend"


def _reads(verb: str) -> str:
    return "true" if verb in READING else "false"


def _flags(verb: str) -> str:
    return "'no-writes'" if verb in READING else "'allow-oom'" if verb in FREEING else ""


def lone_script(name: str) -> str:
    """A script that needs none of the parts."""
    return read("verbs", name)


def _parts() -> str:
    return "\n".join(read("lib", part) for part in PARTS)


def _sha(text: bytes) -> str:
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


@cache
def read(folder: str, name: str) -> str:
    """The text of one file."""
    return resources.files(__name__).joinpath(folder, f"{name}.lua").read_text(encoding="utf-8")
