"""Where tests break a step in the middle. A script fails at each place whose name here is set to anything."""

from __future__ import annotations


class Faults:
    """Nothing is set in production. The names are those of the ledger's routines."""

    start: object = None
    park: object = None

    @classmethod
    def set(cls) -> dict[str, bool]:
        """The places at which scripts are to fail."""
        return {name: True for name in ("start", "park") if getattr(cls, name) is not None}
