"""A codec of the program's own: what it covers, what stays readable, and what is said where it is missing or wrong."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from headgate import (
    App,
    ConcurrencyLimit,
    ConfigError,
    JobFailed,
    PayloadContext,
    PayloadError,
    SealedPayload,
    current_job,
)
from headgate.engine.contract import Filter
from headgate.ids import new_id
from headgate.job import Job, NewJob
from headgate.testing import Clock, fake_job

MakeApp = Callable[..., App]
SECRET = "Ada Lovelace"


class Rot:
    """Readable to nobody who only looks for a text, and tied to what the payload belongs to."""

    def __init__(self, shift: int = 13) -> None:
        self.shift = shift
        self.seen: list[PayloadContext] = []

    def encode(self, data: bytes, context: PayloadContext) -> bytes:
        self.seen.append(context)
        return bytes((byte + self.shift) % 256 for byte in bytes(context) + b"\n" + data)

    def decode(self, data: bytes, context: PayloadContext) -> bytes:
        bound, _, rest = bytes((byte - self.shift) % 256 for byte in data).partition(b"\n")
        if bound != bytes(context):
            raise ValueError("bound to another payload")
        return rest


class Strict(Rot):
    """Nothing but what it has sealed."""

    accept_plain = False


class Zip:
    """Without a context: compression."""

    encode = staticmethod(zlib.compress)
    decode = staticmethod(zlib.decompress)


@pytest.fixture
def make_app(store_url: str, clock: Clock) -> Iterator[MakeApp]:
    """Apps on one store, with different codecs."""
    made: list[App] = []
    url = f"memory://{new_id()}" if store_url == "memory://" else store_url

    def make(codec: Any = None, **options: Any) -> App:
        app = App(url, clock=clock, codec=codec, **options)
        made.append(app)

        @app.task
        async def diagnose(
            patient: str, ward: Annotated[str, ConcurrencyLimit(1, scope="ward")] = "east"
        ) -> str:
            job = current_job()
            job.progress({"looking at": patient})
            return f"{patient} is well, says attempt {job.attempt}"

        return app

    yield make
    for app in made:
        assert app.audit_sync().ok
        app.close_sync()


async def stored(app: App, id: str) -> Job:
    """A job as the store has it."""
    engine = await app._client.engine()
    (job,) = await engine.get([id])
    assert job is not None
    return job


async def test_arguments_result_and_progress_are_sealed_and_all_else_stays_readable(make_app: MakeApp):
    app = make_app(Rot())
    task = app.tasks["diagnose"]
    job = await task.options(metadata={"for": "billing"}, unique="u").enqueue(SECRET)
    await app.run_until_idle()
    assert await job.result() == f"{SECRET} is well, says attempt 1"
    assert await job.progress() == {"looking at": SECRET}
    assert [update.progress async for update in job.stream()] == [{"looking at": SECRET}]
    info = await job.info()
    assert (info.args, info.result) == ({"patient": SECRET}, f"{SECRET} is well, says attempt 1")
    raw = await stored(app, job.id)
    for text in (raw.args, raw.result, raw.progress):
        assert text is not None
        assert SECRET not in text
        assert list(json.loads(text)) == ["$sealed"]
    assert (raw.task, raw.unique, raw.metadata) == ("diagnose", "u", '{"for":"billing"}')
    assert [use.key for use in raw.uses] == ["c0:ward=east"]


async def test_a_reader_without_the_codec_sees_that_payloads_are_sealed(make_app: MakeApp):
    app, onlooker = make_app(Zip()), make_app()
    job = await app.tasks["diagnose"].enqueue(SECRET)
    (info,) = await onlooker.jobs()
    assert isinstance(info.args, SealedPayload)
    assert str(info.args) == f"sealed, {info.args.size} bytes"
    assert info.error is None
    await app.run_until_idle()
    with pytest.raises(PayloadError, match=r"it is sealed, and this app has no codec; give App\(codec=…\)"):
        await onlooker.handle(job.id).result()
    with pytest.raises(PayloadError, match="progress of job"):
        await onlooker.handle(job.id).progress()


async def test_a_worker_without_the_codec_fails_the_job_and_names_the_remedy(make_app: MakeApp):
    app, worker = make_app(Zip()), make_app()
    job = await app.tasks["diagnose"].enqueue(SECRET)
    await worker.run_until_idle()
    with pytest.raises(JobFailed, match=r"this app has no codec; give App\(codec=…\) the one that sealed it"):
        await job.result()
    await job.restart()
    await app.run_until_idle()
    assert await job.result() == f"{SECRET} is well, says attempt 2"


async def test_payloads_from_before_the_codec_stay_readable_unless_they_are_refused(make_app: MakeApp):
    job = await make_app().tasks["diagnose"].enqueue(SECRET)
    refusing = make_app(Strict())
    info = await refusing.handle(job.id).info()
    assert (info.args, info.error) == (
        None,
        f"args of job {job.id!r} (diagnose): stored without a codec, which accept_plain=False refuses",
    )
    app = make_app(Rot())
    await app.run_until_idle()
    assert await app.handle(job.id).result() == f"{SECRET} is well, says attempt 1"


async def test_a_payload_is_bound_to_its_job(make_app: MakeApp):
    codec = Rot()
    app = make_app(codec)
    task = app.tasks["diagnose"]
    for id in ("one", "two"):
        await task.options(id=id, tenant="acme").enqueue(id)
    assert codec.seen[0] == PayloadContext("args", "diagnose", "one", "acme")
    one = await stored(app, "one")
    swapped = NewJob(id="three", task="diagnose", args=one.args, tenant="acme", uses=one.uses)
    await (await app._client.engine()).enqueue([swapped])
    await app.run_until_idle()
    assert await app.handle("one").status() == "succeeded"
    assert (await app.handle("three").info()).state == "failed"


async def test_every_way_to_enqueue_seals(make_app: MakeApp):
    app = make_app(Rot())
    task = app.tasks["diagnose"]
    await task.options(priority=1).enqueue(SECRET)
    await app.enqueue(task.job(SECRET))
    await app.enqueue_many([task.job(SECRET), task.job(SECRET)])
    task.enqueue_sync(SECRET)
    (imported,) = await app.import_jobs([{"id": "i", "task": "diagnose", "args": {"patient": SECRET}}])
    assert imported.refused is None
    engine = await app._client.engine()
    texts = [job.args for job in await engine.find(Filter())]
    assert len(texts) == 6
    assert not [text for text in texts if SECRET in text]


async def test_jobs_of_periodic_tasks_are_sealed_for_the_id_that_they_get(make_app: MakeApp, clock: Clock):
    app = make_app(Rot())
    seen: list[str] = []

    @app.task(every=60)
    async def nightly(secret: str = SECRET) -> None:
        seen.append(secret)

    await app.run_until_idle()
    clock.advance(60)
    await app.run_until_idle()
    (job,) = await app.jobs(task="nightly")
    assert job.state == "succeeded"
    assert (await stored(app, job.id)).args.startswith('{"$sealed":')


async def test_an_attempt_reads_the_progress_of_the_one_before(make_app: MakeApp):
    app = make_app(Rot())
    found: list[Any] = []

    @app.task
    async def walk() -> None:
        found.append(current_job().previous_progress)
        current_job().progress(len(found))
        if len(found) == 1:
            raise RuntimeError

    job = await walk.enqueue()
    await app.run_until_idle()
    await job.restart()
    await app.run_until_idle()
    assert found == [None, 1]


async def test_the_payload_limit_counts_what_is_stored(make_app: MakeApp):
    app = make_app(Zip(), payload_limit=200)
    task = app.tasks["diagnose"]
    await task.enqueue("a" * 10_000)
    import random

    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=180))
    with pytest.raises(PayloadError, match="as it is stored, more than the payload limit of 200"):
        await task.enqueue(noise)
    assert await app.count() == 1


async def test_a_result_that_cannot_be_sealed_fails_its_job(make_app: MakeApp, caplog: Any):
    class Broken(Zip):
        @staticmethod
        def encode(data: bytes) -> bytes:
            if b"is well" in data:
                raise OSError("the key server is away")
            return zlib.compress(data)

    app = make_app(Broken())
    job = await app.tasks["diagnose"].enqueue(SECRET)
    with caplog.at_level(logging.CRITICAL):
        await app.run_until_idle()
    with pytest.raises(JobFailed, match="could not encode it: OSError: the key server is away"):
        await job.result()


async def test_a_plain_result_that_looks_sealed_is_refused(make_app: MakeApp):
    app = make_app()

    @app.task
    async def trick() -> dict[str, str]:
        return {"$sealed": "1.AAAA"}

    job = await trick.enqueue()
    await app.run_until_idle()
    with pytest.raises(JobFailed, match=r"the name '\$sealed' is reserved"):
        await job.result()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"$sealed":"9.AAAA"}', "sealed in version '9', and this Headgate reads version 1"),
        ('{"$sealed":"1.A?"}', "damaged"),
        ('{"$sealed":1}', "sealed in version ''"),
        ('{"$sealed":"1.AAAA"}', "could not decode it"),
    ],
)
async def test_a_damaged_payload_says_so(make_app: MakeApp, text: str, message: str):
    app = make_app(Rot())
    await (await app._client.engine()).enqueue([NewJob(id="j", task="diagnose", args=text)])
    info = await app.handle("j").info()
    assert isinstance(info.args, SealedPayload)
    assert message in (info.error or "")
    await app.run_until_idle()
    with pytest.raises(JobFailed, match=message):
        await app.handle("j").result()


class Half:
    def encode(self, data: bytes) -> bytes:
        return data


class Awaited(Half):
    async def decode(self, data: bytes) -> bytes:
        return data


class NoBytes(Half):
    def encode(self, data: bytes) -> Any:
        return "text"

    def decode(self, data: bytes) -> bytes:
        return data


@pytest.mark.parametrize(
    ("codec", "message"),
    [
        (Half(), r"has no method decode\(\); a codec is an object with encode\(bytes\) and decode\(bytes\)"),
        (42, r"codec=42 has no method encode\(\)"),
        (Awaited(), r"decode\(\) is async"),
    ],
)
def test_what_is_no_codec_is_refused(codec: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        App("memory://", codec=codec)


async def test_a_codec_that_makes_no_bytes_is_refused_at_enqueue(make_app: MakeApp):
    app = make_app(NoBytes())
    with pytest.raises(PayloadError, match="the app's codec returned str, not bytes"):
        await app.tasks["diagnose"].enqueue(SECRET)


def test_a_fake_job_needs_no_codec():
    with fake_job(previous_progress=[1]) as fake:
        current_job().progress(current_job().previous_progress)
    assert fake.progress == [[1]]
