"""The benchmark's own arithmetic: what is reached, what is combined, what is asked for, what jobs note."""

import json
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import contest
from bench.checks import Check, judge
from bench.engines import ENGINES, Engine
from bench.environments import EnvironmentFailed
from bench.journal import Journal, last, overlap
from bench.measuring import MeasurementFailed, measure
from bench.options import Options, parse
from bench.progress import Progress
from bench.results import Result, combine
from bench.rows import DRAIN, SHARE_ALONE, SHARE_NEWCOMER, SHARE_WEIGHTS, Entry
from bench.systems import SYSTEMS, System
from bench.tally import Tally

FASTER = Check("rate", "≥", 4, of_best_peer=True)


def test_a_ratio_is_taken_to_the_best_peer():
    verdict = judge(FASTER, {"rate": 1000}, {"slow": {"rate": 10}, "fast": {"rate": 200}})
    assert (verdict.value, verdict.reached, verdict.against) == (5.0, True, "fast")


def test_without_peers_there_is_no_verdict_on_a_ratio():
    assert judge(FASTER, {"rate": 1000}, {}).reached is None


@pytest.mark.parametrize(("sign", "value", "reached"), [("≤", 3.0, True), ("≤", 3.1, False), ("=", 1, False)])
def test_a_bound_is_compared_with_the_figure_itself(sign, value, reached):
    assert judge(Check("p50", sign, 3), {"p50": value}, {}).reached is reached


def test_rounds_combine_to_the_median_but_to_the_largest_overlap():
    rounds = [{"rate": rate, "overlap": overlap} for rate, overlap in ((1, 1), (9, 2), (5, 1))]
    assert combine(rounds) == {"rate": 5, "overlap": 2}


def test_a_result_that_failed_is_not_reached():
    result = Result("drain", "headgate", "sqlite", {}, quick=True, error="no such thing")
    assert json.loads(result.line())["reached"] is False


def test_quick_means_one_round_and_only_names_rows():
    options = parse(["--quick", "--only", "bulk"])
    assert options.rounds == 1
    assert [row.name for row in options.rows] == ["bulk"]


def test_a_row_that_this_engine_does_not_have_is_refused(capsys):
    with pytest.raises(SystemExit):
        parse(["--engine", "sqlite", "--only", "traffic"])
    assert "no row traffic on sqlite" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda engine: engine.name)
def test_rows_have_names_of_their_own_targets_and_peers_that_exist(engine: Engine):
    assert len({row.name for row in engine.rows}) == len(engine.rows)
    for row in engine.rows:
        assert row.checks
        assert len({peer.name for peer in row.peers}) == len(row.peers)
        assert all(peer.system in SYSTEMS for peer in row.peers)
        # "The best" has to be a system that is measured in every round.
        deciding = [peer for peer in row.peers if peer.decides]
        assert not any(peer.rounds for peer in deciding)
        assert deciding or not any(check.of_best_peer for check in row.checks)


def test_every_peer_has_pins_and_a_runner_of_its_own():
    for system in SYSTEMS.values():
        path = Path(*system.module.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists()
        if system.environment:
            assert all("==" in pin for pin in system.pins)


def test_a_process_that_fails_is_reported_by_its_last_words():
    broken = System("broken", "bench.runners.no_such_runner")
    with pytest.raises(MeasurementFailed, match="No module named"):
        measure(broken, "drain", {}, ENGINES["sqlite"], None, timeout=30)


class Measured:
    """Stands in for the processes: some systems fail, all others have a rate. Remembers who was asked for what."""

    def __init__(self, rates: dict[str, float | Exception]) -> None:
        self.rates = rates
        self.asked: list[tuple[str, int]] = []

    def __call__(self, system, workload, params, engine, url, timeout):
        self.asked.append((system.name, params["jobs"]))
        rate = self.rates[system.name]
        if isinstance(rate, Exception):
            raise rate
        return {"rate": rate}


@contextmanager
def contesting(monkeypatch: pytest.MonkeyPatch, *peers: Entry, **rates: float | Exception):
    measured = Measured(rates)
    monkeypatch.setattr(contest, "measure", measured)
    row = DRAIN.to(FASTER, beside=peers)
    options: Options = parse(["--engine", "redis", "--rounds", "2"])
    yield contest.run(row, options, Progress(9)), measured


def test_a_peer_that_crashes_or_cannot_be_installed_is_shown_and_stops_nobody(monkeypatch):
    failures = {
        "saq": MeasurementFailed("not done after 60 s"),
        "celery": EnvironmentFailed("no such version"),
    }
    peers = (Entry("saq"), Entry("celery"), Entry("docket"))
    with contesting(monkeypatch, *peers, **failures, docket=10, headgate=50) as (results, measured):
        assert [result.error for result in results] == ["not done after 60 s", "no such version", None, None]
        assert [name for name, _ in measured.asked].count("saq") == 1
        assert results[-1].reached is True


def test_a_slow_peer_gets_fewer_jobs_and_one_that_does_not_decide_is_not_the_best(monkeypatch):
    peers = (Entry("saq", {"jobs": 2_000}), Entry("huey", decides=False, rounds=1))
    with contesting(monkeypatch, *peers, saq=10, huey=1000, headgate=50) as (results, measured):
        assert measured.asked == [
            ("saq", 2_000), ("huey", 20_000), ("headgate", 20_000), ("saq", 2_000), ("headgate", 20_000),
        ]  # fmt: skip
        assert results[-1].verdicts[0].against == "saq"


def test_jobs_of_one_key_overlap_across_processes_but_not_across_keys(tmp_path):
    one, other = (Journal(tmp_path / name, jobs=10) for name in ("one", "other"))
    one.enter(1)
    other.enter(1)
    other.enter(2)
    one.leave(1)
    one.enter(2)
    assert overlap([one, other]) == 2
    assert [(key, change) for _, key, change in one.notes()] == [(1, 1), (1, -1), (2, 1)]
    assert last([one, other]) == max(at for at, _, _ in one.notes())


def test_a_journal_is_read_while_another_process_writes_it(tmp_path):
    writer, reader = Journal(tmp_path / "journal", jobs=10), Journal(tmp_path / "journal", jobs=10)
    writer.enter(0)
    writer.leave(0)
    assert len(reader) == 2
    assert overlap([reader]) == 1


async def test_a_tally_is_done_at_the_last_expected_run_and_knows_of_more():
    tally = Tally(2)
    tally.hit()
    assert not tally.done.is_set()
    tally.hit()
    tally.hit()
    await tally.done.wait()
    assert tally.extra() == 1


@pytest.mark.parametrize("row", [SHARE_NEWCOMER, SHARE_WEIGHTS, SHARE_ALONE], ids=lambda row: row.name)
def test_shares_are_measured_by_the_starts_that_each_gets_and_by_what_they_cost(row):
    engine = ENGINES["sqlite"]
    (row,) = (each for each in engine.rows if each.name == row.name)
    small = {"waiting": 1_000, "jobs": 100, "before": 50, "each": 200}
    params = {**row.params, **{name: value for name, value in small.items() if name in row.params}}
    figures = measure(SYSTEMS["headgate"], row.workload, params, engine, None, timeout=60)
    assert row.show(figures)
    if "ratio" not in figures:
        assert all(judge(check, figures, {}).reached for check in row.checks)
