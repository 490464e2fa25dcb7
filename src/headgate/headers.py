"""Headers of a job: a few short texts that travel with it and are not its task's business, such as a correlation id.

Tracing, tenants' request ids and the like are put there by what enqueues the job, and read where it runs. They are
bounded, since every store carries them with every claim.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from headgate.errors import ConfigError

MOST_HEADERS = 64
MOST_BYTES = 8 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def headers_text(given: Any, what: str = "headers=") -> str | None:
    """Headers as a store keeps them: checked, as JSON; None for none at all."""
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{what} must be a mapping of texts such as {{'correlation-id': 'a1'}}, not {given!r:.80}"
        )
    headers = cast("Mapping[Any, Any]", given)
    if not headers:
        return None
    for name, value in headers.items():
        _check(name, value, what)
    return _bounded(headers, what)


def _check(name: Any, value: Any, what: str) -> None:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{what} {name!r:.80} is not the name of a header: letters, digits, '.', '_' and '-', at most 128"
        )
    if not isinstance(value, str):
        raise ConfigError(
            f"{what} the value of {name!r} is {value!r:.80}, not a text; what is no text goes into metadata="
        )


def _bounded(headers: Mapping[str, str], what: str) -> str:
    if len(headers) > MOST_HEADERS:
        raise ConfigError(f"{what} {len(headers)} headers; a job has at most {MOST_HEADERS}")
    try:
        raw = msgspec.json.encode(dict(headers))
    except UnicodeEncodeError as error:
        raise ConfigError(f"{what} {error.object!r:.80} is not valid Unicode") from None
    if len(raw) > MOST_BYTES:
        raise ConfigError(
            f"{what} {len(raw):,} bytes; all headers of a job together have at most {MOST_BYTES:,}, so "
            "that what is large goes into the arguments"
        )
    return raw.decode()


def read_headers(text: str | None) -> dict[str, str]:
    """Headers as they were given."""
    return {} if text is None else msgspec.json.decode(text, type=dict[str, str])
