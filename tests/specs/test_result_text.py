"""Results at a prompt and in a notebook: short tables; the data stays in the attributes."""

from __future__ import annotations

import pytest

from paimon_engine import Table
from paimon_engine.action import Result
from paimon_engine.jobs import ACTIONS
from paimon_engine.result_text import as_html, as_text


def test_a_compaction_reads_as_a_table(table: Table):
    result = table.compact(full=True)
    lines = repr(result).splitlines()

    assert lines[0] == "CompactResult: committed"
    assert lines[1].split() == ["snapshot_id", "4"]
    assert ["files", "3", "→", "1"] in [line.split() for line in lines]
    assert len(repr(result)) < 600
    assert result.files_before == 3
    assert result.to_dict()["buckets"][0]["bucket"] == 0


def test_a_long_list_is_counted_and_a_short_one_shown():
    files = [{"path": str(number)} for number in range(1000)]

    assert as_text(
        "R", {"status": "x", "deleted": files, "tags": ["a", "b"], "why": (), "bytes": 2048}
    ).splitlines() == [
        "R: x",
        "  deleted  1,000 items",
        "  tags     a, b",
        "  bytes    2.0 KiB",
    ]


def test_no_text_is_markup_or_steers_a_terminal():
    values = {"status": "<b>", "name": "<script>\x1b[31m", "long": "x" * 1000}

    assert "<script>" not in as_html("R", values)
    assert "<b>" not in as_html("R", values)
    assert "\x1b" not in as_html("R", values) + as_text("R", values)
    assert max(map(len, as_text("R", values).splitlines())) < 100


@pytest.mark.parametrize("kind", Result.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_result_has_the_short_form(kind: type[Result]):
    assert kind.__repr__ is Result.__repr__
    assert len(Result.__subclasses__()) >= len(ACTIONS) - 12
