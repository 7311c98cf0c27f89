"""Row ids: each row has one, no two have the same, and none changes, whatever happens to the table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, SetOption, Table, UnsupportedError, open_table

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path))


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table(
        "db.t", schema=SCHEMA, partition_keys=["p"], options={"row-tracking.enabled": "true", "bucket": "-1"}
    )


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "p": [f"p{key % 2}" for key in keys]}, schema=SCHEMA)


def ids(table: Table) -> dict[int, tuple[int, int]]:
    """Key → id and sequence number."""
    found = open_table(f"{table.path}$row_tracking").to_arrow()
    columns: dict[str, list[Any]] = found.to_pydict()
    return dict(zip(columns["k"], zip(columns["_ROW_ID"], columns["_SEQUENCE_NUMBER"], strict=True), strict=True))


def next_row_id(table: Table) -> int:
    number: int = open_table(f"{table.path}$snapshots").to_arrow()["next_row_id"].to_pylist()[-1]
    return number


def test_writers_that_race_give_each_row_another_id(table: Table):
    def write(writer: int) -> None:
        for turn in range(5):
            open_table(table.path).write(rows(*range(writer * 1000 + turn * 10, writer * 1000 + turn * 10 + 4)))
            if writer == 0:
                open_table(table.path).compact(full=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))

    found = ids(table)
    assert len(found) == 80
    assert sorted(row_id for row_id, _ in found.values()) == list(range(80))
    assert next_row_id(table) == 80
    assert table.verify("rows").status == "sound"


def test_messages_that_wait_get_ids_when_they_are_committed(table: Table):
    first, second = (table.prepare_write(rows(*keys)) for keys in ((0, 2, 4), (6, 8)))
    table.commit(second, commit_user="second")
    table.commit(first, commit_user="first")

    assert ids(table) == {6: (0, 1), 8: (1, 1), 0: (2, 2), 2: (3, 2), 4: (4, 2)}


def test_an_overwrite_gives_new_ids(table: Table):
    table.write(rows(0, 1, 2))
    table.write(rows(4), overwrite={"p": "p0"})

    found = ids(table)

    assert found[4] == (3, 2)
    assert set(found) == {1, 4}


def test_a_rewritten_index_keeps_the_ids(table: Table):
    table.write(rows(0, 2, 4))
    table.write(rows(6))
    before = ids(table)
    table.alter([SetOption("file-index.bloom-filter.columns", "k")])
    table = open_table(table.path)

    assert table.rewrite_file_index().files == 2

    assert ids(table) == before
    table.compact(full=True)
    assert ids(table) == before


def test_a_merged_branch_gets_ids_of_its_own(table: Table):
    table.write(rows(0))
    table.create_tag("begin")
    table.create_branch("side", tag="begin")
    side = open_table(f"{table.path}$branch_side")
    side.write(rows(2, 4))
    table.write(rows(6, 8))

    table.merge_branch("side")

    found = ids(table)
    assert sorted(row_id for row_id, _ in found.values()) == [0, 1, 2, 3, 4]
    assert next_row_id(table) == 5


def test_a_branch_whose_files_store_ids_is_not_merged(table: Table):
    table.write(rows(0))
    table.create_tag("begin")
    table.create_branch("side", tag="begin")
    side = open_table(f"{table.path}$branch_side")
    side.write(rows(2, 4))
    side.compact(full=True)

    with pytest.raises(UnsupportedError, match="stores ids of its rows"):
        table.merge_branch("side")


def test_deleted_rows_leave_their_ids(catalog: Catalog):
    table = catalog.create_table(
        "db.d",
        schema=SCHEMA,
        options={"row-tracking.enabled": "true", "bucket": "-1", "deletion-vectors.enabled": "true"},
    )
    table.write(rows(0, 1, 2))
    table.delete("k = 1")
    table.write(rows(3))
    before = ids(table)
    table.compact(full=True)

    assert before == {0: (0, 1), 2: (2, 1), 3: (3, 3)}
    assert ids(table) == before


def test_tables_that_cannot_have_ids_are_refused(catalog: Catalog, table: Table):
    with pytest.raises(InvalidArgumentError, match="without primary key"):
        catalog.create_table("db.k", schema=SCHEMA, primary_keys=["k"], options={"row-tracking.enabled": "true"})
    with pytest.raises(InvalidArgumentError, match="'bucket' = '-1'"):
        catalog.create_table(
            "db.k", schema=SCHEMA, options={"row-tracking.enabled": "true", "bucket": "2", "bucket-key": "k"}
        )
    plain = catalog.create_table("db.p", schema=SCHEMA)
    with pytest.raises(InvalidArgumentError, match=r"row-tracking\.enabled"):
        open_table(f"{plain.path}$row_tracking").to_arrow()


def test_rows_with_ids_are_read_as_of_a_snapshot(table: Table):
    table.write(rows(0, 2))
    table.compact(full=True)
    table.write(rows(4))

    view = open_table(f"{table.path}$row_tracking")

    assert view.to_arrow(snapshot=1, columns=["_ROW_ID"]).to_pydict() == {"_ROW_ID": [0, 1]}
    assert view.to_arrow(columns=["_SEQUENCE_NUMBER", "k"], limit=1).column_names == ["_SEQUENCE_NUMBER", "k"]
