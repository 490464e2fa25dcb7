"""Script calls: over the wire of the caller's event loop, to the server that has the partition; again where that helps.

A call is repeated only where nothing can have happened: the server said that it did not run it (the slot has moved, or
is moving), or it was never sent. Where an answer got lost, the caller hears so: only it knows what that means.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any
from weakref import WeakKeyDictionary

import hiredis

from headgate.clock import SECOND
from headgate.engine import deadline
from headgate.engine.contract import Settings
from headgate.engine.redis.catalogue import tag
from headgate.engine.redis.errors import MOVING, server_error
from headgate.engine.redis.scripts import Script, library
from headgate.engine.redis.servers import Servers, find, servers_of, slot_of
from headgate.engine.redis.url import Address, Target
from headgate.engine.redis.wire import Argument, Wire, connect
from headgate.errors import EngineUnavailable

log = logging.getLogger("headgate.engine")

PAUSE = 0.05
"""Seconds between two tries while a slot moves or a new master is being found."""

NO_FUNCTION = "unction not found"
WITHOUT_FUNCTIONS = ("'fcall'", "'function|load'", "'function'", "unknown command", "unknown subcommand")
"""What a server says that forbids functions to this user, or has hidden their commands."""

Loop = asyncio.AbstractEventLoop
Pending = asyncio.Task[Wire]


class Partition:
    """One partition of the store: its number, where its keys are, and the epoch in which it was found."""

    __slots__ = ("epoch", "meta", "number", "slot", "tag")

    def __init__(self, prefix: str, number: int) -> None:
        self.number = number
        self.tag = tag(prefix, number)
        self.meta = f"{self.tag}meta"
        self.slot = slot_of(self.tag)
        self.epoch = ""


class Calls:
    """All wires of one engine, and the calls over them."""

    def __init__(self, target: Target, settings: Settings) -> None:
        self.target = target
        self.servers: Servers = servers_of(target)
        self._settings = settings
        self._loops: WeakKeyDictionary[Loop, dict[Address | bool | None, Wire | Pending]] = (
            WeakKeyDictionary()
        )
        self._ends: WeakKeyDictionary[Loop, AsyncGenerator[None]] = WeakKeyDictionary()
        self._runs: dict[Address | None, bytes] = {}
        self.detours = 0
        """How many calls so far were not sent at once, or more than once."""

    async def script(
        self, partition: Partition, script: Script, arguments: tuple[Argument, ...]
    ) -> list[Any]:
        """Run a script on a partition; returns what it answers."""
        loop = asyncio.get_running_loop()
        wires = self._loops.get(loop)
        wire = None if wires is None else wires.get(self.servers.known(partition.slot))
        if isinstance(wire, Wire) and not wire.closed:
            # Nearly every call goes this way, and is done here.
            how = (b"FCALL", script.function) if wire.has_functions else (b"EVALSHA", script.sha)
            try:
                reply = await wire.send(*how, 1, partition.meta, *arguments, seconds=self.seconds())
            except EngineUnavailable:
                self.servers.doubt(partition.slot)
                raise
            if not isinstance(reply, hiredis.ReplyError):
                return reply
            if not _is_missing(reply):
                await self._refused(str(reply), partition, wire, False)
        self.detours += 1
        with deadline.within(self.seconds()):
            return await self._insist(loop, partition, script, arguments)

    def seconds(self) -> float:
        """How long a call that begins now may take."""
        return deadline.seconds(self._settings)

    def _send(self, wire: Wire, *arguments: Argument) -> asyncio.Future[Any]:
        return wire.send(*arguments, seconds=self.seconds())

    async def _insist(
        self, loop: Loop, partition: Partition, script: Script, arguments: tuple[Argument, ...]
    ) -> list[Any]:
        until = loop.time() + min(self._settings.busy_timeout / SECOND, self.seconds())
        while True:
            try:
                wire = await self._wire(loop, partition.slot)
            except EngineUnavailable:
                self.servers.doubt(partition.slot)
                if self.target.mode not in ("cluster", "sentinel") or loop.time() > until:
                    raise
                await asyncio.sleep(PAUSE)
                continue
            reply = await self._ask(wire, partition, script, arguments)
            if not isinstance(reply, hiredis.ReplyError):
                return reply
            await self._refused(str(reply), partition, wire, loop.time() > until)

    async def _ask(
        self, wire: Wire, partition: Partition, script: Script, arguments: tuple[Argument, ...]
    ) -> Any:
        try:
            if wire.has_functions:
                return await self._call_function(wire, partition, script, arguments)
            reply = await self._send(wire, b"EVALSHA", script.sha, 1, partition.meta, *arguments)
            if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT"):
                reply = await self._send(wire, b"EVAL", script.text, 1, partition.meta, *arguments)
        except EngineUnavailable:
            self.servers.doubt(partition.slot)
            raise
        return reply

    async def _call_function(
        self, wire: Wire, partition: Partition, script: Script, arguments: tuple[Argument, ...]
    ) -> Any:
        """Loads the library where it is missing; a server that forbids functions is given scripts instead."""
        reply = await self._send(wire, b"FCALL", script.function, 1, partition.meta, *arguments)
        if not isinstance(reply, hiredis.ReplyError):
            return reply
        if NO_FUNCTION in str(reply):
            reply = await self._send(wire, b"FUNCTION", b"LOAD", b"REPLACE", library().text)
            if not isinstance(reply, hiredis.ReplyError):
                return await self._send(wire, b"FCALL", script.function, 1, partition.meta, *arguments)
        if not _has_no_functions(reply):
            return reply
        log.info("functions are not to be had here, scripts are used instead: %s", reply)
        wire.has_functions = False
        return await self._ask(wire, partition, script, arguments)

    async def _refused(self, text: str, partition: Partition, wire: Wire, late: bool) -> None:
        """Prepare for another try, or raise."""
        error = server_error(text, self.target.shown)
        if text.startswith("MOVED "):
            host, _, port = text.split()[2].rpartition(":")
            known = self.servers.known(partition.slot)
            self.servers.moved(
                partition.slot, (host or (known[0] if isinstance(known, tuple) else ""), int(port))
            )
            return
        follows = self.target.mode in ("cluster", "sentinel")
        if text.startswith("READONLY") and follows:
            self.servers.doubt(partition.slot)
            wire.close()
        elif not (follows and any(sign in text for sign in MOVING)):
            raise error
        if late:
            raise error
        if text.startswith("CLUSTERDOWN"):
            self.servers.doubt(partition.slot)
        await asyncio.sleep(PAUSE)

    # ── wires ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _wire(self, loop: Loop, slot: int) -> Wire:
        address = self.servers.known(slot)
        if address is False:
            address = await find(self.servers, slot)
        assert not isinstance(address, bool)
        wires = self._loops.get(loop)
        if wires is None:
            wires = self._loops[loop] = {}
            self._ends[loop] = end = self._until_the_loop_ends(loop)
            await anext(end)
        wire = wires.get(address)
        if isinstance(wire, Wire) and not wire.closed:
            return wire
        if not isinstance(wire, asyncio.Task):
            wire = wires[address] = loop.create_task(self._connect(address, wires))
        try:
            async with asyncio.timeout(self.seconds()):
                return await asyncio.shield(wire)
        except TimeoutError:
            if wires.get(address) is wire:
                del wires[address]  # the next caller tries anew
            wire.cancel()
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not wire.cancelled() or (current is not None and current.cancelling()):
                raise
        raise EngineUnavailable(f"{self.target.shown} cannot be reached: no answer in time")

    async def _connect(
        self, address: Address | None, wires: dict[Address | bool | None, Wire | Pending]
    ) -> Wire:
        try:
            wire = await self._connected(address)
        except BaseException:
            if wires.get(address) is asyncio.current_task():
                del wires[address]
            raise
        wires[address] = wire
        return wire

    async def _connected(self, address: Address | None) -> Wire:
        wire = await connect(self.target, address, self.seconds())
        try:
            await self._introduce(wire, address)
        except BaseException:
            wire.close()
            raise
        return wire

    async def listening(self, partition: Partition) -> Wire:
        """A connection of its own, to listen on."""
        address = await find(self.servers, partition.slot)
        return await self._connected(address)

    async def _introduce(self, wire: Wire, address: Address | None) -> None:
        target, replies = self.target, [self._send(wire, "CLIENT", "SETNAME", "headgate")]
        if target.password is not None:
            login = (target.user, target.password) if target.user else (target.password,)
            replies.insert(0, self._send(wire, "AUTH", *login))
        if target.db:
            replies.append(self._send(wire, "SELECT", target.db))
        answers = [await reply for reply in replies]
        answers.pop(1 if target.password is not None else 0)  # the name is a courtesy
        for answer in answers:
            if isinstance(answer, hiredis.ReplyError):
                wire.close()
                raise server_error(str(answer), target.shown)
        await self._recognise(wire, address)

    async def _recognise(self, wire: Wire, address: Address | None) -> None:
        """Notice another process at a known address: the server was restarted, or another one has taken over."""
        info = await self._send(wire, "INFO", "server")
        if isinstance(info, hiredis.ReplyError):
            return
        version = next((line[14:] for line in info.splitlines() if line.startswith(b"redis_version:")), b"0")
        wire.has_functions = int(version.partition(b".")[0]) >= 7
        run = next((line[7:] for line in info.splitlines() if line.startswith(b"run_id:")), b"")
        before = self._runs.get(address)
        if before is not None and run != before:
            log.warning("%s was restarted or replaced; what it had not saved is gone", self.target.shown)
        self._runs[address] = run

    async def _until_the_loop_ends(self, loop: Loop) -> AsyncGenerator[None]:
        """Hangs up when the loop shuts down, even if the engine is never closed: a loop finishes its generators."""
        try:
            yield
        finally:
            for wire in self._loops.pop(loop, {}).values():
                _hang_up(wire)
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Hang up everywhere, also in loops that are not this one."""
        here = asyncio.get_running_loop()
        for loop, wires in list(self._loops.items()):
            for wire in list(wires.values()):
                if loop is here:
                    _hang_up(wire)
                elif loop.is_running():
                    loop.call_soon_threadsafe(_hang_up, wire)
            wires.clear()
        self._loops.clear()
        if (end := self._ends.pop(here, None)) is not None:
            await end.aclose()
        await asyncio.sleep(0)


def _is_missing(reply: hiredis.ReplyError) -> bool:
    """Whether it was not run because the server has not got it, as a function or as a script."""
    text = str(reply)
    return NO_FUNCTION in text or text.startswith("NOSCRIPT") or _has_no_functions(reply)


def _has_no_functions(reply: hiredis.ReplyError) -> bool:
    return any(sign in str(reply).lower() for sign in WITHOUT_FUNCTIONS)


def _hang_up(wire: Wire | Pending) -> None:
    if isinstance(wire, Wire):
        wire.close()
    else:
        wire.cancel()
