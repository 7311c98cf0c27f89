"""What differs between two states where only deletion vectors have changed: files stay, and rows in them go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """As the tag `before` many rows in one file, which is too large for compactions of a few new ones."""
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    found = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    put(found, *(("+I", k, k) for k in range(10_000)))
    found.create_tag("before")
    (base,) = found.files()["file_path"].to_pylist()
    yield found
    assert base in found.files()["file_path"].to_pylist()


def put(table: Table, *rows: tuple[str, int, int]) -> None:
    """Written, and moved up by a compaction that leaves the files above as they are."""
    data = [{"k": k, "v": v} for _, k, v in rows]
    table.write(pa.Table.from_pylist(data, SCHEMA), row_kinds=pa.array([kind for kind, _, _ in rows]))
    table.compact()


def audit(table: Table, **options: Any) -> Sequence[tuple[Any, ...]]:
    log = Catalog(str(Path(table.path).parents[1])).table("db.t$audit_log")
    found = log.to_arrow(incremental=("before", "after"), **options)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_a_row_that_was_deleted_is_a_difference(table: Table) -> None:
    put(table, ("-D", 3, 3))
    table.create_tag("after")

    assert audit(table) == [("-D", 3, 3)]
    assert audit(table, where="k < 3") == []
    assert table.to_arrow(incremental=("before", "after")).num_rows == 0


def test_of_a_row_that_changed_the_new_one_is_seen_once(table: Table) -> None:
    put(table, ("+I", 3, 30))
    put(table, ("-D", 4, 4), ("+I", 5, 50))
    table.create_tag("after")

    assert audit(table) == [("+I", 3, 30), ("+I", 5, 50), ("-D", 4, 4)]


def test_vectors_that_were_only_written_again_are_no_difference(table: Table) -> None:
    put(table, ("-D", 3, 3))
    table.delete_tag("before")
    table.create_tag("before")
    put(table, ("+I", 20_000, 20))
    put(table, ("-D", 20_000, 20))
    table.create_tag("after")

    assert audit(table) == []


def test_java_leaves_files_out_that_both_states_have(table: Table, oracle: JavaPaimon) -> None:
    put(table, ("-D", 3, 3))
    table.create_tag("after")

    assert oracle.read(table.path, incremental="before,after", system="audit_log") == []
