"""One request for a page: what every page may ask of it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from headgate.app.app import App
from headgate.app.info import JobInfo
from headgate.web.api.shown import for_reading
from headgate.web.pages.readings import Readings
from headgate.web.roles import Identity
from headgate.web.settings import WebSettings

ROWS = 50


class View:
    """One request for a page."""

    __slots__ = ("app", "readings", "request", "settings", "who")

    def __init__(
        self, app: App, who: Identity, request: Request, settings: WebSettings, readings: Readings
    ) -> None:
        self.app = app
        self.who = who
        self.request = request
        self.settings = settings
        self.readings = readings

    def asked(self, name: str) -> str:
        """What stands behind the question mark."""
        return self.request.query_params.get(name, "").strip()

    def asked_all(self, name: str) -> list[str]:
        """The same where a name may stand several times, or have commas in it."""
        given = self.request.query_params.getlist(name)
        return [part for one in given for part in one.split(",") if part]

    def shown(self, job: JobInfo) -> JobInfo:
        """A job as this reader may see it."""
        return for_reading(job, self.who, self.settings)


Context = dict[str, Any]
