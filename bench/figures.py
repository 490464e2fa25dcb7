"""What one measurement yields: numbers by name, and a few words."""

from typing import Any

Figures = dict[str, Any]
