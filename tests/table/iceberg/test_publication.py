"""Iceberg metadata of our own commits: what pyiceberg reads, after each action, after deaths, and beside others."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import CallbackError, Catalog, InvalidArgumentError, Table, UnsupportedError, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.errors import PaimonError, StorageError
from paimon_engine.meta.paths import TablePaths
from paimon_engine.table.commit import commit_callbacks
from paimon_engine.table.iceberg import publication
from paimon_engine.table.iceberg.place import Place, is_location_of
from paimon_engine.table.state.handle import load_table
from tests.support import iceberg

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("p", pa.string(), nullable=False),
        pa.field("m", pa.map_(pa.string(), pa.int32())),
        pa.field("s", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.string()))])),
    ]
)
STORAGE = "metadata.iceberg.storage"


def rows(begin: int, end: int) -> pa.Table:
    numbers = range(begin, end)
    columns = [list(numbers), [f"p{n % 2}" for n in numbers], [[("a", n)] for n in numbers]]
    return pa.table([*columns, [{"x": n, "l": ["y"] * (n % 3)} for n in numbers]], schema=SCHEMA)


def made(folder: Path, *, keys: bool = False, storage: str = "table-location", **options: str) -> Table:
    return Catalog(str(folder)).create_table(
        "db.t",
        schema=SCHEMA,
        partition_keys=["p"],
        primary_keys=["k", "p"] if keys else [],
        options={STORAGE: storage, "bucket": "1" if keys else "-1", **options},
    )


def metadata_of(table: Table) -> Path:
    return Path(table.path) / "metadata"


def check(table: Table, metadata: Path | None = None) -> None:
    """Iceberg shows the rows of the table, and no file is left that it does not need."""
    where = metadata or metadata_of(table)
    assert iceberg.rows(where) == iceberg.in_order(table.to_arrow().to_pylist())
    assert iceberg.version(where) == table.latest_snapshot_id()
    assert {path.name for path in where.iterdir()} == iceberg.names(where)


@pytest.mark.parametrize("keys", [False, True])
def test_rows_after_each_action(keys: bool, tmp_path: Path):
    table = made(tmp_path, keys=keys, **{"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "4"})

    for step in range(5):
        table.write(rows(step * 5, step * 5 + 10))
        table.compact(full=True)
        check(table)
    assert len(iceberg.document(metadata_of(table))["snapshots"]) <= 4
    table.drop_partition({"p": "p1"})
    check(table)
    table.expire_snapshots(retain_max=1, retain_min=1)
    check(table)
    assert len(iceberg.document(metadata_of(table))["snapshots"]) == 1


def test_keyed_rows_show_when_they_reach_the_highest_level(tmp_path: Path):
    table = made(tmp_path, keys=True)
    table.write(rows(0, 4))
    table.compact(full=True)
    before = iceberg.rows(metadata_of(table))
    table.write(rows(2, 8))

    assert iceberg.rows(metadata_of(table)) == before
    table.compact(full=True)
    check(table)


def test_a_warehouse_of_its_own(tmp_path: Path):
    table = made(tmp_path, storage="hadoop-catalog")
    table.write(rows(0, 3))
    metadata = tmp_path / "iceberg" / "db" / "t" / "metadata"
    check(table, metadata)
    table.write(rows(3, 5))
    check(table, metadata)

    Catalog(str(tmp_path)).drop_table("db.t")
    table = made(tmp_path, storage="hadoop-catalog")
    table.write(rows(7, 9))
    check(table, metadata)


def test_metadata_of_another_table_stays(tmp_path: Path):
    """A table that Iceberg itself keeps in that warehouse."""
    metadata = tmp_path / "iceberg" / "db" / "t" / "metadata"
    metadata.mkdir(parents=True)
    theirs = {"format-version": 2, "location": str(metadata.parent), "current-snapshot-id": -1, "snapshots": []}
    for version in (1, 2):
        (metadata / f"v{version}.metadata.json").write_text(json.dumps(theirs))
    table = made(tmp_path, storage="hadoop-catalog")

    with pytest.raises(CallbackError, match=r"v2.metadata.json is the Iceberg metadata of a table in"):
        table.write(rows(0, 3))

    assert [json.loads(path.read_text()) for path in metadata.iterdir()] == [theirs, theirs]
    assert table.to_arrow().num_rows == 3


@pytest.mark.parametrize("storage", ["table-location", "hadoop-catalog"])
def test_the_metadata_begins_again_where_the_table_was_renamed(storage: str, tmp_path: Path):
    table = made(tmp_path, storage=storage)
    for step in range(3):
        table.write(rows(step, step + 1))
    catalog = Catalog(str(tmp_path))

    catalog.rename_table("db.t", "db.u")
    renamed = catalog.table("db.u")
    metadata = metadata_of(renamed) if storage == "table-location" else tmp_path / "iceberg" / "db" / "u" / "metadata"
    for step in range(3, 6):
        renamed.write(rows(step, step + 1))

        check(renamed, metadata)
        assert iceberg.document(metadata)["location"] == renamed.path
    assert len(iceberg.document(metadata)["snapshots"]) == 3


def test_the_metadata_of_a_copy_names_the_files_of_the_copy(tmp_path: Path):
    table = made(tmp_path)
    table.write(rows(0, 3))
    copied = Path(table.path).with_name("copy")
    shutil.copytree(table.path, copied)
    copy = open_table(str(copied))

    copy.create_tag("now")

    check(copy)
    assert iceberg.document(metadata_of(copy))["location"] == str(copied)
    Catalog(str(tmp_path)).drop_table("db.t")
    copy.write(rows(3, 5))
    check(copy)


def test_the_metadata_goes_on_however_the_table_is_addressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = made(tmp_path)
    table.write(rows(0, 3))
    found = iceberg.document(metadata_of(table))["table-uuid"]
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)

    for number, address in enumerate([f"{tmp_path}/link/db.db/t", "db.db/t", f"file:{table.path}", f"{table.path}/"]):
        open_table(address).write(rows(3 + number, 4 + number))
        assert iceberg.document(metadata_of(table))["table-uuid"] == found, address
    check(table)


@pytest.mark.parametrize("location", ["hdfs://nn:8020/b/t", "hdfs:///b/t", "hdfs://others/b/t", "hdfs://ns/b//t/"])
def test_one_file_system_has_several_names(location: str, tmp_path: Path):
    path = made(tmp_path).path
    table = replace(load_table(path, EnvConfig(path)), paths=TablePaths("hdfs://ns/b/t", "main"))

    assert is_location_of(table, location)
    assert not is_location_of(table, f"{location}u")


@pytest.mark.parametrize(
    ("location", "is_same"),
    [("s3a://b/t", True), ("s3n://b/t/", True), ("s3://b/t", True), ("s3://b/u", False), ("/b/t", False), ("t", False)],
)
def test_a_location_is_compared_whichever_form_a_writer_gives_it(location: str, is_same: bool, tmp_path: Path):
    path = made(tmp_path).path
    table = load_table(path, EnvConfig(path))

    assert is_location_of(replace(table, paths=TablePaths("s3://b/t", "main")), location) is is_same


def test_tags_are_references(tmp_path: Path):
    table = made(tmp_path)
    table.write(rows(0, 3))
    table.create_tag("first")
    table.write(rows(3, 5))
    table.create_tag("second")

    refs = iceberg.document(metadata_of(table))["refs"]
    assert {name: ref["snapshot-id"] for name, ref in refs.items()} == {"first": 1, "second": 2}
    assert len(iceberg.rows(metadata_of(table), snapshot_id=1)) == 3
    table.delete_tag("first")
    assert list(iceberg.document(metadata_of(table))["refs"]) == ["second"]


def test_the_tag_of_a_job_at_work_is_no_reference(tmp_path: Path):
    table = made(tmp_path)
    table.write(rows(0, 3))
    table.create_tag("first")
    table.write(rows(3, 5))

    table.rollback_to_as_latest(tag="first")

    assert list(iceberg.document(metadata_of(table))["refs"]) == ["first"]
    check(table)


def test_a_rollback_takes_the_metadata_back(tmp_path: Path):
    table = made(tmp_path)
    for step in range(3):
        table.write(rows(step, step + 1))
    table.rollback(snapshot=2)
    check(table)
    table.write(rows(8, 9))
    check(table)


def test_another_history_is_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The process dies in a rollback before it takes the metadata back; another snapshot then has the same id."""
    table = made(tmp_path)
    for step in range(3):
        table.write(rows(step, step + 1))
    with monkeypatch.context() as patched:
        patched.setattr(commit_callbacks, "publish", lambda _: None)
        table.rollback(snapshot=2)
        patched.setattr("paimon_engine.actions.rollback.keep_iceberg", lambda _: None)
        table.write(rows(7, 8))
    assert iceberg.version(metadata_of(table)) == 3

    table.write(rows(8, 9))

    check(table)


def test_commits_that_were_missed_are_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = made(tmp_path)
    table.write(rows(0, 2))
    with monkeypatch.context() as patched:
        patched.setattr(commit_callbacks, "publish", lambda _: None)
        table.write(rows(2, 4))
        table.write(rows(4, 6))
    assert iceberg.version(metadata_of(table)) == 1

    table.write(rows(6, 8))

    check(table)
    assert [one["snapshot-id"] for one in iceberg.document(metadata_of(table))["snapshots"]] == [1, 2, 3, 4]
    assert len(iceberg.rows(metadata_of(table), snapshot_id=2)) == 4


def test_a_failure_does_not_undo_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = made(tmp_path)
    table.write(rows(0, 2))
    with monkeypatch.context() as patched:
        patched.setattr(Place, "write_list", fail)
        with pytest.raises(CallbackError, match="Iceberg metadata of .* is not up to date .*the disk is full"):
            table.write(rows(2, 4))
    assert table.to_arrow().num_rows == 4
    assert len(iceberg.rows(metadata_of(table))) == 2

    table.write(rows(4, 6))

    assert iceberg.rows(metadata_of(table)) == iceberg.in_order(table.to_arrow().to_pylist())


CLEAN_UPS: dict[str, Callable[[Table], object]] = {
    "expire": lambda table: table.expire_snapshots(retain_max=1, retain_min=1),
    "purge": lambda table: table.purge_files(),
    "roll back": lambda table: table.rollback(snapshot=1),
}


@pytest.mark.parametrize("clean_up", CLEAN_UPS)
def test_what_the_metadata_shows_stays_while_it_cannot_be_brought_up_to_date(
    clean_up: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    table = made(tmp_path)
    for begin in range(0, 8, 2):
        table.write(rows(begin, begin + 2))
    shown = iceberg.rows(metadata_of(table))
    with monkeypatch.context() as patched:
        patched.setattr(Place, "versions", fail)
        with pytest.raises(CallbackError):
            table.compact(full=True)
        with pytest.raises(CallbackError):
            CLEAN_UPS[clean_up](table)
        with suppress(CallbackError):
            table.remove_orphan_files(int(time.time() * 1000) - 1, confirm_latest_snapshot=table.latest_snapshot_id())
        assert iceberg.rows(metadata_of(table)) == shown

    table.write(rows(20, 21))
    table.expire_snapshots(retain_max=1, retain_min=1)

    assert iceberg.rows(metadata_of(table)) == iceberg.in_order(table.to_arrow().to_pylist())
    assert len(list(Path(table.path).rglob("data-*"))) == len(table.files())


def fail(*_: object) -> str:
    raise StorageError("the disk is full")


def test_many_runs_at_once(tmp_path: Path):
    table = made(tmp_path, **{"commit.max-retries": "100"})
    table.write(rows(0, 1))

    def write(number: int) -> None:
        open_table(table.path).write(rows(number, number + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(1, 13)))

    publication.publish(load_table(table.path, EnvConfig(table.path)))
    assert iceberg.rows(metadata_of(table)) == iceberg.in_order(table.to_arrow().to_pylist())
    assert iceberg.version(metadata_of(table)) == 13


def test_a_late_run_does_not_bring_a_snapshot_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Before it stores its metadata, the snapshot that it shows is rolled back, and another one gets its id."""
    table = made(tmp_path)
    table.write(rows(0, 2))
    finish, waits = publication._Run.finish, [True]

    def late(run: publication._Run, *given: object) -> bool:
        if waits.pop() if waits else False:
            table.rollback(snapshot=1)
            table.write(rows(6, 9))
        return finish(run, *given)

    monkeypatch.setattr(publication._Run, "finish", late)
    table.write(rows(2, 4))

    assert table.to_arrow().num_rows == 5
    check(table)


def test_branches_have_no_metadata(tmp_path: Path):
    table = made(tmp_path)
    table.write(rows(0, 2))
    table.create_branch("b")
    before = iceberg.document(metadata_of(table))

    open_table(f"{table.path}$branch_b").write(rows(2, 4))

    assert iceberg.document(metadata_of(table)) == before


def test_small_manifests_are_merged(tmp_path: Path):
    prefix = "metadata.iceberg.compaction"
    table = made(tmp_path, **{f"{prefix}.min.file-num": "3", f"{prefix}.max.file-num": "4"})
    for step in range(8):
        table.write(rows(step, step + 1))
        check(table)

    assert len(iceberg.manifests(metadata_of(table))) < 4


def test_names_of_iceberg_1_4(tmp_path: Path):
    table = made(tmp_path, **{"metadata.iceberg.manifest-legacy-version": "true"})
    for step in range(2):
        table.write(rows(step, step + 1))

    assert [one["added_data_files_count"] for one in iceberg.manifests(metadata_of(table))] == [1, 1]
    check(table)


def test_old_versions_stay_as_the_table_asks(tmp_path: Path):
    table = made(tmp_path, **{"metadata.iceberg.previous-versions-max": "2"})
    for step in range(5):
        table.write(rows(step, step + 1))
    there = sorted(path.name for path in metadata_of(table).glob("v*.json"))
    assert there == ["v3.metadata.json", "v4.metadata.json", "v5.metadata.json"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({STORAGE: "hive-catalog"}, InvalidArgumentError, r"needs 'metadata\.iceberg\.uri'"),
        ({STORAGE: "rest-catalog"}, InvalidArgumentError, r"needs 'metadata\.iceberg\.rest\.uri'"),
        (
            {STORAGE: "rest-catalog", "metadata.iceberg.rest.uri": "http://u:secret@x"},
            InvalidArgumentError,
            "contains a password",
        ),
        (
            {STORAGE: "rest-catalog", "metadata.iceberg.rest.uri": "http://x", "metadata.iceberg.format-version": "3"},
            UnsupportedError,
            "format-version",
        ),
        ({STORAGE: "moon"}, InvalidArgumentError, "choose one of"),
        ({"metadata.iceberg.format-version": "4"}, InvalidArgumentError, "choose one of 2, 3"),
        ({"metadata.iceberg.manifest-compression": "lzma"}, UnsupportedError, "'lzma'"),
        ({"metadata.iceberg.previous-versions-max": "x"}, InvalidArgumentError, "not an integer"),
        ({"deletion-vectors.enabled": "true"}, UnsupportedError, "deletion-vectors.bitmap64"),
    ],
)
def test_what_cannot_be_done_is_refused(options: dict[str, str], error: type[PaimonError], words: str, tmp_path: Path):
    with pytest.raises(error, match=words):
        made(tmp_path, **options).write(rows(0, 1))


def test_a_vector_column_is_refused(tmp_path: Path):
    columns = {"k": "BIGINT", "v": "VECTOR<FLOAT, 2>"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=columns, options={STORAGE: "table-location"})

    with pytest.raises(UnsupportedError, match="column 'v' is VECTOR"):
        table.write(pa.table({"k": [1], "v": [[1.0, 2.0]]}))
