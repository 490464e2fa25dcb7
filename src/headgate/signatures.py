"""What a function takes, looked at without evaluating its annotations.

From Python 3.14 on annotations are evaluated when they are asked for, and may name what is there for type checkers
only. Where names and kinds of parameters are wanted, that must be no error.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """As `inspect.signature`, with its TypeError and ValueError for what does not say."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function, in their order."""
    return list(signature(function).parameters.values())
