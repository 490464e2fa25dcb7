"""The .sql files, made to fit a schema. They are written for the schema `headgate`; any other name takes its place."""

from __future__ import annotations

import re
import zlib
from functools import cache
from importlib import resources

from headgate import rates
from headgate.engine.contract import HISTORY_MINUTE, HISTORY_MOST
from headgate.engine.rules import admission, blame, full, in_force, shares, throttling, turned_away
from headgate.engine.rules.history import HISTORY_KEPT
from headgate.errors import ConfigError

PACKAGE = "headgate.engine.postgres"
MOST_BYTES = 63
NUMBERS = {
    "unlimited": admission.UNLIMITED,
    "offer_most": admission.OFFER_MOST,
    "look_more": admission.LOOK_MORE,
    "apart": blame.APART,
    "kept_apart": blame.KEPT_APART,
    "grave": blame.GRAVE,
    "guilty": blame.GUILTY,
    "history_minute": HISTORY_MINUTE,
    "history_most": HISTORY_MOST,
    "history_kept": HISTORY_KEPT,
    "gate_steps": admission.GATE_STEPS,
    "shortest_step": throttling.SHORTEST_STEP,
    "closing_steps": rates.CLOSING_STEPS,
    "replaced_most": full.SLICE,
    "share_scale": shares.SCALE,
    "learnt": shares.LEARNT,
    "keep_means": shares.KEEP_MEANS,
    "keep_numbers": in_force.KEEP_NUMBERS,
    "expired": f"'{turned_away.EXPIRED}'",
}
"""The numbers (and a text) of the rules: `{name}` in a script."""
_PLACE = re.compile(
    rf"'headgate\.(?P<literal>\w+)'|\bheadgate\.(?=[a-z_])|\{{(?P<number>{'|'.join(NUMBERS)})\}}|\{{lock\}}|\{{channel\}}"
)


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def check_schema(name: str) -> str:
    """PostgreSQL would cut a longer name off without a word."""
    if not name or len(name.encode()) > MOST_BYTES:
        raise ConfigError(f"schema name {name!r}: 1 to {MOST_BYTES} bytes are needed")
    if "$$" in name or not name.isprintable():
        raise ConfigError(f"schema name {name!r}: two dollar signs and control characters cannot be used")
    if name.startswith("pg_"):
        raise ConfigError(f"schema name {name!r}: names that begin with pg_ belong to PostgreSQL")
    return name


def channel(schema: str) -> str:
    """Where a schema's processes are notified."""
    return f"headgate_{lock_number(schema)}"


def lock_number(schema: str) -> int:
    """Tells the advisory locks of schemas apart."""
    return zlib.crc32(schema.encode()) & 0x7FFFFFFF


def for_schema(text: str, schema: str) -> str:
    """A script for a schema. In one pass: the name may hold anything, also what stands for it in the scripts."""

    def put(found: re.Match[str]) -> str:
        if found["literal"]:
            return _literal(f"{quoted(schema)}.{found['literal']}")
        if found["number"]:
            return str(NUMBERS[found["number"]])
        match found[0]:
            case "{lock}":
                return str(lock_number(schema))
            case "{channel}":
                return f"'{channel(schema)}'"
            case _:
                return quoted(schema) + "."

    return _PLACE.sub(put, text)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@cache
def scripts(folder: str) -> tuple[tuple[str, str], ...]:
    """The files of a folder, name and text, in order."""
    files = sorted((resources.files(PACKAGE) / folder).iterdir(), key=lambda file: file.name)
    return tuple((file.name, file.read_text("utf-8")) for file in files if file.name.endswith(".sql"))
