"""Tables that were opened before somebody changed their schema: what they rewrite keeps the values of new columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import AddColumn, Catalog, SetOption, Table, open_table

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])


def table_with_a_new_column(path: Path, **given: object) -> tuple[Table, Table]:
    """The table as somebody opened it before a column was added, and as it is now, with two files of rows."""
    early = Catalog(str(path)).create_table("db.t", schema=SCHEMA, **given)  # type: ignore[arg-type]
    table = open_table(early.path)
    table.alter([AddColumn("x", "BIGINT")])
    for number in range(2):
        table.write(pa.table({"k": [number], "v": [number], "x": [number + 10]}))
    return early, table


@pytest.mark.parametrize("keys", [["k"], []], ids=["primary key", "append"])
def test_a_compaction_by_an_early_handle_keeps_the_new_column(tmp_path: Path, keys: list[str]) -> None:
    options = {"bucket": "1"} if keys else {}
    early, table = table_with_a_new_column(tmp_path, primary_keys=keys, options=options)

    assert early.compact(full=True).status == "committed"

    assert sorted(table.to_arrow()["x"].to_pylist()) == [10, 11]


def test_a_rescale_by_an_early_handle_keeps_the_new_column(tmp_path: Path) -> None:
    early, table = table_with_a_new_column(tmp_path, primary_keys=["k"], options={"bucket": "1"})
    table.alter([SetOption("bucket", "2")])

    assert early.rescale().status == "committed"

    assert sorted(table.to_arrow()["x"].to_pylist()) == [10, 11]


def test_postponed_rows_that_an_early_handle_distributes_keep_the_new_column(tmp_path: Path) -> None:
    early, table = table_with_a_new_column(tmp_path, primary_keys=["k"], options={"bucket": "-2"})

    early.compact(full=True)

    assert sorted(table.to_arrow()["x"].to_pylist()) == [10, 11]
