"""Addresses as people type them."""

from __future__ import annotations

from headgate.errors import ConfigError

EVERYWHERE = "0.0.0.0"


def address(text: str, what: str) -> tuple[str, int]:
    """Host and port from `9000`, `127.0.0.1:9000` or `[::1]:9000`; a port alone is that of every IPv4 address."""
    host, _, port = text.strip().rpartition(":")
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ConfigError(f"{what} {text!r}: write a port such as 9000, or an address such as 127.0.0.1:9000")
    return host.removeprefix("[").removesuffix("]") or EVERYWHERE, int(port)
