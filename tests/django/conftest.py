"""The example on each database and each Django that there is."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.django.project import EXAMPLE, Project
from tests.support.postgres_server import available, shared_server

PYTHONS = [
    sys.executable,
    *filter(None, os.environ.get("HEADGATE_TEST_DJANGO_PYTHONS", "").split(os.pathsep)),
]
"""Interpreters with a Django of their own, and with this Headgate."""
DATABASES = ["sqlite", *(["postgres"] if available() else [])]


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Project]:
    """The example with an empty database, which others are copies of; made once for each."""

    @cache
    def make(python: str, database: str) -> Project:
        name = f"shop_{PYTHONS.index(python)}"
        folder = tmp_path_factory.mktemp(f"{database}-{name}") / "project"
        made = Project(folder, python, database, _environment(database, name))
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
        if database == "postgres":
            shared_server().execute(f"DROP DATABASE IF EXISTS {name}")
            shared_server().execute(f"CREATE DATABASE {name}")
        made.manage("migrate", "-v0")
        return made

    return make


def _environment(database: str, name: str) -> dict[str, str]:
    if database == "sqlite":
        return {}
    return {"SHOP_HOST": "127.0.0.1", "SHOP_PORT": str(shared_server().port), "SHOP_NAME": name}


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> str:
    """Where the project has its data, and its jobs."""
    return request.param


@pytest.fixture(params=PYTHONS, ids=lambda path: Path(path).parent.parent.name)
def project(
    request: pytest.FixtureRequest,
    database: str,
    tmp_path: Path,
    migrated: Callable[[str, str], Project],
) -> Iterator[Project]:
    """The example, with a database of its own."""
    empty = migrated(request.param, database)
    shutil.copytree(empty.folder, tmp_path / "project")
    made = Project(tmp_path / "project", request.param, database, _environment(database, "shop_under_test"))
    if database == "postgres":
        shared_server().execute("DROP DATABASE IF EXISTS shop_under_test WITH (FORCE)")
        shared_server().execute(f"CREATE DATABASE shop_under_test TEMPLATE {empty.environment['SHOP_NAME']}")
    yield made
    if database == "postgres":
        shared_server().execute("DROP DATABASE shop_under_test WITH (FORCE)")
