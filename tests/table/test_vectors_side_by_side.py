"""Two compactions of one bucket at a time that replace no common file: one marks rows that the other one moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.action import Context
from paimon_engine.actions.compact import Compact, CompactResult, compact
from paimon_engine.env import EnvConfig
from paimon_engine.table.state.handle import load_table
from tests.support.meddling import Meddling

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("city", pa.string()), ("v", pa.int32())])
KINDS = {
    "levels": {"deletion-vectors.enabled": "true"},
    "clustered": {
        "deletion-vectors.enabled": "true",
        "pk-clustering-override": "true",
        "clustering.columns": "city",
    },
    "first row, clustered": {
        "merge-engine": "first-row",
        "pk-clustering-override": "true",
        "clustering.columns": "city",
    },
}
PATIENCE_SECONDS = 60


def put(table: Table, keys: range, value: int) -> None:
    table.write(pa.table({"k": list(keys), "city": ["x"] * len(keys), "v": [value] * len(keys)}, SCHEMA))


def compact_with(table: Table, meddle: Callable[[], object], *, full: bool) -> CompactResult:
    """Compacts; `meddle` runs between the rewrite and the commit."""
    return compact(Context(load_table(table.path, EnvConfig(table.path)), Meddling(meddle)), Compact(full=full))


@pytest.mark.parametrize("is_first", [True, False], ids=["moves first", "marks first"])
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_rows_that_are_moved_and_marked_at_a_time_are_not_there_twice(
    tmp_path: Path, options: Mapping[str, str], is_first: bool
):
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", **options}
    )
    put(table, range(100_000), 0)
    table.compact(full=True)
    put(table, range(100_000, 120_000), 0)
    table.compact()
    planned, may_commit = Event(), Event()

    def wait() -> None:
        planned.set()
        assert may_commit.wait(PATIENCE_SECONDS)

    with ThreadPoolExecutor() as pool:
        moving = pool.submit(lambda: compact_with(table, wait, full=True))
        assert planned.wait(PATIENCE_SECONDS)
        # Its plan does not know these rows, which replace some of those that it moves.
        put(table, range(500, 600), 1)

        def let_it() -> None:
            may_commit.set()
            moving.result(PATIENCE_SECONDS)

        try:
            marking = compact_with(table, let_it if is_first else lambda: None, full=False)
        finally:
            may_commit.set()
        moved = moving.result(PATIENCE_SECONDS)

    rows = table.to_arrow().to_pylist()
    is_new = {row["k"] for row in rows if row["v"]}
    assert len(rows) == len({row["k"] for row in rows}) == 120_000
    assert is_new == (set() if "merge-engine" in options else set(range(500, 600)))
    assert marking.status == moved.status == "committed"
    assert table.verify("rows").status == "sound"
