"""What the function of a floating limit is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class FloatingLimitView(msgspec.Struct, frozen=True):
    """One key of a floating limit, and how it stands."""

    key: str
    name: str
    value: str | None
    tenant: str | None
    current: int | None
    held: int
    waiting: int
    metadata: Mapping[str, Any]
