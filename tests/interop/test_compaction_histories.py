"""Random histories of writes and compactions, by Java, by this engine, and by both in turns, must be one history.

Each seed chooses a table (merge engine, changelog producer, sequence field, deletion vectors, …) and a program of writes and minor and
full compactions. The program runs three times: in Java, here, and with either of them at each step. Rows at every
snapshot and every changelog must be the same, and Java's `check` finds nothing.

`PAIMON_TEST_SEEDS=100-200` tries others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Table, open_table
from tests.support.oracle import JavaPaimon
from tests.support.seeds import seeds

FIELDS = [["k", "INT NOT NULL"], ["a", "INT"], ["b", "STRING"], ["s", "INT"]]
SCHEMA = pa.schema(
    [pa.field("k", pa.int32(), nullable=False), pa.field("a", pa.int32()), ("b", pa.string()), ("s", pa.int32())]
)
ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "deduplicate by sequence": {"sequence.field": "s"},
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "sequence group": {"merge-engine": "partial-update", "fields.s.sequence-group": "a,b"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "last_non_null_value",
        "fields.s.aggregate-function": "max",
        "fields.s.ignore-retract": "true",
    },
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
}
PRODUCERS = ("none", "input", "full-compaction", "lookup")

Step = Mapping[str, Any]


def program(chance: random.Random) -> tuple[dict[str, str], list[Step]]:
    """Options of a table, and the steps to run on it."""
    engine = chance.choice(list(ENGINES))
    producer = chance.choice(("none", "lookup") if engine == "first-row" else PRODUCERS)
    options = {"bucket": "1", "changelog-producer": producer, "file.format": "parquet", **ENGINES[engine]}
    if producer in ("lookup", "full-compaction"):
        options["changelog-producer.row-deduplicate"] = chance.choice(("true", "false"))
    marks = engine != "first-row" and producer != "full-compaction" and chance.random() < 0.5
    if marks:
        options["deletion-vectors.enabled"] = "true"
    kinds = ("+I", "+U") if engine in ("first-row", "sequence group") else ("+I", "+I", "+U", "-U", "-D")
    if engine == "aggregation":
        kinds = ("+I", "+I", "+U", "-D")
    steps: list[Step] = []
    for _ in range(chance.randint(6, 14)):
        if chance.random() < 0.4:
            # Which runs a minor compaction takes depends on file sizes, which differ; level 0 goes up in any case.
            minor_is_told = marks or producer == "lookup" or engine == "first-row"
            steps.append({"op": "compact", "full": not minor_is_told or chance.random() < 0.3})
        else:
            steps.append(
                {"op": "write", "kinds": True, "rows": [_row(chance, kinds) for _ in range(chance.randint(1, 12))]}
            )
    return options, [*steps, {"op": "compact", "full": True}]


def _row(chance: random.Random, kinds: tuple[str, ...]) -> list[Any]:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.3 else value

    return [
        chance.choice(kinds),
        chance.randint(0, 9),
        maybe(chance.randint(-3, 9)),
        maybe(chance.choice(["x", "y", ""])),
        maybe(chance.randint(0, 5)),
    ]


def run_here(table: Table, step: Step) -> None:
    if step["op"] == "compact":
        table.compact(full=step["full"])
        return
    kinds, *columns = zip(*step["rows"], strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    table.write(pa.table(arrays, schema=SCHEMA), row_kinds=pa.array(kinds))


def run_in_java(oracle: JavaPaimon, path: Path, step: Step) -> None:
    # Compactions are steps of their own: Java's writers would add theirs.
    options = {"write-only": "true"} if step["op"] == "write" else {}
    oracle.call(**step, table=str(path), options=options)


@pytest.mark.parametrize("seed", seeds(24))
def test_both_engines_tell_the_same_history(oracle: JavaPaimon, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    options, steps = program(chance)
    paths = {name: tmp_path / name / "db.db" / "t" for name in ("java", "here", "turns")}
    for path in paths.values():
        oracle.call("create_table", table=str(path), fields=FIELDS, primary_keys=["k"], options=options)

    for step in steps:
        run_in_java(oracle, paths["java"], step)
        run_here(open_table(str(paths["here"])), step)
        if chance.random() < 0.5:
            run_in_java(oracle, paths["turns"], step)
        else:
            run_here(open_table(str(paths["turns"])), step)
        rows = {name: sorted(oracle.read(path), key=repr) for name, path in paths.items()}
        assert rows["here"] == rows["java"], (options, step)
        assert rows["turns"] == rows["java"], (options, step)

    told = {name: oracle.call("changelog", table=str(path))["changes"] for name, path in paths.items()}
    assert told["here"] == told["java"], options
    assert told["turns"] == told["java"], options
    for name in ("here", "turns"):
        oracle.assert_sound(paths[name])
        assert sorted(open_table(str(paths[name])).to_arrow().to_pylist(), key=repr) == sorted(
            open_table(str(paths["java"])).to_arrow().to_pylist(), key=repr
        )
