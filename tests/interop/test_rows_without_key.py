"""Rows whose key Java 0.9 left null, where partial-update merged retracts alone: a filter on the key finds them.

Only ORC files can have them: Java fails to write a null into the required column of a Parquet or Avro file.
"""

from __future__ import annotations

from pathlib import Path

from paimon_engine import open_table
from tests.support.oracle import JavaPaimon

FIELDS = [["k", "INT NOT NULL"], ["g", "INT"], ["b", "STRING"]]
WRITES = (
    [["+I", 1, 1, "a"], ["-D", 5, 1, "x"], ["-D", 5, 2, "y"], ["+I", 9, 1, "b"]],
    [["-D", 7, 1, "x"], ["-D", 7, 2, "y"]],
)


def test_a_filter_on_the_key_finds_a_row_that_is_stored_without_it(oracle: JavaPaimon, tmp_path: Path) -> None:
    path = tmp_path / "db.db" / "t"
    options = {
        "bucket": "1",
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "b",
        "file.format": "orc",
    }
    oracle.call("create_table", table=str(path), fields=FIELDS, primary_keys=["k"], options=options)
    for rows in WRITES:
        oracle.call("write", table=str(path), rows=rows, kinds=True, options={"write-only": "true"})
    table = open_table(str(path))

    whole = {row["k"]: row for row in table.to_arrow().to_pylist()}

    assert whole.keys() == {1, 5, 7, 9}
    for key, row in whole.items():
        assert table.to_arrow(where=f"k = {key}").to_pylist() == [row]
        assert table.to_arrow(where=f"k >= {key} and k < {key + 1}").to_pylist() == [row]
    assert table.to_arrow(where="k > 4 and k < 8").sort_by("k")["k"].to_pylist() == [5, 7]
