"""The manifests: commands exist, names fit together, probes ask where the worker answers, graces are long enough."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from headgate.metrics.catalogue import METRICS
from tests.deploy.commands import grace_of, port_of
from tests.support.docs_pages import ROOT
from tests.support.docs_shell import check_headgate

FOLDER = ROOT / "contrib" / "kubernetes"
OBJECTS: dict[str, Any] = {
    one["kind"]: one
    for path in sorted(FOLDER.glob("*.yaml"))
    for one in yaml.safe_load_all(path.read_text("utf-8"))
}
VERSIONS = {
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "PodDisruptionBudget": "policy/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
}
PODS = [OBJECTS[kind]["spec"]["template"] for kind in ("Deployment", "Job")]
WORKER = OBJECTS["Deployment"]["spec"]
(CONTAINER,) = WORKER["template"]["spec"]["containers"]
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def seconds(probe: Any) -> int:
    """For how long a probe may fail until something happens."""
    return probe["periodSeconds"] * probe["failureThreshold"]


def test_the_objects_are_these() -> None:
    assert {kind: one["apiVersion"] for kind, one in OBJECTS.items()} == VERSIONS


@pytest.mark.parametrize("pod", PODS, ids=["worker", "migrate"])
def test_a_pod_runs_a_command_that_exists(pod: Any) -> None:
    for container in pod["spec"]["containers"]:
        assert "command" not in container, "the image says what its arguments are for"
        check_headgate(list(container["args"]))


@pytest.mark.parametrize("pod", PODS, ids=["worker", "migrate"])
def test_a_pod_has_bounds_and_few_rights(pod: Any) -> None:
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    for container in pod["spec"]["containers"]:
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"].keys() == {"memory"}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_all_pods_have_the_same_image_store_and_user() -> None:
    images = {container["image"] for pod in PODS for container in pod["spec"]["containers"]}
    stores = [container["env"] for pod in PODS for container in pod["spec"]["containers"]]
    assert len(images) == 1
    assert stores[0] == stores[1]
    assert {pod["spec"]["securityContext"]["runAsUser"] for pod in PODS} == {user_of_the_image()}


def user_of_the_image() -> int:
    lines = (ROOT / "contrib" / "docker" / "Dockerfile").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("USER ")).split()[1])


def labelled() -> Iterator[Any]:
    yield WORKER["selector"]["matchLabels"]
    yield OBJECTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
    yield OBJECTS["Deployment"]["metadata"]["labels"]


def test_selectors_select_the_workers() -> None:
    for labels in labelled():
        assert labels == WORKER["template"]["metadata"]["labels"]


def test_probes_ask_where_the_worker_answers() -> None:
    (port,) = CONTAINER["ports"]
    assert port["containerPort"] == port_of(CONTAINER["args"], "--health")
    for name in PROBES:
        assert CONTAINER[name]["httpGet"] == {
            "path": "/live" if name == "livenessProbe" else "/ready",
            "port": port["name"],
        }


def test_a_worker_is_killed_late_and_for_no_store_that_is_away() -> None:
    """`/live` fails after five seconds in which nothing turns; a supervisor asks its processes for most of a second."""
    assert CONTAINER["livenessProbe"]["timeoutSeconds"] > 1
    assert seconds(CONTAINER["livenessProbe"]) >= 15
    assert seconds(CONTAINER["startupProbe"]) >= 60


def test_a_pod_is_given_longer_than_its_grace() -> None:
    longest = WORKER["template"]["spec"]["terminationGracePeriodSeconds"]
    assert longest >= grace_of(CONTAINER["args"]) + 10
    (policy,) = OBJECTS["HorizontalPodAutoscaler"]["spec"]["behavior"]["scaleDown"]["policies"]
    assert policy["periodSeconds"] >= longest


def test_scrapers_are_told_where_the_metrics_are() -> None:
    annotations = WORKER["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port_of(CONTAINER["args"], "--metrics"))
    assert annotations["prometheus.io/path"] == "/metrics"
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == {
        volume["name"] for volume in WORKER["template"]["spec"]["volumes"]
    }


def test_the_autoscaler_scales_the_workers_by_a_metric_that_exists() -> None:
    scaler = OBJECTS["HorizontalPodAutoscaler"]["spec"]
    target = scaler["scaleTargetRef"]
    deployment = OBJECTS["Deployment"]
    assert (target["apiVersion"], target["kind"], target["name"]) == (
        deployment["apiVersion"],
        deployment["kind"],
        deployment["metadata"]["name"],
    )
    assert scaler["minReplicas"] == WORKER["replicas"]
    (metric,) = [one["external"]["metric"] for one in scaler["metrics"]]
    (known,) = [one for one in METRICS if one.name == metric["name"]]
    assert metric["selector"]["matchLabels"].keys() == set(known.labels)
    assert metric["selector"]["matchLabels"]["state"] == "ready"
