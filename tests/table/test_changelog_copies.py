"""Row groups of which all rows are new are copied to the changelog as bytes, which changes nothing of what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, StorageError, Table
from paimon_engine.format.layout import BatchLimit
from paimon_engine.format.parquet_row_groups import StoredRowGroup
from paimon_engine.lsm.plan import CompactTask
from paimon_engine.merge import frontier
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.compaction import compaction_round
from paimon_engine.table.compaction.rewrite import RewriteTask, rewrite
from paimon_engine.table.compaction.row_group_copies import RowGroupCopies
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import PlainTable
from paimon_engine.table.state.manifests import changelog_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.newest import NewestPaimon
from tests.support.oracle import JavaPaimon
from tests.support.random_tables import RandomTable
from tests.support.seeds import seeds
from tests.support.small_row_groups import copied_row_groups, make_row_groups_small
from tests.table.conftest import KIND, MakeTable, Subject

GROUP_ROWS = 7
SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("text", pa.string()), ("number", pa.float64()), ("part", pa.int32())]
)
CHANGES = {"incremental-between-scan-mode": "changelog"}


def in_small_windows(
    table: PlainTable, task: CompactTask, *given: Any, window_rows: int = 3, **how: Any
) -> RewriteTask:
    """The task with batches of few rows, and so windows."""
    return RewriteTask(table, replace(task, limit=BatchLimit(window_rows)), *given, copied_bytes_min=1, **how)


@pytest.fixture(autouse=True)
def copied(monkeypatch: pytest.MonkeyPatch) -> list[StoredRowGroup]:
    """Makes row groups and windows small; the row groups that were copied."""
    make_row_groups_small(monkeypatch, GROUP_ROWS)
    monkeypatch.setattr(frontier, "SMALL_ROWS", 1)
    monkeypatch.setattr(compaction_round, "RewriteTask", in_small_windows)
    return copied_row_groups(monkeypatch)


def rows_in(copied: Sequence[StoredRowGroup]) -> int:
    """Rows of row groups."""
    return sum(group.row_count for group in copied)


def rows_of(keys: Sequence[int], **columns: Any) -> pa.Table:
    made = {
        "k": keys,
        "text": [f"t{key % 3}" for key in keys],
        "number": [key / 2 for key in keys],
        "part": [1] * len(keys),
    }
    return pa.table(made | columns, SCHEMA)


def table_of(folder: Path, **options: str) -> Table:
    given = {"bucket": "1", "changelog-producer": "lookup", "num-levels": "4", **options}
    return Catalog(str(folder)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=given)


def with_an_older_row(folder: Path, copied: list[StoredRowGroup]) -> Table:
    """A table of keys that its last compaction found new, but for one that it found before."""
    table = table_of(folder)
    table.write(rows_of([30]))
    table.compact(full=True)
    table.write(rows_of(range(0, 60, 2)))
    table.write(rows_of(range(1, 60, 2)))
    copied.clear()
    table.compact(full=True)
    return table


def changes_of(table: Table) -> list[tuple[Any, ...]]:
    """What the changelog of the newest snapshot says: kind and key, sorted by key."""
    snapshot = table.latest_snapshot_id()
    assert snapshot is not None
    log = Catalog(str(Path(table.path).parents[1])).table("db.t$audit_log")
    rows = log.to_arrow(["rowkind", "k"], incremental=(snapshot - 1, snapshot), options=CHANGES).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=lambda row: row[1])


def changelog_files(table: Table) -> list[DataFile]:
    handle = table._handle
    return [entry.file for entry in changelog_entries(handle, latest_snapshot(handle))]


# ── as without copies ───────────────────────────────────────────────────────────────────────────


def stored(subject: Subject, files: Sequence[DataFile]) -> dict[str, list[dict[str, Any]]]:
    """The rows of files by their key, in the order in which the files have them."""
    keys = subject.handle.schema.trimmed_primary_keys
    found: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        path = next(Path(subject.path).rglob(file.name))
        for row in pq.ParquetFile(path, page_checksum_verification=True).read().to_pylist():
            found.setdefault(repr([row[name] for name in keys]), []).append(
                {name: repr(one) for name, one in row.items()}
            )
    return found


def of_changelog(messages: Sequence[CommitMessage]) -> list[DataFile]:
    return [file for message in messages for file in message.changelog_files]


def random_table(make_table: MakeTable, seed: int) -> tuple[RandomTable, Subject]:
    drawn, random = RandomTable(seed), Random(f"changelog {seed}")
    drawn.partition_keys = [name for name in drawn.partition_keys if name in drawn.primary_keys[:-1]]
    options = {
        "bucket": "1",
        "target-file-size": random.choice(["2 kb", "1 mb"]),
        "changelog-producer": random.choice(["lookup", "full-compaction"]),
    }
    for name in ("metadata.stats-mode", "file.compression", "file.compression.per.level"):
        if name in drawn.options and random.random() < 0.6:
            options[name] = drawn.options[name]
    if random.random() < 0.2:
        options["data-file.thin-mode"] = "true"
    return drawn, make_table(
        drawn.schema,
        primary_keys=drawn.primary_keys,
        partition_keys=drawn.partition_keys,
        options=options,
        on_disk=True,
    )


@pytest.mark.parametrize("reads_ahead", [False, True])
@pytest.mark.parametrize("seed", [seed for seed in seeds(18) if RandomTable(seed).primary_keys])
def test_a_changelog_with_copies_says_what_one_without_does(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, seed: int, *, reads_ahead: bool
):
    drawn, subject = random_table(make_table, seed)
    # Row groups end within windows, or windows within row groups.
    window_rows = Random(f"window {seed}").choice([3, 10, 40])
    for number in range(5):
        rows, kinds = drawn.batch()
        subject.write(rows if kinds is None else rows.append_column(KIND, pa.array(kinds)))
        tasks = [
            in_small_windows(subject.handle.plain(), task, window_rows=window_rows, reads_ahead=reads_ahead)
            for task in subject.plan(full=number % 2 == 0)
        ]
        messages = [rewrite(subject.handle.env, task) for task in tasks]
        with monkeypatch.context() as patched:
            patched.setattr(RowGroupCopies, "are_for_changelogs", False)
            plain = [rewrite(subject.handle.env, task) for task in tasks]
        assert stored(subject, of_changelog(messages)) == stored(subject, of_changelog(plain))
        for copies, others in zip(messages, plain, strict=True):
            assert sum(file.row_count for file in copies.changelog_files) == sum(
                file.row_count for file in others.changelog_files
            )
        if messages:
            subject.commit(messages, CommitKind.COMPACT)


def described(files: Sequence[DataFile]) -> list[DataFile]:
    return [replace(file, name="", size_bytes=0, creation_time_ms=0) for file in files]


@pytest.mark.parametrize("mode", ["truncate(16)", "full", "counts", "none"])
def test_manifests_say_of_copies_what_they_say_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: list[StoredRowGroup], mode: str
):
    options = {"metadata.stats-mode": mode}
    table, plain = table_of(tmp_path / "copies", **options), table_of(tmp_path / "plain", **options)
    for one in (table, plain):
        one.write(rows_of(range(0, 60, 2)))
        one.write(rows_of(range(1, 60, 2)))
    table.compact()
    monkeypatch.setattr(RowGroupCopies, "are_for_changelogs", False)
    plain.compact()

    assert rows_in(copied) == 60
    assert described(changelog_files(table)) == described(changelog_files(plain))


# ── which ones ──────────────────────────────────────────────────────────────────────────────────


def test_rows_that_are_all_new_are_encoded_once(tmp_path: Path, copied: list[StoredRowGroup]):
    table = table_of(tmp_path)
    table.write(rows_of(range(0, 60, 2)))
    table.write(rows_of(range(1, 60, 2)))

    table.compact()

    assert rows_in(copied) == 60
    assert changes_of(table) == [("+I", key) for key in range(60)]
    [data], [changelog] = table.files()["file_path"].to_pylist(), changelog_files(table)
    begin, end = 4, pq.read_metadata(data).row_group(0).total_byte_size
    assert (Path(data).with_name(changelog.name)).read_bytes()[begin:end] == Path(data).read_bytes()[begin:end]


def test_a_row_group_with_an_older_row_is_encoded(tmp_path: Path, copied: list[StoredRowGroup]):
    table = with_an_older_row(tmp_path, copied)

    assert 0 < rows_in(copied) < 60
    expected = [("+I", key) for key in range(60) if key != 30]
    assert changes_of(table) == sorted([*expected, ("-U", 30), ("+U", 30)], key=lambda row: row[1])
    encoded, copies = sorted(changelog_files(table), key=lambda file: file.row_count)
    assert encoded.row_count + copies.row_count == 61
    assert table.verify("rows").problems == ()


def test_a_few_rows_are_not_read_back(tmp_path: Path, copied: list[StoredRowGroup]):
    table = table_of(tmp_path)
    for key in range(GROUP_ROWS - 1):
        table.write(rows_of([key]))

    table.compact()

    assert copied == []
    assert changes_of(table) == [("+I", key) for key in range(GROUP_ROWS - 1)]


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-file.format": "orc"},
        {"changelog-file.format": "avro"},
        {"changelog-file.compression": "snappy"},
        {"file.format": "orc"},
        {"file.compression": "none", "changelog-file.compression": "zstd"},
        {"file-index.bloom-filter.columns": "text"},
    ],
    ids=lambda options: " ".join(f"{name}={value}" for name, value in options.items()),
)
def test_changelogs_that_are_written_otherwise_are_encoded(
    tmp_path: Path, copied: list[StoredRowGroup], options: Mapping[str, str]
):
    table = table_of(tmp_path, **options)
    table.write(rows_of(range(0, 60, 2)))
    table.write(rows_of(range(1, 60, 2)))

    table.compact()

    assert copied == []
    assert changes_of(table) == [("+I", key) for key in range(60)]
    assert table.verify("rows").problems == ()


def test_values_without_bounds_are_read_back(tmp_path: Path, copied: list[StoredRowGroup]):
    """Footers do not say that a column has NaN, which manifests have to."""
    table = table_of(tmp_path)
    numbers = [float("nan") if key == 40 else key / 2 for key in range(0, 60, 2)]
    table.write(rows_of(range(0, 60, 2), number=numbers))
    table.write(rows_of(range(1, 60, 2)))

    table.compact()

    assert copied == []
    assert changes_of(table) == [("+I", key) for key in range(60)]
    assert sum(file.row_count for file in changelog_files(table)) == 60
    assert table.verify("rows").problems == ()


def test_first_row_tables_copy_what_is_new(tmp_path: Path, copied: list[StoredRowGroup]):
    table = table_of(tmp_path, **{"merge-engine": "first-row"})
    table.write(rows_of(range(0, 60, 2)))
    table.write(rows_of(range(1, 60, 2)))
    table.compact()
    assert rows_in(copied) == 60
    table.write(rows_of(range(55, 200)))

    table.compact()

    assert changes_of(table) == [("+I", key) for key in range(60, 200)]
    assert table.verify("rows").problems == ()


@pytest.mark.parametrize("window_rows", [3, 10])
def test_updates_beside_new_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: list[StoredRowGroup], window_rows: int
):
    """Keys that come in order, as those of events do, and now and then an older one again."""
    monkeypatch.setattr(compaction_round, "RewriteTask", partial(in_small_windows, window_rows=window_rows))
    table, state = table_of(tmp_path, **{"target-file-size": "4 kb"}), {}
    chance = Random(5)
    for step in range(12):
        keys = sorted(
            {*range(30 * step, 30 * step + 30), *chance.sample(range(30 * step + 1), chance.choice([0, 0, 1]))}
        )
        table.write(rows_of(keys, number=[float(step)] * len(keys)))
        table.compact(full=step % 4 == 3)
        for kind, key in changes_of(table):
            if kind in ("-U", "-D"):
                state.pop(key)
            else:
                assert key not in state
                state[key] = step

    assert sorted(state) == list(range(360))
    assert copied
    assert table.verify("rows").problems == ()


# ── failures ────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_left_where_the_data_file_cannot_be_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = table_of(tmp_path)
    table.write(rows_of(range(0, 60, 2)))
    table.write(rows_of(range(1, 60, 2)))
    before = {path.name for path in Path(table.path).rglob("*.parquet")}

    def unreadable(*_: Any) -> None:
        raise StorageError("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(RowGroupCopies, "copy_repeated", unreadable)
        with pytest.raises(StorageError, match="the store is away"):
            table.compact()

    assert {path.name for path in Path(table.path).rglob("*.parquet")} == before
    table.compact()
    assert changes_of(table) == [("+I", key) for key in range(60)]


# ── readers ─────────────────────────────────────────────────────────────────────────────────────


def test_java_reads_changelogs_with_copies(
    tmp_path: Path, copied: list[StoredRowGroup], oracle: JavaPaimon, newest: NewestPaimon
):
    table = with_an_older_row(tmp_path, copied)
    last = table.latest_snapshot_id() or 0

    assert copied
    expected = sorted(f"{kind} {key}" for kind, key in changes_of(table))
    between = f"{last - 1},{last}"
    of_java = oracle.read(table.path, incremental=between, system="audit_log", options=CHANGES)
    of_newest = newest.read(table.path, system="audit_log", options={"incremental-between": between, **CHANGES})
    assert sorted(f"{row[0]} {row[1]}" for row in of_java) == expected
    assert sorted(f"{row[0]} {row[1]}" for row in of_newest) == expected
    oracle.assert_sound(table.path)
