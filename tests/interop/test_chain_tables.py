"""Chain tables of Java Paimon 2.0: complete partitions in one branch, changes in another, read together."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paimon_engine import InvalidArgumentError, UnsupportedError, open_table
from tests.support.canonical import rows_of, text_of
from tests.support.chain_tables import filled, made, put
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java


def alike(java: JavaPaimon, path: str, **more: Any) -> list[Any]:
    """The rows, which Java reads as well."""
    found = sorted(rows_of(open_table(path).to_arrow(**more)), key=text_of)
    assert found == sorted(java.read(path), key=text_of)
    return found


def day(found: list[Any], name: str) -> dict[int, str]:
    return {row[1]: row[3] for row in found if row[0] == name}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_partitions_are_complete_or_merged(file_format: str, paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t", **{"file.format": file_format})

    found = alike(paimon2, path)

    assert day(found, "20241231") == {9: "first"}
    assert day(found, "20250101") == {0: "a0", 1: "a1", 2: "a2", 3: "a3"}
    assert day(found, "20250102") == {0: "a0", 1: "b1", 2: "a2", 3: "a3", 7: "b7"}
    assert day(found, "20250103") == {0: "a0", 1: "b1", 2: "c2", 3: "a3", 7: "b7"}
    assert day(found, "20250104") == {0: "d0", 1: "d1", 2: "d2"}
    assert day(found, "20250105") == {0: "d0", 1: "e1", 2: "d2"}
    assert day(found, "20250106") == {1: "e1", 2: "d2", 5: "f5"}
    for branch in ("snapshot", "delta"):
        own = sorted(rows_of(open_table(f"{path}$branch_{branch}").to_arrow()), key=text_of)
        assert own == sorted(paimon2.read(path, branch=branch), key=text_of)
    # What the table itself has is not looked for elsewhere.
    put(paimon2, path, "main", [["20250105", 1, 1, "own"], ["20250107", 2, 1, "new"]])
    found = alike(paimon2, path)
    assert day(found, "20250105") == {1: "own"}
    assert day(found, "20250106") == {1: "e1", 2: "d2", 5: "f5"}
    for branch in ("snapshot", "delta"):
        paimon2.call("compact", table=path, branch=branch)
        assert alike(paimon2, path) == found


WHERE: dict[str, Callable[[dict[str, Any]], bool]] = {
    "dt = '20250106'": lambda row: row["dt"] == "20250106",
    "dt > '20250102' AND k < 2": lambda row: row["dt"] > "20250102" and row["k"] < 2,
    "k = 1": lambda row: row["k"] == 1,
    "w = 'a0'": lambda row: row["w"] == "a0",
    "dt = '20250103' AND w = 'a0'": lambda row: row["dt"] == "20250103" and row["w"] == "a0",
    "dt = '20250103' OR w = 'd2'": lambda row: row["dt"] == "20250103" or row["w"] == "d2",
    "v >= 5": lambda row: row["v"] >= 5,
    "dt = '20250199'": lambda row: False,
}


@pytest.mark.parametrize("where", WHERE)
def test_filters_and_columns(where: str, paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    table = open_table(path)
    every = table.to_arrow().to_pylist()

    found = table.to_arrow(where=where).to_pylist()

    matches = WHERE[where]
    assert sorted(map(str, found)) == sorted(str(row) for row in every if matches(row))
    for columns in (["w"], ["v", "dt"], ["k"]):
        part = table.to_arrow(where=where, columns=columns).to_pylist()
        assert sorted(map(str, part)) == sorted(str({name: row[name] for name in columns}) for row in found)


def test_groups_and_hours(paimon2: JavaPaimon, tmp_path: Path):
    """Only the last partition keys are a chain; partitions of other groups have nothing to do with it."""
    path = made(
        paimon2,
        tmp_path / "t",
        partition_keys=("g", "dt", "h"),
        **{
            "chain-table.chain-partition-keys": "dt,h",
            "partition.timestamp-pattern": "$dt $h:00:00",
            "partition.timestamp-formatter": "yyyyMMdd HH:mm:ss",
        },
    )
    put(paimon2, path, "snapshot", [[1, "20250101", key, 1, f"a{key}", "05"] for key in range(3)])
    put(paimon2, path, "snapshot", [[2, "20250101", key, 1, f"z{key}", "23"] for key in range(2)])
    put(paimon2, path, "delta", [[1, "20250101", 1, 2, "b1", "06"], [2, "20250102", 1, 2, "y1", "00"]])
    put(paimon2, path, "delta", [[1, "20250102", 2, 2, "c2", "00"], [3, "20250102", 5, 2, "x5", "07"]])
    put(paimon2, path, "delta", [[3, "20250103", 6, 2, "x6", "01"]])

    found = alike(paimon2, path)

    def hour(*place: Any) -> dict[int, str]:
        return {row[2]: row[4] for row in found if (row[0], row[1], row[5]) == place}

    assert hour(1, "20250102", "00") == {0: "a0", 1: "b1", 2: "c2"}
    assert hour(2, "20250102", "00") == {0: "z0", 1: "y1"}
    assert hour(3, "20250103", "01") == {5: "x5", 6: "x6"}


@pytest.mark.parametrize("seed", range(6))
def test_random_chains(seed: int, paimon2: JavaPaimon, tmp_path: Path):
    made_up = random.Random(seed)
    engine = made_up.choice(["deduplicate", "partial-update"])
    path = made(paimon2, tmp_path / "t", **{"merge-engine": engine, "write-only": "true"})
    for step in range(12):
        branch = made_up.choice(["snapshot", "delta", "delta", "delta", "main"] if step > 8 else ["snapshot", "delta"])
        kinds = engine == "deduplicate"
        rows = [
            [
                *([made_up.choice(["+I", "+I", "+I", "-D"])] if kinds else []),
                f"202501{made_up.randrange(1, 8):02d}",
                key,
                step if made_up.random() < 0.9 else None,
                made_up.choice([None, f"w{step}"]),
            ]
            for key in made_up.sample(range(12), 6)
        ]
        put(paimon2, path, branch, rows, kinds=kinds)
        if made_up.random() < 0.2:
            paimon2.call("compact", table=path, branch=made_up.choice(["snapshot", "delta"]))
    found = alike(paimon2, path)
    for days in {row[0] for row in found}:
        part = open_table(path).to_arrow(where=f"dt = '{days}'")
        assert sorted(rows_of(part), key=text_of) == [row for row in found if row[0] == days]


def test_changes_of_the_schema(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    add = [{"change": "add", "name": "x", "type": "INT"}]
    for branch in ("main", "snapshot", "delta"):
        paimon2.call("alter", table=path, branch=branch, changes=add)
    put(paimon2, path, "delta", [["20250107", 1, 7, "g1", 7]])
    put(paimon2, path, "snapshot", [["20250108", 1, 8, "h1", 8]])
    put(paimon2, path, "delta", [["20250109", 2, 9, "i2", 9]])
    found = alike(paimon2, path)
    assert [row[1:] for row in found if row[0] == "20250109"] == [[1, 8, "h1", 8], [2, 9, "i2", 9]]

    paimon2.call("alter", table=path, branch="delta", changes=[{"change": "add", "name": "y", "type": "INT"}])
    with pytest.raises(
        InvalidArgumentError, match="'scan.fallback-delta-branch' = 'delta': the branch has other columns"
    ):
        open_table(path).to_arrow()


def test_what_is_not_read_is_refused_by_name(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t")
    table = open_table(path)
    newest = table.latest_snapshot_id()
    assert newest is None
    put(paimon2, path, "main", [["20250107", 2, 1, "new"]])
    table.create_tag("one")
    for way in ({"snapshot": 1}, {"tag": "one"}, {"incremental": (0, 1)}, {"options": {"scan.version": "one"}}):
        with pytest.raises(UnsupportedError, match="reading a chain table is supported as it is now"):
            table.to_arrow(**way)
    assert sorted(rows_of(table.to_arrow(options={"scan.mode": "latest-full"})), key=text_of) == alike(paimon2, path)
    for name, key in (("snapshot", "scan.fallback-snapshot-branch"), ("delta", "scan.fallback-delta-branch")):
        with pytest.raises(InvalidArgumentError, match=f"remove its option '{key}' first"):
            table.delete_branch(name)
    vectors = made(paimon2, tmp_path / "vectors", **{"deletion-vectors.enabled": "true"})
    with pytest.raises(UnsupportedError, match="'chain-table.enabled' together with 'deletion-vectors.enabled'"):
        open_table(vectors).to_arrow()
    with pytest.raises(UnsupportedError, match="writing .*'chain-table.enabled' together with"):
        open_table(f"{vectors}$branch_delta").write(table.to_arrow(limit=1))
