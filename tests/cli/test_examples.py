"""Every example is run, and says what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.plain_pytest import PYTEST

pytestmark = pytest.mark.slow  # whole programs, some of which wait for real seconds
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PROMISES = {
    "first_program": ["customer 2 is in sync"],
    "per_customer": ["waits on customer=5", "at once: 1 per customer, 3 on the API"],
    "rate_limit": ["started after", "20 more within 0."],
    "floating_limit": ["with a capacity of 2: at most 2 at once", "with a capacity of 5: at most 5 at once"],
    "periodic": ["3 beats by two workers, 3 different jobs"],
    "web_app_embedded": ["then: succeeded small-cat.png"],
    "sealed_payloads": [
        "with both keys: Ada is well",
        "without the old one: result of job",
        "PayloadError: there is no key '2025'",
        "without a codec: sealed, 5",
    ],
    "llm_tokens": ["500 calls", "refused with 429: 0"],
    "import_history": ["done: succeeded", "over: failed", "half: succeeded on attempt 2, 'sent to jean'"],
}


@pytest.mark.parametrize("name", sorted(PROMISES))
def test_an_example_does_what_it_says(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    for promise in PROMISES[name]:
        assert promise in done.stdout


def test_the_example_of_a_test_passes_under_pytest(tmp_path: Path) -> None:
    command = [*PYTEST, "-c", "/dev/null", "--rootdir", "."]
    file = str(EXAMPLES / "testing_your_tasks.py")
    done = subprocess.run(
        [*command, "-o", "asyncio_mode=auto", file], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_no_example_is_left_out() -> None:
    """The workers over HTTP are run in tests/web/test_http_workers.py, the web applications in tests/frameworks."""
    elsewhere = {
        "testing_your_tasks",
        "http_worker",
        "web_fastapi",
        "web_starlette",
        "web_litestar",
        "web_flask",
    }
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {*PROMISES, *elsewhere}


def test_the_first_program_stays_short() -> None:
    code = [line for line in (EXAMPLES / "first_program.py").read_text().splitlines() if line.strip()]
    assert len(code) <= 15
