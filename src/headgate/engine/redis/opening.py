"""Finding or founding a store, and what a server's settings mean for it."""

from __future__ import annotations

import logging
import uuid
from typing import Any

from redis import exceptions as refused

from headgate.engine.redis.calling import Partition
from headgate.engine.redis.catalogue import SINGLE, VERSION
from headgate.engine.redis.refusals import server_error, unknown_version
from headgate.engine.redis.scripts import lone_script
from headgate.engine.redis.servers import Client, Servers, client
from headgate.engine.redis.tls import guess, untrusted
from headgate.engine.redis.url import Target
from headgate.errors import ConfigError, EngineError, EngineUnavailable, SchemaMismatch

log = logging.getLogger("headgate.engine")

OLDEST = (6, 2)
_told: set[str] = set()
"""Warnings that this process has given already."""


def found(servers: Servers, partition: Partition) -> bool:
    """Find the partition or found it; whether it is new. Refuses what is not ours, or of a version we do not know."""
    target = servers.target
    try:
        return _found(servers, partition)
    except (refused.AuthenticationError, refused.ResponseError) as error:
        raise server_error(_full_text(error), target.shown) from None
    except refused.RedisError as error:
        servers.doubt()
        if remedy := untrusted(error):
            raise ConfigError(f"{target.shown}: {remedy} ({error})") from None
        raise EngineUnavailable(f"{target.shown} cannot be reached: {guess(error, target.tls)}") from None


def _found(servers: Servers, partition: Partition) -> bool:
    target = servers.target
    asked = client(target, servers.address(partition.slot))
    try:
        _check_server(asked, target)
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
    finally:
        asked.close()
    version, *rest = (each.decode() for each in answer)
    if version == "foreign":
        raise SchemaMismatch(
            f"{target.shown}: the key {rest[0]!r} is not Headgate's; give this app a prefix of its own (?prefix=…)"
        )
    epoch, partitions, created = rest
    if version != str(VERSION):
        raise unknown_version(version, target.shown)
    if partitions != str(target.partitions):
        raise ConfigError(
            f"{target.shown}: this store was founded with partitions={partitions}; "
            f"partitions={target.partitions} would look for jobs where they are not"
        )
    partition.epoch = epoch
    return created == "1"


def _full_text(error: refused.RedisError) -> str:
    """redis-py takes the code off some messages; put it back."""
    text = str(error)
    if isinstance(error, refused.NoPermissionError) and not text.startswith("NOPERM"):
        return f"NOPERM {text}"
    if isinstance(error, refused.ReadOnlyError):
        return f"READONLY {text}"
    if isinstance(error, refused.OutOfMemoryError):
        return f"OOM {text}"
    if isinstance(error, refused.ClusterDownError):
        return f"CLUSTERDOWN {text}"
    if isinstance(error, refused.AuthenticationError) and not text.startswith(
        ("NOAUTH", "WRONGPASS", "NOPERM")
    ):
        return f"WRONGPASS {text}"
    return text


def _check_server(asked: Client, target: Target) -> None:
    try:
        info: dict[str, Any] = asked.info()
    except refused.ResponseError:  # not allowed, or renamed
        return
    version = str(info.get("redis_version", "0"))
    if "valkey_version" not in info and tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise EngineError(f"{target.shown} is Redis {version}; Headgate needs 6.2 or newer, or Valkey")
    if info.get("cluster_enabled") and target.mode != "cluster":
        raise ConfigError(
            f"{target.shown} is a node of a cluster; write redis+cluster:// instead of redis://"
        )
    if target.mode == "cluster" and not info.get("cluster_enabled"):
        raise ConfigError(f"{target.shown} is no cluster; write redis:// instead of redis+cluster://")
    for warning in _warnings(info, asked):
        if (text := f"{target.shown}: {warning}") not in _told:
            _told.add(text)
            log.warning("%s", text)


def _warnings(info: dict[str, Any], asked: Client) -> list[str]:
    found: list[str] = []
    if not info.get("aof_enabled"):
        found.append(
            "no append-only file (appendonly no): a crash or restart of the server loses "
            + (
                "all jobs since its last snapshot"
                if _snapshots(asked)
                else "every job; nothing is saved at all"
            )
        )
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if info.get("maxmemory") and policy != "noeviction" and not policy.startswith("volatile"):
        found.append(
            f"maxmemory-policy is {policy}: when memory is short, the server will delete jobs; set it to noeviction"
        )
    return found


def _snapshots(asked: Client) -> bool:
    try:
        return bool(asked.config_get("save").get("save"))
    except refused.ResponseError:
        return True
