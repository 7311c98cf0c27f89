"""Rows that pypaimon and pypaimon-rust leave in level 0, where readers wait for a compaction: ours makes them right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pytest

from paimon_engine import Catalog, open_table
from tests.support.canonical import Row, assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.int64()), ("b", pa.string())])
WRITES: list[list[Row]] = [
    [[1, 1, "one"], [2, 2, "two"], [3, 3, "three"]],
    [[2, 20, None], [4, 4, "four"]],
    [[1, None, "uno"], [2, 200, "dos"], [5, 5, "five"]],
]


@dataclass(frozen=True)
class Kind:
    """Options of a table, the rows after each two writes, and whether readers see nothing before a compaction."""

    options: Mapping[str, str]
    after_two: list[Row]
    after_three: list[Row]
    waits: bool = True


NEWEST = (
    [[1, 1, "one"], [2, 20, None], [3, 3, "three"], [4, 4, "four"]],
    [[1, None, "uno"], [2, 200, "dos"], [3, 3, "three"], [4, 4, "four"], [5, 5, "five"]],
)
KINDS: Mapping[str, Kind] = {
    "deletion vectors": Kind({"deletion-vectors.enabled": "true"}, *NEWEST),
    "deletion vectors and a changelog": Kind(
        {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"}, *NEWEST
    ),
    "partial-update with deletion vectors": Kind(
        {"deletion-vectors.enabled": "true", "merge-engine": "partial-update"},
        [[1, 1, "one"], [2, 20, "two"], [3, 3, "three"], [4, 4, "four"]],
        [[1, 1, "uno"], [2, 200, "dos"], [3, 3, "three"], [4, 4, "four"], [5, 5, "five"]],
    ),
    "lookup": Kind({"changelog-producer": "lookup"}, *NEWEST, waits=False),
    "first-row": Kind(
        {"merge-engine": "first-row"},
        [[1, 1, "one"], [2, 2, "two"], [3, 3, "three"], [4, 4, "four"]],
        [[1, 1, "one"], [2, 2, "two"], [3, 3, "three"], [4, 4, "four"], [5, 5, "five"]],
    ),
}


def rows(write: list[Row]) -> pa.Table:
    return pa.table([list(column) for column in zip(*write, strict=True)], schema=SCHEMA)


def changes(path: Path, before: int, after: int) -> list[list[Any]]:
    """What the changelog says of the snapshots from `before` to `after`."""
    log = Catalog(str(path.parent.parent)).table("db.t$audit_log")
    found = log.to_arrow(incremental=(before, after), options={"incremental-between-scan-mode": "changelog"})
    return sorted([row["rowkind"], row["k"], row["a"]] for row in found.to_pylist())


CASES: Final = [(name, client) for name in KINDS for client in ("python", "rust")]
# The Rust client refuses to write these.
CASES.remove(("partial-update with deletion vectors", "rust"))


@pytest.mark.parametrize(("name", "client"), CASES)
def test_rows_that_other_clients_left_waiting_are_right_after_our_compaction(
    tmp_path: Path, pypaimon: PyPaimon, oracle: JavaPaimon, name: str, client: Literal["python", "rust"]
):
    kind = KINDS[name]
    path = tmp_path / "db.db" / "t"
    pypaimon.create(path, SCHEMA, primary_keys=["k"], options={"bucket": "1", **kind.options})

    def assert_everybody_reads(expected: list[Row]) -> None:
        oracle.assert_sound(path)
        assert_same_rows(rows_of(open_table(str(path)).to_arrow()), expected)
        assert_same_rows(oracle.read(path), expected)
        assert_same_rows(rows_of(pypaimon.read(path)), expected)
        assert_same_rows(rows_of(pypaimon.read(path, client="rust")), expected)

    pypaimon.append(path, rows(WRITES[0]), rows(WRITES[1]), client=client)
    if kind.waits:
        assert oracle.read(path) == []
        assert open_table(str(path)).to_arrow().num_rows == 0

    assert open_table(str(path)).compact().status == "committed"

    assert_everybody_reads(kind.after_two)
    pypaimon.append(path, rows(WRITES[2]), client=client)
    if kind.waits:
        assert_same_rows(oracle.read(path), kind.after_two)
    assert open_table(str(path)).compact().status == "committed"
    assert_everybody_reads(kind.after_three)
    if "changelog-producer" in kind.options:
        assert changes(path, 2, 3) == [["+I", 1, 1], ["+I", 2, 20], ["+I", 3, 3], ["+I", 4, 4]]
        assert changes(path, 4, 5) == [["+I", 5, 5], ["+U", 1, None], ["+U", 2, 200], ["-U", 1, 1], ["-U", 2, 20]]
    open_table(str(path)).compact(full=True)
    assert_everybody_reads(kind.after_three)
