"""Pytest as a program of its own, without plugins that this environment has and that what is tried does not need: they
are most of its start."""

from __future__ import annotations

import sys

NEEDLESS = ("schemathesis", "randomly", "faker", "hypothesispytest", "cacheprovider")
PYTEST = [sys.executable, "-m", "pytest", "-q", *(f"-pno:{plugin}" for plugin in NEEDLESS)]
