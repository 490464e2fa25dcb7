from __future__ import annotations

import sys

import pytest

from headgate.errors import ConfigError
from headgate.worker.process.load_app import load_app

SOURCE = """
class Fake:
    def __init__(self, name): self.name = name
    async def run_worker(self, **options): ...

class settings:
    jobs = Fake("nested")

app = Fake("default")
other = Fake("other")
number = 5

def make(): return Fake("made")
def make_nothing(): return None
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "jobs.py").write_text(SOURCE)
    (tmp_path / "broken.py").write_text("import surely_not_installed\n")
    (tmp_path / "noapp.py").write_text(SOURCE.replace("app =", "queue =").replace("other =", "second ="))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield str(tmp_path)
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("shop.jobs:app", "default"),
        ("shop.jobs", "default"),
        ("shop.jobs:other", "other"),
        ("shop.jobs:settings.jobs", "nested"),
    ],
)
def test_an_app_is_found_by_module_and_attribute(here, target, name):
    assert load_app(target, app_dir=here).name == name


def test_a_factory_is_called_when_asked_to(here):
    assert load_app("shop.jobs:make", factory=True, app_dir=here).name == "made"


@pytest.mark.parametrize(
    ("target", "factory", "says"),
    [
        ("shop/jobs.py:app", False, "write the module: 'shop.jobs:app'"),
        ("shop.jobs:make", False, "use --factory"),
        ("shop.jobs:app", True, "not a function that makes an App"),
        ("shop.jobs:make_nothing", True, "not an App"),
        ("shop.jobs:number", False, "not an App"),
        ("shop.jobs:missing", False, "has no 'missing'; did you mean shop.jobs:app"),
        ("noapp", False, "did you mean noapp:queue"),
        ("nowhere:app", False, "there is no module 'nowhere'"),
        ("shop.nowhere:app", False, "there is no module 'shop.nowhere'"),
        ("", False, "write 'module:app'"),
        ("a b:app", False, "write 'module:app'"),
    ],
)
def test_what_is_no_app_is_refused_with_a_remedy(here, target, factory, says):
    with pytest.raises(ConfigError, match=says):
        load_app(target, factory=factory, app_dir=here)


def test_an_import_that_fails_inside_the_module_shows_itself(here):
    with pytest.raises(ModuleNotFoundError, match="surely_not_installed"):
        load_app("broken:app", app_dir=here)
