"""Sizes of memory as people type them."""

from __future__ import annotations

from headgate.errors import ConfigError

UNITS = {"KB": 1024, "MB": 1024**2, "GB": 1024**3, "KIB": 1024, "MIB": 1024**2, "GIB": 1024**3, "": 1}


def size(text: str, what: str) -> int:
    """Bytes from `512MB`, `1.5GB` or `800000KB`; a MB is 1024 × 1024 bytes, as for other programs of an operator."""
    number = text.strip().upper().rstrip("KMGIB")
    unit = text.strip().upper()[len(number) :]
    try:
        return int(float(number) * UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise ConfigError(f"{what} {text!r}: write a size such as 512MB or 2GB") from None
