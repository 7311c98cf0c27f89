"""Deletion vectors switched on and off: after a full compaction the rows are the same, else it is refused."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, SetOption, Table, UnsupportedError, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import live_index_files
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon

KEY = "deletion-vectors.enabled"
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.int64()), ("b", pa.string())])
ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "deduplicate with a sequence": {"sequence.field": "a"},
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "last_non_null_value",
    },
    "lookup": {"changelog-producer": "lookup"},
    "input": {"changelog-producer": "input"},
}


def make(warehouse: Path, *, enabled: bool, **options: str) -> Table:
    given = {"bucket": "2", "deletion-vectors.modifiable": "true", KEY: "true" if enabled else "false", **options}
    return Catalog(str(warehouse)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=given)


def change(chance: random.Random, *, deletes: bool) -> pa.Table:
    keys = chance.sample(range(60), 25)
    columns = {
        "k": keys,
        "a": [chance.choice([None, chance.randint(0, 9)]) for _ in keys],
        "b": [chance.choice([None, "u", "v"]) for _ in keys],
        "kind": [chance.choice(["+I", "+U", "-D"] if deletes else ["+I"]) for _ in keys],
    }
    return pa.table(columns, pa.schema([*SCHEMA, ("kind", pa.string())]))


def switched(table: Table, value: str) -> Table:
    table.alter([SetOption(KEY, value)])
    return open_table(table.path)


def has_vectors(table: Table) -> bool:
    handle = load_table(table.path, EnvConfig(table.path))
    return any(file.vectors for file in live_index_files(handle, latest_snapshot(handle)))


def assert_as_java(table: Table, oracle: JavaPaimon) -> None:
    assert check_table(load_table(table.path, EnvConfig(table.path))) == []
    oracle.assert_sound(table.path)
    assert_same_rows(oracle.read(table.path), rows_of(table.to_arrow()))


# ── there and back ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ENGINES)
def test_the_mode_is_switched_on_and_off_and_the_rows_stay(tmp_path: Path, oracle: JavaPaimon, engine: str):
    chance = random.Random(engine)
    options = ENGINES[engine]
    # Once a compaction has dropped a delete record, a row of an earlier sequence that comes later is not deleted by it.
    deletes = not options.keys() & {"merge-engine", "sequence.field"}
    plain = make(tmp_path / "plain", enabled=False, **options)
    table = make(tmp_path / "switched", enabled=False, **options)

    def write(rows: pa.Table) -> None:
        for each in (plain, table):
            each.write(rows, row_kinds="kind")

    for _ in range(3):
        write(change(chance, deletes=deletes))
    table.compact(full=True)
    table = switched(table, "true")
    assert_same_rows(rows_of(plain.to_arrow()), rows_of(table.to_arrow()))
    assert_as_java(table, oracle)
    # The first compaction after the switch marks rows of files from before it.
    write(change(chance, deletes=deletes))
    table.compact()
    assert_same_rows(rows_of(plain.to_arrow()), rows_of(table.to_arrow()))
    assert_as_java(table, oracle)
    write(change(chance, deletes=deletes))
    table.compact(full=True)
    assert not has_vectors(table)
    # Level 0 may wait while the mode ends: it is merged by readers then.
    write(change(chance, deletes=deletes))
    table = switched(table, "false")
    assert_same_rows(rows_of(plain.to_arrow()), rows_of(table.to_arrow()))
    assert_as_java(table, oracle)
    write(change(chance, deletes=deletes))
    table.compact()
    table.compact(full=True)
    assert_same_rows(rows_of(plain.to_arrow()), rows_of(table.to_arrow()))
    assert_as_java(table, oracle)


def test_java_continues_where_the_mode_was_switched(tmp_path: Path, oracle: JavaPaimon):
    table = make(tmp_path, enabled=False)
    table.write(pa.table({"k": [1, 2, 3], "a": [1, 2, 3], "b": ["x"] * 3}, SCHEMA))
    table.compact(full=True)
    table = switched(table, "true")

    oracle.run(table.path, [{"op": "write", "rows": [["+U", 2, 20, "y"], ["-D", 3, 3, "x"]], "kinds": True}])
    oracle.run(table.path, [{"op": "compact", "full": False}])

    assert sorted(oracle.read(table.path)) == [[1, 1, "x"], [2, 20, "y"]]
    assert_as_java(table, oracle)
    oracle.run(table.path, [{"op": "compact", "full": True}])
    # Java 0.9 leaves the vectors of files that are at the highest level already.
    with pytest.raises(InvalidArgumentError, match="deleted by vectors only"):
        table.alter([SetOption(KEY, "false")])
    table.compact(full=True)
    table = switched(table, "false")
    assert_as_java(table, oracle)
    oracle.run(table.path, [{"op": "write", "rows": [["-D", 1, 1, "x"]], "kinds": True}])
    assert sorted(oracle.read(table.path)) == [[2, 20, "y"]]
    assert_as_java(table, oracle)


def test_append_tables_switch_at_once_and_back_when_no_row_is_marked(tmp_path: Path, oracle: JavaPaimon):
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=SCHEMA, options={"bucket": "-1", "deletion-vectors.modifiable": "true"}
    )
    for begin in (0, 10):
        table.write(pa.table({"k": range(begin, begin + 10), "a": [1] * 10, "b": [None] * 10}, SCHEMA))

    table = switched(table, "true")
    table.delete("k IN (3, 12)")

    with pytest.raises(InvalidArgumentError, match="deleted by vectors only"):
        table.alter([SetOption(KEY, "false")])
    assert_as_java(table, oracle)
    table.compact(full=True)
    table = switched(table, "false")
    assert sorted(table.to_arrow()["k"].to_pylist()) == [k for k in range(20) if k not in (3, 12)]
    assert_as_java(table, oracle)
    assert table.to_arrow(snapshot=2).num_rows == 20
    with pytest.raises(UnsupportedError, match=f"snapshot 3 was made with '{KEY}' = 'true'"):
        table.to_arrow(snapshot=3)


# ── what is refused ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("compactions", "reason"), [([], "in level 0"), ([True, None], "in level 0"), ([True, False], "in 2 levels")]
)
def test_the_mode_begins_only_after_a_full_compaction(tmp_path: Path, compactions: list[bool | None], reason: str):
    table = make(tmp_path, enabled=False, **{"bucket": "1", "compaction.force-up-level-0": "true"})
    table.write(pa.table({"k": range(500), "a": range(500), "b": [str(n) for n in range(500)]}, SCHEMA))
    for full in compactions:
        if full:
            table.compact(full=True)
            table.write(pa.table({"k": [2], "a": [20], "b": ["y"]}, SCHEMA))
        elif full is False:
            table.compact()

    with pytest.raises(InvalidArgumentError, match=f"{reason}.*Compact the table fully"):
        table.alter([SetOption(KEY, "true")])

    table.compact(full=True)
    assert switched(table, "true").to_arrow().num_rows == 500


def test_the_mode_ends_only_when_no_row_is_marked(tmp_path: Path):
    table = make(tmp_path, enabled=True)
    table.write(pa.table({"k": range(500), "a": range(500), "b": [None] * 500}, SCHEMA))
    table.compact(full=True)
    table.write(pa.table({"k": [2], "a": [20], "b": ["y"]}, SCHEMA))
    table.compact()
    assert has_vectors(table)

    with pytest.raises(InvalidArgumentError, match="deleted by vectors only.*Compact the table fully"):
        table.alter([SetOption(KEY, "false")])


def test_a_table_returns_to_the_mode_of_its_latest_snapshot_at_any_time(tmp_path: Path):
    table = make(tmp_path, enabled=True)
    table.write(pa.table({"k": [1], "a": [1], "b": ["x"]}, SCHEMA))
    table = switched(table, "false")
    assert table.to_arrow().num_rows == 1

    table = switched(table, "true")

    assert table.to_arrow().num_rows == 0
    table.compact()
    assert table.to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"merge-engine": "first-row"}, "first-row"),
        ({"changelog-producer": "full-compaction"}, "full-compaction"),
        ({"record-level.expire-time": "1 d", "record-level.time-field": "a"}, "record-level.expire-time"),
    ],
)
def test_options_that_exclude_the_mode_are_named(tmp_path: Path, options: Mapping[str, str], reason: str):
    table = make(tmp_path / "off", enabled=False, **options)
    table.write(pa.table({"k": [1], "a": [1], "b": ["x"]}, SCHEMA))

    with pytest.raises((InvalidArgumentError, UnsupportedError), match=reason):
        table.alter([SetOption(KEY, "true")])
    with pytest.raises((InvalidArgumentError, UnsupportedError), match=reason):
        made = make(tmp_path / "on", enabled=True, **options)
        made.write(pa.table({"k": [1], "a": [1], "b": ["x"]}, SCHEMA))


def test_the_mode_is_fixed_where_the_table_does_not_allow_to_change_it(tmp_path: Path):
    table = make(tmp_path, enabled=False, **{"deletion-vectors.modifiable": "false"})
    table.write(pa.table({"k": [1], "a": [1], "b": ["x"]}, SCHEMA))

    with pytest.raises(UnsupportedError, match="'deletion-vectors.modifiable' = 'true'"):
        table.alter([SetOption(KEY, "true")])
    # What it is anyway may be said.
    table.alter([SetOption(KEY, "FALSE")])


# ── time travel over the switch ─────────────────────────────────────────────────────────────────


def test_snapshots_from_before_the_switch_are_read_in_their_own_mode_only(tmp_path: Path):
    table = make(tmp_path, enabled=False)
    table.write(pa.table({"k": [1, 2], "a": [1, 2], "b": ["x"] * 2}, SCHEMA))
    table.create_tag("before", snapshot=1)
    table.compact(full=True)
    table.write(pa.table({"k": [2], "a": [20], "b": ["y"]}, SCHEMA))
    table.compact(full=True)
    table.create_tag("after")

    table = switched(table, "true")

    for past in ({"snapshot": 1}, {"tag": "before"}, {"incremental": (1, 3)}, {"incremental": ("before", "after")}):
        with pytest.raises(UnsupportedError, match=r"snapshot \d was made with.*in level 0.*Open the table with"):
            table.to_arrow(**past)
    # After a full compaction both modes show the same.
    assert table.to_arrow(snapshot=2).num_rows == 2
    then = open_table(table.path, options={KEY: "false"})
    assert then.to_arrow(snapshot=1).num_rows == 2
    assert then.to_arrow(snapshot=3)["a"].to_pylist() == [1, 20]


def test_snapshots_with_vectors_are_not_read_without(tmp_path: Path):
    table = make(tmp_path, enabled=True, bucket="1")
    table.write(pa.table({"k": range(500), "a": range(500), "b": [None] * 500}, SCHEMA))
    table.compact(full=True)
    table.write(pa.table({"k": [2], "a": [2], "b": [None], "kind": ["-D"]}), row_kinds="kind")
    table.compact()
    table.compact(full=True)
    assert has_vectors(table) is False

    table = switched(table, "false")

    with pytest.raises(UnsupportedError, match="snapshot 4 was made with.*deleted by vectors only"):
        table.to_arrow(snapshot=4)
    assert open_table(table.path, options={KEY: "true"}).to_arrow(snapshot=4).num_rows == 499
    assert table.to_arrow().num_rows == 499


def test_a_table_whose_vectors_were_switched_off_by_others_is_neither_read_nor_compacted(tmp_path: Path, oracle: Any):
    table = make(tmp_path, enabled=True, bucket="1")
    table.write(pa.table({"k": range(500), "a": range(500), "b": [None] * 500}, SCHEMA))
    table.compact(full=True)
    table.write(pa.table({"k": [2], "a": [2], "b": [None], "kind": ["-D"]}), row_kinds="kind")
    table.compact()
    oracle.run(table.path, [{"op": "alter", "changes": [{"change": "set_option", "name": KEY, "value": "false"}]}])

    again = open_table(table.path)

    for use in (again.to_arrow, again.compact, lambda: again.compact(full=True)):
        with pytest.raises(UnsupportedError, match="deleted by vectors only"):
            use()
    again.alter([SetOption(KEY, "true")])
    assert open_table(table.path).to_arrow().num_rows == 499
