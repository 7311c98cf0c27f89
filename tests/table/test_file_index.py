"""Tables with file indexes: what is written, which files and rows a read leaves out, and what Java makes of it."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, CorruptTableError, InvalidArgumentError, Table, UnsupportedError, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.format.file_index.container import read_head
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.predicate import parse_where
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.commit.abort import delete_uncommitted
from paimon_engine.table.commit.commit import CommitRequest, Committed, commit
from paimon_engine.table.compaction.reindex import ReindexTask, reindex
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.data_file import bucket_location, read_data_file
from paimon_engine.table.files.file_index import FileIndexWriter, wanted_indexes
from paimon_engine.table.files.index_filter import selected_rows
from paimon_engine.table.read.scan import plan_splits
from paimon_engine.table.state.handle import TableHandle, bucket_path, load_table
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.canonical import assert_same_rows
from tests.support.corpus import Case, case, corpus_cases
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon
from tests.support.row_bitmaps import rows_of
from tests.table.conftest import MakeTable, Subject

WITH_INDEXES = [case for case in corpus_cases() if "file_index" in str(case.id)]
COLUMNS = {"k": pa.int32(), "n": pa.int64(), "s": pa.string(), "m": pa.map_(pa.string(), pa.string())}
THRESHOLD = "file-index.in-manifest-threshold"
BY_KIND = {
    "bloom-filter": {"file-index.bloom-filter.columns": "n,s,m[a]", "file-index.bloom-filter.s.items": "100"},
    "bitmap": {"file-index.bitmap.columns": "n, s, m[a]"},
    "bitmap 2": {"file-index.bitmap.columns": "s", "file-index.bitmap.s.version": "2"},
    "bsi": {"file-index.bsi.columns": "n,k"},
    "range-bitmap": {"file-index.range-bitmap.columns": "n,s"},
    "all": {f"file-index.{kind}.columns": "n" for kind in ("bloom-filter", "bitmap", "bsi", "range-bitmap")},
}
FILTERS = [
    "s = 'w3'",
    "s = 'nothing'",
    "s IN ('w1', 'w5', 'x')",
    "NOT s IN ('w1', 'w5')",
    "s != 'w2'",
    "s IS NULL",
    "s IS NOT NULL AND n < 4",
    "n = 7",
    "n >= 3 AND n < 6",
    "n > 100 OR s = 'w4'",
    "NOT (n = 3 OR s = 'w3')",
    "n = 3 AND k > 20",
]


def handle_of(path: Path | str) -> TableHandle:
    return load_table(str(path), EnvConfig(str(path)))


def some_rows(seed: int, count: int = 40) -> dict[str, list[Any]]:
    rng = random.Random(seed)
    return {
        "k": [rng.randrange(60) for _ in range(count)],
        "n": [rng.choice([None, rng.randrange(-2, 9)]) for _ in range(count)],
        "s": [rng.choice([None, f"w{rng.randrange(7)}"]) for _ in range(count)],
        "m": [rng.choice([None, [], [("a", "x")], [("b", "y"), ("a", None)]]) for _ in range(count)],
    }


def unindexed(table: Subject) -> Subject:
    schema = table.handle.schema.with_options({"file-index.read.enabled": "false"})
    return Subject(TableHandle(table.handle.env, table.handle.config, table.handle.paths, schema))


# ── reading equals reading without ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("threshold", ["0 b", "9 mb"])
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("kind", BY_KIND)
def test_indexes_never_change_what_is_read(make_table: MakeTable, kind: str, threshold: str, *, keyed: bool):
    options = {**BY_KIND[kind], THRESHOLD: threshold, "metadata.stats-mode": "none"}
    keys = {"primary_keys": ["k"], "options": {**options, "bucket": "1"}} if keyed else {"options": options}
    table = make_table(COLUMNS, **keys)
    for seed in range(3):
        table.write(some_rows(seed))
    for step in range(2):
        assert all(file.extra_files if threshold == "0 b" else file.embedded_file_index for file in table.files)
        for where in FILTERS:
            assert table.rows(where, ["k", "n", "s"]) == unindexed(table).rows(where, ["k", "n", "s"]), where
        if step == 0:
            table.compact()
    assert check_table(table.handle) == []


def test_bitmaps_choose_the_rows_that_are_looked_at(make_table: MakeTable):
    table = make_table(COLUMNS, options=BY_KIND["bitmap"])
    table.write({"k": [1, 2, 3], "n": [5, 6, 5], "s": ["a", "b", None], "m": [None] * 3})
    [file] = table.files
    directory = bucket_path(table.handle, live_entries(table.handle, table.snapshot)[0].partition, 0)

    selected = selected_rows(table.handle, directory, file, parse_where("n = 5 AND s IS NOT NULL"))

    assert selected is not None
    assert rows_of(selected) == [0]


def test_the_index_in_the_manifest_leaves_out_files_while_planning(make_table: MakeTable):
    table = make_table(COLUMNS, options={**BY_KIND["bitmap"], "metadata.stats-mode": "none", THRESHOLD: "9 mb"})
    table.write(some_rows(1))

    assert plan_splits(table.handle, table.snapshot, parse_where("s = 'w100'")) == []
    assert len(plan_splits(unindexed(table).handle, table.snapshot, parse_where("s = 'w100'"))) == 1


def test_an_old_version_of_a_key_stays_hidden_where_runs_overlap(make_table: MakeTable):
    table = make_table(COLUMNS, primary_keys=["k"], options={**BY_KIND["bitmap"], "bucket": "1"})
    table.write({"k": [1, 2], "n": [5, 5], "s": ["old", "old"], "m": [None, None]})
    table.write({"k": [1], "n": [5], "s": ["new"], "m": [None]})

    assert table.rows("s = 'old'", ["k", "s"]) == [(2, "old")]


def test_a_column_with_a_default_is_not_looked_up(make_table: MakeTable):
    options = {**BY_KIND["bitmap"], "bucket": "1", "fields.s.default-value": "none"}
    table = make_table(COLUMNS, primary_keys=["k"], options=options)
    table.write({"k": [1, 2], "n": [5, 5], "s": [None, "b"], "m": [None, None]})

    assert table.rows("s = 'none'", ["k", "s"]) == [(1, "none")]


def test_the_difference_of_two_states_does_not_show_a_new_index(tmp_path: Path):
    table = Catalog(str(tmp_path)).create_table("db.t", schema=pa.schema({"n": pa.int64()}))
    table.write(pa.table({"n": [1, 2]}))
    indexed = open_table(table.path, options={"file-index.bitmap.columns": "n"})
    assert indexed.rewrite_file_index().files_indexed == 1

    options = {"incremental-between-scan-mode": "diff"}
    assert indexed.to_arrow(incremental=(1, 2), options=options).num_rows == 0


# ── what is stored ──────────────────────────────────────────────────────────────────────────────


def test_small_indexes_are_in_the_manifest_large_ones_in_files(make_table: MakeTable):
    options = {"file-index.bitmap.columns": "n", "file-index.bloom-filter.columns": "s"}
    small = make_table({"n": pa.int64(), "s": pa.string()}, options={"file-index.bitmap.columns": "n"})
    large = make_table({"n": pa.int64(), "s": pa.string()}, options=options)
    rows = {"n": [1, 2], "s": ["a", "b"]}

    [inside], [beside] = small.write(rows).files, large.write(rows).files

    assert inside.embedded_file_index is not None
    assert inside.extra_files == ()
    assert beside.embedded_file_index is None
    assert beside.extra_files == (f"{beside.name}.index",)


def test_values_of_one_key_of_a_map_are_indexed(make_table: MakeTable):
    table = make_table(COLUMNS, options={"file-index.bitmap.columns": "m[a],m[z]"})

    [file] = table.write({"k": [1], "n": [1], "s": ["x"], "m": [[("a", "1")]]}).files

    assert file.embedded_file_index is not None
    locations = read_head(io.BytesIO(file.embedded_file_index), "x")
    assert locations.keys() == {"m[a]", "m[z]"}


@pytest.mark.parametrize("one", WITH_INDEXES)
def test_indexes_have_the_bytes_that_java_gave_them(one: Case):
    assert_stored_bytes_are_ours(handle_of(one.table))


def assert_stored_bytes_are_ours(handle: TableHandle) -> None:
    for entry in live_entries(handle, latest_snapshot(handle)):
        index = FileIndexWriter(wanted_indexes(handle.schema))
        location = bucket_location(handle, entry.partition, entry.bucket)
        for rows in read_data_file(
            handle, location, entry.file, handle.schema.row_type.names, with_system_columns=False
        ):
            index.add(rows)

        assert index.finish() == stored_index(handle, entry)


def stored_index(handle: TableHandle, entry: ManifestEntry) -> bytes | None:
    if entry.file.embedded_file_index is not None:
        return entry.file.embedded_file_index
    directory = bucket_path(handle, entry.partition, entry.bucket)
    return handle.env.storage.read(f"{directory}/{entry.file.extra_files[0]}")


@pytest.mark.parametrize("threshold", ["0 b", "9 mb"])
def test_java_finds_rows_by_our_indexes(tmp_path: Path, oracle: JavaPaimon, threshold: str):
    options = {
        "file-index.bloom-filter.columns": "s,m[a]",
        "file-index.bloom-filter.s.items": "100",
        "file-index.bitmap.columns": "n",
        THRESHOLD: threshold,
        "bucket": "-1",
        "file.format": "avro",
        "metadata.stats-mode": "none",
    }
    schema = pa.schema(COLUMNS)
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, options=options)
    for seed in range(3):
        table.write(pa.table(some_rows(seed), schema))

    filters = [("s = 'w3'", ["=", "s", "w3"]), ("n = 3", ["=", "n", 3]), ("n IN (2, 7)", ["in", "n", [2, 7]])]
    filters += [("n IS NULL", ["isnull", "n"]), ("s = 'w9'", ["=", "s", "w9"])]
    for ours, theirs in filters:
        found = oracle.read(table.path, filter=theirs)
        assert_same_rows(table.to_arrow(where=ours), found, ours)
    # Of Avro files, Java gives all rows of those that it cannot leave out; here only indexes leave out any.
    kept = oracle.read(table.path, filter=["=", "s", "w3"], execute_filter=False)
    assert len(kept) > len(table.to_arrow(where="s = 'w3'"))
    assert oracle.read(table.path, filter=["=", "s", "w3 and more"], execute_filter=False) == []
    assert oracle.read(table.path, filter=["=", "n", 100], execute_filter=False) == []
    oracle.assert_sound(table.path)


JAVA_TYPES = {
    "TINYINT": [1, -128, None, 1],
    "SMALLINT": [1, -32768, None, 1],
    "INT": [7, -7, None, 7],
    "BIGINT": [1 << 40, -3, None, 1 << 40],
    "FLOAT": [1.5, -0.0, None, 0.0],
    "DOUBLE": [1.5, "NaN", None, "-Infinity"],
    "CHAR(3)": ["abc", "xyz", None, "abc"],
    "STRING": ["", "ü\U0001f600", None, "long " * 20],
    "DATE": ["1969-12-31", "2013-01-01", None, "1969-12-31"],
    "TIME(3)": ["00:00:00.001", "23:59:59.999", None, "00:00:00.001"],
    "TIMESTAMP(3)": ["1969-12-31T23:59:59.999", "2013-01-01T00:00:00", None, "2013-01-01T00:00:00"],
    "TIMESTAMP(6)": ["1969-12-31T23:59:59.999999", "2013-01-01T00:00:00", None, "2013-01-01T00:00:00"],
    "TIMESTAMP_LTZ(6)": ["1969-12-31T23:59:59.999999Z", "2013-01-01T00:00:00Z", None, "2013-01-01T00:00:00Z"],
}


@pytest.mark.parametrize("kind", ["bitmap", "bloom-filter"])
def test_every_type_is_indexed_as_java_does(tmp_path: Path, oracle: JavaPaimon, kind: str):
    path = str(tmp_path / "db.db/t")
    names = [f"c{number}" for number in range(len(JAVA_TYPES))]
    indexed = [*names, "m[a]", "m[z]"]
    options = {f"file-index.{kind}.columns": ",".join(indexed), "bucket": "-1"}
    if kind == "bloom-filter":
        options |= {f"file-index.{kind}.{name}.items": "50" for name in indexed}
    fields = [["m", "MAP<STRING, INT>"], *([name, kind] for name, kind in zip(names, JAVA_TYPES, strict=True))]
    oracle.call("create_table", table=path, fields=fields, primary_keys=[], partition_keys=[], options=options)
    maps = [None, [["a", 1]], [["b", 2]], [["b", 2], ["a", None]]]
    rows = [list(row) for row in zip(maps, *JAVA_TYPES.values(), strict=True)]
    for written in (rows, rows[2:3], rows * 30):
        oracle.call("write", table=path, rows=written)

    assert_stored_bytes_are_ours(handle_of(path))


def test_java_compacts_and_we_read_on(tmp_path: Path, oracle: JavaPaimon):
    options = {
        "file-index.bitmap.columns": "n",
        "file-index.bloom-filter.columns": "s",
        "bucket": "1",
        "bucket-key": "k",
    }
    schema = pa.schema(COLUMNS)
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, options=options)
    for seed in range(6):
        table.write(pa.table(some_rows(seed), schema))
    oracle.call("compact", table=table.path, full=True)

    for where in FILTERS:
        without = open_table(table.path, options={"file-index.read.enabled": "false"})
        assert sorted_rows(table, where) == sorted_rows(without, where)


def sorted_rows(table: Table, where: str) -> list[str]:
    return sorted(str(row) for row in table.to_arrow(where=where).to_pylist())


@pytest.mark.parametrize("threshold", ["0 b", "9 mb"])
def test_pypaimon_reads_tables_with_our_indexes(tmp_path: Path, pypaimon: PyPaimon, threshold: str):
    options = {"file-index.bitmap.columns": "n", "file-index.bsi.columns": "n", THRESHOLD: threshold, "bucket": "-1"}
    schema = pa.schema(COLUMNS)
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, options=options)
    table.write(pa.table(some_rows(1), schema))

    assert_same_rows(table.to_arrow(), pypaimon.read(table.path))


def test_rows_that_are_marked_as_deleted_stay_deleted(tmp_path: Path):
    for name in ("append_dv", "dv_parquet"):
        path = case(name).copy_to(tmp_path / name)
        column = handle_of(path).schema.row_type.names[-1]
        # The committer does not know of the vectors, which stay as they are.
        options = {"file-index.bitmap.columns": column, "deletion-vectors.enabled": "false"}
        handle = load_table(str(path), EnvConfig(str(path)), options=options)
        messages = []
        for entry in live_entries(handle, latest_snapshot(handle)):
            after = reindex(handle.env, ReindexTask(handle.plain(), entry.partition, entry.bucket, entry.file)).file
            messages.append(
                CommitMessage(entry.partition, entry.bucket, entry.total_buckets, (), (entry.file,), (after,))
            )
        assert isinstance(commit(handle, CommitRequest(messages, CommitKind.COMPACT, "me")), Committed)

        rows = open_table(str(path)).to_arrow()
        for value in rows[column].unique().to_pylist():
            where = f"{column} IS NULL" if value is None else f"{column} = {value!r}"
            assert open_table(str(path)).to_arrow(where=where).num_rows == rows[column].to_pylist().count(value)


# ── schemas change ──────────────────────────────────────────────────────────────────────────────


def test_a_renamed_column_is_found_by_its_old_name_in_the_index(tmp_path: Path, oracle: JavaPaimon):
    path = str(tmp_path / "db.db/t")
    options = {"file-index.bitmap.columns": "n", "metadata.stats-mode": "none", "bucket": "-1"}
    fields = [["k", "INT"], ["n", "INT"]]
    oracle.call("create_table", table=path, fields=fields, primary_keys=[], partition_keys=[], options=options)
    oracle.call("write", table=path, rows=[[1, 5], [2, 6]])
    oracle.call("alter", table=path, changes=[{"change": "rename", "name": "k", "to": "n2"}])
    oracle.call("alter", table=path, changes=[{"change": "rename", "name": "n", "to": "other"}])
    oracle.call("alter", table=path, changes=[{"change": "rename", "name": "n2", "to": "n"}])
    handle = handle_of(path)

    assert plan_splits(handle, latest_snapshot(handle), parse_where("other = 7")) == []
    assert open_table(path).to_arrow(where="other = 5").to_pylist() == [{"n": 1, "other": 5}]
    assert open_table(path).to_arrow(where="n = 1").to_pylist() == [{"n": 1, "other": 5}]


def test_a_column_whose_type_changed_is_not_looked_up(tmp_path: Path, oracle: JavaPaimon):
    path = str(tmp_path / "db.db/t")
    options = {"file-index.bitmap.columns": "n", "bucket": "-1"}
    oracle.call("create_table", table=path, fields=[["n", "INT"]], primary_keys=[], partition_keys=[], options=options)
    oracle.call("write", table=path, rows=[[5], [6]])
    oracle.call("alter", table=path, changes=[{"change": "type", "name": "n", "type": "BIGINT"}])

    assert open_table(path).to_arrow(where="n = 5").to_pylist() == [{"n": 5}]
    assert open_table(path).rewrite_file_index().files_cleared == 1


# ── what is wrong ───────────────────────────────────────────────────────────────────────────────


def test_a_damaged_index_is_named_and_need_not_be_looked_at(tmp_path: Path):
    options = {"file-index.bitmap.columns": "n", THRESHOLD: "0 b"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=pa.schema({"n": pa.int64()}), options=options)
    table.write(pa.table({"n": [1, 2]}))
    [path] = Path(table.path).rglob("*.index")
    path.write_bytes(path.read_bytes()[:30])

    with pytest.raises(CorruptTableError, match=path.name):
        table.to_arrow(where="n = 1")
    [problem] = check_table(handle_of(table.path))
    assert path.name in problem.what
    assert table.to_arrow()["n"].to_pylist() == [1, 2]
    without = open_table(table.path, options={"file-index.read.enabled": "false"})
    assert without.to_arrow(where="n = 1")["n"].to_pylist() == [1]


def test_unknown_index_types_are_refused_when_writing_and_passed_over_when_reading(tmp_path: Path):
    table = Catalog(str(tmp_path)).create_table("db.t", schema=pa.schema({"n": pa.int64()}))
    table.write(pa.table({"n": [1, 2]}))
    tomorrow = open_table(table.path, options={"file-index.of-tomorrow.columns": "n"})

    assert tomorrow.to_arrow(where="n = 1")["n"].to_pylist() == [1]
    with pytest.raises(UnsupportedError, match=r"'file-index\.of-tomorrow\.columns'"):
        tomorrow.write(pa.table({"n": [3]}))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"file-index.bitmap.columns": "absent"}, InvalidArgumentError, "no column 'absent'"),
        ({"file-index.bsi.columns": "s"}, UnsupportedError, "'file-index.bsi.columns': no such index of 's'"),
        (
            {"file-index.bitmap.columns": "n", "file-index.bitmap.n.version": "3"},
            InvalidArgumentError,
            "version' = '3'",
        ),
        ({"file-index.bloom-filter.columns": "n", "file-index.bloom-filter.n.fpp": "2"}, InvalidArgumentError, "fpp"),
    ],
)
def test_indexes_that_cannot_be_are_named_and_leave_no_file(
    tmp_path: Path, options: dict[str, str], error: type[Exception], message: str
):
    schema = pa.schema({"n": pa.int64(), "s": pa.string()})
    made = Catalog(str(tmp_path)).create_table("db.t", schema=schema)
    table = open_table(made.path, options=options)

    with pytest.raises(error, match=message):
        table.write(pa.table({"n": [1], "s": ["a"]}))
    assert not list(Path(table.path).rglob("data-*"))


def test_files_that_are_not_committed_are_deleted_with_their_indexes(make_table: MakeTable):
    table = make_table({"n": pa.int64()}, options={"file-index.bloom-filter.columns": "n"})
    messages = table.messages({"n": [1]})
    assert len(data_names(table)) == 2

    delete_uncommitted(table.handle, messages)

    assert data_names(table) == []


def data_names(table: Subject) -> list[str]:
    return [info.path for info in table.handle.env.storage.walk(table.path) if "/data-" in info.path]


def test_expired_files_are_deleted_with_their_indexes(tmp_path: Path):
    options = {"file-index.bloom-filter.columns": "n", "bucket": "1", "snapshot.num-retained.min": "1"}
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["n"], options=options)
    table.write(pa.table({"n": [1]}, schema))
    table.write(pa.table({"n": [1]}, schema))
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)

    names = {str(path) for path in Path(table.path).rglob("data-*")}
    [live] = table.files()["file_path"].to_pylist()
    assert names == {live, f"{live}.index"}
