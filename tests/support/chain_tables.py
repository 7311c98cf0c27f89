"""Chain tables, as Java Paimon 2.0 makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.oracle import JavaPaimon

FIELDS = [["dt", "STRING NOT NULL"], ["k", "BIGINT NOT NULL"], ["v", "BIGINT"], ["w", "STRING"]]
OPTIONS = {
    "chain-table.enabled": "true",
    "bucket": "2",
    "bucket-key": "k",
    "sequence.field": "v",
    "partition.timestamp-pattern": "$dt",
    "partition.timestamp-formatter": "yyyyMMdd",
}
BRANCHES = {"scan.fallback-snapshot-branch": "snapshot", "scan.fallback-delta-branch": "delta"}


def make_chain(java: JavaPaimon, path: str) -> None:
    """Gives a table that has the option `chain-table.enabled` its two branches."""
    for name in BRANCHES.values():
        java.call("create_branch", table=path, name=name)
    changes = [{"change": "set_option", "name": key, "value": value} for key, value in BRANCHES.items()]
    for branch in ("main", *BRANCHES.values()):
        java.call("alter", table=path, branch=branch, changes=changes)


def made(java: JavaPaimon, path: Path, *, partition_keys: tuple[str, ...] = ("dt",), **options: str) -> str:
    fields = [*([["g", "INT NOT NULL"]] if "g" in partition_keys else []), *FIELDS]
    fields += [["h", "STRING NOT NULL"]] if "h" in partition_keys else []
    java.call(
        "create_table",
        table=str(path),
        fields=fields,
        primary_keys=[*partition_keys, "k"],
        partition_keys=list(partition_keys),
        options={**OPTIONS, **options},
    )
    make_chain(java, str(path))
    return str(path)


def put(java: JavaPaimon, path: str, branch: str, rows: list[list[Any]], **more: Any) -> None:
    java.call("write", table=path, branch=branch, rows=rows, **more)


def filled(java: JavaPaimon, path: Path, **options: str) -> str:
    """Days 1 and 4 are complete; those before 1, 2, 3, 5 and 6 have changes, of which 6 deletes a row of 4."""
    found = made(java, path, **options)
    put(java, found, "delta", [["20241231", 9, 1, "first"]])
    put(java, found, "snapshot", [["20250101", key, 1, f"a{key}"] for key in range(4)])
    put(java, found, "delta", [["20250102", 1, 2, "b1"], ["20250102", 7, 2, "b7"]])
    put(java, found, "delta", [["20250103", 2, 3, "c2"]])
    put(java, found, "snapshot", [["20250104", key, 4, f"d{key}"] for key in range(3)])
    put(java, found, "delta", [["20250105", 1, 5, "e1"], ["20250105", 1, 2, "late"]])
    put(java, found, "delta", [["-D", "20250106", 0, 6, "gone"], ["+I", "20250106", 5, 6, "f5"]], kinds=True)
    return found
