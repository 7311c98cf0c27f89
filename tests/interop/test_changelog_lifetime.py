"""Changelogs that outlive their snapshots, beside Java: the same files go and stay, and both read the same changes."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from paimon_engine import open_table
from tests.support.oracle import JavaPaimon

COLUMNS = [["k", "INT NOT NULL"], ["v", "INT"]]
KINDS = {
    "none": {"bucket": "2"},
    "input": {"bucket": "1", "changelog-producer": "input"},
    "lookup": {"bucket": "2", "changelog-producer": "lookup"},
    "full-compaction": {"bucket": "1", "changelog-producer": "full-compaction"},
    "append": {"bucket": "1", "bucket-key": "k"},
}
LONG = {"changelog.num-retained.max": "1000", "changelog.num-retained.min": "999"}


def files(path: Path) -> dict[str, bytes]:
    """Every file of a table by its path, with what is written in changelogs, snapshots and hints."""
    found = {}
    for file in path.rglob("*"):
        if file.is_file() and not file.name.endswith(".crc"):
            plain = file.parent.name in ("changelog", "snapshot", "tag")
            found[str(file.relative_to(path))] = file.read_bytes() if plain else b""
    return found


def create(oracle: JavaPaimon, path: Path, kind: str) -> None:
    keys = [] if kind == "append" else ["k"]
    options = {"snapshot.num-retained.min": "500", **KINDS[kind], **LONG}
    oracle.call("create_table", table=str(path), fields=COLUMNS, primary_keys=keys, options=options)


def write_some(oracle: JavaPaimon, path: Path, chance: random.Random, kind: str) -> None:
    for _ in range(chance.randint(2, 4)):
        rows = [[chance.randrange(30), chance.randrange(1000)] for _ in range(chance.randint(1, 8))]
        if chance.random() < 0.15:
            oracle.call("write", table=str(path), rows=rows, overwrite={})
        elif kind in ("lookup", "full-compaction"):
            oracle.call("write", table=str(path), rows=rows, compact="full" if chance.random() < 0.6 else "minor")
        else:
            oracle.call("write", table=str(path), rows=rows)
        if chance.random() < 0.4:
            oracle.call("compact", table=str(path), full=chance.random() < 0.7)


def changes(oracle: JavaPaimon, path: Path, begin: int) -> list[Any]:
    """What a streaming reader sees from that snapshot or changelog on."""
    return list(oracle.call("changelog", table=str(path), **{"from": begin})["changes"])


def expire_both(oracle: JavaPaimon, ours: Path, java: Path, most: int, changelogs: int, limit: int) -> None:
    """Expires the same table in two places, by each engine."""
    oracle.call(
        "expire",
        table=str(java),
        retain_max=most,
        retain_min=1,
        older_ms=0,
        max_deletes=limit,
        changelog_retain_max=changelogs,
        changelog_retain_min=2,
        expire_changelog=True,
    )
    now_ms = time.time_ns() // 1_000_000 + 1
    options = {
        "changelog.num-retained.max": str(changelogs),
        "changelog.num-retained.min": "2",
        "snapshot.num-retained.max": str(most),
        "snapshot.num-retained.min": "1",
        "snapshot.time-retained": "0 ms",
        "changelog.time-retained": "0 ms",
        "snapshot.expire.limit": str(limit),
    }
    done = open_table(str(ours), options=options).expire_snapshots(older_than=now_ms)
    assert done.stopped == () or "expire.limit" in done.stopped[0], done.stopped


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_files_go_and_stay(kind: str, tmp_path: Path, oracle: JavaPaimon) -> None:
    chance = random.Random(f"lifetime {kind}")
    ours, java = tmp_path / "ours.db" / "t", tmp_path / "java.db" / "t"
    create(oracle, ours, kind)
    for _ in range(4):
        write_some(oracle, ours, chance, kind)
        shutil.rmtree(java, ignore_errors=True)
        shutil.copytree(ours, java)
        most = chance.randint(1, 3)
        expire_both(oracle, ours, java, most, most + chance.randint(1, 6), chance.choice([3, 100]))

        assert files(ours) == files(java)
        assert open_table(str(ours)).verify().problems == ()
        oracle.assert_sound(ours)
        begin = min(
            int(name[name.rindex("-") + 1 :]) for name in files(ours) if name.startswith("changelog/changelog-")
        )
        assert changes(oracle, ours, begin) == changes(oracle, java, begin)
