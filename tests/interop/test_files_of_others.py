"""Tables that the Python and Rust clients write: every depth of verifying takes them, and a compaction keeps their rows."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.errors import PaimonWarning
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

SCHEMA = pa.schema([
    pa.field("k", pa.int64(), nullable=False),
    pa.field("d", pa.decimal128(9, 2), nullable=False),
    pa.field("s", pa.string()),
    pa.field("x", pa.float64()),
    pa.field("b", pa.binary()),
    pa.field("day", pa.date32()),
    pa.field("at", pa.timestamp("us")),
    pa.field("list", pa.list_(pa.int32())),
])  # fmt: skip
Client = Literal["python", "rust"]
OPTIONS: dict[str, dict[str, str]] = {
    "parquet": {},
    "avro": {"file.format": "avro"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.x.aggregate-function": "sum"},
    "changelog": {"changelog-producer": "input"},
    "dynamic buckets": {"bucket": "-1"},
    "statistics of counts": {"metadata.stats-mode": "counts"},
}


def _rows(first: int) -> pa.Table:
    keys = range(first, first + 4)
    columns = [
        pa.array(keys, pa.int64()),
        pa.array([f"{key}.25" for key in keys]).cast(pa.decimal128(9, 2)),
        pa.array(["a", None, "ü" * 40, ""]),
        pa.array([0.5, None, -1.0, float("inf")]),
        pa.array([b"", None, b"\xff", b"a"]),
        pa.array([-1, None, 0, 20_000], pa.int32()).cast(pa.date32()),
        pa.array([-1, None, 0, 1_700_000_000_123_456], pa.int64()).cast(pa.timestamp("us")),
        pa.array([[1], None, [], [2, 3]], pa.list_(pa.int32())),
    ]
    return pa.table(columns, schema=SCHEMA)


def _written(pypaimon: PyPaimon, path: Path, client: Client, options: dict[str, str]) -> Table:
    pypaimon.create(path, SCHEMA, primary_keys=["k", "d"], options={"bucket": "1", **options})
    for first in (0, 2):
        pypaimon.append(path, _rows(first), client=client)
    return Catalog(str(path.parent.parent)).table(f"{path.parent.stem}.{path.name}")


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("client", ["python", "rust"])
def test_tables_of_other_clients_are_valid(tmp_path: Path, pypaimon: PyPaimon, client: Client, name: str) -> None:
    table = _written(pypaimon, tmp_path / "db.db" / "t", client, OPTIONS[name])
    before = table.to_arrow()

    found = table.verify("rows")
    table.compact(full=True)

    assert (found.status, found.problems) == ("sound", ())
    assert before.num_rows == 6
    assert_same_rows(rows_of(table.to_arrow()), rows_of(before), "after a compaction")
    assert table.verify("rows").status == "sound"


def test_java_merges_what_rust_wrote_once_it_was_compacted(
    tmp_path: Path, pypaimon: PyPaimon, oracle: JavaPaimon
) -> None:
    """Java 0.9 refuses Parquet files without key columns as soon as it has to merge them; a note says so."""
    table = _written(pypaimon, tmp_path / "db.db" / "t", "rust", {})

    notes = {note.what for note in table.verify("rows").notes}
    table.compact(full=True)

    assert len(notes) == 1
    assert "has no columns _KEY_k, _KEY_d" in notes.pop()
    assert_same_rows(rows_of(table.to_arrow()), oracle.read(table.path))


NANOS = pa.timestamp("ns")
KEYED_BY_NANOS = pa.schema([pa.field("k", NANOS, nullable=False), pa.field("v", NANOS)])
BASE = 1_700_000_000_123_456_000


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_keys_of_nanoseconds_lose_no_row(tmp_path: Path, pypaimon: PyPaimon, zone: str | None) -> None:
    """pypaimon cuts keys and statistics in manifests to microseconds."""
    kind = pa.timestamp("ns", zone)
    schema = pa.schema([pa.field("k", kind, nullable=False), pa.field("v", kind)])
    stored = [-1_500, 1, BASE + 789]
    column = pa.array(stored, pa.int64()).cast(kind)
    pypaimon.write(
        tmp_path / "db.db" / "t",
        [pa.table([column, column], schema=schema)],
        primary_keys=["k"],
        options={"bucket": "1"},
    )
    table = Catalog(str(tmp_path)).table("db.t")

    with pytest.warns(PaimonWarning, match="cut to microseconds"):
        found = table.to_arrow()
    notes = table.verify("rows")
    # Begins behind the cut bound, inside of the file.
    second = pa.array([BASE + 789, BASE + 900], pa.int64()).cast(kind)
    with pytest.warns(PaimonWarning, match="cut to microseconds"):
        table.write(pa.table([second, second], schema=schema))
        table.compact(full=True)

    assert found["k"].cast(pa.int64()).to_pylist() == stored
    assert notes.status == "sound"
    assert any("cut to microseconds" in note.what for note in notes.notes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.to_arrow()["k"].cast(pa.int64()).to_pylist() == [*stored, BASE + 900]
