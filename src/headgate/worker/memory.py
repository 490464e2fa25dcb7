"""How much memory this process takes."""

from __future__ import annotations

import os
import sys


def memory_used() -> int | None:
    """Its resident bytes: now, on Linux; elsewhere the most that it ever took; None if the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return _most_ever()


def _most_ever() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
