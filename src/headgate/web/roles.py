"""Who is asking, and what that role may do.

read      looks: lists, one job, limits, explanations, events
operate   also enqueues and steers: cancel, restart, limits, pause
work      a program: enqueues, follows its jobs, and works (register, exchange, heartbeat, retire)
admin     all of it, and what looks at or changes the store as a whole: import, audit, SQL
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Role = Literal["read", "operate", "work", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

Right = Literal["look", "enqueue", "steer", "work", "keep"]
"""What an operation needs."""

RIGHTS: dict[Role, frozenset[Right]] = {
    "read": frozenset({"look"}),
    "operate": frozenset({"look", "enqueue", "steer"}),
    "work": frozenset({"look", "enqueue", "work"}),
    "admin": frozenset({"look", "enqueue", "steer", "work", "keep"}),
}


class Identity(msgspec.Struct, frozen=True):
    """The caller of one request. `name` is what changes are recorded with."""

    name: str
    role: Role

    def may(self, right: Right) -> bool:
        """Whether the role has this right."""
        return right in RIGHTS[self.role]

    @property
    def sees_payloads(self) -> bool:
        """Whether arguments and results are shown where they are hidden from readers."""
        return self.role != "read"


def roles_with(right: Right) -> list[Role]:
    """The roles that have a right, weakest first."""
    return [role for role in ROLES if right in RIGHTS[role]]
