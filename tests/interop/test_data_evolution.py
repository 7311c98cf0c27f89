"""Tables whose files have some of the columns, in turns with Java Paimon 2.0: reads, whole rows, compactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_engine import CorruptTableError, NotFoundError, UnsupportedError, open_table
from paimon_engine.executor import LocalExecutor
from paimon_engine.meta.column_files import column_groups
from paimon_engine.meta.manifest import DataFile
from tests.support.canonical import rows_of
from tests.support.evolution import FIELDS, OPTIONS, again, assert_alike, created
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_columns_are_those_of_the_newest_file(file_format: str, paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    table = created(paimon2, path, **{"file.format": file_format})

    found = assert_alike(paimon2, path)

    assert len(found) == 30
    assert [4, 204, "b4", [4, 4]] in found
    assert [3, None, "b3", [3, 3]] in found
    assert [14, 14, "new14", [14]] in found
    for snapshot in range(1, 7):
        assert_alike(paimon2, path, snapshot=snapshot)
    assert table.to_arrow(columns=["b"]).num_rows == 30
    assert table.verify("rows").status == "sound"


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("a = 204", 1),
        ("a = 104", 0),
        ("a = 4", 0),
        ("a = 25", 1),
        ("b = 'new14'", 1),
        ("b = 'b14'", 0),
        ("a IS NULL", 1),
        ("k < 5 AND a > 202", 1),
        ("k > 28", 1),
    ],
)
def test_filters_look_at_the_newest_values(where: str, count: int, paimon2: JavaPaimon, tmp_path: Path):
    table = created(paimon2, str(tmp_path / "t"))

    assert table.to_arrow(where=where).num_rows == count
    assert table.to_arrow(where=where, columns=["c"]).num_rows == count


def test_columns_that_came_later_are_null_where_no_file_has_them(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    created(paimon2, path)
    changes = [{"change": "rename", "name": "a", "to": "x"}, {"change": "add", "name": "a", "type": "DOUBLE"}]
    paimon2.call("alter", table=path, changes=changes)
    again(paimon2, path, ["a"], [[key / 2] for key in range(20, 30)], 20)

    found = assert_alike(paimon2, path)

    assert [4, 204, "b4", [4, 4], None] in found
    assert [25, 25, "b25", [25], 12.5] in found
    assert open_table(path).to_arrow(where="a = 12.5").num_rows == 1


def test_rows_are_deleted_by_the_vector_of_the_oldest_file(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    table = created(paimon2, path, **{"deletion-vectors.enabled": "true"})
    files = open_table(f"{path}$files").to_arrow().to_pylist()
    oldest = min(files, key=lambda one: (one["first_row_id"], one["max_sequence_number"]))
    name = Path(oldest["file_path"]).name
    paimon2.call("delete_positions", table=path, positions={name: [2, 3, 9]})

    found = assert_alike(paimon2, path)

    assert len(found) == 27
    assert not {2, 3, 9} & {row[0] for row in found}
    assert table.to_arrow(columns=["a"], where="k = 4").to_pydict() == {"a": [204]}


def test_what_java_has_compacted_is_read(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    created(paimon2, path)
    before = assert_alike(paimon2, path)

    paimon2.call("compact", table=path)

    assert assert_alike(paimon2, path) == before
    again(paimon2, path, ["b"], [[f"last{key}"] for key in range(30)], 0)
    assert assert_alike(paimon2, path) != before


def test_what_needs_other_files_is_refused(paimon2: JavaPaimon, tmp_path: Path):
    table = created(paimon2, str(tmp_path / "t"))
    rows = table.to_arrow()
    actions: list[Any] = [
        lambda: table.cluster(["a"]),
        lambda: table.rewrite_file_index(),
        lambda: table.remove_unexisting_files(),
        lambda: table.to_arrow(incremental=(1, 6)),
    ]
    for act in actions:
        with pytest.raises(UnsupportedError, match=r"data-evolution\.enabled"):
            act()

    assert table.latest_snapshot_id() == 6
    assert table.to_arrow() == rows


def with_ids(path: str) -> list[Any]:
    """Rows with their ids, without the numbers of snapshots, which a compaction makes those of the newest file."""
    return sorted(row[:-1] for row in rows_of(open_table(f"{path}$row_tracking").to_arrow()))


def test_whole_rows_are_written_in_turns(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    table = created(paimon2, path)
    rows = table.to_arrow(where="k >= 25")
    table.write(rows)
    again(paimon2, path, ["b"], [["theirs"]] * 5, 30)

    found = assert_alike(paimon2, path)
    assert len(found) == 35
    assert [row[2] for row in with_ids(path) if row[-1] >= 30] == ["theirs"] * 5
    assert [row[-1] for row in with_ids(path)] != []
    table.write(rows.slice(0, 1), overwrite={})
    assert assert_alike(paimon2, path) == rows_of(rows.slice(0, 1))
    assert [row[-1] for row in with_ids(path)] == [35], "an id is never given again"
    assert paimon2.problems(path) == []
    assert open_table(path).verify("rows").status == "sound"


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_compaction_keeps_the_ids_of_rows(file_format: str, paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    table = created(paimon2, path, **{"file.format": file_format})
    before, ids = assert_alike(paimon2, path), with_ids(path)

    done = table.compact(full=True)

    assert (done.files_before, done.files_after) == (6, 1)
    assert assert_alike(paimon2, path) == before
    assert with_ids(path) == ids
    [file] = open_table(f"{path}$files").to_arrow().to_pylist()
    assert (file["first_row_id"], file["min_sequence_number"], file["max_sequence_number"]) == (0, 1, 6)
    assert table.compact(full=True).status == "noop"

    # Columns are written again in the new file's rows, and new rows come; then both compact.
    again(paimon2, path, ["b"], [[f"last{key}"] for key in range(30)], 0)
    table.write(table.to_arrow(where="k < 2"))
    before, ids = assert_alike(paimon2, path), with_ids(path)
    assert [4, 204, "last4", [4, 4]] in before
    table.compact(full=True)
    assert (assert_alike(paimon2, path), with_ids(path)) == (before, ids)
    again(paimon2, path, ["a"], [[-key] for key in range(32)], 0)
    before = assert_alike(paimon2, path)
    paimon2.call("compact", table=path)
    assert assert_alike(paimon2, path) == before
    assert paimon2.problems(path) == []
    assert open_table(path).verify("rows").status == "sound"


@pytest.mark.parametrize("bits", ["false", "true"])
def test_deleted_rows_are_marked_in_the_new_file(bits: str, paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    table = created(paimon2, path, **{"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": bits})
    positions = {name: [2, 3, 9] for name in _anchors(path)}
    paimon2.call("delete_positions", table=path, positions=positions)
    before, ids = assert_alike(paimon2, path), with_ids(path)
    assert len(before) == 21

    table.compact(full=True)

    assert (assert_alike(paimon2, path), with_ids(path)) == (before, ids)
    [entry] = paimon2.call("index", table=path)["entries"]
    [name] = [Path(file["file_path"]).name for file in open_table(f"{path}$files").to_arrow().to_pylist()]
    assert name in str(entry)
    paimon2.call("delete_positions", table=path, positions={name: [0]})
    assert len(assert_alike(paimon2, path)) == 20
    assert paimon2.problems(path) == []


def _anchors(path: str) -> list[str]:
    files = sorted(open_table(f"{path}$files").to_arrow().to_pylist(), key=lambda one: -one["max_sequence_number"])
    return [Path(name).name for name in {one["first_row_id"]: one["file_path"] for one in files}.values()]


class _Meanwhile(LocalExecutor):
    """Lets another writer act once after the first tasks are done."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__(1)
        self._waiting = [act]

    def map(self, *args: Any, **how: Any) -> Any:
        done = super().map(*args, **how)
        if self._waiting:
            self._waiting.pop()()
        return done


@pytest.mark.parametrize("what", ["columns of some rows", "columns of all rows", "deleted rows"])
def test_what_another_writer_does_meanwhile_is_kept(what: str, paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    created(paimon2, path, **{"deletion-vectors.enabled": "true"})
    name = _anchors(path)[0]

    def act() -> None:
        if what == "deleted rows":
            paimon2.call("delete_positions", table=path, positions={name: [5]})
        elif what == "columns of some rows":
            again(paimon2, path, ["b"], [[f"meanwhile{key}"] for key in range(10, 20)], 10)
        else:
            for first in (0, 10, 20):
                again(paimon2, path, ["b"], [[f"meanwhile{key}"] for key in range(first, first + 10)], first)

    open_table(path, executor=_Meanwhile(act)).compact(full=True)

    found = assert_alike(paimon2, path)
    changed = {"deleted rows": 0, "columns of some rows": 10, "columns of all rows": 30}[what]
    assert sum(row[2].startswith("meanwhile") for row in found) == changed
    assert len(found) == (29 if what == "deleted rows" else 30)
    assert paimon2.problems(path) == []
    assert open_table(path).verify("rows").status == "sound"


def test_a_compaction_without_all_files_changes_nothing(paimon2: JavaPaimon, tmp_path: Path):
    path = tmp_path / "t"
    table = created(paimon2, str(path))
    files = open_table(f"{path}$files").to_arrow().to_pylist()
    lost = Path(max(files, key=lambda one: one["max_sequence_number"])["file_path"])
    content = lost.read_bytes()
    before = sorted(path.rglob("*"))

    lost.unlink()
    with pytest.raises(NotFoundError, match=lost.name):
        table.compact(full=True)
    lost.write_bytes(content[:-9])
    with pytest.raises(CorruptTableError, match=lost.name):
        table.compact(full=True)

    lost.write_bytes(content)
    assert sorted(path.rglob("*")) == before
    assert table.latest_snapshot_id() == 6


def test_rows_of_partitions_and_of_later_columns_are_compacted(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    fields = [["p", "STRING"], *FIELDS]
    paimon2.call("create_table", table=path, fields=fields, primary_keys=[], partition_keys=["p"], options=OPTIONS)
    for step in range(4):
        rows = [["xy"[step % 2], key, key, f"b{key}", [key]] for key in range(step * 10, step * 10 + 10)]
        paimon2.call("write", table=path, rows=rows)
    paimon2.call("alter", table=path, changes=[{"change": "add", "name": "d", "type": "DOUBLE"}])
    table = open_table(path)
    table.write(table.to_arrow(where="k = 7"))
    before, ids = assert_alike(paimon2, path), with_ids(path)

    assert table.compact(full=True).status == "noop", "ids of a partition's files do not follow each other"
    table.write(table.to_arrow(where="k = 17"))
    table.write(table.to_arrow(where="k = 17"))
    done = open_table(path).compact(full=True)

    assert (done.files_before, done.files_after) == (7, 6)
    assert len(assert_alike(paimon2, path)) == len(before) + 3
    assert with_ids(path)[: len(ids)] != []
    assert open_table(path).compact().status == "noop"
    assert open_table(path).verify("rows").status == "sound"


def test_files_that_overlap_in_part_are_damage():
    whole, part = (
        DataFile(name=f"{count}.parquet", size_bytes=1, row_count=count, extras={"_FIRST_ROW_ID": 0})
        for count in (10, 5)
    )
    with pytest.raises(CorruptTableError, match="row ids from 0"):
        column_groups([whole, part])
    for blob in (DataFile(name="x.blob", size_bytes=1, row_count=1), replace(part, name="x.blob", row_count=11)):
        with pytest.raises(CorruptTableError, match=r"x\.blob .* no file has the rows"):
            column_groups([whole, blob])
