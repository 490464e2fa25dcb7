"""Takes the pictures of the operators' guide anew: `make pictures`, in light and dark.

Fonts are those of the machine: Inter and JetBrains Mono where they are installed.
"""

from __future__ import annotations

import asyncio
import os
from io import BytesIO
from pathlib import Path
from typing import Literal, get_args

from PIL import Image
from playwright.async_api import Browser, Page, ViewportSize, async_playwright

from headgate import App
from headgate.web import Tokens
from tests.web.browser.chromium import find
from tests.web.browser.served import served
from tests.web.browser.shop import ACCOUNT, TRIED, Shop

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
FOLDER = Path(__file__).parents[3] / "docs" / "guides" / "pictures"
SIZE: ViewportSize = {"width": 1200, "height": 760}
COLORS = 256
NARROW: ViewportSize = {"width": 400, "height": 760}
TOKENS = Tokens(["ada:admin:0123456789abcdef"], "the pictures")
PAGES = {
    "overview": "/",
    "limits": "/limits",
    "key": f"/key?key=crm={ACCOUNT}",
    "rate": "/key?key=tokens=openai",
    "jobs": "/jobs",
    "failed": "/failed",
    "queues": "/queues",
    "schedules": "/schedules",
    "workers": "/workers",
    "sql": "/sql",
    "job": f"/jobs/{TRIED}",
    "progress": "/jobs/report-2026-11",
}


async def main() -> None:
    """All of them."""
    FOLDER.mkdir(exist_ok=True)
    shop, chromium = Shop(), find()
    await shop.live()
    async with served(shop.app, concurrency=60) as server, async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium.path, args=["--no-sandbox"], env={**os.environ, **chromium.environment}
        )
        for scheme in SCHEMES:
            await take(browser, server.url, scheme)
        async with served(App("memory://"), auth=TOKENS) as guarded:
            for scheme in SCHEMES:
                page = await window(browser, guarded.url, scheme)
                await page.goto("/")
                await picture(page, "login", scheme)
        await browser.close()
        shop.release.set()


async def window(browser: Browser, url: str, scheme: Scheme, size: ViewportSize = SIZE) -> Page:
    """A window as most people have it."""
    context = await browser.new_context(
        base_url=url, color_scheme=scheme, viewport=size, locale="en-GB", timezone_id="Europe/Berlin",
        reduced_motion="reduce",
    )  # fmt: skip
    return await context.new_page()


async def take(browser: Browser, url: str, scheme: Scheme) -> None:
    """Every page of the shop."""
    page = await window(browser, url, scheme)
    for name, path in PAGES.items():
        await page.goto(path)
        if name == "sql":
            await page.get_by_role("button", name="Ask", exact=True).click()
            await page.locator("#answer tbody tr").first.wait_for()
        await picture(page, name, scheme)
    narrow = await window(browser, url, scheme, NARROW)
    await narrow.goto("/")
    await picture(narrow, "narrow", scheme)


async def picture(page: Page, name: str, scheme: Scheme) -> None:
    """What the window shows once it has settled: the second renewal brings curves. Few colours make a small file."""
    await asyncio.sleep(1.5)
    shown = Image.open(BytesIO(await page.screenshot())).convert("RGB")
    shown.quantize(COLORS, dither=Image.Dither.NONE).save(FOLDER / f"{name}-{scheme}.png", optimize=True)


if __name__ == "__main__":
    asyncio.run(main())
