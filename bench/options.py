"""The command line of the benchmark."""

import argparse
from dataclasses import dataclass

from bench.engines import ENGINES, Engine
from bench.rows import Row

LATEST = "bench/latest.jsonl"


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    rows: tuple[Row, ...]
    engine: Engine
    url: str | None
    peers: bool
    quick: bool
    rounds: int
    json: str
    check: bool
    sizes: tuple[int, ...] = ()


def parse(arguments: list[str] | None = None) -> Options:
    """Read the command line; a wrong one ends the program with an explanation."""
    parser = _parser()
    given = parser.parse_args(arguments)
    engine = ENGINES[given.engine]
    names = [row.name for row in engine.rows]
    if unknown := set(given.only or ()) - set(names):
        parser.error(f"no row {', '.join(sorted(unknown))} on {engine.name}; there are {', '.join(names)}")
    return Options(
        rows=tuple(row for row in engine.rows if (row.name in given.only if given.only else not row.asked)),
        engine=engine,
        url=given.url,
        peers=not given.no_peers,
        quick=given.quick,
        rounds=given.rounds or (1 if given.quick else 3),
        json=given.json,
        check=given.check,
        sizes=given.sizes,
    )


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Headgate beside its peers.")
    names = dict.fromkeys(row.name for engine in ENGINES.values() for row in engine.rows)
    parser.add_argument(
        "--only", action="append", metavar="NAME", help=f"this row; repeatable: {', '.join(names)}"
    )
    parser.add_argument(
        "--engine", choices=sorted(ENGINES), default="sqlite", help="the store (default: sqlite)"
    )
    parser.add_argument("--url", help="Headgate uses this store, which must be empty")
    parser.add_argument(
        "--quick", action="store_true", help="small numbers, one round: does it work, not how fast"
    )
    parser.add_argument(
        "--sizes", type=_sizes, default=(), metavar="N,N", help="how many jobs the store of `growth` holds"
    )
    parser.add_argument("--no-peers", action="store_true", help="Headgate alone")
    parser.add_argument(
        "--rounds", type=int, metavar="N", help="measure N times, take the median (default: 3)"
    )
    parser.add_argument(
        "--json",
        default=LATEST,
        metavar="FILE",
        help=f"one line per result; - prints them (default: {LATEST})",
    )
    parser.add_argument("--check", action="store_true", help="fail if a target is not reached")
    return parser
