"""Parts of a source written at the same time: large shares of buckets at once, the rest together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine import Table
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.schema import SEQUENCE_NUMBER
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.files.bucketing import BucketRows
from paimon_engine.table.write.part_writer import PART_SEQUENCES, write_part
from paimon_engine.table.write.writer import write_state
from tests.support.write_parts import OPTIONS, Rows, batches, handle_of, new_table, write_parts


def files_of(table: Table) -> set[str]:
    return {path.name for path in Path(table.path).rglob("data-*")}


PARTS = st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=12), min_size=1, max_size=4)


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("buffer", ["256 mb", "300 b"])
@settings(max_examples=40)
@given(writes=st.lists(PARTS, min_size=1, max_size=2), own_file_bytes=st.sampled_from([0, 60, 120, 1 << 20]))
def test_later_parts_are_newer_however_rows_reach_their_files(
    kind: str, buffer: str, writes: list[list[Rows]], own_file_bytes: int, tmp_path_factory: pytest.TempPathFactory
):
    table = new_table(tmp_path_factory.mktemp("lake"), kind, {"write-buffer-size": buffer})
    for parts in writes:
        write_parts(table, parts, own_file_bytes)

    written = [row for parts in writes for rows in parts for row in rows]
    if kind == "postponed":
        table.compact()
    found = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
    if kind.startswith("append"):
        assert Counter(found) == Counter(written)
    else:
        assert sorted(found) == sorted(dict(written).items())
    assert check_table(handle_of(table)) == []


def test_large_shares_get_files_of_their_own_and_small_ones_are_handed_on(tmp_path: Path):
    table = new_table(tmp_path)
    large, small = [(k, 0) for k in range(100)], [(k, 1) for k in range(10)]

    messages, rests = write_parts(table, [large, small, small], own_file_bytes=500)

    assert sorted(message.bucket for message in messages) == [0, 1]
    assert sum(rest.rows.num_rows for rest in rests) == 20
    firsts = {rest.rows[SEQUENCE_NUMBER][0].as_py() // PART_SEQUENCES for rest in rests}
    assert firsts == {1, 2}
    assert len(files_of(table)) == 4
    assert {row["k"]: row["v"] for row in table.to_arrow().to_pylist()} == {k: int(k < 10) for k in range(100)}


@pytest.mark.parametrize("kind", OPTIONS)
def test_after_a_failure_no_file_is_left(kind: str, tmp_path: Path):
    table = new_table(tmp_path, kind, {"write-buffer-size": "200 b"})

    def source() -> Iterator[pa.RecordBatch]:
        yield from batches([(k, 0) for k in range(100)])
        assert files_of(table)
        yield pa.record_batch({"other": [1]})

    with pytest.raises(InvalidArgumentError, match="other"):
        list(write_part(handle_of(table), write_state(handle_of(table)), 0, source(), own_file_bytes=0))

    assert files_of(table) == set()


def test_a_stream_that_is_not_read_to_its_end_leaves_no_file(tmp_path: Path):
    table = new_table(tmp_path)
    made: Any = write_part(handle_of(table), write_state(handle_of(table)), 0, batches([(k, 0) for k in range(9)]))

    assert isinstance(next(made), BucketRows)
    made.close()

    assert files_of(table) == set()


def test_the_messages_name_all_files(tmp_path: Path):
    table = new_table(tmp_path)
    handle = handle_of(table)
    made: Any = write_part(handle, write_state(handle), 0, batches([(k, 0) for k in range(9)]), own_file_bytes=0)

    messages = next(made)
    made.close()

    assert not isinstance(messages, BucketRows)
    assert files_of(table) == {file.name for message in messages for file in message.new_files}
