"""The dashboard and the alerts: every series that they name exists with those labels, every expression can be read."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from headgate.metrics.catalogue import METRICS
from tests.metrics.promql import Reader, Unreadable
from tests.support.docs_pages import ROOT

DASHBOARD: Any = json.loads((ROOT / "contrib/grafana/headgate-dashboard.json").read_text("utf-8"))
ALERTS: Any = yaml.safe_load((ROOT / "contrib/prometheus/headgate-alerts.yml").read_text("utf-8"))
PAGE = (ROOT / "docs/operations/observability.md").read_text("utf-8")
RULES: list[Any] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS: list[Any] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
EXPRESSIONS = [*TARGETS, *((rule["alert"], rule["expr"]) for rule in RULES)]


def series() -> dict[str, set[str]]:
    """The labels of every series that Headgate exposes, by name."""
    found: dict[str, set[str]] = {}
    for metric in METRICS:
        labels = set(metric.labels)
        if metric.kind == "histogram":
            found |= {f"{metric.name}_{part}": labels for part in ("sum", "count")}
            found[f"{metric.name}_bucket"] = labels | {"le"}
        else:
            found[metric.name] = labels
    return found


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS, ids=[where for where, _ in EXPRESSIONS])
def test_an_expression_selects_series_that_exist_by_labels_that_they_have(where: str, expression: str):
    reader, known = Reader(expression).read(), series()
    assert reader.found
    for selector in reader.found:
        assert selector.labels <= known[selector.name], selector
    for labels, selectors in reader.grouped:
        for selector in selectors:
            assert labels <= known[selector.name], (labels, selector)


def test_the_dashboard_has_panels_with_titles_units_and_places():
    assert len(PANELS) >= 15
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"]
        assert panel["targets"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
            assert label in series()[name]


def test_the_dashboard_shows_every_metric():
    shown = {selector.name for _, text in TARGETS for selector in Reader(text).read().found}
    missing = {m.name for m in METRICS if not any(name.startswith(m.name) for name in shown)}
    assert not missing


def test_every_alert_says_how_bad_it_is_and_what_it_is_about():
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"]["summary"]
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))


def test_the_page_says_what_to_do_for_every_alert():
    assert re.findall(r"^\| `(Headgate\w+)` \|", PAGE, re.MULTILINE) == [rule["alert"] for rule in RULES]


def test_the_table_of_metrics_is_that_of_the_code():
    rows = re.findall(r"^\| `(headgate_\w+)` \| (\w+) \|([^|]*)\| (.*) \|$", PAGE, re.MULTILINE)
    words = {"counter": "counter", "histogram": "histogram", "updown": "gauge", "reading": "gauge"}
    assert [(name, kind, labels.strip()) for name, kind, labels, _ in rows] == [
        (metric.name, words[metric.kind], ", ".join(metric.labels)) for metric in METRICS
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        "sum(", "rate(headgate_x_total)", "sum by (task (x)", "x{task=}", "nonsense(x)", "x y", "x[5 minutes]", "",
        "a + ",
    ],
)  # fmt: skip
def test_what_is_no_expression_is_noticed(wrong: str):
    with pytest.raises(Unreadable):
        Reader(wrong).read()
