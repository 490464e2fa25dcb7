"""What is legal and looks like a mistake is said on standard error; what is interrupted says what goes on."""

from __future__ import annotations

import signal
import subprocess
import time

from tests.support.command_line import COMMAND, SHOP, Headgate


def test_a_queue_that_nothing_uses_is_pointed_out_and_paused_all_the_same(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    paused = store("pause", "emial")
    assert (paused.code, paused.out) == (0, "Queue 'emial' is paused now.\n")
    assert paused.err == "headgate: nothing uses queue 'emial'; did you mean 'email'?\n"
    assert store("pause", "email").err == ""
    assert store("pause", "webhooks", "--app", SHOP, "--url", store.url).err == (
        "headgate: nothing uses queue 'webhooks'; there are: 'default', 'email'\n"
    )


def test_a_cap_of_a_task_that_nothing_knows_is_pointed_out(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    capped = store("limit", "set", "task:sned", "3")
    assert (capped.code, capped.err) == (0, "headgate: nothing knows task 'sned'\n")
    assert store("limit", "set", "task:sned", "3", "--app", SHOP, "--url", store.url).err == (
        "headgate: nothing knows task 'sned'; did you mean 'send'?\n"
    )
    assert store("limit", "set", "task:send", "3").err == ""


def test_a_worker_says_that_nothing_uses_its_queue(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    worker = subprocess.Popen(
        [*COMMAND, "worker", SHOP, "--queues", "emial,email"],
        cwd=store.folder,
        env=store.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stderr is not None
    seen = next(line for line in worker.stderr if "emial" in line)
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=30)
    assert "WARNING headgate.app: nothing uses queue 'emial'; did you mean 'email'?" in seen


def test_ctrl_c_ends_the_waiting_and_names_the_job(store: Headgate) -> None:
    command = subprocess.Popen(
        [*COMMAND, "enqueue", SHOP, "send", "to=ada", "--wait", "60"],
        cwd=store.folder,
        env=store.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while not (found := store("jobs", "--json").documents):
        assert time.monotonic() < until
    id = found[0]["id"]
    command.send_signal(signal.SIGINT)
    out, err = command.communicate(timeout=30)
    assert (command.returncode, out) == (130, "")
    assert err == f"headgate: interrupted; job {id} goes on without you: see `headgate job {id}`\n"
    assert store("job", id, "--json").document["state"] == "ready"
