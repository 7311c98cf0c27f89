"""The same history read by Java: it reads every snapshot and tag of every branch, and finds nothing wrong.

Java 0.9 looks for a tag of a branch among main's. So each branch is read as the main branch of a copy of the table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.life_cycle.world import World
from tests.support.canonical import Row, assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon
from tests.support.world.reach import Reach, Version

_OF_A_BRANCH = ("schema", "snapshot", "tag", "changelog")


def dump(reach: Reach, directory: Path, branch: str | None) -> None:
    """Writes the table's files to a directory of a disk, with a branch in place of main."""
    prefix = f"branch/branch-{branch}/"
    for path in reach.stored():
        location = path
        if branch is not None:
            if path.partition("/")[0] in _OF_A_BRANCH:
                continue
            location = path.removeprefix(prefix)
        target = directory / location
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(reach.storage.read(f"{reach.root}/{path}"))


def assert_java_reads(oracle: JavaPaimon, world: World, directory: Path) -> int:
    """Fails unless Java reads the rows of each version as we did, and finds the table valid; returns how many it read."""
    versions = [version for version in world.reach.versions() if version.kind != "changelog"]
    for branch in sorted({version.branch or "" for version in versions}):
        location = directory / (branch or "main")
        dump(world.reach, location, branch or None)
        for version in versions:
            if (version.branch or "") == branch:
                expected = world.seen[version.commit]
                sides = rows_of(expected), oracle.read(location, **_at(version))
                ours, theirs = ([row for row in side if _is_certain(world, expected, row)] for side in sides)
                where = f"Java's {version.kind} {version.name} of {branch or 'main'}"
                assert_same_rows(ours, theirs, where, schema=expected.schema)
        oracle.assert_sound(location)
    return len(versions)


def _is_certain(world: World, table: pa.Table, row: Row) -> bool:
    return world.is_certain(dict(zip(table.column_names, row, strict=True)))


def _at(version: Version) -> dict[str, Any]:
    return {"tag": version.name} if version.kind == "tag" else {"snapshot": int(version.name)}
