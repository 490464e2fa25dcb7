"""The seam between an app and its work, and the metrics that stand on it. The same on every store."""

from __future__ import annotations

from tests.mutants.mutant import Herd, Mutant

LISTENERS, DELIVERY, ENQUEUED, MIDDLEWARE, LIFESPAN, FILLING, ENQUEUEING, JOB_LOGS, SEALING, JOB_EVENTS, RUNNER, WORKER_RUN, SURROUNDINGS, WORKER, COUNTING, READING, PROCESSES, SPANS, LOGS = (
    f"{name}.py"
    for name in (
        "hooks/listeners", "hooks/delivery", "hooks/enqueued", "hooks/middleware", "hooks/lifespan", "hooks/filling", "hooks/enqueueing", "hooks/logs", "sealing",
        "worker/job_events", "worker/run/runner", "worker/run/worker_run", "worker/run/surroundings", "worker/worker", "metrics/counting", "metrics/reading",
        "metrics/worker_processes", "telemetry/attempt_spans", "worker/process/logs",
    )
)  # fmt: skip

MUTANTS = [
    # listeners
    Mutant(LISTENERS, "    except HARMLESS as error:\n        report(listener, event, error)\n        return None\n", "    except ZeroDivisionError as error:\n        report(listener, event, error)\n        return None\n", "a listener that raises ends what tells it"),
    Mutant(LISTENERS, "            raise\n        report(listener, event, error)\n", "            raise\n        raise\n", "an asynchronous listener that raises is not forgiven"),
    Mutant(DELIVERY, "        if len(self._waiting) >= LONGEST_LINE:\n            self._drop(answer)\n            return\n", "", "the line of a slow listener grows without end"),
    Mutant(DELIVERY, "                await finish(self.listener, event, answer)", "                asyncio.ensure_future(finish(self.listener, event, answer))", "an asynchronous listener is told of the next event before it has done with this one"),
    Mutant(ENQUEUED, "            if one.created:\n", "            if True:\n", "a job that was there already is told as enqueued"),
    # events
    Mutant(JOB_EVENTS, "            self._unconfirmed[attempt.job, attempt.number] = _event(", "            self._unconfirmed[attempt.job, attempt.number + 1] = _event(", "the end of an attempt is not told when the store knows of it"),
    Mutant(JOB_EVENTS, "                    lost = known in refused\n", "                    lost = False\n", "an outcome that the store refused is told as if it counted"),
    Mutant(JOB_EVENTS, "            self._delivery.tell(msgspec.structs.replace(event, confirmed=False))", "            self._delivery.tell(event)", "an end in doubt is told as certain"),
    Mutant(JOB_EVENTS, "    due = attempt.due or attempt.enqueued_at\n", "    due = attempt.enqueued_at\n", "the waiting time counts the time before a job was due"),
    Mutant(RUNNER, "            self._events.jobs.ended(attempt, self.worker, outcome, error, seconds)\n        self._tally.ended(", "            self._events.jobs.ended(attempt, self.worker, outcome, error, seconds)\n            self._events.jobs.in_doubt()\n        self._tally.ended(", "the end of an attempt is told before the store has acknowledged it"),
    # lifespan and middleware
    Mutant(WORKER_RUN, "            async with self._surroundings.entered():\n                self._entering = None\n                await self._work()\n", "            self._entering = None\n            work = asyncio.ensure_future(self._work())\n            async with self._surroundings.entered():\n                await work\n", "jobs are claimed before the lifespan is entered"),
    Mutant(LIFESPAN, "        await _leave(function, manager, error)\n        raise\n", "        raise\n", "the lifespan is not left when the work ends with an error"),
    Mutant(MIDDLEWARE, "    for each in reversed(middleware):", "    for each in middleware:", "middleware nests the wrong way round"),
    Mutant(SURROUNDINGS, "        if run.in_thread:\n            raise HeadgateError", "        if False:\n            raise HeadgateError", "a synchronous task runs twice at once"),
    Mutant(SURROUNDINGS, "loop, context = asyncio.get_running_loop(), contextvars.copy_context()", "loop, context = asyncio.get_running_loop(), contextvars.Context()", "what middleware sets is not seen in a thread"),
    Mutant(SURROUNDINGS, "        return attempt.queue != INTERNAL_QUEUE", "        return True", "middleware stands around jobs of Headgate's own"),
    Mutant(SURROUNDINGS, "                self._tell(\"worker_started\")\n", "", "the start of a worker is not told"),
    # dependencies
    Mutant(FILLING, "            await stack.__aexit__(type(error), error, error.__traceback__)\n            raise\n", "            await stack.aclose()\n            raise\n", "a factory does not see that the task failed"),
    Mutant(FILLING, "        for keeper in reversed(list(self._kept.values())):", "        for keeper in list(self._kept.values()):", "what is kept is closed in the order of its making"),
    Mutant(FILLING, "        if keeper is None or keeper.failed:", "        if keeper is None:", "a factory that has failed is not tried again"),
    Mutant(FILLING, "        return await asyncio.shield(keeper.made)", "        return await keeper.made", "an attempt that gives up ends the making of what others need"),
    Mutant(FILLING, "                if place not in self._plan.on_loop:\n", "                if True:\n", "what was made on the loop is made again in the thread"),
    # before the store
    Mutant(ENQUEUEING, "        headers.setdefault(name, value)", "        headers[name] = value", "middleware overwrites the headers of a job"),
    Mutant(ENQUEUEING, "        for each in reversed(self.around):", "        for each in self.around:", "what stands around an enqueue nests the wrong way round"),
    Mutant(ENQUEUEING, "        return [self.sealed(await self._with_headers(job)) for job in jobs]", "        return [await self._with_headers(job) for job in jobs]", "arguments are stored unsealed"),
    Mutant(SEALING, "            if self.active and not self._accept_plain and not task.startswith(OWN_TASKS):", "            if False:", "a codec that refuses plain payloads takes them"),
    Mutant(SEALING, "        context = PayloadContext(kind, task, job, tenant or None)\n        data = _sealed_bytes", "        context = PayloadContext(kind, task, \"\", tenant or None)\n        data = _sealed_bytes", "a payload is opened as that of another job"),
    # logs and traces
    Mutant(JOB_LOGS, "            if name not in record.__dict__:\n", "            if True:\n", "a record's own word about its job is overwritten"),
    Mutant(SPANS, "        if one.ended_ns is None or one.event is None:\n            return\n", "        if one.ended_ns is None:\n            return\n", "a span ends before the store knows of the attempt's end"),
    Mutant(SPANS, "                [Link(origin)] if origin.is_valid else None,\n", "                None,\n", "the span of an attempt has no link to its enqueue"),
    # metrics
    Mutant(WORKER, "        self._events = Events(self._hooks.worker_listeners)", "        self._events = Events()", "listeners to workers hear nothing"),
    Mutant(COUNTING, "        self._running(-1)\n", "", "what has ended counts as running"),
    Mutant(COUNTING, "            take(count)\n", "            take(1)\n", "many refusals of one limit count as one"),
    Mutant(READING, "            if self._last is not None and time.monotonic() - self._last.at < self._every:\n                return\n", "", "each scrape asks the store"),
    Mutant(READING, "        after = page[-1].name, page[-1].name + BEHIND_ALL_KEYS, \"\"", "        after = page[-1].name, page[-1].key, page[-1].tenant or \"\"", "all keys of a limit are read on the way to the next"),
    Mutant(READING, "        except RuntimeError:\n            self._wait(under_way)", "        except RuntimeError:\n            pass\n        self._wait(under_way)", "a scrape blocks an event loop"),
    Mutant(PROCESSES, "                    _add(_counts(file), self._of_dead(kind))\n", "                    pass\n", "the counts of a dead process are lost"),
    Mutant(PROCESSES, "                file.unlink()\n", "", "gauges of dead processes are shown on"),
    Mutant(LOGS, "            logger.disabled = False\n", "            pass\n", "an app's configuration of logging silences the worker"),
    Mutant(LOGS, "    if not root.handlers:\n", "    root.handlers.clear()\n    if not root.handlers:\n", "handlers that the app has set are removed"),
]  # fmt: skip

HERD = Herd(
    MUTANTS,
    [
        [
            "tests/hooks",
            "tests/metrics",
            "tests/worker/test_job_events.py",
            "-k",
            "not postgres and not valkey and not redis7",
        ],
        [
            "tests/telemetry",
            "tests/app/test_codec.py",
            "tests/cli/test_worker_hooks.py",
            "tests/processes/test_metrics_endpoint.py",
        ],
        ["tests/worker", "tests/app", "-k", "not postgres and not valkey and not redis7", "-m", "not slow"],
    ],
)
