"""Deletion vectors that readers merge with level 0: rows are those that Java Paimon 2.0 reads, in turns of both."""

from __future__ import annotations

import time
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import open_table
from tests.support.canonical import rows_of, text_of
from tests.support.oracle import JavaPaimon
from tests.support.seeds import seeds

pytestmark = pytest.mark.java

FIELDS = [["k", "BIGINT NOT NULL"], ["v", "BIGINT"], ["w", "STRING"]]
OPTIONS = {"bucket": "1", "deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "sequence field": {"sequence.field": "v"},
    "64 bits": {"deletion-vectors.bitmap64": "true"},
}


def assert_alike(java: JavaPaimon, path: str) -> list[Any]:
    """All rows, rows of a filter, and those of the highest level."""
    table = open_table(path)
    found = sorted(rows_of(table.to_arrow()), key=text_of)
    assert found == sorted(java.read(path), key=text_of)
    few = rows_of(table.to_arrow(where="v >= 1020"))
    answer = java.read(path, filter=[">=", "v", 1020], execute_filter=True)
    assert sorted(few, key=text_of) == sorted((row for row in answer if row[1] >= 1020), key=text_of)
    highest = rows_of(open_table(f"{path}$ro").to_arrow())
    assert sorted(highest, key=text_of) == sorted(java.read(path, system="ro"), key=text_of)
    assert java.problems(path) == []
    return found


@pytest.mark.parametrize("options", ENGINES.values(), ids=ENGINES)
def test_rows_are_those_that_java_reads(options: dict[str, str], paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    paimon2.call(
        "create_table", table=path, fields=FIELDS, primary_keys=["k"], partition_keys=[], options={**OPTIONS, **options}
    )
    table = open_table(path)

    def rows(step: int) -> list[list[Any]]:
        keys = range(step * 7, step * 7 + 20)
        return [[key, 1000 + 40 * step - key, None if key % 3 == step % 3 else f"w{step}"] for key in keys]

    for step in range(6):
        if step % 2:
            paimon2.call("write", table=path, rows=rows(step))
        else:
            columns = zip(*rows(step), strict=True)
            table.write(pa.table([list(column) for column in columns], schema=table.arrow_schema))
        seen = assert_alike(paimon2, path)
        assert len(seen) == step * 7 + 20
        if step == 1:
            table.compact(full=True)
        if step == 2:
            paimon2.call("compact", table=path, full=False)
        if step == 4:
            table.compact()
        assert len(assert_alike(paimon2, path)) == len(seen)
    if options.get("merge-engine") != "aggregation":
        paimon2.call("write", table=path, kinds=True, rows=[["-D", 3, 9999, None], ["-D", 30, 9999, None]])
        assert len(assert_alike(paimon2, path)) == len(seen) - 2
    assert open_table(path).verify("rows").status == "sound"


CHANGES = [*((name, "none") for name in ENGINES), ("deduplicate", "lookup"), ("deduplicate", "input")]


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize(("engine", "producer"), CHANGES)
def test_what_changed_is_what_changed_in_a_table_without_vectors(
    engine: str, producer: str, seed: int, paimon2: JavaPaimon, tmp_path: Path
):
    """Java 2.0 reads the files of such a delta one by one: it shows rows that were deleted, or replaced, within it."""
    chance = Random(f"{engine} {producer} {seed}")
    options = {**ENGINES[engine], "changelog-producer": producer}
    plain = {"bucket": "1"} | {key: value for key, value in options.items() if "vectors" not in key}
    paths = {str(tmp_path / "merged"): {**OPTIONS, **options}, str(tmp_path / "plain"): plain}
    for path, given in paths.items():
        paimon2.call("create_table", table=path, fields=FIELDS, primary_keys=["k"], partition_keys=[], options=given)
    ids: dict[str, list[int]] = {path: [] for path in paths}
    for step in range(6):
        rows = [[key, chance.randrange(1000), f"w{step}"] for key in sorted(chance.sample(range(20), 8))]
        # A compaction with vectors leaves nothing of a delete, so that a later row of a lower number is valid, as in Java.
        may_delete = step > 0 and engine not in ("aggregation", "sequence field")
        kinds = ["-D" if may_delete and chance.random() < 0.2 else "+I" for _ in rows]
        compaction = chance.choice([None, None, "java", "java full", "here", "here full"])
        for path in paths:
            with_kinds = [[kind, *row] for kind, row in zip(kinds, rows, strict=True)]
            paimon2.call("write", table=path, rows=with_kinds, kinds=True, options={"write-only": "true"})
            if compaction is not None and compaction.startswith("java"):
                paimon2.call("compact", table=path, full="full" in compaction)
            elif compaction is not None:
                open_table(path).compact(full="full" in compaction)
            ids[path].append(open_table(path).latest_snapshot_id() or 0)

    for first, last in combinations(range(6), 2):
        states = [_by_key(str(tmp_path / "merged"), ids[str(tmp_path / "merged")][at]) for at in (first, last)]
        new = [row for key, row in states[1].items() if states[0].get(key) != row]
        for mode in ("delta", "diff", *(["changelog"] if producer != "none" else [])):
            for system in ("", "$audit_log"):
                found = [_changes(path + system, (ids[path][first], ids[path][last]), mode) for path in paths]
                assert found[0] == found[1], (mode, system, first, last)
                assert mode != "diff" or system or found[0] == sorted(new, key=text_of), (first, last)


@pytest.mark.parametrize("seed", seeds(2))
def test_files_since_a_moment_are_read_as_by_java(seed: int, paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    paimon2.call("create_table", table=path, fields=FIELDS, primary_keys=["k"], partition_keys=[], options=OPTIONS)
    chance, moments = Random(seed), []
    for step in range(6):
        # Files of one step are older than the moment of the next one, which counts in milliseconds.
        time.sleep(0.02)
        moments.append(time.time_ns() // 1_000_000)
        time.sleep(0.02)
        keys = sorted(chance.sample(range(20), 8))
        rows = [["-D" if step and chance.random() < 0.2 else "+I", key, step, f"w{step}"] for key in keys]
        paimon2.call("write", table=path, rows=rows, kinds=True, options={"write-only": "true"})
        match chance.choice(["nobody", "java", "here"]):
            case "java":
                paimon2.call("compact", table=path, full=chance.random() < 0.5)
            case "here":
                open_table(path).compact(full=chance.random() < 0.5)

    counts = []
    for moment in moments:
        since = {"scan.file-creation-time-millis": str(moment)}
        found = sorted(rows_of(open_table(path).to_arrow(options=since)), key=text_of)
        assert found == sorted(paimon2.read(path, options=since), key=text_of)
        counts.append(len(found))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 8


def _by_key(path: str, snapshot: int) -> dict[Any, list[Any]]:
    return {row[0]: row for row in rows_of(open_table(path).to_arrow(snapshot=snapshot))}


def _changes(path: str, bounds: tuple[int, int], mode: str) -> list[Any]:
    rows = open_table(path).to_arrow(incremental=bounds, options={"incremental-between-scan-mode": mode})
    return sorted(rows_of(rows), key=text_of)
