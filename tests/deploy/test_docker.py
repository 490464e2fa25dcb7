"""The image and the compose file: what they run exists, stops in time, and is asked whether it lives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.commands import grace_of, option_of, port_of
from tests.deploy.dockerfile import Stage, Wrong, stages, words
from tests.support.docs_pages import ROOT
from tests.support.docs_shell import check_headgate
from tests.support.waiting import eventually
from tests.support.worker_command import free_port, page, page_once, worker_command

FOLDER = ROOT / "contrib" / "docker"
BUILD, IMAGE = stages((FOLDER / "Dockerfile").read_text("utf-8"))
COMPOSE: Any = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]
APP = """
from headgate import App

app = App()
"""


def probe() -> list[str]:
    """The command of the health check."""
    return words(IMAGE.last("HEALTHCHECK").partition("CMD ")[2])


def test_the_image_runs_a_command_that_exists() -> None:
    assert words(IMAGE.last("ENTRYPOINT")) == ["headgate"]
    check_headgate(words(IMAGE.last("CMD")))


def test_the_image_runs_as_a_user_without_rights_and_without_what_built_it() -> None:
    assert int(IMAGE.last("USER")) > 1000
    assert IMAGE.steps[-1][0] == "HEALTHCHECK"
    assert not any("pip" in step for step in IMAGE.all("RUN"))
    assert BUILD.image == IMAGE.image
    assert BUILD.name == "build"


def test_the_image_s_probe_asks_where_the_worker_answers() -> None:
    command = words(IMAGE.last("CMD"))
    assert f":{port_of(command, '--health')}/live" in probe()[-1]
    assert port_of(command, "--metrics") == port_of(command, "--health") == int(IMAGE.last("EXPOSE"))


@pytest.mark.slow(5)
def test_the_image_s_command_lives_by_its_probe_and_ends_when_it_is_stopped(tmp_path: Path) -> None:
    options = words(IMAGE.last("CMD"))[2:]
    port = free_port()
    moved = [word.replace(str(port_of(options, "--health")), str(port)) for word in options]
    code = probe()[-1].replace(str(port_of(options, "--health")), str(port))
    with worker_command(tmp_path, APP, f"sqlite:///{tmp_path}/jobs.db", *moved) as worker:
        page_once(port, "/ready", 200)
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
        assert worker.stop() == 0
    eventually(lambda: page(port, "/live")[0] == 0, "the port to be free")
    gone = subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False)
    assert gone.returncode == 1


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_a_command_that_exists(name: str) -> None:
    check_headgate(list(SERVICES[name]["command"]))


def test_the_services_are_these() -> None:
    assert OURS == ["migrate", "worker", "web"]
    assert [SERVICES[name]["command"][0] for name in OURS] == OURS


def test_a_service_waits_for_what_there_is() -> None:
    for service in SERVICES.values():
        for other, how in service.get("depends_on", {}).items():
            wanted = how["condition"]
            assert wanted != "service_healthy" or "test" in SERVICES[other]["healthcheck"]
            assert wanted != "service_completed_successfully" or SERVICES[other]["restart"] == "on-failure"
    assert "worker" not in SERVICES["migrate"]["depends_on"]


def test_what_is_no_worker_is_not_asked_whether_it_lives() -> None:
    for name in OURS:
        disabled = SERVICES[name].get("healthcheck", {}).get("disable", False)
        assert disabled == (SERVICES[name]["command"][0] != "worker")


def test_a_worker_s_container_is_given_longer_than_its_grace() -> None:
    worker = SERVICES["worker"]
    assert float(worker["stop_grace_period"].removesuffix("s")) >= grace_of(worker["command"]) + 5
    assert worker["command"] == words(IMAGE.last("CMD")), "what the image runs by itself"


def test_the_store_s_url_leads_to_the_server_beside() -> None:
    database = SERVICES["postgres"]["environment"]
    url = f"postgresql://{database['POSTGRES_USER']}:{database['POSTGRES_PASSWORD']}@postgres:5432/{database['POSTGRES_DB']}"
    for name in OURS:
        assert SERVICES[name]["environment"]["HEADGATE_URL"] == url


def test_the_dashboard_is_reached_from_this_machine_alone_and_by_tokens() -> None:
    web = SERVICES["web"]
    port = option_of(web["command"], "--port")
    assert web["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert web["environment"]["HEADGATE_WEB_TOKENS"].endswith(":?}")


def test_volumes_are_declared() -> None:
    used = {
        volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])
    }
    assert used == set(COMPOSE["volumes"])


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("FROM python", "names no version"),
        ("FROM python:latest", "names no version"),
        ("RUN true\nFROM python:3", "in front of FROM"),
        ("FROM python:3\nRUNN true", "no instruction RUNN"),
        ("FROM python:3\nCOPY --from=build /a /a", "no stage build"),
    ],
)
def test_a_dockerfile_that_is_wrong_is_noticed(text: str, wrong: str) -> None:
    with pytest.raises(Wrong, match=wrong):
        stages(text)


@pytest.mark.parametrize("text", ["headgate worker", '"headgate"'])
def test_a_command_that_a_shell_would_run_is_noticed(text: str) -> None:
    with pytest.raises(Wrong):
        words(Stage("python:3", None, [("CMD", text)]).last("CMD"))
