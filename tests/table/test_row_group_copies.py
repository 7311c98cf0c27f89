"""Row groups in which a compaction changes nothing are copied as bytes, which changes nothing of the table's content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import AddColumn, Catalog, CorruptTableError, RenameColumn, SetOption, Table, UpdateColumnType
from paimon_engine.format.parquet_row_groups import StoredRowGroup
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema_change import SchemaChange
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.compaction import row_group_copies
from paimon_engine.table.files.commit_message import CommitMessage
from tests.support.canonical import assert_same_rows
from tests.support.newest import NewestPaimon
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon
from tests.support.random_tables import RandomTable, python_limit
from tests.support.seeds import seeds
from tests.support.small_row_groups import copied_row_groups, make_row_groups_small
from tests.table.conftest import KIND, MakeTable, Subject

GROUP_ROWS = 7
NOTHING = 1 << 60
"""No row group is as large."""
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("text", pa.string()),
        ("number", pa.float64()),
        ("row", pa.struct([("a", pa.int32())])),
    ]
)
Columns = Mapping[str, Any]


@pytest.fixture(autouse=True)
def copied(monkeypatch: pytest.MonkeyPatch) -> list[StoredRowGroup]:
    """Makes row groups small; those that were copied."""
    make_row_groups_small(monkeypatch, GROUP_ROWS)
    return copied_row_groups(monkeypatch)


def numbers(copied: Sequence[StoredRowGroup]) -> list[int]:
    """Their numbers in the files they come from."""
    return [group.number for group in copied]


# ── as without copies ───────────────────────────────────────────────────────────────────────────


def stored(subject: Subject, messages: Sequence[CommitMessage]) -> pa.Table:
    """All that the new files hold, in their order."""
    paths = {path.rsplit("/", 1)[-1]: path for path in subject.data_paths()}
    files = [file for message in messages for file in message.compact_after]
    return pa.concat_tables(
        pq.ParquetFile(subject.handle.env.storage.open(paths[file.name]), page_checksum_verification=True).read()
        for file in files
    )


def described(messages: Sequence[CommitMessage]) -> list[DataFile]:
    """What manifests say of the new files, but for their names and sizes."""
    return [replace(file, name="", size_bytes=0) for message in messages for file in message.compact_after]


def random_table(make_table: MakeTable, seed: int, *, on_disk: bool = False) -> tuple[RandomTable, Subject]:
    drawn, random = RandomTable(seed), Random(f"copies {seed}")
    drawn.partition_keys = [name for name in drawn.partition_keys if name in drawn.primary_keys[:-1]]
    options = {"bucket": "1", "target-file-size": random.choice(["2 kb", "1 mb", "1 mb"])}
    for name in ("metadata.stats-mode", "file.compression", "changelog-producer", "file.compression.per.level"):
        if name in drawn.options and random.random() < 0.6:
            options[name] = drawn.options[name]
    if random.random() < 0.2:
        options["data-file.thin-mode"] = "true"
    return drawn, make_table(
        drawn.schema,
        primary_keys=drawn.primary_keys,
        partition_keys=drawn.partition_keys,
        options=options,
        on_disk=on_disk,
    )


@pytest.mark.parametrize("seed", [seed for seed in seeds(18) if RandomTable(seed).primary_keys])
def test_a_compaction_with_copies_writes_what_one_without_does(make_table: MakeTable, seed: int):
    drawn, subject = random_table(make_table, seed)
    for _ in range(5):
        rows, kinds = drawn.batch()
        subject.write(rows if kinds is None else rows.append_column(KIND, pa.array(kinds)))
        plain, messages = (subject.compacted(copied_bytes_min=least) for least in (NOTHING, 1))
        if not any(message.compact_after for message in messages):
            continue
        assert stored(subject, messages).equals(stored(subject, plain))
        if subject.handle.options.target_file_size_bytes >= 1 << 20:
            assert described(messages) == described(plain)
        subject.commit(messages, CommitKind.COMPACT)


# ── which ones ──────────────────────────────────────────────────────────────────────────────────


def rows_of(keys: Sequence[int], **columns: Any) -> pa.Table:
    made = {
        "k": keys,
        "text": [f"text-{key % 5}" for key in keys],
        "number": [key / 2 for key in keys],
        "row": [{"a": key} for key in keys],
    }
    return pa.table(made | columns, SCHEMA)


def table_of(index: Path, rows: pa.Table, *, kinds: Sequence[str] | None = None, **options: str) -> Table:
    """A table of ten row groups in one file."""
    given = {"bucket": "1", "num-sorted-run.compaction-trigger": "9", **options}
    table = Catalog(str(index)).create_table("db.t", schema=rows.schema, primary_keys=["k"], options=given)
    table.write(rows, row_kinds=None if kinds is None else list(kinds))
    return table


BASE = rows_of(range(0, 140, 2))
FREE = [0, 1, 2, 3, 5, 6, 8, 9]


def write_late(table: Table) -> Table:
    """Two rows in their own files, with keys in the range of the fifth and of the eighth row group."""
    names = [name for name in table.to_arrow().schema.names if name != "more"]
    for key in (57, 100):
        table.write(rows_of([key]).rename_columns(names))
    return table


def data_files(table: Table) -> list[Path]:
    return [Path(path) for path in table.files()["file_path"].to_pylist()]


def sound(table: Table, rows: int) -> Table:
    assert table.verify("rows").problems == ()
    assert table.to_arrow().num_rows == rows
    return table


def test_what_no_other_run_reaches_into_is_copied(tmp_path: Path, copied: list[StoredRowGroup]):
    table = table_of(tmp_path, BASE)
    [base] = data_files(table)
    footer, data = pq.read_metadata(base), base.read_bytes()
    write_late(table)

    table.compact(full=True)

    assert numbers(copied) == FREE
    [path] = data_files(sound(table, 71))
    pages = footer.row_group(2).column(4)
    begin = pages.data_page_offset
    assert data[begin : begin + pages.total_compressed_size] in path.read_bytes()
    groups = pq.read_metadata(path)
    # The rows of the fifth one and the late row are merged at once, and written in slices.
    sizes = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
    assert sizes == [7, 7, 7, 7, 7, 1, 7, 7, 7, 7, 7]
    assert [row["k"] for row in pq.read_table(path).to_pylist()] == sorted([*range(0, 140, 2), 57])


@pytest.mark.parametrize(("rows_max", "expected"), [(2, FREE), (1, [0, 1, 2, 3, 8, 9])])
def test_small_files_leave_gaps(
    tmp_path: Path, copied: list[StoredRowGroup], monkeypatch: pytest.MonkeyPatch, rows_max: int, expected: list[int]
):
    monkeypatch.setattr(row_group_copies, "PROBED_ROWS_MAX", rows_max)
    # Only files of an eighth of the others' bytes are looked into: the base is much larger than the two rows.
    keys = range(0, 140, 2)
    table = table_of(tmp_path, rows_of(keys, text=[sha256(bytes([key])).hexdigest() for key in keys]))
    table.write(rows_of([57, 100]))

    table.compact(full=True)

    assert numbers(copied) == expected
    sound(table, 71)


def test_files_of_one_run_are_joined_by_their_row_groups(tmp_path: Path, copied: list[StoredRowGroup]):
    options = {"merge-engine": "partial-update"}
    table = table_of(tmp_path, rows_of(range(70)), **options)
    table.write(rows_of(range(70, 119)))

    table.compact(full=True)

    assert numbers(copied) == [*range(10), *range(7)]
    assert len(data_files(sound(table, 119))) == 1


def test_small_row_groups_are_merged(tmp_path: Path, copied: list[StoredRowGroup]):
    table = table_of(tmp_path, rows_of(range(0, 142, 2), text=[f"{key:0300}" for key in range(71)]))
    sizes = row_group_sizes(data_files(table)[0])
    assert min(sizes) == sizes[10]
    write_late(table)

    with pytest.MonkeyPatch.context() as patch:
        make_row_groups_small(patch, GROUP_ROWS, copied_bytes_min=min(sizes) + 1)
        table.compact(full=True)

    assert numbers(copied) == FREE


def row_group_sizes(path: Path) -> list[int]:
    footer = pq.read_metadata(path)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return [sum(one.column(index).total_compressed_size for index in range(one.num_columns)) for one in groups]


def test_row_groups_of_several_files_and_keys(tmp_path: Path, copied: list[StoredRowGroup]):
    schema = pa.schema([pa.field("a", pa.string(), nullable=False), pa.field("b", pa.int32(), nullable=False)])
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=schema, primary_keys=["a", "b"], options={"bucket": "1", "target-file-size": "2 kb"}
    )
    pairs = [(f"{index // 20:03}", index % 20) for index in range(280)]

    def write(rows: Sequence[tuple[str, int]]) -> None:
        table.write(pa.table(list(zip(*rows, strict=True)), schema=schema))

    write(pairs)
    table.compact(full=True)
    copied.clear()
    write([("004", 3), ("004", 40)])
    write([("013", 19)])

    table.compact(full=True)

    assert len(copied) == 12
    assert len(data_files(sound(table, 281))) > 1
    assert sorted(table.to_arrow().to_pylist(), key=str) == sorted(
        [{"a": a, "b": b} for a, b in [*pairs, ("004", 40)]], key=str
    )


def test_parts_copy_row_groups_in_their_range_of_keys(tmp_path: Path, copied: list[StoredRowGroup]):
    table = table_of(tmp_path, rows_of(range(0, 1400, 2)))
    for key in (57, 100, 1111):
        table.write(rows_of([key]))

    result = table.compact(full=True, task_bytes=3_000)

    assert result.buckets[0].tasks > 2
    assert 50 < len(copied) < 97
    assert len({*numbers(copied)}) == len(copied)
    sound(table, 702)


def test_files_stay_near_their_target_size(tmp_path: Path, copied: list[StoredRowGroup]):
    texts = {"text": [str(Random(key).getrandbits(800)) for key in range(700)]}
    table = table_of(tmp_path, rows_of(range(700), **texts))
    target = sum(row_group_sizes(data_files(table)[0])) // 10

    table.write(rows_of([5]))
    table.alter([SetOption("target-file-size", f"{target} b")])
    table.compact(full=True)

    assert len(copied) == 99
    sizes = [sum(row_group_sizes(path)) for path in data_files(sound(table, 700))]
    assert 10 <= len(sizes) <= 11
    assert max(sizes) < 1.1 * target


# ── and which not ───────────────────────────────────────────────────────────────────────────────


def with_deletes(index: Path) -> Table:
    return table_of(index, BASE, kinds=["-D" if key == 42 else "+I" for key in BASE["k"].to_pylist()])


def with_value(column: str, key: int, value: Any, **options: str) -> Callable[[Path], Table]:
    values = [value if one == key else old for one, old in zip(BASE["k"].to_pylist(), BASE[column].to_pylist())]  # noqa: B905
    return lambda index: table_of(index, rows_of(BASE["k"].to_pylist(), **{column: values}), **options)


def with_options(**options: str) -> Callable[[Path], Table]:
    return lambda index: table_of(index, BASE, **options)


def altered(change: SchemaChange, **options: str) -> Callable[[Path], Table]:
    def make(index: Path) -> Table:
        table = table_of(index, BASE, **options)
        table.alter([change])
        return table

    return make


NAN_UNSEEN = with_value("number", 42, float("nan"), **{"metadata.stats-mode": "counts"})
EXPIRY = {"record-level.expire-time": "99999 d", "record-level.time-field": "k"}
CASES: dict[str, tuple[Callable[[Path], Table], list[int]]] = {
    "a delete record": (with_deletes, [number for number in FREE if number != 3]),
    "a NaN": (with_value("number", 42, float("nan")), []),
    "a NaN that no filter matches": (NAN_UNSEEN, FREE),
    "a zero that is negative": (with_value("number", 42, -0.0), FREE),
    "a text without bounds": (with_value("text", 42, "é" * 4_000), [number for number in FREE if number != 3]),
    "a null": (with_value("text", 42, None), FREE),
    "another codec": (altered(SetOption("file.compression", "snappy")), []),
    "files without the codec": (altered(SetOption("file.compression", "zstd"), **{"file.compression": "none"}), []),
    "another format": (with_options(**{"file.format.per.level": "0:orc"}), []),
    "an index": (altered(SetOption("file-index.bloom-filter.columns", "text")), []),
    "statistics of another kind": (altered(SetOption("metadata.stats-mode", "full")), FREE),
    "thin files": (altered(SetOption("data-file.thin-mode", "true")), []),
    "a new column": (altered(AddColumn("more", "INT")), []),
    "a column of another name": (altered(RenameColumn("text", "words")), []),
    "a column of another type": (altered(UpdateColumnType("row.a", "BIGINT")), []),
    "a merge engine that may change rows": (with_options(**{"merge-engine": "partial-update"}), []),
    # Of the new files, none of which go into a changelog of another codec (`test_changelog_copies`).
    "a changelog": (with_options(**{"changelog-producer": "full-compaction", "changelog-file.compression": "lz4"}), []),
    "records that expire": (with_options(**EXPIRY), []),
}


@pytest.mark.parametrize("case", CASES)
def test_whether_they_are_copied_where_there_is(tmp_path: Path, case: str, copied: list[StoredRowGroup]):
    make, expected = CASES[case]
    table = make(tmp_path)
    write_late(table)
    rows = table.to_arrow()

    table.compact(full=True)

    assert numbers(copied) == expected
    assert_same_rows(rows, sound(table, rows.num_rows).to_arrow())


def test_files_with_deleted_rows_are_not_copied(tmp_path: Path, copied: list[StoredRowGroup]):
    options = {"deletion-vectors.enabled": "true", "compaction.delete-ratio-threshold": "0.01"}
    table = table_of(tmp_path, BASE, **options)
    table.compact(full=True)
    table.write(rows_of([42, 44]), row_kinds=["-D", "-D"])
    table.compact()
    before = data_files(table)

    table.compact()

    assert data_files(sound(table, 68)) != before
    assert copied == []


@pytest.mark.parametrize("group", [2, 8])
def test_damaged_pages_do_not_travel(tmp_path: Path, group: int):
    table = table_of(tmp_path, BASE)
    write_late(table)
    path = next(path for path in data_files(table) if pq.read_metadata(path).num_rows == 70)
    chunk = pq.read_metadata(path).row_group(group).column(5)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(data)

    with pytest.raises(CorruptTableError, match="checksum"):
        table.compact(full=True)


# ── readers ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", [seed for seed in seeds(8) if RandomTable(seed).primary_keys])
def test_everybody_reads_files_with_copies(
    make_table: MakeTable, seed: int, oracle: JavaPaimon, newest: NewestPaimon, pypaimon: PyPaimon
):
    drawn, subject = random_table(make_table, seed, on_disk=True)
    for _ in range(5):
        rows, kinds = drawn.batch()
        subject.write(rows if kinds is None else rows.append_column(KIND, pa.array(kinds)))
        subject.compact(copied_bytes_min=1)

    assert_same_rows(drawn.rows, oracle.read(subject.path), schema=drawn.schema)
    assert oracle.problems(subject.path) == []
    assert_same_rows(drawn.rows, newest.read(subject.path), schema=drawn.schema)
    if python_limit(drawn) is None:
        assert_same_rows(drawn.rows, pypaimon.read(subject.path), schema=drawn.schema)
