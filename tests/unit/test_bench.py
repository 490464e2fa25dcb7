"""The benchmark's own arithmetic: what is reached, what is combined, what is asked for."""

import json

import pytest

from bench.checks import Check, judge
from bench.options import parse
from bench.results import Result, combine
from bench.rows import ROWS
from bench.systems import SYSTEMS

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


def test_rows_have_names_of_their_own_and_peers_that_exist():
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert all(peer in SYSTEMS for row in ROWS for peer in row.peers)
