"""What a newcomer types: short ids, a factory, a module that is broken, a name that is nearly right."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest

from tests.cli.test_terminal import on_terminal
from tests.support.command_line import COMMAND, Headgate

DEEP = """
from headgate import App, Retry

app = App()


def dig(depth: int) -> None:
    if depth == 0:
        raise ValueError("the ground is too hard")
    dig(depth - 1) if depth % 2 else dig(depth - 1)


@app.task(retry=Retry(attempts=8, delay=0))
async def deep() -> None:
    dig(30)


def run() -> None:
    deep.options(id="deep").enqueue_sync()
    app.run_until_idle_sync()


if __name__ == "__main__":
    run()
"""

FACTORY = """
import os
from headgate import App

def make():
    with open("made", "a") as file:
        file.write(f"{os.getpid()}\\n")
    app = App()

    @app.task
    async def work() -> int:
        return 42

    return app
"""

BROKEN = """
from headgate import App

app = App()


@app.task(max_concurent=1)
async def send() -> None: ...
"""


@pytest.fixture
def deep(store: Headgate) -> Headgate:
    """A job that has failed eight times, deep inside."""
    (store.folder / "digging.py").write_text(DEEP)
    subprocess.run(
        [COMMAND[0], "digging.py"], cwd=store.folder, env=store.environment(), check=True, capture_output=True
    )
    return store


def test_a_job_page_folds_tracebacks(deep: Headgate) -> None:
    _, written = on_terminal(deep, "job", "deep", NO_COLOR="1", COLUMNS="80")
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", written).splitlines()]
    assert len(lines) < 80
    assert sum("Traceback" in line for line in lines) == 0
    assert any("lines more with --traceback" in line for line in lines)
    assert lines[-1].strip() == "ValueError: the ground is too hard"
    assert any(re.fullmatch(r"error +ValueError: the ground is too hard", line) for line in lines)


def test_whole_tracebacks_are_there_for_the_asking(deep: Headgate) -> None:
    out = deep("job", "deep", "--traceback").out
    assert out.count("Traceback (most recent call last):") == 8
    assert "attempt 1:\n  Traceback" in out
    assert "lines more" not in out
    assert len(deep("job", "deep", "--json").document["attempts"]) == 8


def test_the_beginning_of_an_id_is_enough_if_no_other_id_has_it(store: Headgate) -> None:
    for id in ("order-17", "order-18", "mail-1"):
        store.enqueue("send", "to=ada", "--id", id)
    assert store("job", "mail", "--json").document["id"] == "mail-1"
    assert store("explain", "order-18", "--json").document["id"] == "order-18"
    assert store("jobs", "--after", "mail", "--json").documents[0]["id"] == "order-18"
    assert store("cancel", "mail", "order-17").out == "2 jobs cancelled.\n"
    several = store("cancel", "order")
    assert (several.code, several.err) == (
        2, "headgate: 'order' is the beginning of several ids: order-18, order-17\n",
    )  # fmt: skip
    short = store("job", "ord")
    assert (short.code, "no job 'ord'" in short.err) == (1, True)


def test_an_id_that_is_whole_is_meant_although_others_begin_so(store: Headgate) -> None:
    for id in ("order", "order-18"):
        store.enqueue("send", "to=ada", "--id", id)
    assert store("job", "order", "--json").document["id"] == "order"


def test_a_filter_with_a_name_that_nothing_knows_says_so(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    for words, sentence in (
        (["--queue", "emial"], "nothing uses queue 'emial'; did you mean 'email'?"),
        (["--task", "sned"], "nothing knows task 'sned'"),
        (["--limit", "custmer=42"], "no limit is named 'custmer'; did you mean 'customer'?"),
    ):
        for command in (["jobs"], ["jobs", "--count"], ["cancel"]):
            outcome = store(*command, *words)
            assert (outcome.code, outcome.err) == (0, f"headgate: {sentence}\n")
        assert store("jobs", *words, "--json").out == ""
    assert store("jobs", "--queue", "email", "--state", "failed").err == ""
    assert store("jobs", "--limit", "customer=42").err == ""


def test_a_factory_makes_the_app_for_every_command_and_once(store: Headgate) -> None:
    (store.folder / "factory.py").write_text(FACTORY)
    made = store.folder / "made"

    def calls() -> list[str]:
        lines = made.read_text().split() if made.exists() else []
        made.unlink(missing_ok=True)
        return lines

    assert store.process("enqueue", "factory:make", "work", "--factory").code == 0
    assert len(calls()) == 1
    for words in (["jobs"], ["queues"], ["limits"], ["workers"], ["audit"], ["pause", "q"], ["migrate"]):
        assert (
            store.process(*words, "--app", "factory:make", "--factory", PYTHONPATH=str(store.folder)).code
            == 0
        )
        assert len(calls()) == 1, words
    assert store("jobs", "--factory").code == 2
    worker = subprocess.Popen(
        [*COMMAND, "worker", "factory:make", "--factory"],
        cwd=store.folder,
        env=store.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stderr is not None
    next(line for line in worker.stderr if "started" in line)
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=30)
    assert calls() == [str(worker.pid)]


@pytest.mark.parametrize("words", [["worker"], ["enqueue", "send"], ["worker", "-p", "2"]])
def test_an_error_of_the_user_s_module_shows_the_user_s_frames(store: Headgate, words: list[str]) -> None:
    (store.folder / "broken.py").write_text(BROKEN)
    command, *rest = words
    outcome = store.process(command, "broken:app", *rest)
    assert outcome.code == (3 if "-p" in words else 2)
    shown = outcome.err[outcome.err.index("'broken:app' cannot be loaded:") :].splitlines()
    assert shown[1] == f'  File "{os.path.realpath(store.folder)}/broken.py", line 7, in <module>'
    assert "@app.task(max_concurent=1)" in shown[2]
    last = next(line for line in shown if line.startswith("headgate.errors.ConfigError"))
    assert last.endswith("task() has no option 'max_concurent'; did you mean max_concurrent=?")
    assert outcome.err.count("  File ") == outcome.err.count("cannot be loaded")


def test_a_command_that_takes_no_app_says_where_one_goes(store: Headgate) -> None:
    for words in (["jobs", "shop:app"], ["queues", "my.shop:app"]):
        outcome = store(*words)
        assert outcome.code == 2
        assert f"write --app {words[-1]}" in " ".join(outcome.err.replace("│", " ").split())
    assert "--app" not in store("jobs", "one", "two").err


def test_a_failed_job_with_tries_left_says_why_it_ended(store: Headgate) -> None:
    store.enqueue("fail", "--id", "early")
    store.work()
    assert (
        "1 of 3 counted, and the last error is none that the task's retry= covers"
        in store("job", "early").out
    )
