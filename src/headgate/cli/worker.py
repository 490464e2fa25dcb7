"""Working: `worker`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.exits import DONE
from headgate.cli.options import AppDir, Factory, Target
from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.worker.process.config import ProcessConfig

ONE_PROCESS = "headgate.metrics.worker_processes:OneProcess"


def worker(
    target: Target,
    queues: Annotated[
        list[str] | None,
        typer.Option(
            "--queues",
            "-q",
            metavar="NAMES",
            help="Queues in strict order (a,b) or with weights (a=3,b=1); without it, all by priority.",
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", help="Jobs at once, per process.")] = 100,
    processes: Annotated[int, typer.Option("--processes", "-p", min=1, help="Worker processes.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option("--threads", help="Threads for tasks that are not async.", show_default="concurrency"),
    ] = None,
    pool_processes: Annotated[
        int | None,
        typer.Option(
            "--pool-processes",
            help="Processes, per worker process, for tasks with run_in='process'.",
            show_default="processors",
        ),
    ] = None,
    max_jobs: Annotated[
        int | None,
        typer.Option("--max-jobs", help="After so many jobs, a fresh process takes the place of a worker's."),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(
            "--max-memory", metavar="SIZE", help="The same once it takes more memory, such as 512MB."
        ),
    ] = None,
    lease: Annotated[
        str, typer.Option("--lease", metavar="TIME", help="A worker silent so long is lost.")
    ] = "15s",
    grace: Annotated[
        str, typer.Option("--grace", metavar="TIME", help="At SIGTERM, wait so long for running jobs.")
    ] = "30s",
    name: Annotated[
        str | None, typer.Option("--name", help="The worker's name.", show_default="host-pid")
    ] = None,
    health: Annotated[
        str | None,
        typer.Option("--health", metavar="[HOST:]PORT", help="Answer /live and /ready over HTTP."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="[HOST:]PORT", help="Answer /metrics for Prometheus."),
    ] = None,
    reload: Annotated[bool, typer.Option("--reload", help="Start anew when source files change.")] = False,
    factory: Factory = False,
    app_dir: AppDir = ".",
    log_level: Annotated[
        str, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
    ] = "info",
    log_json: Annotated[bool, typer.Option("--log-json", help="One JSON object a log line.")] = False,
    log_config: Annotated[
        str,
        typer.Option("--log-config", metavar="WHICH", help="auto, or none: logging is the app's business."),
    ] = "auto",
) -> None:
    """Run jobs until SIGTERM or Ctrl-C. The first one lets running jobs finish; the second gives them back.

    headgate worker myproject.jobs:app
    headgate worker myproject.jobs:app --queues email,default --concurrency 50
    headgate worker myproject.jobs:app --queues email=3,default=1 --processes 4
    headgate worker myproject.jobs:app --reload --log-level debug

    With --processes a supervisor starts again whatever dies. uvloop is used
    where it is installed. The store is the app's own; an app made by App()
    takes it from HEADGATE_URL.

    Exits with 3 if a worker process of several could not start, and with 4
    if the app's lifespan failed.
    """
    from headgate.cli.address import address
    from headgate.cli.sizes import size
    from headgate.cli.times import duration
    from headgate.worker.process.config import ProcessConfig

    config = ProcessConfig(
        target=target,
        factory=factory,
        app_dir=app_dir,
        processes=processes,
        reload=reload,
        health=None if health is None else address(health, "--health"),
        metrics=None if metrics is None else address(metrics, "--metrics"),
        numbers="" if metrics is None else ONE_PROCESS,
        queues=_queues(queues),
        concurrency=concurrency,
        threads=threads,
        pool_processes=pool_processes,
        max_jobs=max_jobs,
        max_memory=None if max_memory is None else size(max_memory, "--max-memory"),
        lease=duration(lease, "--lease"),
        grace=duration(grace, "--grace"),
        name=name,
        log_level=log_level,
        log_json=log_json,
        log_config=log_config,
    )
    _check(config)
    code = _supervise(config) if processes > 1 or reload or config.wears_out else _work(config)
    if code != DONE:
        raise typer.Exit(code)


def _queues(given: list[str] | None) -> list[str] | dict[str, float] | None:
    names = [name.strip() for text in given or () for name in text.split(",")]
    if not names:
        return None
    pairs = [name.rpartition("=") for name in names]
    if not any(equals for _, equals, _ in pairs):
        return names
    if not all(equals for _, equals, _ in pairs):
        raise ConfigError(f"--queues {','.join(names)}: give all of them a weight, or none")
    return {name: _weight(name, text) for name, _, text in pairs}


def _weight(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"--queues {name}={text}: a weight is a number above 0") from None


def _check(config: ProcessConfig) -> None:
    """Refuse a wrong option before any process is started."""
    from headgate.worker.options import options
    from headgate.worker.process.logs import check_logs

    options(**config.options())
    check_logs(config.log_level, config.log_config)
    if config.metrics is not None:
        from headgate.metrics import check_installed

        check_installed()


def _work(config: ProcessConfig) -> int:
    """In this process. The app is loaded first, so that what is wrong with its name is a usage error."""
    from headgate.worker.process.child import work
    from headgate.worker.process.load_app import load_app
    from headgate.worker.process.retire_at_exit import RetireAtExit

    retirement = RetireAtExit()
    app = load_app(config.target, factory=config.factory, app_dir=config.app_dir)
    code = work(config, app)
    retirement.stopped = code == DONE
    return code


def _supervise(config: ProcessConfig) -> int:
    from headgate.worker.process.logs import configure_logs
    from headgate.worker.process.supervisor import supervise

    configure_logs(
        config.log_level, json=config.log_json
    )  # no app is loaded here, so it cannot have set handlers
    if config.metrics is None:
        return supervise(config)
    from headgate.metrics.worker_processes import AllProcesses

    return supervise(config, AllProcesses())
