"""In a Django project: tasks are found, connections looked after, jobs part of transactions, commands at hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headgate import ConfigError
from headgate.engine.open import check_url
from tests.django.project import SCENES, Project


@pytest.mark.slow(10)
def test_every_scene(project: Project) -> None:
    """Of scenes.py, which says in its output what is wrong with which."""
    project.run(str(SCENES))


@pytest.mark.slow(4)
def test_the_tests_of_the_example_pass(project: Project) -> None:
    assert "Ran 3 tests" in project.manage("test", "--noinput")


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def ordered(project: Project) -> None:
    """There is an order, its number 1."""
    project.manage(
        "shell", "-c", "from shop.models import Order; Order.objects.create(item='tea', customer='ada')"
    )


@pytest.mark.slow(8)
def test_a_worker_of_manage_py_runs_what_is_there(project: Project, tmp_path: Path) -> None:
    """From any folder, and in processes of its own."""
    ordered(project)
    words = [project.python, str(project.folder / "manage.py"), "headgate", "worker", "--processes", "2"]
    with project.worker(*words, cwd=tmp_path):
        said = project.manage("headgate", "enqueue", "confirm", "order=1", "customer=ada", "--wait", "60")
    assert said == '"tea for ada"\n'
    sent = json.loads(project.manage("headgate", "jobs", "--task", "send", "--json"))
    assert (sent["queue"], sent["args"]["to"]) == ("email", "ada")
    assert "No problems" in project.manage("headgate", "audit")


@pytest.mark.slow(5)
def test_headgate_s_own_command_needs_the_settings_alone(project: Project) -> None:
    ordered(project)
    headgate = [project.python, "-m", "headgate"]
    with project.worker(*headgate, "worker", "headgate.django:app"):
        words = ("-m", "headgate", "enqueue", "headgate.django:app", "cancel_old", "--wait", "60")
        assert project.run(*words) == "1\n"


@pytest.mark.slow(7)
def test_the_command_s_words_are_completed_and_refused_as_ever(project: Project) -> None:
    assert "was created" in project.manage("headgate", "migrate", "--settings", "mysite.settings")
    assert project.manage("headgate", "queues", "--json", "--settings=mysite.settings") == ""
    assert "Usage: manage.py headgate [OPTIONS] COMMAND" in project.manage("headgate", "--help")
    assert "headgate worker" in project.manage("help", "headgate")
    assert "No such option: --nosuch" in project.manage("headgate", "jobs", "--nosuch", code=2)
    assert "has no task 'nosuch'" in project.manage("headgate", "enqueue", "nosuch", code=2)
    assert "no Headgate store at" in project.manage("headgate", "jobs", "--url", "sqlite:///none.db", code=3)


@pytest.mark.slow(4)
def test_other_code_may_call_the_command(project: Project) -> None:
    project.manage("headgate", "migrate")
    code = "from django.core.management import call_command; call_command('headgate', 'audit')"
    assert "No problems" in project.manage("shell", "-c", code)
    wrong = code.replace("'audit'", "'job', 'nosuch'")
    assert "nosuch" in project.manage("shell", "-c", wrong, code=1)


# ── what is wrong ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow(7)
def test_settings_that_cannot_work_are_named(project: Project) -> None:
    settings = project.folder / "mysite" / "settings.py"
    before = settings.read_text()
    for given, message in {
        "HEADGATE = 7": "a dictionary is needed",
        "HEADGATE = {'nosuch': 1}": "unexpected keyword argument 'nosuch'",
        "HEADGATE = {'database': None}": "give it a url",
        "HEADGATE = {'url': 'nosuch://'}": "unknown scheme 'nosuch'",
        "INSTALLED_APPS = ['shop', 'letters']": "INSTALLED_APPS lacks 'headgate.django'",
        "DATABASES = {'default': {'ENGINE': 'django.db.backends.dummy'}}": "no store can be in the database",
    }.items():
        settings.write_text(f"{before}\n{given}\n")
        assert message in " ".join(
            project.run("-m", "headgate", "audit", "--app", "headgate.django:app", code=2).split()
        )


def test_without_settings_the_command_says_so(project: Project) -> None:
    project.environment["DJANGO_SETTINGS_MODULE"] = ""
    said = project.run("-m", "headgate", "worker", "headgate.django:app", code=2)
    assert "Django's settings cannot be used" in said


def test_without_django_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['django'] = None; import headgate.django"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "headgate.django needs Django: pip install 'headgate[django]'" in done.stderr


# ── the store's URL ──────────────────────────────────────────────────────────────────────────────────────────────────

DATABASE = {"NAME": "shop", "USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {}}


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({}, "postgresql:///shop"),
        ({"USER": "ada", "HOST": "db", "PORT": 5433}, "postgresql://ada@db:5433/shop"),
        ({"USER": "a@b", "PASSWORD": "p:/?#%", "HOST": "db"}, "postgresql://a%40b:p%3A%2F%3F%23%25@db/shop"),
        ({"NAME": "my shop", "HOST": "::1", "PORT": "5432"}, "postgresql://[::1]:5432/my%20shop"),
        ({"HOST": "one,two", "PORT": "1,2"}, "postgresql://one:1,two:2/shop"),
        ({"HOST": "one,two", "PORT": "1"}, "postgresql://one:1,two:1/shop"),
        (
            {"HOST": "/run/pg", "PORT": "5433", "USER": "ada"},
            "postgresql://ada@/shop?host=%2Frun%2Fpg&port=5433",
        ),
        ({"OPTIONS": {"sslmode": "require", "pool": True}}, "postgresql:///shop?sslmode=require"),
    ],
)
def test_the_url_of_a_database(given: dict[str, Any], url: str) -> None:
    from headgate.django.database import postgres_url

    assert postgres_url("default", {**DATABASE, **given}) == url
    check_url(url)


@pytest.mark.parametrize("given", [{"NAME": ""}, {"OPTIONS": {"service": "shop"}}])
def test_a_database_that_a_service_file_describes_needs_a_url(given: dict[str, Any]) -> None:
    from headgate.django.database import postgres_url

    with pytest.raises(ConfigError, match=r"described by a service file.* HEADGATE = \{'url'"):
        postgres_url("default", {**DATABASE, **given})
