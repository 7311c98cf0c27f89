"""A data file is held against what its manifest says of it: size, rows, sequence numbers, keys, row kinds."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.errors import CorruptTableError, NotFoundError
from paimon_engine.format.binary_row import EMPTY_ROW, encode_row
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.meta.manifest import DataFile
from paimon_engine.predicate import bind, col
from paimon_engine.table.files.data_file import RowMask, bucket_location, read_data_file
from tests.table.conftest import MakeTable, Subject


@pytest.fixture
def subject(make_table: MakeTable) -> Subject:
    table = make_table({"k": pa.int64(), "v": pa.string()}, primary_keys=["k"])
    return table.write({"k": [1, 5, 9], "v": ["a", "b", "c"]})


def rows(subject: Subject, file: DataFile, deleted: list[int] | None = None) -> int:
    location = bucket_location(subject.handle, EMPTY_ROW, 0)
    gone = None if deleted is None else RowBitmap.of(np.array(deleted, np.int64))
    read = read_data_file(subject.handle, location, file, ["k", "v"], with_system_columns=True, mask=RowMask(gone))
    return sum(batch.num_rows for batch in read)


def key(subject: Subject, value: int) -> bytes:
    return encode_row([field.type for field in subject.handle.schema.key_type], [value], reserve_null=True)


def test_a_valid_file_is_read(subject: Subject) -> None:
    assert rows(subject, subject.files[0]) == 3
    assert rows(subject, subject.files[0], deleted=[0, 2]) == 1


SAID: dict[str, tuple[Callable[[Subject, DataFile], DataFile], str]] = {
    "a size": (lambda _, file: replace(file, size_bytes=file.size_bytes + 1), "bytes, and should have"),
    "more rows": (lambda _, file: replace(file, row_count=4), "it has 3 rows, its manifest says 4"),
    "fewer rows": (lambda _, file: replace(file, row_count=2), "more than the 2 rows that its manifest says"),
    "older rows": (lambda _, file: replace(file, max_sequence_number=1), "_SEQUENCE_NUMBER is 0 to 2, expected 0 to 1"),
    "newer rows": (lambda _, file: replace(file, min_sequence_number=1), "_SEQUENCE_NUMBER is 0 to 2, expected 1 to 2"),
    "larger keys": (lambda one, file: replace(file, min_key=key(one, 2)), r"first key is (1,), its manifest says (2,)"),
    "smaller keys": (lambda one, file: replace(file, max_key=key(one, 8)), r"last key is (9,), its manifest says (1,)"),
    "keys of another table": (lambda _, file: replace(file, max_key=EMPTY_ROW), "expected 1 columns, found 0"),
}


@pytest.mark.parametrize(("change", "what"), SAID.values(), ids=SAID.keys())
def test_a_file_that_is_not_what_its_manifest_says(
    subject: Subject, change: Callable[[Subject, DataFile], DataFile], what: str
) -> None:
    file = change(subject, subject.files[0])

    with pytest.raises(CorruptTableError) as caught:
        rows(subject, file)

    assert what in str(caught.value)
    assert file.name in str(caught.value)
    assert "restore the file from a copy" in str(caught.value)


def test_a_largest_key_that_the_file_does_not_have_is_fine(subject: Subject) -> None:
    # Java notes a key that it drops afterwards.
    assert rows(subject, replace(subject.files[0], max_key=key(subject, 12))) == 3


def test_keys_are_looked_at_without_system_columns_too(subject: Subject) -> None:
    location, file = bucket_location(subject.handle, EMPTY_ROW, 0), replace(subject.files[0], min_key=key(subject, 2))
    with pytest.raises(CorruptTableError, match=r"first key is \(1,\), its manifest says \(2,\)"):
        list(read_data_file(subject.handle, location, file, ["k"], with_system_columns=False))


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("declared", [2, 4])
def test_rows_are_counted_where_a_filter_leaves_some_out(
    make_table: MakeTable, file_format: str, declared: int
) -> None:
    """A damaged footer with fewer row groups or stripes gives no error of its own."""
    columns = {"k": pa.int64(), "v": pa.string()}
    table = make_table(columns, primary_keys=["k"], options={"file.format": file_format})
    subject = table.write({"k": [1, 5, 9], "v": ["a", "b", "c"]})
    location, [file] = bucket_location(subject.handle, EMPTY_ROW, 0), subject.files
    for number in (5, 1_000):
        where = [bind(col("k") == number, pa.schema(columns))]
        read = partial(read_data_file, subject.handle, location, columns=["k"], with_system_columns=False, where=where)

        assert sum(batch.num_rows for batch in read(file)) in (0, 3)
        with pytest.raises(CorruptTableError, match=f"it has 3 rows, its manifest says {declared}"):
            list(read(replace(file, row_count=declared)))


def test_a_deletion_vector_of_rows_that_the_file_does_not_have(subject: Subject) -> None:
    with pytest.raises(CorruptTableError, match="deletion vector marks row 3"):
        rows(subject, subject.files[0], deleted=[1, 3])


def test_a_missing_file(subject: Subject) -> None:
    with pytest.raises(NotFoundError, match=r"data-x\.parquet is missing .* restore the file from a copy"):
        rows(subject, replace(subject.files[0], name="data-x.parquet"))


CONTENTS: dict[str, tuple[dict[str, Any], str]] = {
    "a row kind that there is not": ({"_VALUE_KIND": pa.array([0, 4, 0], pa.int8())}, "_VALUE_KIND is 0 to 4"),
    "a row without a kind": ({"_VALUE_KIND": pa.array([0, None, 0], pa.int8())}, "_VALUE_KIND is a null"),
    "kinds that are not numbers": (
        {"_VALUE_KIND": pa.array(["+I", "x", ""])},
        "its columns are not those of its schema",
    ),
    "values that are not numbers": ({"k": pa.array(["a", "b", "c"])}, "its columns are not those of its schema"),
    "no sequence numbers": ({"_SEQUENCE_NUMBER": None}, "expected columns"),
}


@pytest.mark.parametrize(("changes", "what"), CONTENTS.values(), ids=CONTENTS.keys())
def test_contents_that_no_writer_leaves(subject: Subject, changes: dict[str, Any], what: str) -> None:
    path = subject.data_paths()[0]
    storage = subject.handle.env.storage
    table = pq.read_table(io.BytesIO(storage.read(path)))
    for name, values in changes.items():
        location = table.schema.names.index(name)
        table = table.remove_column(location) if values is None else table.set_column(location, name, values)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    storage.overwrite(path, sink.getvalue())

    with pytest.raises(CorruptTableError) as caught:
        rows(subject, replace(subject.files[0], size_bytes=len(sink.getvalue())))

    assert what in str(caught.value)
    assert path in str(caught.value)
