"""Scenes in the example's project: `python scenes.py`, in its folder, plays all of them, or those that are named.

Django is set up once; each scene has a process of its own, and a database that is a copy of the project's.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

sys.path.insert(0, os.getcwd())

from headgate.django import app, atomic  # sets Django up

# isort: split
import pytest
from django.conf import settings
from django.db import connection, connections, transaction
from django.db.backends.signals import connection_created
from letters.tasks import send
from shop.models import Order
from shop.tasks import cancel_old, confirm

from headgate import ConfigError, JobNotFound

SCENES: dict[str, Callable[[], None]] = {}
OF_A_SERVER = ("a_connection_that_the_server_has_cut_is_replaced",)

made: list[Any] = []
"""Every connection that was opened since the scene began."""


def scene(function: Callable[[], None]) -> Callable[[], None]:
    if connection.vendor == "postgresql" or function.__name__ not in OF_A_SERVER:
        SCENES[function.__name__] = function
    return function


def watch_connections(**options: Any) -> None:
    """Note connections from now on, which are opened with these options."""
    connections.settings["default"].update(options)
    connection_created.connect(lambda connection, **_: made.append(connection), weak=False)


def work(*jobs: Any, **options: Any) -> list[Any]:
    """What jobs return, run one after the other by one worker."""

    async def main() -> list[Any]:
        async with app, app.worker(**options):
            return [await (await app.enqueue(job)).result(timeout=20) for job in jobs]

    return asyncio.run(main())


# ── tasks are found ──────────────────────────────────────────────────────────────────────────────────────────────────


@scene
def tasks_of_all_installed_apps_are_known() -> None:
    assert set(app.tasks) == {"confirm", "cancel_old", "send"}
    assert send.included is app.tasks["send"]
    assert app.settings.keep_failed == settings.HEADGATE["retention"] * 1_000_000


@scene
def the_store_is_where_the_data_is() -> None:
    name = connections.settings["default"]["NAME"]
    if connection.vendor == "postgresql":
        assert app.url == f"postgresql://postgres@127.0.0.1:{os.environ['SHOP_PORT']}/{name}"
    else:
        assert app.url == f"sqlite:///{os.path.dirname(name)}/headgate.db"


@scene
def a_test_run_has_a_store_of_its_own() -> None:
    from django.test.utils import setup_databases, teardown_databases

    before = app.url
    old = setup_databases(verbosity=0, interactive=False)
    during = app.url
    with app:
        send.enqueue_sync("ada", "hello")
        assert app.count_sync() == 1
    teardown_databases(old, verbosity=0)
    assert during == (
        "memory://default" if connection.vendor == "sqlite" else before.replace("scene", "test_scene")
    )
    assert app.url == before
    assert app.count_sync() == 0


# ── connections ──────────────────────────────────────────────────────────────────────────────────────────────────────


@scene
def a_connection_is_closed_after_each_attempt() -> None:
    watch_connections()

    @app.task
    def count() -> int:
        return Order.objects.count()

    assert work(cancel_old.job("new"), cancel_old.job("new"), count.job()) == [0, 0, 0]
    assert len(made) == 3
    assert all(each.connection is None for each in made)


@scene
def a_connection_that_may_be_kept_is_kept_by_its_thread() -> None:
    watch_connections(CONN_MAX_AGE=None)

    @app.task
    def count() -> int:
        return Order.objects.count()

    assert work(count.job(), count.job(), count.job(), threads=1) == [0, 0, 0]
    assert len(made) == 1
    assert made[0].connection is not None


@scene
def a_connection_that_the_server_has_cut_is_replaced() -> None:
    watch_connections(CONN_MAX_AGE=None, CONN_HEALTH_CHECKS=True)

    @app.task
    def count() -> int:
        return Order.objects.count()

    @app.task
    def cut() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            mine = cursor.fetchone()[0]
        other = connections["default"].copy()
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [mine])
        other.close()

    assert work(count.job(), cut.job(), count.job(), threads=1) == [0, None, 0]


@scene
def asynchronous_attempts_do_not_wait_for_each_other_s_queries() -> None:
    meet = threading.Barrier(2)
    watch_connections()

    def query() -> int:
        meet.wait(10)
        return Order.objects.count()

    @app.task
    async def together() -> int:
        from asgiref.sync import sync_to_async

        return await sync_to_async(query)()

    async def main() -> list[int]:
        async with app, app.worker():
            jobs = await app.enqueue_many([together.job(), together.job()])
            return [await job.result(timeout=20) for job in jobs]

    assert asyncio.run(main()) == [0, 0]
    assert len(made) == 2
    assert all(each.connection is None for each in made)


@scene
def a_task_that_calls_another_keeps_its_connection() -> None:
    Order.objects.bulk_create(Order(item=str(number), customer="ada") for number in range(5))
    watch_connections()

    @app.task
    def inner(item: str) -> int:
        return Order.objects.filter(item=item).count()

    @app.task
    def outer() -> int:
        return sum(inner(order.item) for order in Order.objects.iterator(chunk_size=1))

    assert work(outer.job()) == [5]
    assert len(made) == 1


@scene
def a_plain_call_leaves_the_connection_alone() -> None:
    order = Order.objects.create(item="tea", customer="ada")
    watch_connections()
    assert confirm(order.pk, "ada") == "tea for ada"
    assert connection.connection is not None
    assert made == []


@scene
def queries_are_forgotten_between_attempts() -> None:
    settings.DEBUG = True
    watch_connections(CONN_MAX_AGE=None)

    @app.task
    def ask() -> int:
        Order.objects.count()
        return len(connection.queries)

    first, second = work(ask.job(), ask.job(), threads=1)
    assert second <= first


# ── commits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Oops(Exception):
    """Ends a transaction."""


@scene
def jobs_come_with_the_commit() -> None:
    with atomic():
        order = Order.objects.create(item="tea", customer="ada")
        job = confirm.enqueue_sync(order.pk, "ada")
        more = app.enqueue_many_sync([send.job("ada", "one"), send.job("ada", "two")])
        assert app.count_sync() == 0
        with pytest.raises(JobNotFound, match="commit"):
            job.status_sync()
    assert app.count_sync(ids=[job.id, *(each.id for each in more)]) == 3


@scene
def jobs_go_with_the_rollback() -> None:
    with suppress(Oops), atomic():
        send.enqueue_sync("ada", "hello")
        raise Oops
    with atomic():
        with suppress(Oops), atomic():
            send.enqueue_sync("ada", "of a savepoint")
            raise Oops
        kept = send.enqueue_sync("ada", "kept")
        with suppress(Oops), transaction.atomic():
            send.enqueue_sync("ada", "of another savepoint")
            raise Oops
    assert [job.id for job in app.jobs_sync()] == [kept.id]


@scene
def the_outermost_commit_counts() -> None:
    with transaction.atomic():
        with atomic():
            send.enqueue_sync("ada", "hello")
        assert app.count_sync() == 0
    assert app.count_sync() == 1
    with suppress(Oops), transaction.atomic():
        with atomic():
            send.enqueue_sync("ada", "hello")
        raise Oops
    assert app.count_sync() == 1


@scene
def a_function_may_be_atomic() -> None:
    @atomic()
    def place(fails: bool) -> None:
        send.enqueue_sync("ada", "hello")
        if fails:
            raise Oops

    place(False)
    with suppress(Oops):
        place(True)
    assert app.count_sync() == 1


@scene
def arguments_of_django_s_atomic_are_passed_on() -> None:
    refused = []
    with transaction.atomic():
        for durable in (False, True):
            try:
                with atomic(using="default", durable=durable):
                    pass
            except RuntimeError:
                refused.append(durable)
    assert refused == [True]


@scene
def the_store_joins_by_itself_or_names_the_other_way() -> None:
    if connection.vendor == "postgresql":
        with suppress(Oops), transaction.atomic(), app.transaction(connection):
            send.enqueue_sync("ada", "hello")
            raise Oops
        assert app.count_sync() == 0
        return
    with pytest.raises(ConfigError, match="on_commit"), transaction.atomic(), app.transaction(connection):
        pass


@scene
def django_s_hook_stores_after_the_commit_and_at_once_without_one() -> None:
    for register in (transaction.on_commit, connection.on_commit):
        before = app.count_sync()
        with app.on_commit(register):
            with transaction.atomic():
                send.enqueue_sync("ada", "hello")
                assert app.count_sync() == before
            assert app.count_sync() == before + 1
            send.enqueue_sync("ada", "without a transaction")
            assert app.count_sync() == before + 2


@scene
def threads_that_wait_for_each_other_s_commit_do_not_hold_up_the_rest() -> None:
    inside = threading.Event()

    def second() -> None:
        inside.wait(10)
        with atomic():
            send.options(unique="same").enqueue_sync("bob", "second")
        connections.close_all()

    thread = threading.Thread(target=second)
    thread.start()
    with atomic():
        send.options(unique="same").enqueue_sync("ada", "first")
        inside.set()
        thread.join(1)
        send.enqueue_sync("ada", "once more")
    thread.join(20)
    assert not thread.is_alive()
    assert app.count_sync() == 2


# ── playing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def play(function: Callable[[], None]) -> None:
    function()
    assert app.audit_sync().ok
    app.close_sync()


@contextmanager
def a_database(number: int) -> Generator[None]:
    """A copy of the project's, in its place."""
    chosen = connections.settings["default"]
    if connection.vendor == "sqlite":
        folder = chosen["NAME"].parent / f"scene{number}"
        folder.mkdir()
        chosen["NAME"] = shutil.copy(chosen["NAME"], folder / "db.sqlite3")
        yield
        return
    name, template = f"scene{number}", chosen["NAME"]
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    chosen["NAME"] = name
    yield
    connections.close_all()
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def main(wanted: list[str]) -> int:
    """How many scenes failed."""
    failed = 0
    for number, (name, function) in enumerate(SCENES.items()):
        if wanted and name not in wanted:
            continue
        pid = os.fork()
        if pid == 0:
            try:
                with a_database(number):
                    play(function)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            failed += 1
            print("FAILED:", name, flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
