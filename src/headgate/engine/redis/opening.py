"""Finding or founding a store, and what a server's settings mean for it."""

from __future__ import annotations

import logging
import time
import uuid
from typing import Any

from redis import exceptions as refused

from headgate.engine.redis.calling import Partition
from headgate.engine.redis.catalogue import SINGLE, VERSION
from headgate.engine.redis.errors import client_error, server_error, unknown_version
from headgate.engine.redis.scripts import lone_script
from headgate.engine.redis.servers import PATIENCE, Client, Servers, client
from headgate.engine.redis.tls import guess, untrusted
from headgate.engine.redis.url import Target
from headgate.errors import ConfigError, EngineError, EngineUnavailable, HeadgateError, SchemaMismatch

log = logging.getLogger("headgate.engine")

OLDEST = (6, 2)
_told: set[str] = set()
"""Warnings that this process has given already."""
PAUSE = 0.1
"""Seconds between two tries while a slot moves or a new master is being found."""

_UNKNOWN = (
    "INFO is not allowed, so that it cannot be told whether this server keeps jobs through a crash (appendonly), or "
    "deletes them when memory is short (maxmemory-policy)"
)
_WITHOUT_FILE = {
    True: "all jobs since its last snapshot",
    False: "every job; nothing is saved at all",
    None: "all jobs since its last snapshot, or every job if it takes none: CONFIG is not allowed, which would tell",
}


def found(servers: Servers, partition: Partition, seconds: float, patience: float = 0) -> int:
    """Find the partition, found it, or bring it up to our version; its version before, 0 if it is new. Refuses what is
    of another program, or of a newer version.

    Blocks, for `patience` seconds at most while a slot moves or another server is to take over; a server has `seconds`
    to answer.
    """
    until = time.monotonic() + patience
    while True:
        answer = _try(servers, partition, seconds)
        if not isinstance(answer, HeadgateError):
            return answer
        servers.doubt(partition.slot)
        servers.checked.clear()
        follows = servers.target.mode in ("sentinel", "cluster")
        if not isinstance(answer, EngineUnavailable) or not follows or time.monotonic() > until:
            raise answer
        _tell(f"{answer}; waiting {patience:.0f} s at most for this to change")
        time.sleep(PAUSE)


def _try(servers: Servers, partition: Partition, seconds: float) -> int | HeadgateError:
    """Returns what the server of the partition says. Where no such server is known, that is raised at once."""
    target = servers.target
    try:
        return _found(servers, partition, seconds)
    except (refused.AuthenticationError, refused.ResponseError) as error:
        return client_error(error, target.shown)
    except refused.RedisError as error:
        if remedy := untrusted(error):
            return ConfigError(f"{target.shown}: {remedy} ({error})")
        return EngineUnavailable(f"{target.shown} cannot be reached: {guess(error, target.tls)}")


def _found(servers: Servers, partition: Partition, seconds: float) -> int:
    target = servers.target
    address = servers.address(partition.slot)
    asked = client(target, address, timeout=min(seconds, PATIENCE))
    try:
        if address not in servers.checked:
            _check_server(asked, target)
            servers.checked.add(address)
        others = [name for name in SINGLE if name != "meta"]
        answer: Any = asked.eval(
            lone_script("open"),
            1,
            partition.meta,
            VERSION,
            uuid.uuid4().hex,
            target.partitions,
            *others,
        )
        version, *rest = (each.decode() for each in answer)
        if rest[2:] == ["1"]:
            _move_lines(asked, target, partition)
    finally:
        asked.close()
    if version == "foreign":
        raise SchemaMismatch(
            f"{target.shown}: the key {rest[0]!r} is not Headgate's; give this app a prefix of its own (?prefix=…)"
        )
    if version == "denied":
        raise server_error(f"NOPERM {rest[0]}", target.shown)
    epoch, partitions, *_ = rest
    if int(version) > VERSION:
        raise unknown_version(version, target.shown)
    if partitions != str(target.partitions):
        raise ConfigError(
            f"{target.shown}: this store was founded with partitions={partitions}; "
            f"partitions={target.partitions} would look for jobs where they are not"
        )
    partition.epoch = epoch
    return int(version)


def _move_lines(asked: Client, target: Target, partition: Partition) -> None:
    """Older data is brought up to our version, a slice at a time, before any verb runs."""
    answer: Any = b"1"
    while answer == b"1":
        answer = asked.eval(lone_script("move_lines"), 1, partition.meta, VERSION)
    if answer == b"version":
        raise SchemaMismatch(
            f"{target.shown}: another release has just brought its data up to a newer version"
        )


def version(servers: Servers, partition: Partition, seconds: float) -> int:
    """The version of a partition's data, 0 if there is none: founds nothing. Blocks."""
    target = servers.target
    try:
        asked = client(target, servers.address(partition.slot), timeout=min(seconds, PATIENCE))
        try:
            found: Any = asked.hget(partition.meta, "version")
        finally:
            asked.close()
    except (refused.AuthenticationError, refused.ResponseError) as error:
        raise client_error(error, target.shown) from None
    except refused.RedisError as error:
        raise EngineUnavailable(f"{target.shown} cannot be reached: {guess(error, target.tls)}") from None
    return int(found) if found else 0


def _check_server(asked: Client, target: Target) -> None:
    try:
        info: dict[str, Any] = asked.info()
    except refused.ResponseError:  # not allowed, or renamed
        _tell(f"{target.shown}: {_UNKNOWN}")
        return
    version = str(info.get("redis_version", "0"))
    if "valkey_version" not in info and tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise EngineError(f"{target.shown} is Redis {version}; Headgate needs 6.2 or newer, or Valkey")
    _check_mode(info, target)
    for warning in _warnings(info, asked):
        _tell(f"{target.shown}: {warning}")


def _check_mode(info: dict[str, Any], target: Target) -> None:
    """Whether it is what the URL calls it."""
    cluster = bool(info.get("cluster_enabled"))
    if "sentinel" in (info.get("redis_mode"), info.get("server_mode")):
        raise ConfigError(f"{target.shown} is a sentinel; write redis+sentinel://host:port/mymaster")
    if cluster and target.mode != "cluster":
        raise ConfigError(
            f"{target.shown} is a node of a cluster; write redis+cluster:// instead of redis://"
        )
    if target.mode == "cluster" and not cluster:
        raise ConfigError(f"{target.shown} is no cluster; write redis:// instead of redis+cluster://")
    if info.get("role") == "slave" and not cluster:
        raise refused.ReadOnlyError("its role is that of a replica")


def _tell(warning: str) -> None:
    """Once per process."""
    if warning not in _told:
        _told.add(warning)
        log.warning("%s", warning)


def _warnings(info: dict[str, Any], asked: Client) -> list[str]:
    found: list[str] = []
    if not info.get("aof_enabled"):
        lost = "no append-only file (appendonly no): a crash or restart of the server loses "
        found.append(lost + _WITHOUT_FILE[_snapshots(asked)])
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if info.get("maxmemory") and policy != "noeviction" and not policy.startswith("volatile"):
        found.append(
            f"maxmemory-policy is {policy}: when memory is short, the server will delete jobs; set it to noeviction"
        )
    return found


def _snapshots(asked: Client) -> bool | None:
    """Whether it takes any; None if it does not tell, as servers of others often do not."""
    try:
        return bool(asked.config_get("save").get("save"))
    except refused.ResponseError:
        return None
