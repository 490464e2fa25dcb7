"""What is measured: Headgate, and its peers at pinned versions."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class System:
    """A job queue and the module that runs the workloads on it.

    `environment` names the virtual environment its pins are installed in; Headgate runs in the one that is active.
    `decides` is False for a peer that is shown for comparison but is no part of "the best peer".
    """

    name: str
    module: str
    environment: str | None = None
    pins: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    decides: bool = True


HUEY_PINS = ("huey==3.5.4",)
FLEXIQ_PINS = ("flexiq==2.1.0", "cbor2==6.2.1", "cloudpickle==3.1.2", "msgpack==1.2.4")

SYSTEMS = {
    system.name: system
    for system in (
        System("headgate", "bench.runners.headgate"),
        System("flexiq", "bench.runners.flexiq_sqlite", "flexiq", FLEXIQ_PINS),
        System("huey", "bench.runners.huey_sqlite", "huey", HUEY_PINS),
        # Huey syncs the file at every commit unless told otherwise, and offers nothing between that and no syncing at
        # all. The second entry patches in the level that Headgate and FlexiQ have by default, so that all is in view.
        System(
            "huey-normal",
            "bench.runners.huey_sqlite",
            "huey",
            HUEY_PINS,
            {"synchronous": "normal"},
            decides=False,
        ),
    )
}
