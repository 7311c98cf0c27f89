"""The same history told to Java: it reads every snapshot and tag of every branch, and finds nothing wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.life_cycle.reach import Reach, Version
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon


def dump(reach: Reach, directory: Path) -> None:
    """Writes the table's files to a directory of a disk."""
    for path in reach.stored():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(reach.storage.read(f"{reach.root}/{path}"))


def assert_java_reads(oracle: JavaPaimon, reach: Reach, directory: Path, rows: Mapping[tuple[int, str], Any]) -> int:
    """Fails unless Java reads the rows of each version, by its commit, and finds the table sound; how many it read."""
    dump(reach, directory)
    versions = [version for version in reach.versions() if version.kind != "changelog"]
    for version in versions:
        expected = rows[version.commit]
        found = oracle.read(directory, branch=version.branch, **_at(version))
        assert_same_rows(
            rows_of(expected),
            found,
            f"Java's {version.kind} {version.name} of {version.branch}",
            schema=expected.schema,
        )
    oracle.assert_sound(directory)
    return len(versions)


def _at(version: Version) -> dict[str, Any]:
    return {"tag": version.name} if version.kind == "tag" else {"snapshot": int(version.name)}
