"""Links lead somewhere, and the reference leaves nothing out."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate
import headgate.testing
from tests.support.docs_pages import PAGES, ROOT, name_of, prose
from tests.support.docs_shell import root, walk

API = ROOT / "docs" / "reference" / "api.md"
CLI = ROOT / "docs" / "reference" / "cli.md"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """What can stand behind `#` in a link to a page."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def linked(page: Path) -> set[Path]:
    """The pages that a page links to."""
    files = {(page.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(prose(page))}
    return {file for file in files if file.suffix == ".md" and file.exists()}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path):
    for link in _LINK.findall(prose(page)):
        target, _, anchor = link.partition("#")
        if re.match(r"\w+:", target):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


def test_every_page_can_be_reached_from_the_readme():
    seen, new = set[Path](), {ROOT / "README.md"}
    while new:
        seen |= new
        links = {
            (page.parent / link.partition("#")[0]).resolve()
            for page in new
            for link in _LINK.findall(prose(page))
        }
        new = {file for file in links if file.suffix == ".md" and file.exists()} - seen
    assert set(PAGES) <= seen, sorted(name_of(page) for page in set(PAGES) - seen)


def test_the_reference_has_every_public_name():
    text = API.read_text("utf-8")
    missing = [name for name in headgate.__all__ if not re.search(rf"`[^`\n]*\b{re.escape(name)}\b", text)]
    assert not missing


def signatures() -> Iterator[tuple[str, ast.arguments]]:
    """The signatures in the headings of the reference: a dotted name, and the parameters."""
    for heading in re.findall(r"^#+ `(.+\))`$", API.read_text("utf-8"), re.MULTILINE):
        call = ast.parse(
            f"def {heading.partition('(')[0].replace('.', '__')}({heading.partition('(')[2]}: ..."
        ).body[0]
        assert isinstance(call, ast.FunctionDef)
        yield heading.partition("(")[0], call.args


def defaults(args: ast.arguments) -> dict[str, Any]:
    """Documented parameters and their defaults, `...` for those without a literal one."""
    positional = [*args.posonlyargs, *args.args]
    given = [None] * (len(positional) - len(args.defaults)) + list(args.defaults) + list(args.kw_defaults)
    return {
        one.arg: _literal(value) for one, value in zip([*positional, *args.kwonlyargs], given, strict=True)
    }


def _literal(value: ast.expr | None) -> Any:
    try:
        return ... if value is None else ast.literal_eval(value)
    except ValueError:
        return ...


def find(name: str) -> Any:
    """The object behind a name in the reference; `app.`, `task.`, `job.` stand for what they are instances of."""
    first, *rest = name.split(".")
    instances = {
        "app": headgate.App,
        "task": headgate.Task,
        "handle": headgate.JobHandle,
        "context": headgate.JobContext,
        "worker": headgate.Worker,
        "clock": headgate.testing.Clock,
    }
    found: Any = instances.get(first) or getattr(headgate, first, None) or getattr(headgate.testing, first)
    for part in rest:
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(
    ("name", "args"),
    list(signatures()),
    ids=lambda value: value if isinstance(value, str) else ast.unparse(value)[:40],
)
def test_every_signature_in_the_reference_is_the_real_one(name: str, args: ast.arguments):
    documented = defaults(args)
    real = inspect.signature(find(name)).parameters.values()
    named = [one for one in real if one.name not in ("self", "fn") and one.kind in (0, 1, 3)]
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in real):
        assert {one.name for one in named} <= documented.keys()
    else:
        assert [one.name for one in named] == list(documented)
    for one in named:
        assert documented[one.name] in (..., one.default), one.name


@pytest.mark.parametrize("owner", ["App", "Task", "TaskSet", "JobHandle", "JobContext", "Worker"])
def test_the_reference_has_every_public_method(owner: str):
    text = API.read_text("utf-8")
    names = [
        name
        for name in dir(getattr(headgate, owner))
        if not name.startswith("_") and not name.endswith("_sync")
    ]
    known_inside = {
        "sync_loop", "build", "send", "decode", "encode_result", "decode_result", "declared", "ask_to_end", "redirect",
        "make_engine", "declare_all", "set_defaults", "join", "become", "changed",
        "learning", "check_throttled",
    }  # fmt: skip
    missing = [
        name for name in names if name not in known_inside and not re.search(rf"`[^`\n]*\b{name}\b", text)
    ]
    assert not missing


def test_the_reference_has_every_command_and_option():
    text = CLI.read_text("utf-8")
    missing: list[str] = []
    for path, command in walk(root()):
        command_text = " ".join(["headgate", *path])
        if command_text not in text:
            missing.append(command_text)
        options = [name for one in command.params for name in one.opts if name.startswith("--")]
        missing += [f"{command_text} {name}" for name in options if name not in text and name != "--help"]
    assert not missing


def fields_of(command: str) -> list[str]:
    """The JSON fields that the reference names for a command, up to the first explanation."""
    row = re.search(rf"^\| `{command}` \|[^|]*\|([^|]*)\|$", CLI.read_text("utf-8"), re.MULTILINE)
    assert row is not None
    return re.findall(r"`(\w+)`", row[1].partition(";")[0])


@pytest.mark.parametrize(
    ("command", "record"),
    [
        ("jobs", headgate.JobInfo),
        ("explain", headgate.Explanation),
        ("queues", headgate.QueueInfo),
        ("limits", headgate.LimitInfo),
        ("workers", headgate.WorkerInfo),
    ],
)
def test_the_json_fields_in_the_reference_are_the_real_ones(command: str, record: Any):
    assert fields_of(command) == list(record.__struct_fields__)


@pytest.mark.parametrize(
    "name",
    [
        "AttemptInfo",
        "Changed",
        "ImportAttempt",
        "ImportLimit",
        "ImportRecord",
        "ImportRetry",
        "JobInfo",
        "OverrideInfo",
    ],
)
def test_the_fields_of_a_record_are_all_in_the_reference(name: str):
    text = API.read_text("utf-8")
    missing = [field for field in getattr(headgate, name).__struct_fields__ if f"`{field}`" not in text]
    assert not missing


def test_what_explain_is_said_to_say_is_what_it_says():
    """By the pieces of each sentence that are the same for all jobs."""
    rows = re.findall(
        r"^\| `([^`]+)` \|", (ROOT / "docs/operations/not-starting.md").read_text("utf-8"), re.MULTILINE
    )
    words = "".join(
        (ROOT / "src/headgate" / name).read_text("utf-8") for name in ("app/explain.py", "app/handle.py")
    )
    pieces = [piece.strip(" ,()") for row in rows for piece in re.split(r"…|KEY|\d of \d|:", row)]
    assert len(rows) > 10
    assert not [piece for piece in pieces if piece.lower() not in words.lower()]
