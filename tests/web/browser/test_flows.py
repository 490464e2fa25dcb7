"""What operators do on the page, in a real browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from headgate import App, ConcurrencyLimit, Retry, current_job
from headgate.web import Tokens
from tests.web.browser.served import Served, served

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "0123456789abcdef-{}"
TOKENS = Tokens(
    [f"{role}-person:{role}:{SECRET.format(role)}" for role in ("read", "operate", "admin")], "the tests"
)


class Desk:
    """An app that does what the test tells it to."""

    def __init__(self) -> None:
        self.app = App("memory://")
        self.release = asyncio.Event()
        self.report = asyncio.Event()
        app = self.app

        @app.task(queue="crm", limits=[ConcurrencyLimit("account", max_concurrent=1, scope="crm")])
        async def sync(account: str) -> None:
            await self.release.wait()

        @app.task(queue="email", retry=Retry(attempts=1))
        async def send(to: str) -> str:
            if current_job().attempt == 1:
                raise ConnectionError(f"smtp.example refused {to}")
            return to

        @app.task
        async def render(pages: int) -> None:
            current_job().progress({"done": 1, "total": pages})
            await self.report.wait()
            current_job().progress({"done": 3, "total": pages})
            await self.release.wait()

        app.queue("ai", share_by="tenant", weights={"acme": 2})

        @app.task(queue="ai", limits=[ConcurrencyLimit(4, cost="size", scope="model", shared=True)])
        async def ask(size: int = 4) -> None:
            await self.release.wait()

        @app.task(cron="0 2 * * *", queue="nightly")
        async def tidy() -> None: ...


@pytest_asyncio.fixture(loop_scope="session")
async def desk() -> Desk:
    return Desk()


@pytest_asyncio.fixture(loop_scope="session")
async def server(desk: Desk) -> AsyncGenerator[Served]:
    """Without a login, as on one's own machine."""
    async with served(desk.app, concurrency=10) as server:
        yield server
        desk.release.set()


@pytest_asyncio.fixture(loop_scope="session")
async def page(server: Served, visiting) -> Page:
    return await visiting(server.url)


async def confirm(page: Page, question: str) -> None:
    """Answer yes to exactly this."""
    dialog = page.locator("#confirm")
    await expect(dialog.locator("p")).to_contain_text(question)
    await dialog.locator("[value=yes]").click()


async def state_of(page: Page, state: str) -> None:
    await expect(page.locator(".bar-top > .chip").first).to_have_text(state)


async def test_an_operator_finds_why_a_job_waits_raises_its_limit_and_sees_it_start(desk: Desk, page: Page):
    sync = desk.app.tasks["sync"]
    first, second = await sync.enqueue("acct_91"), await sync.enqueue("acct_91")
    await page.goto("/")
    await page.keyboard.press("/")
    await page.keyboard.type(second.id)
    await page.keyboard.press("Enter")
    await expect(page.locator("p.say")).to_contain_text("It waits on crm=acct_91: 1 of 1 held")
    await expect(page.locator(".lights li").filter(has_text="crm=acct_91")).to_contain_text("full")
    await page.locator("p.say").get_by_role("link", name="crm=acct_91").click()
    await expect(page.locator(".line.holders")).to_contain_text(first.id[:10])
    await page.get_by_role("button", name="Change the number").click()
    await page.get_by_label("Number").fill("2")
    await page.get_by_label("Why").fill("they allow two")
    await page.get_by_label("How long").select_option("3600")
    await page.get_by_role("button", name="Put it in force").click()
    await expect(page.locator(".bar-top")).to_contain_text("2 by local")
    await expect(page.locator("p.say")).to_contain_text("2 of 2 slots are held")
    await page.locator(".line.holders a").nth(1).click()
    await state_of(page, "running")
    override = (await desk.app.key("crm=acct_91")).limit.override
    assert override is not None
    assert override.why == "they allow two"


async def test_an_open_job_is_seen_to_start_and_to_end(desk: Desk, page: Page):
    sync = desk.app.tasks["sync"]
    await sync.enqueue("acct_92")
    job = await sync.enqueue("acct_92")
    await page.goto(f"/jobs/{job.id}")
    await state_of(page, "waiting")
    await desk.app.set_limit("crm=acct_92", 2, by="the test")
    await state_of(page, "running")
    desk.release.set()
    await state_of(page, "succeeded")
    await expect(page.get_by_role("button", name="Delete")).to_be_visible()
    await expect(page.get_by_role("button", name="Cancel")).to_be_hidden()


async def test_progress_is_live(desk: Desk, page: Page):
    job = await desk.app.tasks["render"].enqueue(4)
    await page.goto(f"/jobs/{job.id}")
    await expect(page.get_by_role("img", name="25 percent done")).to_be_visible()
    desk.report.set()
    await expect(page.get_by_role("img", name="75 percent done")).to_be_visible()


async def test_a_group_of_failures_is_restarted(desk: Desk, page: Page):
    send = desk.app.tasks["send"]
    jobs = await desk.app.enqueue_many([send.job(f"customer{n}@example.org") for n in range(3)])
    await page.goto("/failed")
    group = page.locator(".groups li").filter(has_text="send")
    await expect(group.locator(".chip")).to_have_text("3")
    await expect(group).to_contain_text("ConnectionError: smtp.example refused customer…@example.org")
    await group.get_by_role("button", name="Restart 3").click()
    await confirm(page, "Restart 3 failed jobs of send?")
    await expect(page.locator(".toast")).to_contain_text("3 jobs were restarted.")
    await expect(page.locator(".empty")).to_contain_text("Nothing has failed")
    assert [await job.result(timeout=10) for job in jobs] == [f"customer{n}@example.org" for n in range(3)]


async def test_a_queue_is_paused_and_resumed(desk: Desk, page: Page):
    await desk.app.tasks["sync"].enqueue("acct_93")
    await page.goto("/")
    await page.get_by_role("button", name="Pause the queue crm").click()
    await confirm(page, "Start nothing more from crm?")
    await expect(page.locator("tr").filter(has_text="crm").locator(".chip.paused")).to_be_visible()
    job = await desk.app.tasks["sync"].enqueue("acct_94")
    await page.goto(f"/jobs/{job.id}")
    await expect(page.locator("p.say")).to_contain_text("the queue is paused")
    await page.goto("/queues")
    await page.get_by_role("button", name="Resume the queue crm").click()
    await expect(page.locator(".chip.paused")).to_be_hidden()
    await page.goto(f"/jobs/{job.id}")
    await state_of(page, "running")


async def test_a_share_is_weighed_and_its_weight_taken_back(desk: Desk, page: Page):
    ask = desk.app.tasks["ask"]
    jobs = [await ask.options(tenant=tenant, expires=3600).enqueue() for tenant in ("acme", "acme", "globex")]
    await page.goto("/queues")
    row = page.locator("tr").filter(has=page.get_by_role("button", name="Weigh the share acme"))
    await expect(row.locator("td.n").nth(0)).to_have_text("2")
    await expect(row).to_contain_text("code")
    await row.get_by_role("button", name="Weigh the share acme").click()
    await expect(page.get_by_role("heading", name="A weight for acme")).to_be_visible()
    await expect(page.get_by_label("Weight", exact=True)).to_have_value("2")
    await page.get_by_label("Weight", exact=True).fill("5")
    await page.get_by_label("Why").fill("a big day")
    await page.get_by_label("How long").select_option("3600")
    await page.get_by_role("button", name="Put it in force").click()
    await expect(row.locator(".chip.override")).to_have_text("5")
    await expect(row).to_contain_text("local a big day, until")
    (acme, _) = await desk.app.shares()
    assert acme.override is not None
    assert (acme.weight, acme.override.by, acme.override.until is None) == (5, "local", False)
    await row.get_by_role("button", name="Take back the weight of acme").click()
    await expect(row.locator(".chip.override")).to_be_hidden()
    await page.goto(f"/jobs/{jobs[-1].id}")
    await expect(page.locator(".facts")).to_contain_text("globex")
    await expect(page.locator(".facts")).to_contain_text("unless it has started")
    await expect(page.locator(".lights li").filter(has_text="model")).to_contain_text("takes 4")


async def test_what_a_question_is_answered_no_to_does_not_happen(desk: Desk, page: Page):
    job = await desk.app.tasks["sync"].options(delay=600).enqueue("acct_95")
    await page.goto(f"/jobs/{job.id}")
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Leave it").click()
    await page.get_by_role("button", name="Cancel").click()
    await page.keyboard.press("Escape")
    await state_of(page, "scheduled")
    await page.get_by_role("button", name="Run now").click()
    await state_of(page, "running")


async def test_all_jobs_that_match_are_cancelled_after_it_was_said_how_many(desk: Desk, page: Page):
    sync = desk.app.tasks["sync"].options(delay=3600)
    await desk.app.enqueue_many([sync.job(f"acct_{n}") for n in range(60)])
    await desk.app.tasks["send"].options(delay=3600).enqueue("ada@example.org")
    await page.goto("/jobs")
    await page.get_by_label("Task", exact=True).fill("sync")
    await page.get_by_role("button", name="Show").click()
    await page.get_by_role("button", name="All that match").click()
    await page.get_by_role("button", name="Cancel", exact=True).click()
    await confirm(page, "Cancel 60 jobs that match the filter?")
    await expect(page.locator(".toast")).to_contain_text("60 jobs were cancelled.")
    assert await desk.app.count(state="cancelled", task="sync") == 60
    assert await desk.app.count(state="scheduled") == 1


async def test_picked_jobs_hold_still_until_they_are_dealt_with(desk: Desk, page: Page):
    sync = desk.app.tasks["sync"].options(delay=3600)
    await desk.app.enqueue_many([sync.job(f"acct_{n}") for n in range(3)])
    await page.goto("/jobs")
    await page.locator("[data-pick]").nth(1).check()
    await expect(page.locator("#picked")).to_have_text("1 job picked")
    await sync.enqueue("acct_9")
    await expect(page.locator(".live")).to_contain_text("holds still")
    await asyncio.sleep(2.5)
    await expect(page.locator("[data-pick]")).to_have_count(3)
    await page.get_by_role("button", name="Run now").click()
    await confirm(page, "Run 1 job?")
    await expect(page.locator("[data-pick]")).to_have_count(4)
    await expect(page.locator("#picked")).to_have_text("None picked")


async def test_a_periodic_task_is_run_now_paused_and_resumed(desk: Desk, page: Page):
    await page.goto("/schedules")
    await expect(page.locator("tbody tr")).to_contain_text("0 2 * * *")
    await page.get_by_role("button", name="Run tidy now").click()
    await expect(page.locator(".toast")).to_contain_text("Enqueued as")
    assert await desk.app.count(task="tidy") == 1
    await page.get_by_role("button", name="Pause tidy").click()
    await confirm(page, "Let tidy tick no more?")
    await expect(page.locator("tbody")).to_contain_text("not while it is paused")
    await page.get_by_role("button", name="Resume tidy").click()
    await expect(page.get_by_role("button", name="Pause tidy")).to_be_visible()


async def test_a_question_in_sql_is_answered_and_a_wrong_one_explained(desk: Desk, server: Served, visiting):
    page = await visiting(server.url, refused=True)
    job = await desk.app.tasks["sync"].options(delay=60, id="by-hand").enqueue("acct_1")
    await page.goto("/sql")
    await page.locator("#query").fill("select id, state, priority from jobs")
    await page.keyboard.press("Control+Enter")
    await expect(page.locator("#answer tbody tr")).to_have_count(1)
    await expect(page.locator("#answer").get_by_role("link", name=job.id)).to_have_attribute(
        "href", "/jobs/by-hand"
    )


async def log_in(page: Page, role: str) -> None:
    await page.goto("/")
    await page.get_by_label("Your token").fill(SECRET.format(role))
    await page.get_by_role("button", name="Log in").click()
    await expect(page.locator(".foot")).to_contain_text(f"{role}-person, {role}")


async def test_a_reader_looks_and_is_refused(desk: Desk, serving, visiting):
    job = await desk.app.tasks["sync"].options(delay=600).enqueue("acct_1")
    await desk.app.set_share("acme", 3, by="ops")
    server = await serving(desk.app, auth=TOKENS)
    page = await visiting(server.url, refused=True)
    await log_in(page, "read")
    for path in ("/", "/jobs", f"/jobs/{job.id}", "/queues", "/schedules", "/key?key=crm"):
        await page.goto(path)
        buttons = page.locator("[data-do], [data-verb], [data-opens], [data-api], [data-pick]")
        await expect(buttons).to_have_count(0)
    status = await page.evaluate(
        """async (id) => (await fetch(`/api/v1/jobs/${id}/cancel`,
            { method: "POST", headers: { "x-headgate-csrf": document.body.dataset.csrf } })).status"""
        , job.id,
    )  # fmt: skip
    assert status == 403
    assert await job.status() == "scheduled"
    await page.goto("/")
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_label("Your token")).to_be_focused()


async def test_an_operator_who_logged_in_may_act(desk: Desk, serving, visiting):
    job = await desk.app.tasks["sync"].options(delay=600).enqueue("acct_1")
    server = await serving(desk.app, auth=TOKENS)
    page = await visiting(server.url)
    await log_in(page, "operate")
    await page.goto(f"/jobs/{job.id}")
    await page.get_by_role("button", name="Cancel").click()
    await confirm(page, "Cancel this job?")
    await state_of(page, "cancelled")
    await expect(page.get_by_role("link", name="SQL")).to_have_count(0)


async def test_everything_is_done_with_the_keyboard_alone(desk: Desk, page: Page):
    sync = desk.app.tasks["sync"]
    await sync.enqueue("acct_1")
    waiting = await sync.enqueue("acct_1")
    press, focused = page.keyboard.press, page.locator(":focus")
    await page.goto("/")
    await press("Tab")
    await expect(focused).to_have_text("Skip to the content")
    await press("g")
    await press("j")
    await expect(page).to_have_url("/jobs")
    await press("j")
    await expect(focused).to_have_text(waiting.id[:16] + "…")
    await press("x")
    await expect(page.locator("#picked")).to_have_text("1 job picked")
    await press("x")
    await press("j")
    await press("k")
    await press("Enter")
    await expect(page.locator("p.say")).to_contain_text("It waits on")
    await press("j")
    await expect(focused).to_have_text("crm=acct_1")
    await press("Enter")
    change = page.get_by_role("button", name="Change the number")
    for _ in range(40):
        await press("Tab")
        if await change.evaluate("one => one === document.activeElement"):
            break
    await press("Enter")
    await expect(focused).to_have_attribute("name", "max")
    await press("Escape")
    await expect(change).to_be_focused()
    await press("Enter")
    await press("Control+a")
    await page.keyboard.type("2")
    await press("Enter")
    await expect(page.locator("p.say")).to_contain_text("2 of 2 slots are held")
    await press("?")
    await expect(page.locator("#keys")).to_be_visible()
    await press("Escape")
    await expect(page.locator("#keys")).to_be_hidden()


async def test_a_server_that_goes_away_is_told_and_found_again(desk: Desk, serving, visiting):
    server = await serving(desk.app)
    page = await visiting(server.url, refused=True)
    await page.goto("/queues")
    await expect(page.locator(".live")).to_have_text("live")
    await server.stop()
    await expect(page.locator(".live")).to_have_text("not connected")
    await server.start()
    await expect(page.locator(".live")).to_have_text("live", timeout=20_000)
    await desk.app.pause("crm")
    await expect(page.locator(".chip.paused")).to_be_visible()
