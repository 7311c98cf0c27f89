"""Tables with BLOB columns that Java Paimon 2.0 makes, and what both engines read of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paimon_engine import open_table
from tests.support.canonical import rows_of, text_of
from tests.support.oracle import JavaPaimon

FIELDS = [["k", "BIGINT"], ["s", "STRING"], ["a", "BLOB"], ["b", "BLOB"]]
OPTIONS = {
    "bucket": "-1",
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "blob.target-file-size": "50 b",
}


def made(java: JavaPaimon, path: Path, fields: list[list[str]] = FIELDS, **options: Any) -> str:
    partition_keys = options.pop("partition_keys", [])
    java.call(
        "create_table",
        table=str(path),
        fields=fields,
        primary_keys=options.pop("primary_keys", []),
        partition_keys=partition_keys,
        options={**OPTIONS, **options},
    )
    return str(path)


def row(key: int) -> list[Any]:
    a = None if key % 4 == 3 else f"0x{key:02x}" * 1
    return [key, f"s{key}", a if a is None else a + f"{key:02x}" * (key * 7 % 40), "0x" if key % 5 else None]


def filled(java: JavaPaimon, path: Path, **options: Any) -> str:
    """30 rows in three files, with files of their own for `a` and `b`; `a` of ten rows is written again, in part."""
    found = made(java, path, **options)
    for step in range(3):
        java.call("write", table=found, rows=[row(key) for key in range(step * 10, step * 10 + 10)])
    values = ["placeholder" if key % 3 else [None, f"0xbeef{key:02x}"][key % 2] for key in range(10)]
    java.call("write", table=found, columns=["a"], first_row_id=10, rows=[[value] for value in values])
    return found


def alike(java: JavaPaimon, path: str, **at: Any) -> list[Any]:
    """The rows, which Java reads as well; and their ids."""
    found = sorted(rows_of(open_table(path).to_arrow(**at)), key=text_of)
    assert found == sorted(java.read(path, **at), key=text_of)
    tracked = sorted(rows_of(open_table(f"{path}$row_tracking").to_arrow(**at)), key=text_of)
    assert tracked == sorted(java.read(path, system="row_tracking", **at), key=text_of)
    return found


def alike_but_for_snapshots(java: JavaPaimon, path: str) -> list[Any]:
    """The rows, which Java reads as well."""
    found = sorted(rows_of(open_table(path).to_arrow()), key=text_of)
    assert found == sorted(java.read(path), key=text_of)
    return found


def blob_files(path: str) -> list[Path]:
    return sorted(Path(path).rglob("*.blob"))
