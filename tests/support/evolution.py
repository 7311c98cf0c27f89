"""Tables with data evolution that Java Paimon 2.0 makes, and compares."""

from __future__ import annotations

from typing import Any

from paimon_engine import Table, open_table
from tests.support.canonical import rows_of, text_of
from tests.support.oracle import JavaPaimon

FIELDS = [["k", "BIGINT"], ["a", "INT"], ["b", "STRING"], ["c", "ARRAY<INT>"]]
OPTIONS = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def created(java: JavaPaimon, path: str, **options: str) -> Table:
    """30 rows in three files; of the first, `a` is written again, then `a` and `c`; of the second, `b`."""
    java.call(
        "create_table", table=path, fields=FIELDS, primary_keys=[], partition_keys=[], options={**OPTIONS, **options}
    )
    for step in range(3):
        keys = range(step * 10, step * 10 + 10)
        java.call("write", table=path, rows=[[key, key, f"b{key}", [key]] for key in keys])
    again(java, path, ["a"], [[100 + key] for key in range(10)], 0)
    again(java, path, ["a", "c"], [[None if key == 3 else 200 + key, [key, key]] for key in range(10)], 0)
    again(java, path, ["b"], [[f"new{key}"] for key in range(10, 20)], 10)
    return open_table(path)


def again(java: JavaPaimon, path: str, columns: list[str], rows: list[list[Any]], first: int) -> None:
    java.call("write", table=path, rows=rows, columns=columns, first_row_id=first)


def assert_alike(java: JavaPaimon, path: str, **at: Any) -> list[Any]:
    found = sorted(rows_of(open_table(path).to_arrow(**at)), key=text_of)
    assert found == sorted(java.read(path, **at), key=text_of)
    tracked = sorted(rows_of(open_table(f"{path}$row_tracking").to_arrow(**at)), key=text_of)
    assert tracked == sorted(java.read(path, system="row_tracking", **at), key=text_of)
    return found
