"""The demonstration for pipes and logs: a line a second, and every event."""

from __future__ import annotations

from headgate.cli.demo.scene import Scene
from headgate.cli.demo.workload import API_SLOTS, MAILS, TOTAL


class PlainReport:
    """Turns scenes into lines, leaving out what was said already."""

    def __init__(self) -> None:
        self._events = 0
        self._next = 1.0

    def of(self, scene: Scene) -> list[str]:
        """What is new in this scene."""
        new = scene.events[self._events :]
        self._events = len(scene.events)
        lines = [f"{event.at:5.1f} s  {event.text}" for event in new]
        if scene.seconds >= self._next:
            self._next = scene.seconds + 1.0
            lines.append(f"{scene.seconds:5.1f} s  {_numbers(scene)}")
        return lines


def _numbers(scene: Scene) -> str:
    counts = scene.counts
    workers = " ".join(f"{s.name}:{s.running if s.state == 'working' else s.state}" for s in scene.workers)
    return (
        f"done {scene.done:3}/{TOTAL}  running {counts.get('running', 0):2}  waiting {counts.get('waiting', 0):3}"
        f"  ready {counts.get('ready', 0):2}  later {counts.get('scheduled', 0):3}"
        f"  api {scene.api_held}/{API_SLOTS}  mail {min(scene.mails, MAILS):2}/{MAILS}  workers {workers}"
    )
