"""Tables in which the snapshot orders the rows of a key: a commit has one row of each, whatever was written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, InvalidArgumentError, Table, UnsupportedError, open_table
from paimon_engine.action import Context
from paimon_engine.actions.write import Write, write
from paimon_engine.executor import LocalExecutor
from paimon_engine.meta.manifest import FileSource
from paimon_engine.meta.snapshot import CommitKind
from tests.support.key_places import handle_of
from tests.table.conftest import KIND, MakeTable, Subject

COLUMNS = {"k": pa.int64(), "v": pa.int64()}
OPTIONS = {"bucket": "1", "sequence.snapshot-ordering": "true", "write-only": "true"}


def a_table(make_table: MakeTable, **options: str) -> Subject:
    return make_table(COLUMNS, primary_keys=["k"], options={**OPTIONS, **options})


def on_disk(folder: Path, **options: str) -> Table:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
    return Catalog(str(folder)).create_table("db.t", schema=schema, primary_keys=["k"], options={**OPTIONS, **options})


def test_new_files_have_the_number_of_their_snapshot_and_compacted_ones_that_of_their_rows(make_table: MakeTable):
    table = a_table(make_table)
    for number in range(1, 4):
        table.write({"k": [number, 9], "v": [number, number]})
        newest = max(table.files, key=lambda file: file.max_sequence_number)
        assert (newest.min_sequence_number, newest.max_sequence_number) == (number, number)
    assert table.rows() == [(1, 1), (2, 2), (3, 3), (9, 3)]
    table.compact()
    (file,) = table.files
    assert (file.file_source, file.min_sequence_number, file.max_sequence_number) == (FileSource.COMPACT, 1, 3)
    assert table.rows() == [(1, 1), (2, 2), (3, 3), (9, 3)]


def test_a_file_that_only_moves_keeps_the_number_of_its_snapshot(make_table: MakeTable):
    table = a_table(make_table).write({"k": [5, 6], "v": [1, 1]}).compact()
    (moved,) = table.files
    assert (moved.file_source, moved.level, moved.min_sequence_number) == (FileSource.APPEND, 5, 1)
    table.write({"k": [5], "v": [7]})
    assert table.rows() == [(5, 7), (6, 1)]
    assert table.compact().rows() == [(5, 7), (6, 1)]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_flushes_of_one_write_become_one_run(make_table: MakeTable, engine: str, monkeypatch: pytest.MonkeyPatch):
    sums = {"fields.v.aggregate-function": "sum"} if engine == "aggregation" else {}
    table = a_table(make_table, **{"merge-engine": engine, "write-buffer-size": "1 b", **sums})
    batches = [
        pa.record_batch({"k": pa.array(keys), "v": pa.array(values)})
        for keys, values in (([1, 2, 3], [1, 1, 1]), ([3, 4], [2, 2]), ([2, 9], [3, 3]))
    ]
    table.write(pa.Table.from_batches(batches))

    (file,) = table.files
    assert (file.file_source, file.level, file.row_count) == (FileSource.APPEND, 0, 5)
    assert len(table.data_paths()) == 1, "the flushes are not left behind"
    newest = {"first-row": [1, 1, 1, 2, 3], "aggregation": [1, 4, 3, 2, 3]}.get(engine, [1, 3, 2, 2, 3])
    table.compact()
    assert table.rows() == list(zip([1, 2, 3, 4, 9], newest, strict=True))


def test_deletes_of_a_later_flush_delete(make_table: MakeTable):
    table = a_table(make_table, **{"write-buffer-size": "1 b"}).write({"k": [1, 2], "v": [1, 1]})
    batches = [pa.record_batch({"k": pa.array([2, 3]), "v": pa.array([5, 5]), KIND: pa.array(["+I", "+I"])})]
    batches += [pa.record_batch({"k": pa.array([2]), "v": pa.array([5]), KIND: pa.array(["-D"])})]
    table.write(pa.Table.from_batches(batches))
    assert table.rows() == [(1, 1), (3, 5)]


def test_a_failure_while_flushes_are_joined_leaves_no_file(make_table: MakeTable, monkeypatch: pytest.MonkeyPatch):
    table = a_table(make_table, **{"write-buffer-size": "1 b"}).write({"k": [1], "v": [1]})
    before = table.data_paths()

    def fails(*_: object) -> None:
        raise OSError("no room left")

    monkeypatch.setattr("paimon_engine.table.write.joined_flushes.merge_section", fails)
    batches = [pa.record_batch({"k": pa.array([key]), "v": pa.array([5])}) for key in (1, 1)]
    with pytest.raises(OSError, match="no room left"):
        table.messages(pa.Table.from_batches(batches))
    assert table.data_paths() == before


def test_two_prepared_writes_of_the_same_keys_are_not_committed_as_one(make_table: MakeTable):
    table = a_table(make_table)
    first, second = (table.messages({"k": [1, 5], "v": [number, number]}) for number in range(2))
    with pytest.raises(InvalidArgumentError, match=r"overlap in their keys, and 'sequence\.snapshot-ordering'"):
        table.commit([*first, *second], CommitKind.APPEND)
    assert table.snapshot is None
    table.commit(second, CommitKind.APPEND).commit(first, CommitKind.APPEND)
    assert table.rows() == [(1, 0), (5, 0)], "the one that was committed last"


def test_a_commit_that_loses_a_race_gets_the_number_of_its_own_snapshot(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
):
    table = a_table(make_table).write({"k": [1], "v": [1]})
    late, early = table.messages({"k": [1], "v": [100]}), table.messages({"k": [1], "v": [2]})
    storage = table.handle.env.storage
    create, waiting = storage.create, [early]

    def overtaken(path: str, data: bytes) -> bool:
        if path.endswith("snapshot-2") and waiting:
            table.commit(waiting.pop(), CommitKind.APPEND)
        return create(path, data)

    monkeypatch.setattr(storage, "create", overtaken)
    table.commit(late, CommitKind.APPEND)

    assert not waiting
    assert sorted(file.min_sequence_number for file in table.files) == [1, 2, 3]
    assert table.rows() == [(1, 100)]


def test_files_of_many_tasks_hold_each_key_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("paimon_engine.table.write.source_files.TASK_BYTES", 1)
    table = on_disk(tmp_path / "lake", bucket="3")
    for number in range(4):
        pq.write_table(pa.table({"k": [*range(20)], "v": [number] * 20}), tmp_path / f"{number}.parquet")
    write(Context(handle_of(table), LocalExecutor(4)), Write(str(tmp_path / "*.parquet")))
    assert table.to_arrow().sort_by("k").to_pydict() == {"k": [*range(20)], "v": [3] * 20}
    files = open_table(f"{table.path}$files").to_arrow().to_pylist()
    assert (sum(file["record_count"] for file in files), len(files)) == (20, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"write-only": "false"}, "needs 'write-only' = 'true'"),
        ({"sequence.field": "v"}, "exclude each other"),
    ],
)
def test_options_that_contradict_it_are_refused(tmp_path: Path, options: dict[str, str], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        on_disk(tmp_path, **options)


def test_postponed_rows_are_refused_by_name(tmp_path: Path):
    with pytest.raises(UnsupportedError, match=r"'sequence\.snapshot-ordering' together with 'bucket' = '-2'"):
        on_disk(tmp_path, bucket="-2")
