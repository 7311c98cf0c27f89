"""Reads without a merge decode neither kinds nor sequence numbers of a file in which every row is an insert."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.errors import CorruptTableError
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.manifest import DataFile
from paimon_engine.table.files.data_file import ScanOptions, bucket_location, read_data_file, read_row_kinds
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.pypaimon import PyPaimon
from tests.table.conftest import MakeTable, Subject

COLUMNS = {"k": pa.int64(), "v": pa.string(), "w": pa.int32()}
OMIT = ScanOptions(omittable=frozenset({"k"}))
MERGE = ScanOptions()


@pytest.fixture
def subject(make_table: MakeTable) -> Subject:
    table = make_table(COLUMNS, primary_keys=["k"])
    return table.write({"k": [1, 5, 9], "v": ["a", "b", "c"], "w": [1, 2, 3]})


def _decoded(subject: Subject, file: DataFile, scan: ScanOptions = OMIT, columns: Sequence[str] = ("k", "v")) -> Any:
    location = bucket_location(subject.handle, EMPTY_ROW, 0)
    [rows] = read_data_file(subject.handle, location, file, columns, with_system_columns=True, scan=scan)
    return rows


ALL = ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"]


def test_inserts_are_read_without_what_only_merges_look_at(subject: Subject) -> None:
    assert _decoded(subject, subject.files[0]).schema.names == ["v"]
    assert _decoded(subject, subject.files[0], ScanOptions()).schema.names == ALL
    assert _decoded(subject, subject.files[0], ScanOptions(omittable=())).schema.names == ["k", "v"]
    assert _decoded(subject, subject.files[0])["v"].to_pylist() == ["a", "b", "c"]


def test_without_any_other_column_they_are_read(subject: Subject) -> None:
    assert _decoded(subject, subject.files[0], columns=["k"]).num_rows == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda file: replace(file, delete_row_count=None),
        lambda file: replace(file, delete_row_count=1),
    ],
    ids=["it does not say", "it says that there is one"],
)
def test_a_manifest_that_does_not_say_that_there_are_no_deletes(
    subject: Subject, change: Callable[[DataFile], DataFile]
) -> None:
    assert _decoded(subject, change(subject.files[0])).schema.names == ALL


def test_a_file_of_other_sequence_numbers_than_its_manifest_says_is_refused_as_ever(subject: Subject) -> None:
    with pytest.raises(CorruptTableError, match="_SEQUENCE_NUMBER is 0 to 2, expected 0 to 1"):
        _decoded(subject, replace(subject.files[0], max_sequence_number=1))


@pytest.mark.parametrize("kinds", [[0, 3, 0], [0, 1, 2], [2, 2, 2], [3, 3, 3]])
def test_a_manifest_that_knows_nothing_of_the_deletes_does_not_bring_them_back(
    make_table: MakeTable, kinds: list[int]
) -> None:
    """As pypaimon writes them: with a delete count of zero."""
    table = make_table(COLUMNS, primary_keys=["k"])
    names = ["+I", "-U", "+U", "-D"]
    table.write({"k": [1, 5, 9], "v": ["a", "b", "c"], "w": [1, 2, 3], "_KIND": [names[kind] for kind in kinds]})
    file = replace(table.files[0], delete_row_count=0)

    assert _decoded(table, file).schema.names == ALL
    assert _decoded(table, file)["_VALUE_KIND"].to_pylist() == kinds
    assert _decoded(table, file, MERGE)["_VALUE_KIND"].to_pylist() == kinds


def _rewritten(subject: Subject, change: Callable[[pa.Table], pa.Table], **how: Any) -> DataFile:
    [path] = subject.data_paths()
    storage = subject.handle.env.storage
    sink = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(storage.read(path)))), sink, **how)
    storage.overwrite(path, sink.getvalue())
    return replace(subject.files[0], size_bytes=len(sink.getvalue()))


def test_a_footer_that_says_nothing(subject: Subject) -> None:
    file = _rewritten(subject, lambda rows: rows, write_statistics=["v"])

    assert _decoded(subject, file).schema.names == ALL


@pytest.mark.parametrize("scan", [OMIT, MERGE])
def test_one_row_group_of_several_with_a_delete(subject: Subject, scan: ScanOptions) -> None:
    kinds = pa.array([0, 0, 3], pa.int8())
    file = _rewritten(subject, lambda rows: rows.set_column(2, "_VALUE_KIND", kinds), row_group_size=2)

    location = bucket_location(subject.handle, EMPTY_ROW, 0)
    rows = read_data_file(subject.handle, location, file, ["k", "v"], with_system_columns=True, scan=scan)
    [batch] = rows
    assert batch.schema.names == ALL
    assert batch["_VALUE_KIND"] == kinds


@pytest.mark.parametrize("scan", [OMIT, MERGE])
@pytest.mark.parametrize("name", ["_VALUE_KIND", "_SEQUENCE_NUMBER"])
def test_a_file_that_lacks_one_of_them_is_refused_as_ever(subject: Subject, name: str, scan: ScanOptions) -> None:
    file = _rewritten(subject, lambda rows: rows.drop_columns([name]))

    with pytest.raises(CorruptTableError, match="expected columns"):
        _decoded(subject, file, scan)


@pytest.mark.parametrize("scan", [OMIT, MERGE])
def test_nulls_among_the_kinds_are_refused_as_ever(subject: Subject, scan: ScanOptions) -> None:
    kinds = pa.array([0, None, 0], pa.int8())
    file = _rewritten(subject, lambda rows: rows.set_column(2, "_VALUE_KIND", kinds))

    with pytest.raises(CorruptTableError, match="_VALUE_KIND is a null"):
        _decoded(subject, file, scan)


@pytest.mark.parametrize("kind", [4, -1])
def test_kinds_that_are_none_are_refused_in_a_merge(subject: Subject, kind: int) -> None:
    kinds = pa.array([kind, kind, kind], pa.int8())
    file = _rewritten(subject, lambda rows: rows.set_column(2, "_VALUE_KIND", kinds))

    with pytest.raises(CorruptTableError, match=f"_VALUE_KIND is {kind}"):
        _decoded(subject, file, MERGE)


def test_a_merge_does_not_decode_the_kinds_of_inserts(subject: Subject) -> None:
    """Which are filled in: the bytes of that column are not needed."""
    [path] = subject.data_paths()
    storage = subject.handle.env.storage
    data = bytearray(storage.read(path))
    chunk = pq.read_metadata(io.BytesIO(data)).row_group(0).column(2)
    assert chunk.path_in_schema == "_VALUE_KIND"
    begin = chunk.data_page_offset
    data[begin : begin + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    storage.overwrite(path, bytes(data))

    rows = _decoded(subject, subject.files[0], MERGE)

    assert (rows.schema.names, rows["_VALUE_KIND"].to_pylist()) == (ALL, [0, 0, 0])


OPTIONS: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "a sequence field": {"sequence.field": "w"},
    "partial-update": {"merge-engine": "partial-update", "fields.w.sequence-group": "v"},
    "aggregation": {"merge-engine": "aggregation", "fields.w.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row"},
    "ignore-delete": {"ignore-delete": "true"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_every_merge_engine_gives_its_rows_by_any_columns(make_table: MakeTable, options: dict[str, str]) -> None:
    """Before and after a compaction, and after deletes where the engine takes them."""
    table = make_table(COLUMNS, primary_keys=["k"], options={"bucket": "1", **options})
    table.write({"k": [1, 2, 3], "v": ["a", "b", "c"], "w": [1, 2, 3]})
    _agrees_with_all_columns(table)
    table.compact()
    _agrees_with_all_columns(table)
    table.write({"k": [2, 4], "v": ["x", "y"], "w": [5, 6]})
    _agrees_with_all_columns(table)
    if not options.keys() & {"merge-engine"}:
        table.write({"k": [1, 4], "v": [None, None], "w": [9, 9], "_KIND": ["-D", "-D"]})
        _agrees_with_all_columns(table)
    table.compact()
    _agrees_with_all_columns(table)


def _agrees_with_all_columns(table: Subject) -> None:
    rows = table.rows()
    assert table.rows(columns=["v"]) == sorted(((v,) for _, v, _ in rows), key=lambda row: (row[0] is None, row))
    assert table.rows("w > 1", ["v"]) == sorted((v,) for _, v, w in rows if w > 1)
    assert table.rows(columns=["k"]) == [(k,) for k, _, _ in rows]
    assert table.rows("k = 2", ["w"]) == [(w,) for k, _, w in rows if k == 2]


def test_row_kinds_are_those_of_the_file(tmp_path: Path) -> None:
    table = _table(tmp_path)
    rows = pa.table({"k": pa.array([1, 2]), "v": ["a", "b"]})
    table.write(rows, row_kinds=["+I", "+U"])

    assert table.to_arrow(["v"], with_row_kinds=True).to_pydict() == {"rowkind": ["+I", "+U"], "v": ["a", "b"]}
    assert table.to_arrow(["v"]).to_pydict() == {"v": ["a", "b"]}


def _table(tmp_path: Path) -> Any:
    return Catalog(str(tmp_path)).create_table(
        "db.t", schema={"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1"}
    )


def test_deletes_that_pypaimon_notes_as_none_stay_deleted(tmp_path: Path, pypaimon: PyPaimon) -> None:
    table = _table_with_a_delete_that_is_not_counted(tmp_path, pypaimon, {})

    assert table.files().column("deleteRowCount").to_pylist() == [0]
    assert table.to_arrow(["v"])["v"].to_pylist() == ["a", "c"]
    assert table.to_arrow(["v"], where="k > 1")["v"].to_pylist() == ["c"]


def test_a_large_file_with_deletes_that_pypaimon_does_not_count_is_merged(tmp_path: Path, pypaimon: PyPaimon) -> None:
    """Moved to the highest level as it is, it would bring deleted rows back: readers merge nothing there."""
    table = _table_with_a_delete_that_is_not_counted(tmp_path, pypaimon, {"target-file-size": "1 b"})

    table.compact(full=True)

    files = table.files()
    assert (files["level"].to_pylist(), files["record_count"].to_pylist()) == ([5], [2])
    assert pypaimon.read(table.path).column("k").to_pylist() == [1, 3]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_large_file_whose_rows_have_no_delete_moves_as_it_is(tmp_path: Path, file_format: str) -> None:
    options = {"target-file-size": "1 b", "file.format": file_format, "deletion-vectors.modifiable": "true"}
    table = _table_with_kinds(tmp_path, options)
    table.write(pa.table({"k": [1, 2], "v": ["a", "b"], "kind": ["+I", "+U"]}))
    [path] = table.files()["file_path"].to_pylist()

    expected = table.compact(full=True, dry_run=True).buckets[0].rewritten_bytes
    table.compact(full=True)

    assert expected == 0
    assert table.files().select(["file_path", "level"]).to_pylist() == [{"file_path": path, "level": 5}]
    table.alter([{"change": "set_option", "key": "deletion-vectors.enabled", "value": "true"}])
    assert table.to_arrow()["k"].to_pylist() == [1, 2]


@pytest.mark.parametrize("kind", ["-U", "-D"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_row_kinds_are_read_from_files_of_each_format(tmp_path: Path, file_format: str, kind: str) -> None:
    table = _table_with_kinds(tmp_path, {"file.format": file_format})
    table.write(pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"], "kind": ["+I", kind, "+I"]}))
    handle = load_table(table.path, EnvConfig(table.path))
    [entry] = live_entries(handle, latest_snapshot(handle))

    found = [kinds.to_pylist() for kinds in read_row_kinds(handle, bucket_location(handle, EMPTY_ROW, 0), entry.file)]

    assert found == [[0, {"-U": 1, "-D": 3}[kind], 0]]


def _table_with_kinds(tmp_path: Path, options: dict[str, str]) -> Any:
    return Catalog(str(tmp_path)).create_table(
        "db.t",
        schema={"k": "BIGINT NOT NULL", "v": "STRING", "kind": "STRING"},
        primary_keys=["k"],
        options={"bucket": "1", "rowkind.field": "kind", **options},
    )


def _table_with_a_delete_that_is_not_counted(tmp_path: Path, pypaimon: PyPaimon, options: dict[str, str]) -> Any:
    path = tmp_path / "db.db" / "t"
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string()), ("kind", pa.string())])
    options = {"bucket": "1", "rowkind.field": "kind", **options}
    pypaimon.create(path, schema, primary_keys=["k"], options=options)
    pypaimon.append(path, pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"], "kind": ["+I", "-D", "+I"]}, schema=schema))
    return open_table(str(path))
