"""check_table finds what is wrong with a table, and nothing in tables that Java wrote."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.env import EnvConfig
from paimon_engine.errors import InsufficientMemoryError, SparkError, StorageError, unreadable
from paimon_engine.executor import Failed
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.meta.stats import ColumnStats, to_simple_stats
from paimon_engine.table.check.findings import Problem, problem_of
from paimon_engine.table.check.table_check import Depth, check_table
from paimon_engine.table.commit.commit import CommitRequest, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import live_entries, read_manifest_list
from paimon_engine.table.state.metadata_writer import MetadataWriter
from paimon_engine.table.state.snapshots import latest_snapshot, read_snapshot
from tests.support.corpus import Case, corpus_cases
from tests.support.world.made_up import History


@pytest.mark.parametrize("case", corpus_cases())
def test_tables_written_by_java_are_valid(case: Case) -> None:
    assert check_table(load_table(str(case.table), EnvConfig(str(case.table)))) == []


def _rewrite_snapshot(history: History, **changes: Any) -> None:
    path = history.handle.paths.snapshot(3)
    value = json.loads(history.storage.read(path))
    history.storage.overwrite(path, json.dumps({**value, **changes}).encode())


def _delete_list(history: History) -> None:
    path = history.handle.paths.snapshot(3)
    name = json.loads(history.storage.read(path))["deltaManifestList"]
    history.storage.delete([history.handle.paths.manifest(name)])


DAMAGES: dict[str, tuple[Callable[[History], Any], str, str]] = {
    "a data file is missing": (lambda h: h.storage.delete([h.path("c.orc")]), "snapshot 3", "c.orc is missing"),
    "an extra file is missing": (lambda h: h.storage.delete([h.path("c.orc.index")]), "snapshot 3", "index is missing"),
    "a tag's file is missing": (lambda h: h.storage.delete([h.path("a.orc")]), "snapshot 1", "a.orc is missing"),
    "a data file is cut": (lambda h: h.storage.overwrite(h.path("c.orc"), b"0"), "snapshot 3", "has 1 bytes"),
    "a snapshot is missing": (
        lambda h: h.storage.delete([h.handle.paths.snapshot(2)]),
        "snapshot 3",
        "follows snapshot 1",
    ),
    "a list is missing": (_delete_list, "snapshot 3", "manifest-list"),
    "a wrong total": (lambda h: _rewrite_snapshot(h, totalRecordCount=77), "snapshot 3", "says 77 records"),
    "a wrong delta": (lambda h: _rewrite_snapshot(h, deltaRecordCount=77), "snapshot 3", "77 records more"),
    "a schema that is not there": (lambda h: _describe(h, schema_id=9), "schema-9", "schema-9"),
    "sequence numbers the wrong way round": (
        lambda h: _describe(h, min_sequence_number=8, max_sequence_number=3),
        "snapshot 4",
        "has sequence numbers 8 to 3",
    ),
    "a manifest of another size": (lambda h: _rewrite_list(h, _FILE_SIZE=7), "snapshot 3", "and should have 7"),
    "a manifest with more files": (
        lambda h: _rewrite_list(h, _NUM_ADDED_FILES=7),
        "manifest/manifest-",
        "a manifest list says 7 and 0",
    ),
    "changelog records of nothing": (
        lambda h: _rewrite_snapshot(h, changelogRecordCount=5),
        "snapshot 3",
        "says 5 changelog records, its files have 0",
    ),
    "a hint that leads nowhere": (
        lambda h: h.storage.overwrite(h.handle.paths.latest_hint, b"9"),
        "snapshot/LATEST",
        "names snapshot 9, which is not there",
    ),
    "a list that is not its own": (
        lambda h: _rewrite_snapshot(h, baseManifestList=_base_list(h, 1), baseManifestListSize=None),
        "snapshot 3",
        "removed but was never added",
    ),
}


def _describe(history: History, **changes: Any) -> None:
    """One more snapshot, with a file of which its manifest says something else."""
    message = CommitMessage(EMPTY_ROW, 0, 1, new_files=(replace(history.file("d"), **changes),))
    commit(history.handle, CommitRequest([message], CommitKind.APPEND, "careless"))


def _rewrite_list(history: History, **changes: Any) -> None:
    """The newest snapshot's base list says something else of its first manifest."""
    path = history.handle.paths.manifest(_base_list(history, 3))
    reader = fastavro.reader(io.BytesIO(history.storage.read(path)))
    records = [{**record, **(changes if index == 0 else {})} for index, record in enumerate(reader)]
    sink = io.BytesIO()
    assert reader.writer_schema is not None
    fastavro.writer(sink, reader.writer_schema, records)
    history.storage.overwrite(path, sink.getvalue())
    _rewrite_snapshot(history, baseManifestListSize=None)


def _base_list(history: History, snapshot_id: int) -> str:
    path = history.handle.paths.snapshot(snapshot_id)
    return str(json.loads(history.storage.read(path))["baseManifestList"])


@pytest.mark.parametrize(("damage", "where", "what"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_found(damage: Callable[[History], Any], where: str, what: str) -> None:
    history = History().write("a").write("b").compact("c")
    assert check_table(history.handle) == []

    damage(history)

    problems = check_table(history.handle)
    assert any(where in problem.where and what in problem.what for problem in problems), problems


def test_overlapping_files_are_found() -> None:
    history = History().write("a")
    message = CommitMessage(EMPTY_ROW, 0, 1, new_files=(history.file("x", level=3), history.file("y", level=3)))
    # Appends are committed without a look at keys: writers only ever add files of level 0.
    commit(history.handle, CommitRequest([message], CommitKind.APPEND, "careless"))

    assert "overlap" in " ".join(problem.what for problem in check_table(history.handle))


def test_a_wrong_row_count_in_a_footer_is_found() -> None:
    history = History()
    sink = io.BytesIO()
    pq.write_table(pa.table({"k": [1, 2]}), sink)
    history.storage.overwrite(history.path("x.parquet"), sink.getvalue())
    file = replace(history.file("x"), name="x.parquet", size_bytes=len(sink.getvalue()), row_count=3)
    message = CommitMessage(EMPTY_ROW, 0, 1, new_files=(file,))
    commit(history.handle, CommitRequest([message], CommitKind.APPEND, "writer"))

    problems = check_table(history.handle)

    assert problems == [Problem(history.path("x.parquet"), "has 2 rows, its manifest says 3")]
    assert check_table(history.handle, footers=False) == []


def test_a_snapshot_that_cannot_be_read_is_a_finding_and_the_others_are_looked_at() -> None:
    history = History().write("a").write("b").compact("c")
    history.storage.overwrite(history.handle.paths.snapshot(2), b"{")
    history.storage.delete([history.path("c.orc")])

    problems = check_table(history.handle)

    assert any(problem.where == history.handle.paths.snapshot(2) for problem in problems)
    assert any("c.orc is missing" in problem.what for problem in problems)


def test_a_snapshot_that_does_not_continue_the_one_before_is_found() -> None:
    history = History().write("a").write("b").write("x")
    first, second = (entry for entry in live_entries(history.handle, read_snapshot(history.handle, 2)))
    writer = MetadataWriter(history.handle)
    foreign = replace(second, file=history.file("z"))
    base, _ = writer.manifest_list(writer.manifests([first, foreign]))

    _rewrite_snapshot(history, baseManifestList=base, baseManifestListSize=None)

    what = "does not continue snapshot 2: its base lacks 1 of its files, such as b.orc and has 1 others, such as z.orc"
    assert check_table(history.handle, depth=Depth.METADATA) == [Problem("snapshot 3", what)]


def test_a_manifest_list_that_hides_a_partition_is_found(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("p", pa.int32())])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, partition_keys=["p"], options={"bucket": "-1"})
    table.write(pa.table({"k": [1, 2], "p": [1, 5]}, schema))
    handle = table._handle
    snapshot = latest_snapshot(handle)
    assert snapshot is not None
    (manifest,) = read_manifest_list(handle, snapshot.delta_manifest_list)
    hidden = to_simple_stats([field.type for field in handle.schema.partition_type], [ColumnStats(1, 2, 0)])
    name, _ = MetadataWriter(handle).manifest_list([replace(manifest, partition_stats=hidden)])
    stored = Path(handle.paths.snapshot(1))
    stored.write_text(
        json.dumps({**json.loads(stored.read_text()), "deltaManifestList": name, "deltaManifestListSize": None})
    )

    found = table.verify("metadata")

    what = "its files are in 1 partitions outside the statistics in its manifest list"
    assert Problem(handle.paths.manifest(manifest.name), what) in found.problems


@pytest.fixture
def stored(tmp_path: Path) -> Table:
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    options = {"bucket": "1", "file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    table.write(pa.table({"k": [1, 2], "v": ["a", "b"]}, schema))
    table.analyze()
    return table


@pytest.mark.parametrize(
    ("kind", "keep", "what"),
    [
        ("statistics/*", 0.5, "JSON"),
        ("statistics/*", 0, "JSON"),
        ("bucket-0/*.index", 0.9, "bytes expected"),
    ],
)
def test_an_incomplete_file_of_unknown_size_is_found(stored: Table, kind: str, keep: float, what: str) -> None:
    (path,) = Path(stored.path).glob(kind)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])

    found = stored.verify("files")

    assert [path.name in problem.what and what in problem.what for problem in found.problems] == [True]


def test_a_footer_that_cannot_be_decoded_is_reported_in_a_line(stored: Table) -> None:
    (path,) = Path(stored.path).glob("bucket-0/*.parquet")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"_SEQUENCE_NUMBER", b"\xb1SEQUENCE_NUMBER"))

    found = stored.verify("files")

    assert found.status == "damaged"
    assert not any("\n" in problem.what for problem in found.problems), found.problems


@pytest.mark.parametrize(
    "error",
    [
        StorageError("s3://t/data: SlowDown"),
        SparkError("the executor is lost"),
        unreadable("data.orc", "an ORC file", pa.ArrowMemoryError("malloc of size 64 failed")),
        MemoryError("no memory is left"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_says_nothing_of_a_file_ends_a_verification(error: Exception):
    kind = InsufficientMemoryError if isinstance(error, MemoryError) else type(error)
    with pytest.raises(kind, match=re.escape(str(error))):
        problem_of(Failed.of(error))


def test_what_a_decoder_raises_is_a_problem_of_its_file():
    assert problem_of(Failed.of(KeyError("bound"))) == "cannot be read: 'bound'"
