"""Upper bounds of TIMESTAMP(9) that are cut to microseconds, as pypaimon notes them, lose no row."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.arrow_types import from_arrow
from paimon_engine.errors import PaimonWarning
from paimon_engine.format.binary_row import decode_row, encode_row
from paimon_engine.meta.cut_bounds import cut_key, may_be_cut, upper_key
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.meta.stats import SimpleStats
from paimon_engine.table.commit.commit import CommitRequest, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.types import DataType

NANOS = pa.timestamp("ns")
SCHEMA = pa.schema([pa.field("k", NANOS, nullable=False), ("t", NANOS), ("v", pa.int32())])
BASE = 1_700_000_000_123_456_000
EARLY = -BASE
WRITTEN = [(EARLY + 1, EARLY + 1, 1), (BASE + 789, BASE + 789, 2)]


def rows(*values: tuple[int, int, int]) -> pa.Table:
    columns = [pa.array(column, pa.int64()) for column in zip(*values, strict=True)]
    return pa.table([column.cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def cut(types: list[DataType], values: Sequence[Any]) -> bytes:
    found = [value - value % 1000 if may_be_cut(kind) else value for kind, value in zip(types, values, strict=True)]
    return encode_row(types, found, reserve_null=True)


def cut_like_pypaimon(table: Table) -> None:
    """Describes the file of `WRITTEN` as pypaimon would: bounds of keys and statistics without nanoseconds."""
    handle = table._handle
    types = [field.type for field in handle.schema.row_type]

    def stats(width: int) -> SimpleStats:
        return SimpleStats(cut(types[:width], WRITTEN[0][:width]), cut(types[:width], WRITTEN[1][:width]), (0,) * width)

    def described(file: DataFile) -> DataFile:
        found = replace(file, level=1, value_stats=stats(len(types)))
        if not handle.schema.primary_keys:
            return found
        known = stats(1)
        return replace(found, min_key=known.min_values, max_key=known.max_values, key_stats=known)

    messages = [
        CommitMessage(
            entry.partition,
            entry.bucket,
            entry.total_buckets,
            compact_before=(entry.file,),
            compact_after=(described(entry.file),),
        )
        for entry in live_entries(handle, latest_snapshot(handle))
    ]
    commit(handle, CommitRequest(messages, CommitKind.COMPACT, "somebody"))


def values(found: pa.Table) -> list[tuple[int, ...]]:
    columns = [column.cast(pa.int64()).to_pylist() for column in found.select(SCHEMA.names).columns]
    return sorted(zip(*columns, strict=True))


@pytest.fixture
def keyed(tmp_path: Path) -> Table:
    made = Catalog(str(tmp_path)).create_table(
        "db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", "write-only": "true"}
    )
    made.write(rows((EARLY + 1, EARLY + 1, 1), (BASE + 789, BASE + 789, 2)))
    cut_like_pypaimon(made)
    # The snapshot before describes the same file rightly.
    made.expire_snapshots(retain_max=1, retain_min=1)
    return made


def test_rows_above_a_cut_key_are_read_with_a_warning(keyed: Table) -> None:
    with pytest.warns(PaimonWarning, match="largest key cut to microseconds"):
        found = keyed.to_arrow()

    assert values(found) == WRITTEN


def test_such_a_table_is_valid_with_notes(keyed: Table) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = keyed.verify("rows")

    assert (found.status, found.problems) == ("sound", ())
    assert {note.what.split(":")[0] for note in found.notes} == {"column k", "column t"}


@pytest.mark.filterwarnings("ignore::paimon_engine.errors.PaimonWarning")
def test_a_key_beyond_a_cut_bound_is_merged_with_its_other_version(keyed: Table) -> None:
    """The second file begins above the cut bound of the first one, and yet holds a key of it."""
    keyed.write(rows((BASE + 789, 0, 3), (BASE + 900, 0, 4)))

    expected = [WRITTEN[0], (BASE + 789, 0, 3), (BASE + 900, 0, 4)]
    assert values(keyed.to_arrow()) == expected
    keyed.compact(full=True)
    assert values(keyed.to_arrow()) == expected


def test_a_compaction_mends_the_bounds(keyed: Table) -> None:
    with pytest.warns(PaimonWarning, match="a full compaction corrects the noted keys"):
        keyed.compact(full=True)
        keyed.write(rows((BASE + 789, 0, 3)))
        keyed.compact(full=True)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(keyed.to_arrow()) == [WRITTEN[0], (BASE + 789, 0, 3)]


@pytest.mark.filterwarnings("ignore::paimon_engine.errors.PaimonWarning")
@pytest.mark.parametrize("column", ["k", "t"])
def test_filters_find_rows_above_cut_bounds(keyed: Table, column: str) -> None:
    wanted = f"{column} > TIMESTAMP '2023-11-14 22:13:20.123456500'"

    assert values(keyed.to_arrow(where=wanted)) == WRITTEN[1:]


def test_filters_find_rows_of_append_tables(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, options={"bucket": "-1"})
    table.write(rows(*WRITTEN))
    cut_like_pypaimon(table)

    for column in ("k", "t"):
        wanted = f"{column} > TIMESTAMP '2023-11-14 22:13:20.123456500'"
        assert values(table.to_arrow(where=wanted)) == WRITTEN[1:]


def test_largest_keys_of_nanoseconds_only_are_widened() -> None:
    micro, nano, number = from_arrow(pa.timestamp("us")), from_arrow(NANOS), from_arrow(pa.int32())

    def widened(types: list[DataType], *given: int) -> tuple[object, ...]:
        key = encode_row(types, list(given), reserve_null=True)
        wide = upper_key(types, key)
        assert upper_key(types, wide) == wide
        if wide != key:
            assert cut_key(types, wide) == key
        return tuple(decode_row(types, wide))

    assert widened([micro, number], 5_000, 7) == (5_000, 7)
    assert widened([nano, number], 5_000, 7) == (5_999, 7)
    assert widened([nano, number], -5_000, 7) == (-4_001, 7)
    assert widened([nano, number], 5_001, 7) == (5_001, 7)
