"""One row: every system in turn, round after round, so that a slow moment of the machine hits all alike."""

from collections.abc import Iterator

from bench.checks import judge
from bench.environments import EnvironmentFailed
from bench.measuring import MeasurementFailed, measure
from bench.options import Options
from bench.progress import Progress
from bench.results import Result, combine
from bench.rows import Row
from bench.systems import SYSTEMS, System


def run(row: Row, options: Options, progress: Progress) -> list[Result]:
    """The results of all systems for one row, Headgate's last and judged."""
    params = {**row.params, **(row.quick if options.quick else {})}
    results = {
        system.name: Result(row.name, system.name, options.engine.name, params, options.quick)
        for system in _systems(row, options)
    }
    for turn in range(rounds_of(row, options)):
        for result in results.values():
            if result.error is None:
                _measure(row, result, options, progress, turn)
    _judge(row, results)
    return list(results.values())


def rounds_of(row: Row, options: Options) -> int:
    """How often this row is measured."""
    return min(options.rounds, row.rounds or options.rounds)


def _systems(row: Row, options: Options) -> Iterator[System]:
    if options.peers:
        yield from (SYSTEMS[name] for name in row.peers if name in options.engine.peers)
    yield SYSTEMS["headgate"]


def _measure(row: Row, result: Result, options: Options, progress: Progress, turn: int) -> None:
    system = SYSTEMS[result.system]
    with progress.step(row, system, turn) as step:
        try:
            figures = measure(system, row.workload, result.params, options.engine, options.url, row.timeout)
        except (MeasurementFailed, EnvironmentFailed) as failure:
            result.error = str(failure)
            step.say(f"failed: {failure}")
        else:
            result.rounds.append(figures)
            step.say(row.show(figures))


def _judge(row: Row, results: dict[str, Result]) -> None:
    for result in results.values():
        if result.error is None:
            result.figures = combine(result.rounds)
    ours = results["headgate"]
    peers = {
        name: other.figures for name, other in results.items() if SYSTEMS[name].decides and other.figures
    }
    peers.pop("headgate", None)
    if ours.figures:
        ours.verdicts = [judge(check, ours.figures, peers) for check in row.checks]
