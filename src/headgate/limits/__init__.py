"""Limits: `declared` in code, `bound` to the arguments of a task, `registered` with the store.

declared.py       what a user writes: ConcurrencyLimit, RateLimit, FloatingLimit and its rule
in_signature.py   where they are found: annotations and defaults of a task's parameters
adapt.py          what a service bears, learnt from how attempts end
imported.py       where they come with a record of another system
parameters.py     how an argument is read      template.py   how a key is made of several
bound.py          one limit on one task: from a job's arguments to its key
of_task.py        all limits of one task: from a job's arguments to what it needs
registered.py     which limits the store knows, and which it has yet to hear of
"""

from headgate.limits.adapt import Adapt
from headgate.limits.declared import (
    ConcurrencyLimit,
    DeclaredLimit,
    FloatingLimit,
    FloatingRule,
    RateLimit,
    check_backlog,
    check_max,
    check_params,
)
from headgate.limits.view import FloatingLimitView

__all__ = [
    "Adapt",
    "ConcurrencyLimit",
    "DeclaredLimit",
    "FloatingLimit",
    "FloatingLimitView",
    "FloatingRule",
    "RateLimit",
    "check_backlog",
    "check_max",
    "check_params",
]
