"""Tables with deletion vectors: which rows are seen, which filters choose files, and what keeps such tables whole."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine import Catalog, ConflictError, CorruptTableError, PaimonError, Table, UnsupportedError, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.format.avro import read_records, write_records
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.deletion_vector import decode_index_file, encode_index_file
from paimon_engine.meta.index_manifest import (
    DELETION_VECTORS,
    INDEX_MANIFEST_SCHEMA,
    index_file_to_record,
    index_files,
)
from paimon_engine.meta.snapshot import parse_snapshot
from paimon_engine.predicate import parse_where, to_arrow_expression
from paimon_engine.table.check.findings import Problem
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.read.scan import plan_splits
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import live_entries, live_index_files
from paimon_engine.table.state.snapshots import latest_snapshot, read_snapshot, snapshot_ids, tag_names
from tests.support.canonical import Row, assert_same_rows
from tests.support.corpus import Case, case, corpus_cases
from tests.support.oracle import JavaPaimon
from tests.support.row_bitmaps import rows_of

WITH_VECTORS = [
    *corpus_cases("deletion-vectors.enabled"),
    *corpus_cases("deletion vectors on an append table"),
]


def handle_of(path: Path | str) -> TableHandle:
    return load_table(str(path), EnvConfig(str(path)))


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a corpus table that may be changed."""
    return lambda name: case(name).copy_to(tmp_path)


# ── rows ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("one", WITH_VECTORS)
def test_filters_on_any_column_choose_the_same_rows_as_afterwards(one: Case):
    table = open_table(str(one.table))
    names = [field.name for field in table.arrow_schema if pa.types.is_integer(field.type)]
    for snapshot in snapshot_ids(handle_of(one.table)):
        everything = table.to_arrow(snapshot=snapshot)
        for name in names:
            for where in (f"{name} < 20", f"{name} = 42", f"{name} IS NULL", f"{name} >= 50 OR {names[0]} = 3"):
                expected = everything.filter(_expression(where, everything.schema))
                found = table.to_arrow(where=where, snapshot=snapshot)
                assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist())), where


def _expression(where: str, schema: pa.Schema) -> Any:
    return to_arrow_expression(parse_where(where), schema)


def test_ranges_of_values_leave_out_files_although_keys_overlap():
    table = handle_of(case("dv_write_only").table)
    files = [entry.file for entry in live_entries(table, latest_snapshot(table)) if entry.file.level > 0]

    splits = plan_splits(table, latest_snapshot(table), parse_where("a < -9"))

    planned = [file.name for split in splits for section in split.sections for run in section for file in run]
    assert 0 < len(planned) < len(files)


@pytest.mark.parametrize("columns", [["b"], ["a", "b"], ["k"]])
def test_columns_may_be_few(columns: list[str]):
    table = open_table(str(case("dv_parquet").table))

    found = table.to_arrow(columns)

    assert found.schema.names == columns
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, table.to_arrow().select(columns).to_pylist()))


def test_level_0_is_not_seen_before_it_is_compacted():
    table = handle_of(case("dv_write_only").table)
    levels = {entry.file.level for entry in live_entries(table, latest_snapshot(table))}
    assert 0 in levels

    splits = plan_splits(table, latest_snapshot(table))

    assert {file.level for split in splits for section in split.sections for run in section for file in run} == (
        levels - {0}
    )


POSITIONS: dict[str, Sequence[int]] = {
    "single rows": [0, 1, 5, 39, 69_999],
    "three and four in a row": [*range(100, 103), *range(200, 204)],
    "across two containers": range(65_530, 65_545),
    "a run and the container's last row": [*range(300, 900), 65_535],
    "every third row": range(0, 60_000, 3),
    "scattered rows": sorted(random.Random(5).sample(range(70_000), 7_000)),
    "nearly all rows": [row for row in range(70_000) if row % 1_000],
    "all rows": range(70_000),
}


def test_rows_deleted_by_java_are_not_read_and_its_vectors_are_written_the_same(oracle: JavaPaimon, tmp_path: Path):
    path = tmp_path / "db.db" / "t"
    rows: list[Row] = [[number, number // 2] for number in range(70_000)]
    create = {"op": "create_table", "fields": [["id", "INT"], ["half", "INT"]], "primary_keys": []}
    oracle.run(path, [{**create, "partition_keys": [], "options": {"deletion-vectors.enabled": "true"}}])
    oracle.run(path, [{"op": "write", "rows": rows}])
    table = handle_of(path)
    written = latest_snapshot(table)
    (entry,) = live_entries(table, written)

    for name, positions in POSITIONS.items():
        oracle.run(path, [{"op": "delete_positions", "positions": {entry.file.name: list(positions)}}])

        snapshot = latest_snapshot(table)
        (file,) = live_index_files(table, snapshot)
        place = table.paths.index(file.name)
        data = table.env.storage.read(place)
        ranges = {one.data_file: (one.offset, one.length) for one in file.vectors}
        vectors = decode_index_file(data, ranges, place)
        assert rows_of(vectors[entry.file.name]) == list(positions), name
        assert encode_index_file(vectors) == (data, ranges), name
        assert encode_index_file({entry.file.name: RowBitmap.of(np.array(positions))}) == (data, ranges), name
        gone = set(positions)
        left = [row for number, row in enumerate(rows) if number not in gone]
        assert_same_rows(open_table(str(path)).to_arrow(), left)
        assert check_table(table) == []
        # The next vector begins again, on the table as it was written.
        oracle.call("rollback", table=str(path), snapshot=written.id if written else None)


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_positions_count_rows_of_the_file_in_every_format(oracle: JavaPaimon, tmp_path: Path, file_format: str):
    path = tmp_path / "db.db" / "t"
    options = {"deletion-vectors.enabled": "true", "file.format": file_format}
    create = {"op": "create_table", "fields": [["id", "INT"], ["s", "STRING"]], "primary_keys": []}
    oracle.run(path, [{**create, "partition_keys": [], "options": options}])
    oracle.run(path, [{"op": "write", "rows": [[number, f"s{number}"] for number in range(70_000)]}])
    (entry,) = live_entries(handle_of(path), latest_snapshot(handle_of(path)))
    gone = {*range(0, 70_000, 7), *range(65_000, 66_000)}

    oracle.run(path, [{"op": "delete_positions", "positions": {entry.file.name: sorted(gone)}}])

    found = open_table(str(path)).to_arrow(["id"], where="id >= 64990 AND s IS NOT NULL")
    assert found["id"].to_pylist() == [number for number in range(64_990, 70_000) if number not in gone]


# ── written ─────────────────────────────────────────────────────────────────────────────────────


def deleted_counts(path: Path) -> dict[str, int | None]:
    """Rows deleted by vectors, by data file."""
    table = handle_of(path)
    files = live_index_files(table, latest_snapshot(table))
    return {vector.data_file: vector.cardinality for file in files for vector in file.vectors}


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("one", WITH_VECTORS)
def test_tables_of_java_are_written_and_compacted_as_java_does(
    one: Case, tmp_path: Path, oracle: JavaPaimon, *, full: bool
):
    ours, theirs = (one.copy_to(tmp_path / name) for name in ("ours", "theirs"))
    rows = open_table(str(ours)).to_arrow().slice(0, 7)
    for path in (ours, theirs):
        open_table(str(path)).write(rows)
        schema = handle_of(path).schema
        if rows.num_rows and schema.primary_keys and schema.table_options.merge_engine != "partial-update":
            open_table(str(path)).write(rows.slice(0, 2), row_kinds=["-D"] * min(2, rows.num_rows))

    open_table(str(ours)).compact(full=full)
    oracle.run(theirs, [{"op": "compact", "full": full}])

    oracle.assert_sound(ours)
    assert check_table(handle_of(ours)) == []
    assert sorted(map(repr, oracle.read(ours))) == sorted(map(repr, oracle.read(theirs)))
    assert_same_rows(open_table(str(ours)).to_arrow(), oracle.read(ours))
    if full:
        assert deleted_counts(ours) == {}


def test_a_replaced_row_is_marked_in_its_file(tmp_path: Path):
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "9"}
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    table.write(pa.table({"k": range(100), "v": [0] * 100}, schema=schema))
    table.compact(full=True)
    (base,) = table.files()["file_path"].to_pylist()

    table.write(pa.table({"k": [3, 5, 200], "v": [1, 1, 1]}, schema=schema), row_kinds=["+U", "-D", "+I"])
    assert table.to_arrow().num_rows == 100, "level 0 is not seen yet"
    table.compact()

    assert deleted_counts(Path(table.path)) == {base.rpartition("/")[2]: 2}
    assert sorted(table.to_arrow(where="v = 1")["k"].to_pylist()) == [3, 200]
    assert table.to_arrow().num_rows == 100


@pytest.mark.parametrize("keys", [["k"], []])
def test_rows_are_marked_after_java_has_left_an_index_file_without_vectors(
    tmp_path: Path, oracle: JavaPaimon, keys: list[str]
):
    options = {"bucket": "1", "deletion-vectors.enabled": "true", **({} if keys else {"bucket-key": "k"})}
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=keys, options=options)

    def mark(*gone: int) -> None:
        if keys:
            table.write(pa.table({"k": gone, "v": [0] * len(gone)}, schema), row_kinds=["-D"] * len(gone))
            table.compact()
        else:
            table.delete(f"k IN ({', '.join(map(str, gone))})")

    for begin in range(0, 100, 20):
        table.write(pa.table({"k": range(begin, begin + 20), "v": [0] * 20}, schema))
    oracle.run(table.path, [{"op": "compact", "full": True}])
    mark(3, 4)
    table.write(pa.table({"k": [99] if keys else [100], "v": [1]}, schema))
    oracle.run(table.path, [{"op": "compact", "full": True}])
    handle = handle_of(Path(table.path))
    assert [file.vectors for file in live_index_files(handle, latest_snapshot(handle))] == [()]

    mark(5, 6)

    left = [*range(3), *range(7, 100), *([] if keys else [100])]
    assert sorted(table.to_arrow()["k"].to_pylist()) == left
    assert sorted(row[0] for row in oracle.read(table.path)) == left
    oracle.assert_sound(table.path)
    assert check_table(handle_of(Path(table.path))) == []


@pytest.mark.parametrize(("threshold", "rewritten"), [("0.5", False), ("0.1", True)])
def test_files_are_rewritten_when_enough_of_their_rows_are_deleted(tmp_path: Path, threshold: str, *, rewritten: bool):
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "compaction.delete-ratio-threshold": threshold}
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    table.write(pa.table({"k": range(100)}, schema=schema))
    table.compact(full=True)
    table.write(pa.table({"k": range(0, 100, 5)}, schema=schema), row_kinds=["-D"] * 20)
    table.compact()
    assert list(deleted_counts(Path(table.path)).values()) == [20]

    table.compact()

    assert (deleted_counts(Path(table.path)) == {}) is rewritten
    assert table.to_arrow().num_rows == 80


def test_wide_vectors_are_written_by_option(tmp_path: Path):
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    table.write(pa.table({"k": range(100)}, schema=schema))
    table.compact(full=True)
    table.write(pa.table({"k": [4]}, schema=schema), row_kinds=["-D"])
    table.compact()

    (file,) = (tmp_path / "db.db" / "t" / "index").iterdir()
    assert file.read_bytes()[5:9].hex() == "d1d33964"
    assert table.to_arrow().num_rows == 99


def _message(table: TableHandle) -> CommitMessage:
    files = live_index_files(table, latest_snapshot(table))
    names = {vector.data_file for file in files for vector in file.vectors}
    entry = next(entry for entry in live_entries(table, latest_snapshot(table)) if entry.file.name in names)
    return CommitMessage(entry.partition, entry.bucket, entry.total_buckets, compact_before=(entry.file,))


@pytest.mark.parametrize("name", ["dv_parquet", "append_dv"])
def test_data_files_are_not_removed_without_their_vectors(copy: Callable[[str], Path], name: str):
    path = copy(name)
    before = stored(path)

    with pytest.raises(ConflictError, match="deletion vectors of data files that are removed"):
        open_table(str(path)).commit([_message(handle_of(path))], commit_user="me", kind="COMPACT")

    assert stored(path) == before


# ── refused ─────────────────────────────────────────────────────────────────────────────────────


def test_index_files_outside_the_table_are_refused(copy: Callable[[str], Path]):
    path = copy("dv_parquet")
    change_index_records(path, lambda record: record | {"_EXTERNAL_PATH": f"s3://elsewhere/{record['_FILE_NAME']}"})

    with pytest.raises(UnsupportedError, match="external-paths.allowed"):
        open_table(str(path)).to_arrow()


# ── life cycle ──────────────────────────────────────────────────────────────────────────────────


def stored(path: Path) -> set[str]:
    return {str(item.relative_to(path)) for item in path.rglob("*") if item.is_file()}


def index_metadata_of_roots(path: Path) -> set[str]:
    """Index manifests and index files that snapshots and tags name, worked out from the files alone."""
    needed = set()
    for root in [*path.glob("snapshot/snapshot-*"), *path.glob("tag/tag-*")]:
        name = parse_snapshot(root.read_text(), str(root)).index_manifest
        if name is not None:
            records = read_records((path / "manifest" / name).read_bytes(), name)
            needed |= {f"manifest/{name}", *(f"index/{record['_FILE_NAME']}" for record in records)}
    return needed


def index_metadata_in_store(path: Path) -> set[str]:
    return {name for name in stored(path) if name.startswith(("index/", "manifest/index-manifest-"))}


def rows_of_roots(read: Callable[..., list[Row]], path: Path) -> dict[str, list[str]]:
    """Rows of every snapshot and tag, sorted."""
    table = handle_of(path)
    found = {f"snapshot {number}": read(path, snapshot=number) for number in snapshot_ids(table)}
    found |= {f"tag {tag}": read(path, tag=tag) for tag in tag_names(table)}
    return {root: sorted(map(str, rows)) for root, rows in found.items()}


def _expire(table: Table) -> None:
    table.expire_snapshots(retain_max=2)


def _tag_and_expire(table: Table) -> None:
    ids = snapshot_ids(handle_of(table.path))
    table.create_tag("early", ids[1])
    table.create_tag("late", ids[-1])
    table.expire_snapshots(retain_max=1)


def _expire_and_delete_tags(table: Table) -> None:
    _tag_and_expire(table)
    table.delete_tag("early")


def _roll_back(table: Table) -> None:
    table.create_tag("kept", snapshot_ids(handle_of(table.path))[0])
    table.rollback(snapshot_ids(handle_of(table.path))[3])


def _roll_back_to_tag(table: Table) -> None:
    table.create_tag("target", snapshot_ids(handle_of(table.path))[2])
    table.expire_snapshots(retain_max=1)
    table.rollback(tag="target")


LIVES = {
    "expire": _expire,
    "tag and expire": _tag_and_expire,
    "expire and delete tags": _expire_and_delete_tags,
    "roll back": _roll_back,
    "roll back to a tag": _roll_back_to_tag,
}


@pytest.mark.parametrize("live", LIVES.values(), ids=LIVES.keys())
@pytest.mark.parametrize("one", WITH_VECTORS)
def test_what_is_left_needs_exactly_the_index_files_that_are_left(one: Case, live: Any, tmp_path: Path):
    path = one.copy_to(tmp_path)
    before = index_metadata_in_store(path)

    live(open_table(str(path)))

    left = index_metadata_in_store(path)
    # Index files that no snapshot named before are not ours to judge; Java leaves some of its own attempts behind.
    assert left - (before - index_metadata_of_roots(one.table)) == index_metadata_of_roots(path)
    assert check_table(handle_of(path)) == []


@pytest.mark.parametrize("live", LIVES.values(), ids=LIVES.keys())
@pytest.mark.parametrize("name", ["dv_parquet", "dv_dynamic_bucket", "append_dv_compact"])
def test_java_reads_what_is_left_and_works_on(copy: Callable[[str], Path], oracle: JavaPaimon, live: Any, name: str):
    path = copy(name)
    original = rows_of_roots(oracle.read, case(name).table)

    live(open_table(str(path)))

    oracle.assert_sound(path)
    assert rows_of_roots(oracle.read, path).items() <= _with_tags(original, path).items()
    oracle.call("compact", table=str(path), full=True)
    oracle.assert_sound(path)
    assert_same_rows(open_table(str(path)).to_arrow(), oracle.read(path))
    assert check_table(handle_of(path)) == []


def _with_tags(original: dict[str, list[str]], path: Path) -> dict[str, list[str]]:
    """The rows of the table's tags are those that their snapshots had."""
    tags = [parse_snapshot(tag.read_text(), str(tag)).id for tag in sorted(path.glob("tag/tag-*"))]
    names = sorted(tag.name[len("tag-") :] for tag in path.glob("tag/tag-*"))
    return original | {f"tag {name}": original[f"snapshot {number}"] for name, number in zip(names, tags, strict=True)}


def test_an_index_manifest_that_cannot_be_read_keeps_every_file(copy: Callable[[str], Path]):
    path = copy("dv_parquet")
    name = read_snapshot(handle_of(path), 11).index_manifest
    (path / "manifest" / str(name)).write_bytes(b"Obj\x01 and no more")
    before = stored(path)

    result = open_table(str(path)).expire_snapshots(retain_max=2)

    assert result.expired_snapshots == tuple(range(1, 11))
    assert result.deleted == ()
    assert any(str(name) in reason for reason in result.stopped)
    assert {gone.rpartition("/")[2] for gone in before - stored(path)} == {f"snapshot-{n}" for n in range(1, 11)}


# ── damage ──────────────────────────────────────────────────────────────────────────────────────


def change_index_records(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Changes every vector record of the latest index manifest."""
    place = path / "manifest" / str(latest_snapshot(handle_of(path)).index_manifest)  # type: ignore[union-attr]
    files = index_files(read_records(place.read_bytes(), str(place)), str(place))
    records = [
        change(index_file_to_record(file)) if file.kind == DELETION_VECTORS else index_file_to_record(file)
        for file in files
    ]
    place.write_bytes(write_records(INDEX_MANIFEST_SCHEMA, records))


def vectors_of(path: Path) -> Path:
    """An index file of the latest snapshot that holds vectors."""
    files = live_index_files(handle_of(path), latest_snapshot(handle_of(path)))
    return path / "index" / next(file.name for file in files if file.vectors)


def read_all(path: Path) -> pa.Table:
    return open_table(str(path)).to_arrow()


@pytest.mark.parametrize("name", ["dv_parquet", "append_dv"])
def test_a_bit_of_an_index_file_never_changes_the_rows(copy: Callable[[str], Path], name: str):
    path = copy(name)
    file, expected = vectors_of(path), sorted(map(str, read_all(path).to_pylist()))
    data = file.read_bytes()

    for place in range(len(data)):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        assert [problem for problem in check_table(handle_of(path)) if file.name in problem.what], place
        if place == 0:
            # The version byte: vectors are read by their offset, each with its own magic number.
            assert sorted(map(str, read_all(path).to_pylist())) == expected
            continue
        with pytest.raises(CorruptTableError, match=f"{file.name}: deletion vector at offset"):
            read_all(path)


@pytest.mark.parametrize("name", ["dv_parquet", "append_dv"])
def test_a_cut_index_file_is_named(copy: Callable[[str], Path], name: str):
    path = copy(name)
    file = vectors_of(path)
    data = file.read_bytes()

    for length in range(len(data)):
        file.write_bytes(data[:length])
        with pytest.raises(CorruptTableError, match=f"{file.name}: it has {length} bytes, and should have {len(data)}"):
            read_all(path)


def test_a_damaged_index_manifest_gives_a_named_error_or_rows(copy: Callable[[str], Path]):
    path = copy("dv_parquet")
    place = path / "manifest" / str(latest_snapshot(handle_of(path)).index_manifest)  # type: ignore[union-attr]
    data = place.read_bytes()
    chance = random.Random(11)
    errors = 0

    for number in range(100):
        damaged = bytearray(data)
        if number % 3:
            damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        else:
            del damaged[chance.randrange(len(data)) :]
        place.write_bytes(damaged)
        try:
            read_all(path)
        except PaimonError:
            errors += 1
        # A look at the whole table never fails, it reports.
        check_table(handle_of(path))

    assert errors > 33


def _overlong(record: dict[str, Any]) -> dict[str, Any]:
    ranges = record["_DELETIONS_VECTORS_RANGES"]
    return record | {"_DELETIONS_VECTORS_RANGES": [item | {"_CARDINALITY": 77} for item in ranges]}


def test_check_table_finds_vectors_that_say_something_else(copy: Callable[[str], Path]):
    path = copy("dv_parquet")
    file = vectors_of(path)

    change_index_records(path, lambda record: _overlong(record) | {"_ROW_COUNT": 5})

    texts = [problem.what for problem in check_table(handle_of(path))]
    assert any(f"{file.name} has 1 vectors, its manifest says 5" in text for text in texts), texts
    assert any("marks 10 rows as deleted, its manifest says 77" in text for text in texts), texts


def test_check_table_finds_vectors_of_another_bucket(copy: Callable[[str], Path]):
    """Java looks for vectors by bucket, and would show the rows again."""
    path = copy("dv_parquet")

    change_index_records(path, lambda record: record | {"_BUCKET": 7})

    assert any("is stored for bucket 7" in problem.what for problem in check_table(handle_of(path)))


def test_check_table_finds_marks_beyond_the_rows_of_a_file(copy: Callable[[str], Path]):
    path = copy("dv_parquet")
    table, file = handle_of(path), vectors_of(path)
    index = next(one for one in live_index_files(table, latest_snapshot(table)) if one.name == file.name)
    (vector,) = index.vectors
    rows = next(
        e.file.row_count for e in live_entries(table, latest_snapshot(table)) if e.file.name == vector.data_file
    )
    found = decode_index_file(file.read_bytes(), {vector.data_file: (vector.offset, vector.length)}, file.name)
    marked = [*rows_of(found[vector.data_file])[:-1], rows]
    data, _ = encode_index_file({vector.data_file: RowBitmap.of(np.array(marked))})
    assert len(data) == index.size_bytes

    file.write_bytes(data)

    # The row is missed in silence by a read, so somebody has to say it.
    what = f"the vector of {vector.data_file} marks row {rows} as deleted, the file has {rows} rows"
    problems = check_table(table)
    assert Problem("snapshot 12", f"{table.paths.index(file.name)}: {what}") in problems
    assert {problem.what for problem in problems} == {f"{table.paths.index(file.name)}: {what}"}


def test_check_table_finds_a_missing_index_file(copy: Callable[[str], Path]):
    path = copy("dv_parquet")
    file = vectors_of(path)

    file.unlink()

    problems = check_table(handle_of(path))
    assert Problem("snapshot 12", f"{file} is missing") in problems


def test_splits_travel_to_workers():
    table = handle_of(case("dv_parquet").table)
    splits = plan_splits(table, latest_snapshot(table))

    assert any(split.vectors for split in splits)
    assert pickle.loads(pickle.dumps(splits)) == splits
