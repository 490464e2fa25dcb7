"""Limits: declared in code (`declared`), bound to arguments (`bound`), registered with the store (`registered`)."""

from headgate.limits.declared import (
    AnyLimit,
    ConcurrencyLimit,
    FloatingLimit,
    FloatingRule,
    KeyedLimit,
    RateLimit,
    check_max,
    check_params,
)

__all__ = [
    "AnyLimit",
    "ConcurrencyLimit",
    "FloatingLimit",
    "FloatingRule",
    "KeyedLimit",
    "RateLimit",
    "check_max",
    "check_params",
]
