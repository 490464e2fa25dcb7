"""A real browser, one for all tests of a process, on one event loop with the servers that it visits."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright

from headgate import App
from tests.web.browser.chromium import NoChromium, find
from tests.web.browser.served import Served, served

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--headless=new", "--disable-dev-shm-usage"]
PATIENCE = 30_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow(3))


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def chromium() -> AsyncGenerator[Browser]:
    try:
        found = find()
    except NoChromium as error:
        pytest.skip(f"NO BROWSER, SO NOTHING OF THE DASHBOARD'S PAGES WAS TESTED IN ONE: {error}")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found.path, args=ARGUMENTS, env={**os.environ, **found.environment}
        )
        yield browser
        await browser.close()


class Visit:
    """A browser's window on one site, and everything in it that a good page does not do."""

    def __init__(self, context: BrowserContext, page: Page, *, refused: bool) -> None:
        self.context = context
        self.page = page
        self.wrong: list[str] = []
        self.hosts: set[str] = set()
        if not refused:  # the browser logs each request that is refused
            page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(message.text)


@pytest_asyncio.fixture(loop_scope="session")
async def serving() -> AsyncGenerator[Any]:
    """Serves apps until the windows on them are closed: `await serving(app, auth=TOKENS)`."""
    async with AsyncExitStack() as stack:

        async def serve(app: App, **options: Any) -> Served:
            return await stack.enter_async_context(served(app, **options))

        yield serve


@pytest_asyncio.fixture(loop_scope="session")
async def visiting(chromium: Browser, serving: Any) -> AsyncGenerator[Any]:
    """Opens windows: `await visiting(url, color_scheme="dark")`. None may log an error or ask another host."""
    visits: list[tuple[Visit, str]] = []

    async def visit(url: str, *, refused: bool = False, **options: Any) -> Page:
        options.setdefault("viewport", {"width": 1280, "height": 860})
        context = await chromium.new_context(base_url=url, **options)
        context.set_default_timeout(PATIENCE)
        made = Visit(context, await context.new_page(), refused=refused)
        visits.append((made, url))
        return made.page

    yield visit
    for made, _ in visits:
        await made.context.close()
    assert [made.wrong for made, _ in visits if made.wrong] == []
    assert all(made.hosts <= {url.split("/")[2]} for made, url in visits)
