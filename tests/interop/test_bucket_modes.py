"""Dynamic, cross-partition and postponed buckets with the Java library: each engine continues where the other stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from paimon_engine.actions.write import write_arrow
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.corpus import Case, corpus_cases
from tests.support.key_places import assert_each_key_in_one_bucket, handle_of
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int32())]
)
Rows = list[tuple[int, str, int]]
KINDS = ["+I", "+U", "-D"]


def table_of(rows: Rows) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def random_rows(random: Random, first: int) -> Rows:
    return [(random.randrange(2), f"key-{random.randrange(90)}", first + n) for n in range(50)]


def test_java_and_we_write_to_a_table_with_dynamic_buckets_in_turns(tmp_path: Path, oracle: JavaPaimon):
    random, model = Random(7), {}
    table = Catalog(str(tmp_path)).create_table(
        "db.t",
        schema=SCHEMA,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "20"},
    )
    for step in range(6):
        rows = random_rows(random, 1000 * step)
        kinds = random.choices(KINDS, [6, 2, 1], k=len(rows))
        for kind, (p, k, v) in zip(kinds, rows, strict=True):
            model.pop((p, k), None)
            if kind != "-D":
                model[p, k] = [p, k, v]
        if step % 2:
            oracle.call(
                "write",
                table=table.path,
                rows=[[kind, *row] for kind, row in zip(kinds, rows, strict=True)],
                kinds=True,
            )
        else:
            table.write(table_of(rows), row_kinds=kinds)
        if step == 2:
            table.compact(full=True)
        if step == 3:
            oracle.call("compact", table=table.path)

        assert_same_rows(list(model.values()), oracle.read(table.path), f"Java after step {step}", schema=SCHEMA)
        assert_same_rows(list(model.values()), rows_of(table.to_arrow()), f"we after step {step}", schema=SCHEMA)
        oracle.assert_sound(table.path)
        assert_each_key_in_one_bucket(table)


@pytest.mark.parametrize("primary_keys", [["p", "k"], ["k"]], ids=["dynamic", "cross-partition"])
def test_what_java_writes_while_we_write_is_kept(primary_keys: list[str], tmp_path: Path, oracle: JavaPaimon):
    table = Catalog(str(tmp_path)).create_table(
        "db.t",
        schema=SCHEMA,
        primary_keys=primary_keys,
        partition_keys=["p"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
    )
    table.write(table_of([(1, f"key-{n}", 0) for n in range(4)]))

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table_of([(1, f"key-{n}", 1) for n in range(19, 9, -1)]).to_batches()
        # The state of the table has been read, and nothing committed yet; Java gives the same keys to other buckets.
        oracle.call("write", table=table.path, rows=[[2 - n % 2, f"key-{n}", 2] for n in range(10, 25)])

    write_arrow(handle_of(table), batches())
    table.compact(full=True)

    found = {(p, k): v for p, k, v in rows_of(table.to_arrow())}
    if primary_keys == ["k"]:
        expected = {(1, f"key-{n}"): {1} for n in range(10, 20)}
        expected |= {(2 - n % 2, f"key-{n}"): {2} for n in range(20, 25)}
    else:
        # Of two concurrent writers either may have the higher sequence numbers.
        expected = {(2 - n % 2, f"key-{n}"): {2} for n in range(10, 25)}
        expected |= {(1, f"key-{n}"): {1, 2} if n % 2 else {1} for n in range(10, 20)}
    expected |= {(1, f"key-{n}"): {0} for n in range(4)}
    assert found.keys() == expected.keys()
    assert all(v in expected[key] for key, v in found.items())
    assert_same_rows(rows_of(table.to_arrow()), oracle.read(table.path), schema=SCHEMA)
    oracle.assert_sound(table.path)
    if primary_keys != ["k"]:
        assert_each_key_in_one_bucket(table)


@pytest.mark.parametrize("case", corpus_cases("dynamic bucket"))
def test_javas_tables_with_dynamic_buckets_are_written_on(case: Case, tmp_path: Path, oracle: JavaPaimon):
    table = open_table(str(case.copy_to(tmp_path)))
    before = {(row["k"], row["pt"]): row for row in table.to_arrow().to_pylist()}
    rows = [{"pt": n % 2 if table.schema.partition_keys else 0, "k": f"key-{n}", "v": n} for n in range(60, 130)]
    after = {**before, **{(row["k"], row["pt"]): row for row in rows}}
    table.write(pa.Table.from_pylist(rows, schema=table.arrow_schema))
    if table.schema.table_options.deletion_vectors_enabled:
        # Rows of level 0 are seen after their compaction there.
        table.compact(full=True)

    expected = pa.Table.from_pylist(list(after.values()), schema=table.arrow_schema)
    assert_same_rows(rows_of(expected), rows_of(table.to_arrow()))
    assert_same_rows(rows_of(expected), oracle.read(table.path), schema=table.arrow_schema)
    oracle.assert_sound(table.path)
    assert_each_key_in_one_bucket(table)

    table.compact(full=True)
    oracle.call("write", table=table.path, rows=[[0, f"key-{n}", -n] for n in range(100, 150)])

    assert len(table.to_arrow()) == len(oracle.read(table.path))
    oracle.assert_sound(table.path)
    assert_each_key_in_one_bucket(table)


# ── cross-partition upsert ──────────────────────────────────────────────────────────────────────

ENGINES = ["deduplicate", "partial-update", "aggregation", "first-row"]


@pytest.mark.parametrize("engine", ENGINES)
def test_java_and_we_move_keys_between_partitions_in_turns(engine: str, tmp_path: Path, oracle: JavaPaimon):
    random, model = Random(11), {}
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "20", "merge-engine": engine}
    if engine == "aggregation":
        options["fields.v.aggregate-function"] = "sum"
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=SCHEMA, primary_keys=["k"], partition_keys=["p"], options=options
    )
    for step in range(5):
        rows = random_rows(random, 1000 * step)
        for p, k, v in rows:
            old = model.get(k)
            model[k] = _merged(engine, old, [p, k, v])
        if step % 2:
            oracle.call("write", table=table.path, rows=[list(row) for row in rows])
        else:
            table.write(table_of(rows))
        if step == 2 or engine == "first-row":
            table.compact(full=True)

        assert_same_rows(list(model.values()), rows_of(table.to_arrow()), f"we after step {step}", schema=SCHEMA)
        assert_same_rows(list(model.values()), oracle.read(table.path), f"Java after step {step}", schema=SCHEMA)
        oracle.assert_sound(table.path)


def _merged(engine: str, old: list[Any] | None, new: list[Any]) -> list[Any]:
    if old is None or engine == "deduplicate":
        return new
    if engine == "first-row":
        return old
    return [old[0], new[1], new[2] + (old[2] if engine == "aggregation" else 0)]


@pytest.mark.parametrize("case", corpus_cases("cross-partition upsert"))
def test_javas_tables_with_keys_over_all_partitions_are_written_on(case: Case, tmp_path: Path, oracle: JavaPaimon):
    table = open_table(str(case.copy_to(tmp_path)))
    model = {row["k"]: row for row in table.to_arrow().to_pylist()}
    rows = [{"pt": "xyzn"[n % 4], "k": n, "a": n, "b": None} for n in range(20, 60)]
    for row in rows:
        if row["k"] not in model or table.schema.table_options.merge_engine == "deduplicate":
            model[row["k"]] = row
    table.write(pa.Table.from_pylist(rows, schema=table.arrow_schema))
    table.compact(full=True)

    expected = rows_of(pa.Table.from_pylist(list(model.values()), schema=table.arrow_schema))
    assert_same_rows(expected, rows_of(table.to_arrow()))
    assert_same_rows(expected, oracle.read(table.path), schema=table.arrow_schema)
    oracle.assert_sound(table.path)


# ── postponed buckets ───────────────────────────────────────────────────────────────────────────


def test_keys_that_move_leave_their_old_row_where_deletes_are_ignored(tmp_path: Path, oracle: JavaPaimon):
    options = {"bucket": "-1", "ignore-delete": "true"}
    fields = [["p", "INT NOT NULL"], ["k", "STRING NOT NULL"], ["v", "INT"]]
    first, second = [(0, "a", 1), (1, "a", 2), (0, "b", 3)], [(1, "b", 4)]
    paths = [tmp_path / name / "db.db" / "t" for name in ("java", "here")]
    for path in paths:
        oracle.call(
            "create_table", table=str(path), fields=fields, primary_keys=["k"], partition_keys=["p"], options=options
        )
    for rows in (first, second):
        oracle.call("write", table=str(paths[0]), rows=[list(row) for row in rows])
        open_table(str(paths[1])).write(table_of(rows))

    expected = [list(row) for row in (*first, *second)]
    for path in paths:
        assert_same_rows(expected, oracle.read(path))
        assert_same_rows(expected, rows_of(open_table(str(path)).to_arrow()))


def test_pypaimon_reads_postponed_rows_when_they_have_their_buckets(tmp_path: Path, pypaimon: PyPaimon):
    table, expected = _postponed(tmp_path)
    assert pypaimon.read(table.path).num_rows == 0

    table.compact()

    assert_same_rows(expected, rows_of(table.to_arrow()))
    assert_same_rows(expected, rows_of(pypaimon.read(table.path)), schema=SCHEMA)


def test_rows_that_pypaimon_postponed_get_their_buckets(tmp_path: Path, pypaimon: PyPaimon):
    path = tmp_path / "w" / "db.db" / "t"
    options = {"bucket": "-2", "postpone.default-bucket-num": "2"}
    pypaimon.create(path, SCHEMA, primary_keys=["p", "k"], partition_keys=["p"], options=options)
    pypaimon.append(path, table_of([(1, "a", 1), (1, "b", 1), (2, "a", 1)]), table_of([(1, "a", 2)]))
    table = open_table(str(path))
    table.write(table_of([(1, "b", 3), (1, "c", 3)]))

    table.compact()

    expected = [[1, "a", 2], [1, "b", 3], [1, "c", 3], [2, "a", 1]]
    assert_same_rows(expected, rows_of(table.to_arrow()))
    assert_same_rows(expected, rows_of(pypaimon.read(path)), schema=SCHEMA)


def _postponed(folder: Path) -> tuple[Table, list[list[Any]]]:
    random, model = Random(3), {}
    table = Catalog(str(folder / "w")).create_table(
        "db.t",
        schema=SCHEMA,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "-2", "postpone.default-bucket-num": "3"},
    )
    for step in range(3):
        rows = random_rows(random, 1000 * step)
        table.write(table_of(rows))
        model |= {(p, k): [p, k, v] for p, k, v in rows}
    return table, list(model.values())
