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
from headgate.limits.view import FloatingLimitView

__all__ = [
    "AnyLimit",
    "ConcurrencyLimit",
    "FloatingLimit",
    "FloatingLimitView",
    "FloatingRule",
    "KeyedLimit",
    "RateLimit",
    "check_max",
    "check_params",
]
