"""The reference of SQL says what the tables are."""

from __future__ import annotations

import re

import pytest

from headgate.engine.contract import TABLES, Table
from tests.support.docs_pages import ROOT

PAGE = ROOT / "docs" / "reference" / "sql.md"


def section(name: str) -> str:
    """What the page says of a table."""
    found = re.search(rf"^## `{name}`\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None, f"the page has no table {name}"
    return found[1]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_page_has_the_columns_of_a_table_in_their_order(table: Table):
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", section(table.name), re.MULTILINE)
    assert rows == [(column.name, column.type, column.about) for column in table.columns]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_page_says_what_a_table_has_and_how_its_rows_are_found(table: Table):
    intro = section(table.name).partition("|")[0].strip()
    assert intro.startswith(f"{table.about[0].upper()}{table.about[1:]}.")
    said = intro.partition("Found by")[2]
    assert tuple(re.findall(r"`(\w+)`", said)) == table.found_by


def test_the_page_has_no_other_tables():
    named = re.findall(r"^## `(\w+)`$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert named == [table.name for table in TABLES]
