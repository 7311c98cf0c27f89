"""What several snapshots changed, read as one: every producer of changelogs and every merge engine, as Java reads it.

Java merges the changelogs of a range with the merge engine of the table, one record of each sorted run at a time.
What comes out follows from that, also where it is odd (a sum retracts what it has not added); only rows that have
lost their key, which Java gives where partial-update merges nothing but retracts that it ignores, are not rows here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from paimon_engine import open_table
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon

FIELDS = [["k", "INT NOT NULL"], ["v", "INT"], ["t", "STRING"]]
ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "deduplicate that ignores deletes": {"ignore-delete": "true"},
    "partial-update that ignores deletes": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.t.aggregate-function": "last_non_null_value",
    },
    "aggregation that ignores deletes": {
        "merge-engine": "aggregation",
        "ignore-delete": "true",
        "fields.v.aggregate-function": "sum",
        "fields.t.aggregate-function": "last_value",
    },
    "first-row that ignores deletes": {"merge-engine": "first-row", "ignore-delete": "true"},
}
WRITES: Sequence[Sequence[list[Any]]] = (
    [["+I", 1, 1, "a"], ["+I", 2, 2, "b"], ["+I", 3, 3, "c"], ["+I", 5, 1, None]],
    [["+U", 1, 10, None], ["-D", 2, 2, "b"], ["+I", 4, 4, "d"], ["-U", 3, 3, "c"], ["+U", 3, 30, "e"]],
    [["+I", 2, 5, "f"], ["-D", 4, 4, "d"], ["+U", 1, 7, "g"], ["-D", 3, 30, "e"]],
    [["+I", 4, 6, None], ["-D", 5, 1, None], ["+U", 2, None, "h"]],
)


RANGES = ((0, 2), (0, 4), (1, 6), (2, 7), (3, 8), (0, 8))
PRODUCERS = ("none", "input", "full-compaction", "lookup")
CASES = [
    (engine, producer)
    for engine in ENGINES
    for producer in (("none", "lookup") if engine.startswith("first-row") else PRODUCERS)
]


@pytest.mark.parametrize(("engine", "producer"), CASES)
def test_changes_of_any_range_are_those_of_java(oracle: JavaPaimon, tmp_path: Path, engine: str, producer: str) -> None:
    path = tmp_path / "db.db" / "t"
    options = {"bucket": "1", "num-levels": "4", "changelog-producer": producer, **ENGINES[engine]}
    oracle.call("create_table", table=str(path), fields=FIELDS, primary_keys=["k"], options=options)
    for number, rows in enumerate(WRITES):
        oracle.call("write", table=str(path), rows=rows, kinds=True, options={"write-only": "true"})
        oracle.call("compact", table=str(path), full=number != 1)
    latest = max(int(file.name[9:]) for file in (path / "snapshot").glob("snapshot-*"))

    # What Java chooses itself; of first-row without a changelog states are compared here.
    mode = "delta" if producer == "none" else "changelog"
    for start, end in [(start, min(end, latest)) for start, end in RANGES]:
        for system in ("", "audit_log"):
            more = {"system": system} if system else {}
            expected = _with_keys(oracle.read(path, incremental=f"{start},{end}", **more))
            table = open_table(f"{path}${system}" if system else str(path))
            found = table.to_arrow(incremental=(start, end), options={"incremental-between-scan-mode": mode})
            assert_same_rows(expected, rows_of(found))


def _with_keys(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(row) for row in rows if row[-3] is not None]


def test_the_kinds_of_changes_are_shown_with_the_rows_too(oracle: JavaPaimon, tmp_path: Path) -> None:
    path = tmp_path / "db.db" / "t"
    options = {"bucket": "1", "changelog-producer": "full-compaction"}
    oracle.call("create_table", table=str(path), fields=FIELDS, primary_keys=["k"], options=options)
    for rows in WRITES:
        oracle.call("write", table=str(path), rows=rows, kinds=True, options={"write-only": "true"})
        oracle.call("compact", table=str(path), full=True)

    found = open_table(str(path)).to_arrow(incremental=(2, 8), with_row_kinds=True)

    kept = [row for row in oracle.read(path, incremental="2,8", system="audit_log") if row[0] in ("+I", "+U")]
    assert_same_rows(kept, rows_of(found))


def test_a_row_that_was_deleted_and_written_again_is_seen_here_only(oracle: JavaPaimon, tmp_path: Path) -> None:
    # The compaction drops the deletes, which were the newest records, so that numbers begin again.
    path = tmp_path / "db.db" / "t"
    options = {"bucket": "1", "write-only": "true"}
    oracle.call("create_table", table=str(path), fields=FIELDS, primary_keys=["k"], options=options)
    kept, one, two = ["+I", 3, 3, "c"], [1, 1, "a"], [2, 2, "b"]
    oracle.call("write", table=str(path), rows=[kept, ["+I", *one], ["+I", *two]], kinds=True)
    oracle.call("write", table=str(path), rows=[["-D", *two], ["-D", *one]], kinds=True)
    oracle.call("compact", table=str(path), full=True)
    oracle.call("write", table=str(path), rows=[["+I", 1, 10, "z"]], kinds=True)

    of_java = oracle.read(path, incremental="1,4", system="audit_log")
    found = open_table(f"{path}$audit_log").to_arrow(incremental=(1, 4))

    assert_same_rows([["-D", *one], ["-D", *two]], of_java)
    assert_same_rows([["+I", 1, 10, "z"], ["-D", *two]], rows_of(found))
