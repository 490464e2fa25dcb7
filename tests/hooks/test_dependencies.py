# A type checker takes an annotated dependency for an argument of enqueue(); the default form spares it that.
# pyright: reportCallIssue=false, reportArgumentType=false, reportRedeclaration=false
# pyright: reportFunctionMemberAccess=false
from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Annotated, Any

import pytest

from headgate import App, ConfigError, Depends, JobContext, JobFailed, PayloadError, Retry, current_job
from tests.support.waiting import until

notes: list[str] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    notes.clear()


class Client:
    """What tasks depend on."""

    def __init__(self, name: str = "real") -> None:
        self.name = name


def make_client() -> Client:
    notes.append("made")
    return Client()


async def make_client_slowly() -> Client:
    await asyncio.sleep(0)
    return Client("slow")


async def opened_client() -> AsyncIterator[Client]:
    notes.append("opened")
    try:
        yield Client("opened")
    finally:
        notes.append("closed")


@contextlib.contextmanager
def managed_client() -> Generator[Client]:
    notes.append("opened")
    try:
        yield Client("managed")
    finally:
        notes.append("closed")


@contextlib.asynccontextmanager
async def async_managed_client() -> AsyncGenerator[Client]:
    notes.append("opened")
    yield Client("async managed")
    notes.append("closed")


def generated_client() -> Iterator[Client]:
    notes.append("opened")
    yield Client("generated")
    notes.append("closed")


class Factory:
    async def __call__(self) -> Client:
        return Client("object")


async def result(app: App, job: Any) -> Any:
    await app.run_until_idle()
    return await job.result(timeout=0)


@pytest.mark.parametrize(
    ("factory", "name", "closes"),
    [
        (make_client, "real", False),
        (make_client_slowly, "slow", False),
        (opened_client, "opened", True),
        (managed_client, "managed", True),
        (async_managed_client, "async managed", True),
        (generated_client, "generated", True),
        (Factory(), "object", False),
        (Client, "real", False),
        (lambda: Client("lambda"), "lambda", False),
    ],
    ids=lambda value: getattr(value, "__name__", None) or type(value).__name__,
)
@pytest.mark.parametrize("per", ["attempt", "process"])
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_every_kind_of_factory_fills_every_kind_of_task(app: App, factory, name, closes, per, kind):
    if kind == "async":

        @app.task
        async def work(n: int, client: Annotated[Client, Depends(factory, per=per)]) -> str:
            notes.append("worked")
            return f"{client.name} {n}"

    else:

        @app.task
        def work(n: int, client: Annotated[Client, Depends(factory, per=per)]) -> str:
            notes.append("worked")
            return f"{client.name} {n}"

    assert await result(app, await work.enqueue(3)) == f"{name} 3"
    if closes:
        assert notes == ["opened", "worked", "closed"]


async def test_a_dependency_is_no_argument_of_the_job(app: App):
    @app.task
    async def work(client: Annotated[Client, Depends(make_client)], n: int) -> str:
        return f"{client.name} {n}"

    job = await work.enqueue(1)
    assert (await job.info()).args == {"n": 1}
    assert await result(app, job) == "real 1"
    with pytest.raises(
        PayloadError, match=r"gets 'client' from Depends\(make_client, per='attempt'\) in its worker"
    ):
        await work.enqueue(1, client=Client())
    with pytest.raises(PayloadError, match="takes 1 positional argument, 2 were given"):
        await work.enqueue(1, Client())


async def test_it_may_stand_as_the_default_so_that_type_checkers_do_not_ask_for_it(app: App):
    @app.task
    async def work(n: int, *, client: Client = Depends(make_client)) -> str:
        return f"{client.name} {n}"

    assert await result(app, await work.enqueue(1)) == "real 1"


async def test_a_test_passes_dependencies_by_hand(app: App):
    @app.task
    async def work(n: int, client: Annotated[Client, Depends(make_client)]) -> str:
        return f"{client.name} {n}"

    assert await work(1, Client("fake")) == await work.fn(1, client=Client("fake")) == "fake 1"


async def test_one_is_made_per_attempt_and_shared_by_all_that_need_it(app: App):
    async def session(client: Annotated[Client, Depends(make_client)]) -> Client:
        return client

    @app.task
    async def work(
        one: Annotated[Client, Depends(session)], two: Annotated[Client, Depends(make_client)]
    ) -> bool:
        return one is two

    jobs = [await work.enqueue() for _ in range(3)]
    assert [await result(app, job) for job in jobs] == [True] * 3
    assert notes == ["made"] * 3


async def test_one_per_process_is_made_once_however_many_ask_at_once(app: App):
    async def pool() -> AsyncIterator[object]:
        notes.append("opened")
        await asyncio.sleep(0.02)
        yield object()
        notes.append("closed")

    ids = set()

    @app.task
    async def work(n: int, pool: Annotated[object, Depends(pool, per="process")]) -> None:
        ids.add(id(pool))

    await app.enqueue_many(work.job(n) for n in range(10))
    await app.run_until_idle()
    assert (len(ids), notes) == (1, ["opened", "closed"])


async def test_an_attempt_that_gives_up_waiting_leaves_the_others_theirs(app: App):
    gate = asyncio.Event()

    async def pool() -> object:
        notes.append("making")
        await gate.wait()
        return object()

    @app.task(timeout=0.05)
    async def hasty(pool: Annotated[object, Depends(pool, per="process")]) -> None: ...

    @app.task
    async def patient(pool: Annotated[object, Depends(pool, per="process")]) -> None: ...

    async with app.worker():
        first, second = await hasty.enqueue(), await patient.enqueue()
        with pytest.raises(JobFailed, match="timeout"):
            await first.result(timeout=20)
        gate.set()
        await second.result(timeout=20)
    assert notes == ["making"]


async def test_they_are_closed_in_reverse_order_before_the_lifespan_is_left(make_app):
    @contextlib.asynccontextmanager
    async def lifespan(app: App):
        notes.append("lifespan")
        yield
        notes.append("end of lifespan")

    def noting(name: str, needed: Any = None, per: Any = "attempt"):
        async def factory(before: Any = None):
            notes.append(name)
            yield name
            notes.append(f"end of {name}")

        if needed is not None:
            factory.__annotations__["before"] = Annotated[Any, Depends(needed, per=per)]
        return factory

    app = make_app(lifespan=lifespan)
    pool = noting("pool")
    other = noting("other pool", pool, per="process")
    connection = noting("connection")
    session = noting("session", connection)

    @app.task
    async def work(
        s: Annotated[str, Depends(session)],
        p: Annotated[str, Depends(other, per="process")],
    ) -> None:
        notes.append("work")

    await work.enqueue()
    await app.run_until_idle()
    assert notes == [
        "lifespan", "connection", "session", "pool", "other pool", "work", "end of session", "end of connection",
        "end of other pool", "end of pool", "end of lifespan",
    ]  # fmt: skip


async def test_a_factory_may_ask_for_the_job(app: App):
    async def for_tenant(job: JobContext) -> str:
        assert job is current_job()
        return f"database of {job.tenant}, attempt {job.attempt}"

    @app.task
    async def work(database: Annotated[str, Depends(for_tenant)]) -> str:
        return database

    assert await result(app, await work.options(tenant="acme").enqueue()) == "database of acme, attempt 1"


@pytest.mark.parametrize("per", ["attempt", "process"])
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_an_error_in_a_factory_is_an_error_of_the_attempt(app: App, per, kind):
    tries: list[int] = []

    async def broken() -> Client:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no connection")
        return Client("second")

    client: Any = Annotated[Client, Depends(broken, per=per)]
    if kind == "async":

        async def work(client) -> str:
            return client.name

    else:

        def work(client) -> str:
            return client.name

    work.__annotations__["client"] = client
    task = app.task(retry=Retry(attempts=2, delay=0, on=OSError))(work)
    job = await task.enqueue()
    assert await result(app, job) == "second"
    first, second = (await job.info()).attempts
    assert (first.outcome, second.outcome) == ("failed", "succeeded")
    assert (first.error or "").startswith("OSError: no connection\nTraceback")
    assert "filling.py" not in (first.error or "").partition("in broken")[0]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_dependency_hears_of_the_exception_and_cannot_swallow_it(app: App, kind):
    def transaction() -> Iterator[str]:
        try:
            yield "open"
        except ValueError as error:
            notes.append(f"rolled back: {error}")
        else:
            notes.append("committed")

    if kind == "async":

        @app.task
        async def work(n: int, t: Annotated[str, Depends(transaction)]) -> None:
            if n < 0:
                raise ValueError("too small")

    else:

        @app.task
        def work(n: int, t: Annotated[str, Depends(transaction)]) -> None:
            if n < 0:
                raise ValueError("too small")

    await result(app, await work.enqueue(1))
    with pytest.raises(JobFailed, match="ValueError: too small"):
        await result(app, await work.enqueue(-1))
    assert notes == ["committed", "rolled back: too small"]


async def test_a_dependency_that_cannot_be_closed_fails_the_attempt(app: App):
    async def transaction() -> AsyncIterator[None]:
        yield
        raise OSError("cannot commit")

    @app.task
    async def work(t: Annotated[None, Depends(transaction)]) -> None: ...

    with pytest.raises(JobFailed, match="OSError: cannot commit"):
        await result(app, await work.enqueue())


async def test_one_of_the_process_that_cannot_be_closed_is_logged(app: App, caplog):
    async def pool() -> AsyncIterator[None]:
        yield
        raise OSError("cannot be closed")

    @app.task
    async def work(t: Annotated[None, Depends(pool, per="process")]) -> None: ...

    assert await result(app, await work.enqueue()) is None
    assert "could not be closed" in caplog.text


async def test_a_synchronous_factory_of_a_synchronous_task_is_called_in_its_thread(app: App):
    threads: dict[str, int] = {}

    def connection() -> Iterator[int]:
        threads["opened"] = threading.get_ident()
        yield 1
        threads["closed"] = threading.get_ident()

    async def token() -> str:
        threads["token"] = threading.get_ident()
        return "token"

    def needed_on_the_loop() -> int:
        threads["needed"] = threading.get_ident()
        return 1

    async def needing(n: Annotated[int, Depends(needed_on_the_loop)]) -> int:
        return n

    @app.task
    def work(
        c: Annotated[int, Depends(connection)],
        t: Annotated[str, Depends(token)],
        n: Annotated[int, Depends(needing)],
    ) -> None:
        threads["work"] = threading.get_ident()

    await result(app, await work.enqueue())
    assert threads["opened"] == threads["closed"] == threads["work"] != threading.get_ident()
    assert threads["token"] == threads["needed"] == threading.get_ident()


async def test_middleware_stands_around_the_dependencies(app: App):
    @app.task
    async def work(client: Annotated[Client, Depends(opened_client)]) -> None:
        notes.append("work")

    @app.middleware
    async def around(job, call_next):
        notes.append("before")
        assert dict(job.args) == {}
        await call_next()
        notes.append("after")

    await result(app, await work.enqueue())
    assert notes == ["before", "opened", "work", "closed", "after"]


@pytest.mark.parametrize("per", ["attempt", "process"])
async def test_a_test_may_put_another_factory_in_the_place_of_one(app: App, per):
    async def session(client: Annotated[Client, Depends(make_client, per=per)]) -> Client:
        return client

    @app.task
    async def work(client: Annotated[Client, Depends(session)]) -> str:
        return client.name

    async with app.worker():

        async def name() -> str:
            return await (await work.enqueue()).result(timeout=20)

        assert await name() == "real"
        with app.override(make_client, lambda: Client("fake")):
            assert await name() == "fake"
            with app.override(make_client, opened_client):
                assert await name() == "opened"
            assert await name() == "fake"
        assert await name() == "real"


def wants(parameter: Any) -> Any:
    """A task function with one parameter, annotated so."""

    def work(given) -> None: ...

    work.__annotations__["given"] = parameter
    return work


def unfilled(what) -> None: ...


def of_one_attempt(job: JobContext) -> None: ...


def circular(again: Any) -> None: ...


circular.__annotations__["again"] = Annotated[Any, Depends(circular)]


@pytest.mark.parametrize(
    ("dependency", "message"),
    [
        (Depends(unfilled), "nothing fills its parameter 'what'"),
        (Depends(of_one_attempt, per="process"), "cannot depend on the JobContext"),
        (Depends(circular), "depends on itself: circular → circular"),
    ],
)
def test_what_cannot_be_made_is_refused_when_the_task_is_declared(dependency, message):
    with pytest.raises(ConfigError, match=message):
        App("memory://").task(wants(Annotated[Any, dependency]))


def test_one_per_process_cannot_depend_on_one_per_attempt():
    def pool(client: Annotated[Client, Depends(make_client)]) -> None: ...

    with pytest.raises(ConfigError, match="cannot depend on Depends"):
        App("memory://").task(wants(Annotated[Any, Depends(pool, per="process")]))


@pytest.mark.parametrize(
    ("given", "message"),
    [((42,), "a function that makes"), ((make_client, "job"), "'attempt' or 'process' is needed")],
)
def test_what_depends_on_nothing_is_refused(given, message):
    factory, *per = given
    with pytest.raises(ConfigError, match=message):
        Depends(factory, **({"per": per[0]} if per else {}))


def test_a_dependency_must_have_a_name_to_be_passed_by():
    def positional(client: Annotated[Client, Depends(make_client)], /) -> None: ...

    def in_front(client: Annotated[Client, Depends(make_client)], *rest: int) -> None: ...

    with pytest.raises(ConfigError, match="is passed by name"):
        App("memory://").task(positional)
    with pytest.raises(ConfigError, match=r"put client behind \*rest"):
        App("memory://").task(in_front)


async def test_a_dependency_behind_further_arguments_is_filled(app: App):
    @app.task
    async def work(*numbers: int, client: Annotated[Client, Depends(make_client)]) -> str:
        return f"{client.name} {sum(numbers)}"

    assert await result(app, await work.enqueue(1, 2, 3)) == "real 6"


async def test_a_periodic_task_may_have_dependencies(app: App, clock):
    @app.task(every=60)
    async def work(client: Annotated[Client, Depends(make_client)]) -> str:
        return client.name

    await app.run_until_idle()
    clock.advance(60)
    assert await app.run_until_idle() == 1
    (job,) = await app.jobs()
    assert job.state == "succeeded"


async def test_what_is_cancelled_while_it_is_made_is_closed(app: App):
    async def slow() -> AsyncIterator[None]:
        try:
            notes.append("making")
            await asyncio.sleep(3600)
            yield
        finally:
            notes.append("cleaned up")

    @app.task
    async def work(
        t: Annotated[None, Depends(slow)], p: Annotated[None, Depends(slow, per="process")]
    ) -> None: ...

    async with app.worker(grace=0):
        await work.enqueue()
        await until(lambda: notes == ["making"])
    assert notes == ["making", "cleaned up"]
