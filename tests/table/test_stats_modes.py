"""How much is kept of each column's statistics: by option, as Java keeps it, and readable by Java."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_engine import Catalog, Table, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.manifest import FileKind, ManifestEntry
from paimon_engine.meta.stats import EMPTY_STATS, ColumnStats, from_simple_stats
from paimon_engine.meta.stats_modes import FileTraits, stats_modes
from paimon_engine.options import TableOptions
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import changelog_entries, delta_entries, live_entries
from paimon_engine.table.state.snapshots import latest_snapshot, snapshots_newest_first
from tests.support.oracle import JavaPaimon
from tests.support.small_row_groups import make_row_groups_small

LONG = "a" * 40
FIELDS = [
    ["k", "STRING NOT NULL"],
    ["n", "INT"],
    ["s", "STRING"],
    ["d", "DECIMAL(20, 2)"],
    ["t", "TIMESTAMP(3)"],
    ["l", "ARRAY<INT>"],
]
SCHEMA = pa.schema(
    [
        pa.field("k", pa.string(), nullable=False),
        ("n", pa.int32()),
        ("s", pa.string()),
        ("d", pa.decimal128(20, 2)),
        ("t", pa.timestamp("ms")),
        ("l", pa.list_(pa.int32())),
    ]
)
DECIMALS = [(f"d{digits}", pa.decimal128(digits, 2)) for digits in (9, 18, 19, 38)]
# No time before 1970: Java takes a wrong one from ORC files, the fraction of a second without its sign.
ROWS: list[list[Any]] = [
    [LONG + "1", 1, LONG, "1.50", "2024-02-29T13:05:09.123000000", [1, 2]],
    [LONG + "2", None, None, None, None, None],
    ["b", -7, "é", "-99999999999999999.99", "1970-01-01T00:00:00.001000000", []],
]
MODES = [
    {},
    {"metadata.stats-mode": "full"},
    {"metadata.stats-mode": "none"},
    {"metadata.stats-mode": "counts", "fields.s.stats-mode": "truncate(3)", "fields.n.stats-mode": "full"},
    {"metadata.stats-mode": "truncate(5)", "fields.s.stats-mode": "none"},
]


def entries_of(path: str) -> list[ManifestEntry]:
    table = load_table(path, EnvConfig(path))
    return live_entries(table, latest_snapshot(table))


def value_stats(path: str) -> dict[str, ColumnStats]:
    """Of the only file, by column."""
    table = load_table(path, EnvConfig(path))
    (entry,) = entries_of(path)
    columns = table.schema.row_type
    if entry.file.value_stats_columns is not None:
        columns = columns.project(entry.file.value_stats_columns)
    found = from_simple_stats([field.type for field in columns], entry.file.value_stats)
    return dict(zip(columns.names, found, strict=True))


def rows() -> pa.Table:
    return pa.table(
        {
            "k": [row[0] for row in ROWS],
            "n": pa.array([row[1] for row in ROWS], pa.int32()),
            "s": [row[2] for row in ROWS],
            "d": pa.array([row[3] for row in ROWS]).cast(pa.decimal128(20, 2)),
            "t": pa.array([1709211909123, None, 1], pa.timestamp("ms")),
            "l": pa.array([row[5] for row in ROWS], pa.list_(pa.int32())),
        },
        SCHEMA,
    )


def make(folder: Path, options: dict[str, str], *, primary_keys: tuple[str, ...] = ("k",)) -> Table:
    bucket = {"bucket": "1"} if primary_keys else {}
    catalog = Catalog(str(folder))
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=primary_keys, options={**bucket, **options})


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("modes", MODES, ids=lambda modes: ",".join(modes.values()) or "default")
@pytest.mark.parametrize("primary_keys", [("k",), ()], ids=["primary key", "append"])
def test_statistics_have_the_bytes_that_java_gives_them(
    tmp_path: Path, file_format: str, modes: dict[str, str], primary_keys: tuple[str, ...], oracle: JavaPaimon
):
    options = {"file.format": file_format, **modes}
    ours = make(tmp_path / "ours", options, primary_keys=primary_keys)
    ours.write(rows())
    theirs = str(tmp_path / "theirs.db" / "t")
    bucket = {"bucket": "1"} if primary_keys else {"bucket": "-1"}
    oracle.run(
        theirs,
        [
            {
                "op": "create_table",
                "fields": FIELDS,
                "primary_keys": list(primary_keys),
                "options": {**bucket, **options},
            },
            {"op": "write", "rows": ROWS},
        ],
    )

    (mine,), (yours,) = entries_of(ours.path), entries_of(theirs)

    assert mine.file.value_stats == yours.file.value_stats
    assert mine.file.key_stats == yours.file.key_stats
    assert (mine.file.min_key, mine.file.max_key) == (yours.file.min_key, yours.file.max_key)
    assert mine.file.value_stats_columns is None


def test_the_columns_after_the_first_few_have_no_statistics_and_are_left_out(tmp_path: Path):
    table = make(tmp_path, {"metadata.stats-keep-first-n-columns": "2", "fields.d.stats-mode": "counts"})
    table.write(rows())

    found = value_stats(table.path)

    assert list(found) == ["k", "n", "d"]
    assert found["n"] == ColumnStats(-7, 1, 1)
    assert found["d"] == ColumnStats(None, None, 1)


def test_levels_have_their_own_statistics(tmp_path: Path):
    table = make(tmp_path, {"metadata.stats-mode.per.level": "0:none", "metadata.stats-mode": "counts"})
    table.write(rows())
    assert entries_of(table.path)[0].file.value_stats == EMPTY_STATS
    assert entries_of(table.path)[0].file.value_stats_columns == ()

    table.write(rows())
    table.compact(full=True)

    assert value_stats(table.path)["s"] == ColumnStats(None, None, 1)


def test_changelog_files_have_their_own_statistics(tmp_path: Path):
    modes = {"changelog-file.stats-mode": "counts", "metadata.stats-mode": "full"}
    table = make(tmp_path, {"changelog-producer": "input", **modes})
    table.write(rows())

    handle = load_table(table.path, EnvConfig(table.path))
    snapshot = latest_snapshot(handle)
    assert snapshot is not None
    (entry,) = changelog_entries(handle, snapshot)
    types = [field.type for field in handle.schema.row_type]
    assert from_simple_stats(types, entry.file.value_stats)[1] == ColumnStats(None, None, 1)
    assert value_stats(table.path)["n"] == ColumnStats(-7, 1, 1)


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, None),
        ({"metadata.stats-dense-store": "true"}, ("k", "n", "d", "t")),
        ({"metadata.stats-dense-store": "false", "metadata.stats-keep-first-n-columns": "9"}, None),
    ],
)
def test_columns_without_statistics_are_left_out_on_demand_only(
    tmp_path: Path, options: dict[str, str], columns: tuple[str, ...] | None
):
    table = make(tmp_path, {"fields.s.stats-mode": "none", **options})
    table.write(rows())

    assert entries_of(table.path)[0].file.value_stats_columns == columns


@pytest.mark.parametrize("dense", ["true", "false"])
def test_filters_find_the_same_rows_with_all_statistics(tmp_path: Path, dense: str):
    table = make(tmp_path, {"metadata.stats-keep-first-n-columns": "1", "metadata.stats-dense-store": dense})
    table.write(rows())

    assert table.to_arrow(where="n = 1").num_rows == 1
    assert table.to_arrow(where="n = 2").num_rows == 0
    assert table.to_arrow(where="s = 'é'").num_rows == 1
    assert table.to_arrow(where="k > 'b'").num_rows == 0
    assert open_table(f"{table.path}$files").to_arrow().num_rows == 1


def test_pypaimon_reads_tables_with_columns_left_out(tmp_path: Path, pypaimon: Any):
    table = make(tmp_path, {"metadata.stats-keep-first-n-columns": "2", "manifest.delete-file-drop-stats": "true"})
    for _ in range(2):
        table.write(rows())
    table.compact(full=True)

    assert pypaimon.read(table.path).sort_by("k").select(["k", "n"]) == rows().sort_by("k").select(["k", "n"])


def test_entries_that_remove_files_may_say_nothing_of_values(tmp_path: Path, oracle: JavaPaimon):
    table = make(tmp_path, {"manifest.delete-file-drop-stats": "true"})
    for _ in range(2):
        table.write(rows())
    table.compact(full=True)
    table.write(rows(), overwrite={})

    handle = load_table(table.path, EnvConfig(table.path))
    overwrite, compaction, *_ = snapshots_newest_first(handle)
    for snapshot in (overwrite, compaction):
        removals = [entry for entry in delta_entries(handle, snapshot) if entry.kind is FileKind.DELETE]
        assert removals
        assert all(entry.file.value_stats == EMPTY_STATS for entry in removals)
        assert all(entry.file.value_stats_columns == () for entry in removals)
    assert len(oracle.read(table.path)) == 3
    oracle.assert_sound(table.path)


def test_a_mode_that_does_not_exist_is_refused_at_the_creation_of_the_table(tmp_path: Path):
    with pytest.raises(InvalidArgumentError, match="truncate"):
        make(tmp_path, {"fields.n.stats-mode": "some"})


@pytest.mark.parametrize(
    ("file_format", "options", "keys", "values"),
    [
        ("parquet", {}, "truncate(16)", "truncate(16) truncate(16) truncate(16)"),
        ("parquet", {"metadata.stats-mode": "none"}, "none", "none none none"),
        ("orc", {"metadata.stats-keep-first-n-columns": "1"}, "truncate(128)", "truncate(16) none none"),
        ("avro", {"metadata.stats-keep-first-n-columns": "1"}, "truncate(16)", "none none none"),
        ("avro", {"metadata.stats-keep-first-n-columns": "4"}, "truncate(16)", "truncate(16) none none"),
        ("parquet", {"metadata.stats-mode.per.level": "0:counts,5:full"}, "truncate(128)", "full full full"),
    ],
)
def test_modes_of_keys_and_columns_are_those_of_the_release_that_the_options_come_from(
    file_format: str, options: dict[str, str], keys: str, values: str
):
    file = FileTraits(5, file_format)

    of_keys, of_values = stats_modes(TableOptions(options), file, keys=["k"], values=["k", "n", "s"])

    assert " ".join(map(str, of_keys)) == keys
    assert " ".join(map(str, of_values)) == values


def test_bounds_of_days_and_decimals_are_those_of_all_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    make_row_groups_small(monkeypatch, 3)
    days = [date(2024, 2, 29), None, date(1969, 12, 31), date(9999, 12, 31), None, None, None, date(1, 1, 1)]
    decimals = [None, Decimal("-7.25"), Decimal("0.00"), None, None, None, Decimal("1234567.89"), Decimal("-8.00")]
    rows = pa.table(
        {
            "k": pa.array(days, pa.date32()).fill_null(date(2000, 1, 1)),
            "day": pa.array(days, pa.date32()),
            **{f"d{digits}": pa.array(decimals, pa.decimal128(digits, 2)) for digits in (9, 18, 19, 38)},
        }
    ).cast(pa.schema([pa.field("k", pa.date32(), False), ("day", pa.date32()), *DECIMALS]))
    table = Catalog(str(tmp_path)).create_table("db.t", schema=rows.schema, primary_keys=["k"], options={"bucket": "1"})

    for number in range(2):
        if number:
            table.write(rows.slice(0, 1))
            table.compact(full=True)
        else:
            table.write(rows)
        [entry] = entries_of(table.path)
        types = [field.type for field in table.schema.row_type]
        key, day, *others = from_simple_stats(types, entry.file.value_stats)
        first, last = (date(1, 1, 1) - date(1970, 1, 1)).days, (date(9999, 12, 31) - date(1970, 1, 1)).days
        assert (key.min, key.max) == (day.min, day.max) == (first, last)
        assert from_simple_stats(types[:1], entry.file.key_stats) == [key]
        read = table.to_arrow()
        for name, one in zip(rows.schema.names[2:], others, strict=True):
            bounds = pc.min_max(read[name]).as_py()
            assert one == ColumnStats(bounds["min"], bounds["max"], read[name].null_count)
