"""How every page looks: accessible, in light and dark, as narrow as a telephone, and still while it renews itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from importlib.resources import files

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from headgate import App
from tests.web.browser.served import Served, served
from tests.web.browser.shop import ACCOUNT, LONG, TRIED, Shop

pytestmark = pytest.mark.asyncio(loop_scope="session")

PATHS = (
    "/", "/limits", "/key?key=crm", f"/key?key=crm={ACCOUNT}", "/key?key=tokens=openai", "/jobs", "/jobs?state=failed",
    "/failed", "/queues", "/schedules", "/workers", "/sql", "/jobs/report-2026-11", f"/jobs/{TRIED}",
    "jobs in scheduled", "jobs in succeeded", "jobs in failed", f"jobs in waiting&task={LONG}",
)  # fmt: skip
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
SERIOUS = """async (rules) => (await axe.run({
        resultTypes: ["violations"],
        runOnly: rules.length ? rules : ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    })).violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => id + ": " + nodes.map((node) => node.html + " " + node.failureSummary).join(" | "))"""
NARROWER = (400, 1000)


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def shop() -> AsyncGenerator[Served]:
    """A shop with everything in it, which the tests only look at."""
    shop = Shop()
    await shop.live()
    async with served(shop.app, concurrency=60) as server:
        yield server
        shop.release.set()


async def open_page(page: Page, path: str) -> None:
    """Open a page; `jobs in STATE` is the page of the first job in that state."""
    if path.startswith("jobs in "):
        await page.goto(f"/jobs?state={path.removeprefix('jobs in ')}")
        path = str(await page.locator("#jobs tbody a").first.get_attribute("href"))
    await page.goto(path)


@pytest.mark.parametrize("path", PATHS)
async def test_a_page_is_accessible_in_light_and_dark_and_no_wider_than_its_window(shop, visiting, path: str):
    page = await visiting(shop.url, bypass_csp=True, reduced_motion="reduce")
    await open_page(page, path)
    await page.evaluate(AXE)
    wrong: list[str] = await page.evaluate(SERIOUS, [])
    await page.emulate_media(color_scheme="dark")
    wrong += await page.evaluate(SERIOUS, ["color-contrast"])
    assert [*wrong, *await too_wide(page)] == []


async def too_wide(page: Page) -> list[str]:
    """In which windows there is something to the right of the window."""
    found: list[str] = []
    for width in NARROWER:
        await page.set_viewport_size({"width": width, "height": 800})
        if (wide := await page.evaluate("document.documentElement.scrollWidth")) > width:
            found.append(f"{wide} pixels wide in a window of {width}")
    await page.set_viewport_size({"width": 1280, "height": 860})
    return found


async def test_dialogs_are_accessible(shop: Served, visiting):
    page = await visiting(shop.url, bypass_csp=True, reduced_motion="reduce")
    await page.goto(f"/key?key=crm={ACCOUNT}")
    await page.evaluate(AXE)
    for open_it in ("?", None):
        if open_it:
            await page.keyboard.press(open_it)
        else:
            await page.get_by_role("button", name="Change the number").click()
        assert await page.evaluate(SERIOUS, []) == []
        await page.keyboard.press("Escape")


async def test_a_page_works_under_its_own_policy(shop: Served, visiting):
    page = await visiting(shop.url)
    await page.goto("/")
    await expect(page.locator(".chart canvas")).to_have_count(2)
    await page.goto("/sql")
    await page.get_by_role("button", name="Jobs by task and state").click()
    await expect(page.locator("#answer tbody tr").first).to_be_visible()


async def test_a_renewal_keeps_what_the_reader_is_at(shop: Served, visiting):
    page = await visiting(shop.url)
    await page.goto("/jobs?state=failed")
    await page.goto(str(await page.locator("#jobs tbody a").first.get_attribute("href")))
    await page.locator("#last-error summary").click()
    await page.evaluate("document.querySelector('#last-error').mark = 1; renew()")
    await expect(page.locator("#last-error pre")).to_be_visible()
    await page.goto("/")
    await page.get_by_role("button", name="Pause the queue crm").focus()
    await page.locator(".chart canvas").first.evaluate("one => { one.mark = 1 }")
    async with page.expect_response(lambda answer: answer.url == shop.url + "/"):
        await page.evaluate("renew()")
    await asyncio.sleep(0.2)
    await expect(page.locator(":focus")).to_have_attribute("aria-label", "Pause the queue crm")
    assert await page.locator(".chart canvas").first.evaluate("one => one.mark") == 1


async def test_nothing_jumps_while_the_numbers_change(serving, visiting):
    shop = Shop(minutes=3)
    await shop.live()
    page = await visiting((await serving(shop.app, concurrency=60)).url)
    await page.goto("/")
    await expect(page.locator(".chart canvas")).to_have_count(2)
    await page.evaluate(
        """() => { window.jumps = 0; new PerformanceObserver((list) => {
            for (const one of list.getEntries()) window.jumps += one.value }).observe({ type: "layout-shift" }) }"""
    )
    waiting = page.locator("#tile-waiting b")
    for n in range(3):
        before = await waiting.inner_text()
        await shop.app.enqueue_many(
            [shop.app.tasks["sync"].job(1000 * n + m, account=ACCOUNT) for m in range(400)]
        )
        await expect(waiting).not_to_have_text(before)
    assert await page.evaluate("window.jumps") < 0.01
    shop.release.set()


async def test_times_are_those_of_the_viewer_and_the_stores_is_told_on_hover(serving, visiting):
    app = App("memory://")

    @app.task
    def greet() -> None: ...

    await greet.options(at=datetime(2031, 6, 1, 12, tzinfo=UTC), id="greeting").enqueue()
    page = await visiting((await serving(app)).url, timezone_id="Asia/Tokyo", locale="en-GB")
    await page.goto("/jobs/greeting")
    due = page.locator("dl.facts time").first
    await expect(due).to_have_text("1 Jun 2031, 21:00:00")
    await expect(due).to_have_attribute("title", "2031-06-01 12:00:00+00:00 (the store's clock)")


async def test_an_empty_store_says_what_to_do_next(serving, visiting):
    page = await visiting((await serving(App("memory://"))).url)
    for path, words in {
        "/": "headgate worker", "/limits": "max_concurrent", "/jobs": "headgate enqueue",
        "/failed": "Nothing has failed", "/queues": "headgate enqueue",
        "/schedules": "@app.task(cron", "/workers": "headgate worker",
    }.items():  # fmt: skip
        await page.goto(path)
        await expect(page.locator("#part")).to_contain_text(words)
