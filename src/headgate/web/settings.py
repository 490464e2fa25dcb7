"""What a server of the API and the page is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headgate.web.roles import Identity

Redact = Callable[[dict[str, Any], Identity], dict[str, Any]]
"""From a job as it would be shown, and who looks, to what is shown."""


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`hide_payloads`: readers see neither arguments nor results. `redact` looks at every job that is shown."""

    read_only: bool = False
    hide_payloads: bool = False
    redact: Redact | None = None
    most_body: int = 4 * 1024 * 1024
    """Bytes of one request's body."""
    body_timeout: float = 20.0
    """Seconds in which a body must have arrived."""
    longest_wait: float = 60.0
    """Seconds that a request may ask to wait for."""
    most_streams: int = 1000
    """Event streams at once."""
