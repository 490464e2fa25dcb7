"""Figures in words, for the table and the progress lines."""

from bench.figures import Figures

FEW = 0.1


def _times(ratio: float) -> str:
    """Two decimals, or what counts of a very small one."""
    return f"{ratio:.2f}×" if ratio >= FEW else f"{ratio:.1g}×"


def _per_second(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"


def rate(figures: Figures) -> str:
    """Jobs per second."""
    return _per_second(figures["rate"])


def times_ideal(figures: Figures) -> str:
    """How often the ideal time was needed, and how many of one key really ran at once."""
    return f"{figures['times_ideal']:.2f}× ideal, overlap {figures['overlap']:g}"


def times_ideal_by_many(figures: Figures) -> str:
    """The same, and how many of the processes took part."""
    return f"{times_ideal(figures)}, {figures['worked']:g} at work"


def ratio(figures: Figures) -> str:
    """A speed beside the plain one of the same run."""
    speeds = f"{_per_second(figures['rate'])} of {_per_second(figures['plain_rate'])}"
    return f"{_times(figures['ratio'])} ({speeds})"


def ratio_at_first(figures: Figures) -> str:
    """The same, and how it was directly behind the enqueue."""
    return f"{ratio(figures)}, at first {_times(figures['first'])}"


def ratio_and_enqueue(figures: Figures) -> str:
    """The same, and how it was to enqueue them."""
    return f"{ratio(figures)}, enqueued at {_times(figures['enqueue_ratio'])}"


def last_start(figures: Figures) -> str:
    """Which start was a newcomer's last one."""
    return f"start {figures['ready']:g} of the queue, {figures['key']:g} on one key"


def shares_got(figures: Figures) -> str:
    """Starts of the heavier share for each of the other."""
    return f"{figures['ready']:.2f} : 1 of the queue, {figures['key']:.2f} : 1 on one key"


def latency(figures: Figures) -> str:
    """Median and tail in milliseconds."""
    return f"p50 {figures['p50']:.1f} ms, p99 {figures['p99']:.1f} ms"


def import_times(figures: Figures) -> str:
    """How long the package takes to import, and the package with its main class."""
    return f"{figures['milliseconds']:.0f} ms ({figures['with_app']:.0f} ms with App)"


def idle(figures: Figures) -> str:
    """What a worker without work costs."""
    return f"{figures['rss']:.0f} MB, {figures['cpu']:.2f} % of a core"


def traffic(figures: Figures) -> str:
    """Round trips, and whatever else the server has counted."""
    return f"{figures['round_trips']:.3f} round trips per job; {figures['details']}"


def long_drain(figures: Figures) -> str:
    """How much slower it becomes, how fast it is, and what it leaves."""
    return (
        f"{_times(figures['ratio'])} ({_per_second(figures['rate'])}, enqueued at "
        f"{_per_second(figures['enqueue_rate'])}); {figures['sizes']}"
    )


def growth(figures: Figures) -> str:
    """How much dearer the dearest verb becomes, and the longest step of all."""
    script = f", longest script {figures['script']:.1f} ms" if figures["script"] else ""
    return (
        f"{_times(figures['ratio'])} ({figures['worst']}); longest step {figures['longest']:.0f} ms "
        f"({figures['slowest']}){script}"
    )


def day(figures: Figures) -> str:
    """What a store keeps after many new keys."""
    return f"{figures['after']:,} records after {figures['jobs']:,} jobs, {figures['before']:,} at the start"


def reads(figures: Figures) -> str:
    """The slowest question, and what a drain loses."""
    return (
        f"slowest {figures['most']:.0f} ms ({figures['slowest']}); drain {ratio(figures)}, the server at "
        f"{figures['cpu']:.0f} % of a core"
    )
