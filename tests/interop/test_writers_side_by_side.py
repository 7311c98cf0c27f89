"""Rows that writers side by side gave equal sequence numbers: every reader takes the same one for the newest.

Nothing in such a table says which row of a key is newer. Java's merge decides it by the order of its runs and of the
keys around; what it takes is read here as well, with filters too, and a full compaction leaves it (Java's own, which
merges the runs in another order, may not: `tests/reports/test_equal_numbers.py`).
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, col
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon
from tests.support.seeds import seeds

ENGINES = {
    "deduplicate": {},
    "ORC": {"file.format": "orc"},
    "ignored deletes": {"ignore-delete": "true"},
    "sequence field": {"sequence.field": "s"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "partial-update": {"merge-engine": "partial-update"},
    "partial-update and lookup": {"merge-engine": "partial-update", "changelog-producer": "lookup"},
    "sequence group": {"merge-engine": "partial-update", "fields.s.sequence-group": "a"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "last_value",
        "fields.a.aggregate-function": "first_value",
        "fields.s.aggregate-function": "sum",
    },
    "joined texts": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "listagg",
        "fields.a.aggregate-function": "last_non_null_value",
        "fields.s.aggregate-function": "max",
    },
}
ONLY_LATER = {
    "descending sequence field": {"sequence.field": "s", "sequence.field.sort-order": "descending"},
    "merged vectors": {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
}
"""What Java 0.9 does not know."""
KEYS = 8


def key_of(number: int, kind: pa.DataType) -> int | str:
    return f"k{number}" if pa.types.is_string(kind) else number


def schema_of(key: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("k", key, nullable=False), ("v", pa.string()), ("a", pa.string()), ("s", pa.int32())])


def made(folder: Path, schema: pa.Schema, options: dict[str, str]) -> Table:
    return Catalog(str(folder)).create_table(
        "db.t", schema=schema, primary_keys=["k"], options={"bucket": "1", "write-only": "true", **options}
    )


def rows_of_keys(random: Random, schema: pa.Schema, label: str, numbers: list[int]) -> pa.Table:
    """Rows with nulls."""
    keys = [key_of(number, schema.field("k").type) for number in numbers]

    def value() -> str | None:
        return None if random.random() < 0.25 else label

    rows = [{"k": key, "v": value(), "a": value(), "s": random.choice([None, 1, 1, 2])} for key in keys]
    return pa.Table.from_pylist(rows, schema=schema)


def written(folder: Path, seed: int, options: dict[str, str]) -> Table:
    """A table in whose bucket some writers worked at once, after others, and after compactions."""
    random = Random(seed)
    schema = schema_of(random.choice([pa.int64(), pa.string()]))
    table = made(folder, schema, options)
    deletes = "merge-engine" not in options and "deletion-vectors.enabled" not in options

    def one(label: str, most: int = 5) -> tuple[pa.Table, list[str] | None]:
        rows = rows_of_keys(random, schema, label, random.sample(range(KEYS), random.randint(1, most)))
        return rows, random.choices(["+I", "-D"], [3, 1], k=rows.num_rows) if deletes else None

    for step in range(random.randint(1, 2)):
        for number in range(random.randrange(3)):
            table.write(*one(f"{step}{number}", 6))
            if random.random() < 0.3:
                table.compact(full=random.random() < 0.5)
        prepared = [
            table.prepare_write(*one(f"{step}{letter}")) for letter in "ABCDEFGHIJK"[: random.choice([2, 3, 4, 11])]
        ]
        random.shuffle(prepared)
        for number, messages in enumerate(prepared):
            table.commit(messages, commit_user=f"writer {number}")
    return table


def check(table: Table, java: JavaPaimon) -> None:
    before = rows_of(table.to_arrow())
    assert_same_rows(java.read(table.path), before, "before the compaction")
    kind = table.arrow_schema.field("k").type
    for number in range(KEYS):
        key = key_of(number, kind)
        found = rows_of(table.to_arrow(where=col("k") == key))
        assert found == [row for row in before if row[0] == key], f"key {key}"
    table.compact(full=True)
    assert_same_rows(rows_of(table.to_arrow()), before, "after the compaction")
    assert_same_rows(java.read(table.path), before, "after the compaction, by Java")


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("engine", ENGINES)
def test_java_reads_the_same_rows_and_a_compaction_leaves_them(
    tmp_path: Path, oracle: JavaPaimon, engine: str, seed: int
) -> None:
    check(written(tmp_path, seed, ENGINES[engine]), oracle)


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("engine", ENGINES)
def test_a_compaction_of_some_runs_leaves_them_too(tmp_path: Path, oracle: JavaPaimon, engine: str, seed: int) -> None:
    random = Random(seed)
    schema = schema_of(pa.int64())
    options = {"num-sorted-run.compaction-trigger": "3", **ENGINES[engine]}
    table = made(tmp_path, schema, options)
    table.write(rows_of_keys(random, schema, "base", random.sample(range(6_000), 5_000)))
    table.compact(full=True)
    late = table.prepare_write(rows_of_keys(random, schema, "late", random.sample(range(60), 20)))
    for letter in "ABCD":
        keys = random.sample(range(100), random.randint(20, 60))
        prepared = [table.prepare_write(rows_of_keys(random, schema, letter + name, keys)) for name in "xy"]
        for number, messages in enumerate(reversed(prepared)):
            table.commit(messages, commit_user=f"{letter} {number}")

    for _ in range(2):
        before = rows_of(table.to_arrow())
        assert_same_rows(oracle.read(table.path), before, "before the compaction")
        table.compact()
        levels = set(table.files()["level"].to_pylist())
        assert 0 not in levels and len(levels) > 1
        assert_same_rows(rows_of(table.to_arrow()), before, "after the compaction")
        assert_same_rows(oracle.read(table.path), before, "after the compaction, by Java")
        if late:
            table.commit(late, commit_user="late")
            for label in "EFG":
                table.write(rows_of_keys(random, schema, label, random.sample(range(100), 10)))
            late = []


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("engine", [*ENGINES, *ONLY_LATER])
def test_java_2_reads_the_same_rows_and_a_compaction_leaves_them(
    tmp_path: Path, paimon2: JavaPaimon, engine: str, seed: int
) -> None:
    check(written(tmp_path, seed, {**ENGINES, **ONLY_LATER}[engine]), paimon2)
