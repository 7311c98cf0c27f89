"""What changed: between snapshots, between tags, with row kinds, in the audit log, and as Java sees it."""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, NotFoundError, Table, UnsupportedError, open_table
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int32(), nullable=False),
        pa.field("v", pa.string()),
        pa.field("n", pa.list_(pa.int32())),
        pa.field("f", pa.float64()),
    ]
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1"})


@pytest.fixture
def log(tmp_path: Path) -> Table:
    return Catalog(str(tmp_path)).create_table("db.log", schema=SCHEMA)


def put(table: Table, *rows: tuple[int, str | None] | tuple[int, str | None, str]) -> Table:
    """Writes `(k, v)` or `(k, v, kind)` as one snapshot."""
    kinds = [row[2] if len(row) > 2 else "+I" for row in rows]
    columns = {"k": [row[0] for row in rows], "v": [row[1] for row in rows], "n": [[1]] * len(rows)}
    table.write(
        pa.table({**columns, "f": [0.5] * len(rows)}, SCHEMA), row_kinds=kinds if table.schema.primary_keys else None
    )
    return table


def changed(table: Table, start: int | str, end: int | str, **how: Any) -> list[tuple[Any, ...]]:
    found = table.to_arrow(["k", "v"], incremental=(start, end), **how).to_pylist()  # type: ignore[arg-type]
    return sorted(tuple(row.values()) for row in found)


def audit_log(table: Table) -> Table:
    return open_table(table.path + "$audit_log")


# ── deltas ──────────────────────────────────────────────────────────────────────────────────────


def test_the_changes_are_those_after_the_first_snapshot_up_to_the_second(table: Table):
    for i in range(4):
        put(table, (i, "x"))

    assert changed(table, 1, 3) == [(1, "x"), (2, "x")]
    assert changed(table, 0, 4) == [(i, "x") for i in range(4)]
    assert changed(table, 2, 2) == []


def test_of_a_key_that_changed_twice_the_last_row_is_seen(table: Table):
    put(table, (1, "a"))
    put(table, (1, "b"), (2, "b"))
    put(table, (1, "c"))

    assert changed(table, 1, 3) == [(1, "c"), (2, "b")]
    assert changed(table, 1, 2) == [(1, "b"), (2, "b")]


def test_row_kinds_come_first_and_deletes_only_in_the_audit_log(table: Table):
    put(table, (1, "a"), (2, "a"))
    put(table, (1, "b", "+U"), (2, "a", "-D"), (3, "c"))

    assert changed(table, 1, 2, with_row_kinds=True) == [("+I", 3, "c"), ("+U", 1, "b")]
    assert table.to_arrow(incremental=(1, 2), with_row_kinds=True).schema.names == ["rowkind", *SCHEMA.names]
    log = audit_log(table)
    assert changed(log, 1, 2, where="k < 3") == [(1, "b"), (2, "a")]
    found = log.to_arrow(["rowkind", "k"], incremental=(1, 2)).to_pylist()
    assert sorted(map(tuple, (row.values() for row in found))) == [("+I", 3), ("+U", 1), ("-D", 2)]
    assert log.to_arrow(["k"], "rowkind = '-D'", incremental=(1, 2)).to_pylist() == [{"k": 2}]


def test_a_compaction_and_an_overwrite_are_no_changes(table: Table):
    put(table, (1, "a"))
    put(table, (2, "b"))
    table.compact(full=True)
    table.write(pa.table({"k": [9], "v": ["z"], "n": [None], "f": [None]}, SCHEMA), overwrite={})
    assert table.latest_snapshot_id() == 4

    assert changed(table, 1, 4) == [(2, "b")]


def test_changes_of_an_append_table_are_the_rows_that_were_added(log: Table):
    put(log, (1, "a"))
    put(log, (1, "a"), (2, "b"))

    assert changed(log, 1, 2, with_row_kinds=True) == [("+I", 1, "a"), ("+I", 2, "b")]


def test_changes_may_be_filtered_and_limited(table: Table):
    put(table, (1, "a"))
    put(table, (2, "b"), (3, "c"), (4, "c"))

    assert changed(table, 1, 2, where="v = 'c'") == [(3, "c"), (4, "c")]
    assert changed(table, 1, 2, where="v = 'c'", limit=1) == [(3, "c")]


def test_changes_between_two_times(table: Table):
    for i in range(3):
        put(table, (i, "x"))
    first, _, last = (int(moment.timestamp() * 1000) for moment in committed(table))

    assert between_times(table, first, last) == [1, 2]
    assert between_times(table, first - 10, last + 10) == [0, 1, 2]
    assert between_times(table, last + 10, last + 20) == []
    assert between_times(table, first - 20, first - 10) == []


def committed(table: Table) -> list[Any]:
    return [moment.as_py().replace(tzinfo=UTC) for moment in table.snapshots()["commit_time"]]


def between_times(table: Table, start: int, end: int) -> list[int]:
    found = table.to_arrow(["k"], options={"incremental-between-timestamp": f"{start},{end}"})
    return sorted(found["k"].to_pylist())


# ── two states ──────────────────────────────────────────────────────────────────────────────────


def test_two_tags_are_compared_as_states(table: Table):
    put(table, (1, "a"), (2, "a"), (3, "a")).create_tag("one")
    put(table, (1, "b"), (2, "a"), (3, None, "-D"), (4, "d"))
    table.compact(full=True)
    table.create_tag("two")

    assert changed(table, "one", "two") == [(1, "b"), (4, "d")]
    found = audit_log(table).to_arrow(["rowkind", "k", "v"], incremental=("one", "two")).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [("+I", 1, "b"), ("+I", 4, "d"), ("-D", 3, "a")]


def test_two_snapshots_are_compared_on_request(table: Table):
    put(table, (1, "a"), (2, "a"))
    put(table, (1, "b"))
    put(table, (1, "a"))
    table.compact(full=True)

    assert changed(table, 1, 4, options={"incremental-between-scan-mode": "diff"}) == []
    assert changed(table, 1, 4, options={"incremental-between-scan-mode": "delta"}) == [(1, "a")]


def test_an_older_state_must_come_first(table: Table):
    put(table, (1, "a")).create_tag("one")
    put(table, (2, "a")).create_tag("two")

    for bounds in (("two", "one"), ("one", "one")):
        with pytest.raises(InvalidArgumentError, match="must be newer than the first"):
            changed(table, *bounds)


# ── what cannot be meant ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bounds", "error", "message"),
    [
        ((2, 1), InvalidArgumentError, "end before they begin"),
        ((1, 3), NotFoundError, "it has snapshots 1 to 2"),
        ((-1, 2), NotFoundError, "it has snapshots 1 to 2"),
        (("one", "nope"), NotFoundError, "no tag 'nope'"),
        ((1, "one"), InvalidArgumentError, "two snapshot ids or two tag names"),
    ],
)
def test_bounds_that_the_table_does_not_have(table: Table, bounds: Any, error: type[Exception], message: str):
    put(table, (1, "a")).create_tag("one")
    put(table, (2, "a"))

    with pytest.raises(error, match=message):
        table.to_arrow(incremental=bounds)


def test_tags_have_no_deltas(table: Table):
    put(table, (1, "a")).create_tag("one")
    put(table, (2, "a")).create_tag("two")

    with pytest.raises(UnsupportedError, match="'delta' needs snapshots"):
        changed(table, "one", "two", options={"incremental-between-scan-mode": "delta"})
    with pytest.raises(InvalidArgumentError, match="choose one of auto, delta, changelog, diff"):
        changed(table, 1, 2, options={"incremental-between-scan-mode": "both"})


def test_a_table_without_snapshots_has_no_changes(table: Table):
    assert table.to_arrow(incremental=(1, 5)).num_rows == 0


# ── as Java sees it ─────────────────────────────────────────────────────────────────────────────


def assert_java_agrees(oracle: JavaPaimon, path: str, bounds: Sequence[int | str], mode: str = "auto") -> None:
    start, end = bounds
    at = {"incremental": f"{start},{end}", "incremental_mode": mode}
    options = {"incremental-between-scan-mode": mode}
    for mark, system in (("", None), ("$audit_log", "audit_log")):
        ours = open_table(path + mark).to_arrow(incremental=(start, end), options=options)  # type: ignore[arg-type]
        assert_same_rows(ours, oracle.read(path, **at, system=system), f"{bounds} {mode} {mark}")


def assert_difference_of_states(oracle: JavaPaimon, path: str, old: str, new: str) -> None:
    """Of the states that Java reads. What it says of the difference does not regard the files that both have."""
    before, after = (oracle.read(path, tag=tag) for tag in (old, new))
    changed = rows_of(open_table(path).to_arrow(incremental=(old, new)))
    assert all(row in changed for row in after if row not in before), (old, new)
    assert all(row in after for row in changed), (old, new)
    gone = [["-D", *row] for row in before if row[0] not in [other[0] for other in after]]
    deletes = audit_log(open_table(path)).to_arrow(where="rowkind in ('-D', '-U')", incremental=(old, new))
    assert_same_rows(deletes, gone, f"{old} {new}")


def random_rows(chance: random.Random, count: int, keys: int = 12) -> list[list[Any]]:
    return [
        [
            chance.choice(["+I", "+I", "+I", "-U", "+U", "-D"]),
            chance.randrange(keys),
            chance.choice([None, "a", "b"]),
            chance.choice([None, [], [1, None], [2]]),
            chance.choice([None, 0.5, 2.0]),
        ]
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_java_sees_the_same_changes_in_tables_of_ours(table: Table, oracle: JavaPaimon, seed: int):
    chance = random.Random(seed)
    for turn in range(5):
        found = list(zip(*random_rows(chance, 8), strict=True))
        rows = pa.table(dict(zip(SCHEMA.names, found[1:], strict=True)), SCHEMA)
        table.write(rows, row_kinds=list(found[0]))
        if chance.random() < 0.4:
            table.compact(full=chance.random() < 0.5)
        table.create_tag(f"t{turn}")
    last = table.latest_snapshot_id()
    assert last is not None

    for bounds in itertools.combinations(range(last + 1), 2):
        assert_java_agrees(oracle, table.path, bounds)
    for old, new in itertools.combinations([f"t{turn}" for turn in range(5)], 2):
        assert_difference_of_states(oracle, table.path, old, new)
    for system in ("audit_log", "ro"):
        for snapshot in range(1, last + 1):
            ours = open_table(f"{table.path}${system}").to_arrow(snapshot=snapshot)
            assert_same_rows(ours, oracle.read(table.path, snapshot=snapshot, system=system))


@pytest.mark.parametrize(
    ("producer", "seed"), [(producer, seed) for producer in ("input", "lookup", "full-compaction") for seed in (1, 68)]
)
def test_changelogs_of_java_merge_as_in_java(tmp_path: Path, oracle: JavaPaimon, producer: str, seed: int):
    path, chance = str(tmp_path / "db.db/t"), random.Random(seed)
    fields = [["k", "INT NOT NULL"], ["v", "STRING"], ["n", "ARRAY<INT>"], ["f", "DOUBLE"]]
    options = {"bucket": "1", "changelog-producer": producer, "file.format": "parquet"}
    oracle.call("create_table", table=path, fields=fields, primary_keys=["k"], partition_keys=[], options=options)
    for _ in range(6):
        oracle.call("write", table=path, rows=random_rows(chance, 20, keys=6), kinds=True)
        if chance.random() < 0.6:
            oracle.call("compact", table=path, full=chance.random() < 0.6)
    last = max(snapshot["id"] for snapshot in oracle.call("snapshots", table=path)["snapshots"])

    for bounds in itertools.combinations(range(0, last + 1, 2), 2):
        for mode in ("changelog", "delta"):
            assert_java_agrees(oracle, path, bounds, mode)


@pytest.mark.parametrize(
    ("engine", "producer", "seed"),
    [
        ("deduplicate", "none", 1),
        ("deduplicate", "lookup", 2),
        ("deduplicate", "input", 3),
        ("partial-update", "none", 4),
    ],
)
def test_changes_of_tables_with_deletion_vectors_are_those_that_java_sees(
    tmp_path: Path, oracle: JavaPaimon, engine: str, producer: str, seed: int
):
    path, chance = str(tmp_path / "db.db/t"), random.Random(seed)
    fields = [["k", "INT NOT NULL"], ["v", "STRING"], ["n", "ARRAY<INT>"], ["f", "DOUBLE"]]
    options = {
        "bucket": "1",
        "merge-engine": engine,
        "changelog-producer": producer,
        "deletion-vectors.enabled": "true",
        "file.format": "parquet",
        **({"ignore-delete": "true"} if engine == "partial-update" else {}),
    }
    oracle.call("create_table", table=path, fields=fields, primary_keys=["k"], partition_keys=[], options=options)
    for turn in range(5):
        oracle.call("write", table=path, rows=random_rows(chance, 10), kinds=True)
        if chance.random() < 0.7:
            oracle.call("compact", table=path, full=chance.random() < 0.4)
        oracle.call("create_tag", table=path, tag=f"t{turn}")
    last = max(snapshot["id"] for snapshot in oracle.call("snapshots", table=path)["snapshots"])

    for bounds in [*itertools.pairwise(range(last + 1)), (0, last)]:
        for mode in ("changelog", "delta"):
            try:
                assert_java_agrees(oracle, path, bounds, mode)
            except RuntimeError as error:
                # Java pairs the files of several snapshots with the vectors of one, and may run out of them.
                if "IndexOutOfBounds" not in str(error):
                    raise
    for old, new in (("t0", "t1"), ("t1", "t3"), ("t2", "t4"), ("t0", "t4")):
        assert_difference_of_states(oracle, path, old, new)


def test_java_sees_the_same_changes_in_an_append_table_of_ours(log: Table, oracle: JavaPaimon):
    for turn in range(4):
        put(log, *[(i, f"{turn}") for i in range(3)])
        log.create_tag(f"t{turn}")
    log.compact(full=True)
    log.create_tag("compacted")

    for bounds in itertools.combinations(range(6), 2):
        assert_java_agrees(oracle, log.path, bounds)
    for bounds in (("t0", "t2"), ("t1", "compacted")):
        assert_java_agrees(oracle, log.path, bounds)


def test_rows_that_were_deleted_later_still_were_added(tmp_path: Path, oracle: JavaPaimon):
    options = {"deletion-vectors.enabled": "true"}
    log = Catalog(str(tmp_path)).create_table("db.log", schema=SCHEMA, options=options)
    for turn in range(3):
        put(log, *[(i, f"{turn}") for i in range(3)])
    log.delete("k = 1")
    put(log, (1, "later"))

    assert changed(log, 1, 4) == [(i, f"{turn}") for i in range(3) for turn in (1, 2)]
    # Java pairs the files of several appends with the vectors of one, and runs out of them.
    for bounds in ((0, 1), (2, 4), (3, 5)):
        assert_java_agrees(oracle, log.path, bounds, "delta")


# ── tags ────────────────────────────────────────────────────────────────────────────────────────


def test_tags_can_be_used_for_their_snapshots(table: Table):
    put(table, (1, "a")).create_tag("first")
    put(table, (1, "b"), (2, "x"))
    put(table, (2, "x", "-D")).create_tag("last")

    as_snapshots = {"incremental-between-tag-to-snapshot": "true"}
    assert changed(table, "first", "last", options=as_snapshots) == changed(table, 1, 3) == [(1, "b")]
    log = audit_log(table).to_arrow(["rowkind", "k"], incremental=("first", "last"), options=as_snapshots)
    assert sorted(log.to_pylist(), key=str) == [{"rowkind": "+I", "k": 1}, {"rowkind": "-D", "k": 2}]
    changelog = {**as_snapshots, "incremental-between-scan-mode": "changelog"}
    assert changed(table, "first", "last", options=changelog) == []
    with pytest.raises(UnsupportedError, match="'incremental-between-tag-to-snapshot' = 'true'"):
        changed(table, "first", "last", options={"incremental-between-scan-mode": "delta"})


def test_changes_up_to_an_automatic_tag_begin_at_the_one_before(table: Table):
    put(table, (1, "a")).create_tag("2024-01-30")
    put(table, (2, "b")).create_tag("2024-02-29")
    put(table, (3, "c")).create_tag("handmade")
    put(table, (4, "d")).create_tag("2024-03-01")

    def to(tag: str) -> list[int]:
        return sorted(table.to_arrow(options={"incremental-to-auto-tag": tag})["k"].to_pylist())

    assert to("2024-03-01") == [3, 4]
    assert to("2024-02-29") == [2]
    assert to("2024-01-30") == to("2024-02-01") == []
    with pytest.raises(InvalidArgumentError, match="not a name of an automatic tag"):
        to("handmade")
    hourly = open_table(table.path, options={"tag.creation-period": "hourly"})
    with pytest.raises(InvalidArgumentError, match="like '1970-01-01 00'"):
        hourly.to_arrow(options={"incremental-to-auto-tag": "2024-03-01"})


def test_a_read_since_a_creation_time_is_that_of_the_first_snapshot_then(table: Table):
    for k in range(3):
        put(table, (k, "x"))
        time.sleep(0.01)
    times = sorted(table.snapshots()["commit_time"].to_pylist())

    def since(moment_ms: int) -> int:
        return table.to_arrow(options={"scan.creation-time-millis": str(moment_ms)}).num_rows

    commits = [round(one.replace(tzinfo=UTC).timestamp() * 1000) for one in times]
    assert since(commits[1]) == 2
    assert since(commits[0] + 1) == 2
    # Where no snapshot is older, or none younger, the files themselves say when they were made.
    assert since(commits[0] - 3_600_000 * 30) == 3
    assert since(commits[2] + 3_600_000 * 30) == 0


def test_numbers_as_texts_are_snapshots_unless_there_are_tags_of_these_names(table: Table) -> None:
    for key in (1, 2, 3):
        put(table, (key, "a"))

    def keys(bounds: tuple[int | str, int | str] | str) -> list[int]:
        how: dict[str, Any] = {"options": {"incremental-between": bounds}} if isinstance(bounds, str) else {}
        asked = how or {"incremental": bounds}
        return sorted(table.to_arrow(["k"], **asked)["k"].to_pylist())

    for bounds in ((1, 3), ("1", "3"), (1, "3"), ("1", 3), "1,3"):
        assert keys(bounds) == [2, 3], bounds
    # Such tags cannot be made here, but 0.9 can make them.
    path = Path(table.path)
    (path / "tag").mkdir()
    shutil.copy(path / "snapshot" / "snapshot-2", path / "tag" / "tag-1")
    assert keys(("1", "3")) == [2, 3]
    shutil.copy(path / "snapshot" / "snapshot-3", path / "tag" / "tag-3")
    for bounds in (("1", "3"), "1,3"):
        assert keys(bounds) == [3], bounds
    assert keys((1, 3)) == [2, 3]
    with pytest.raises(NotFoundError, match="x"):
        keys(("1", "x"))


def test_options_on_how_java_reads_have_no_effect(log: Table) -> None:
    table = put(log, (1, "a"))
    harmless = {"scan.parallelism": 4, "scan.infer-parallelism": "false", "read.batch-size": 10}

    assert table.to_arrow(options={**harmless, "scan.plan-sort-partition": True}).num_rows == 1
    with pytest.raises(UnsupportedError, match="'scan.paralelism' is not honoured by a read; did you mean 'scan.par"):
        table.to_arrow(options={"scan.paralelism": "4"})


# ── keys in other buckets ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def rescaled(tmp_path: Path) -> Table:
    """Twenty rows in two buckets at the tag `one`; then in three, some of which were changed, one deleted and one added."""
    options = {"bucket": "2", "changelog-producer": "input"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    put(table, *((k, "a") for k in range(20)))
    put(table, *((k, "b") for k in range(8))).create_tag("one")
    table.alter([{"change": "set_option", "key": "bucket", "value": "3"}])
    table.rescale()
    put(table, *((k, "c") for k in range(8) if k != 4), (4, "b", "-D"), (20, "c"))
    return table


NEWEST = [*((k, "c") for k in range(8) if k != 4), (20, "c")]


def test_states_are_compared_across_a_rescale(rescaled: Table):
    rescaled.compact(full=True)
    rescaled.create_tag("two")

    assert changed(rescaled, "one", "two") == NEWEST
    found = audit_log(rescaled).to_arrow(["rowkind", "k", "v"], incremental=("one", "two")).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [*(("+I", *row) for row in NEWEST), ("-D", 4, "b")]


@pytest.mark.parametrize("mode", ["delta", "changelog"])
def test_changes_before_and_after_a_rescale_leave_one_row_of_a_key(rescaled: Table, mode: str):
    found = changed(rescaled, 1, 4, options={"incremental-between-scan-mode": mode})

    assert found == NEWEST


@pytest.fixture
def overwritten(tmp_path: Path) -> Table:
    """Ten rows in dynamic buckets at the tag `one`; then replaced in another order, some with other values."""
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "changelog-producer": "input"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    put(table, *((k, "a") for k in range(10))).create_tag("one")
    rows = [(k, "b" if k < 3 else "a") for k in reversed(range(1, 11))]
    first = {"k": [k for k, _ in rows[:3]], "v": ["a"] * 3, "n": [[1]] * 3, "f": [0.5] * 3}
    table.write(pa.table(first, SCHEMA), overwrite={})
    put(table, *rows[3:])
    return table


def test_states_are_compared_across_an_overwrite_of_dynamic_buckets(overwritten: Table):
    overwritten.create_tag("two")

    assert changed(overwritten, "one", "two") == [(1, "b"), (2, "b"), (10, "a")]
    found = audit_log(overwritten).to_arrow(["rowkind", "k", "v"], incremental=("one", "two")).to_pylist()
    assert [tuple(row.values()) for row in found if row["rowkind"] == "-D"] == [("-D", 0, "a")]


def test_what_an_overwrite_changed_is_seen_though_its_sequence_numbers_begin_at_zero(table: Table):
    put(table, *((k, "a") for k in range(10))).create_tag("one")
    table.write(pa.table({"k": [9, 5], "v": ["a", "b"], "n": [[1]] * 2, "f": [0.5] * 2}, SCHEMA), overwrite={})
    table.create_tag("two")

    assert changed(table, "one", "two") == [(5, "b")]
    found = audit_log(table).to_arrow(["rowkind", "k"], incremental=("one", "two")).to_pylist()
    assert sorted(row["k"] for row in found if row["rowkind"] == "-D") == [0, 1, 2, 3, 4, 6, 7, 8]


@pytest.mark.parametrize("mode", ["delta", "changelog"])
def test_changes_across_an_overwrite_of_dynamic_buckets_leave_one_row_of_a_key(overwritten: Table, mode: str):
    put(overwritten, (9, "c"))

    found = changed(overwritten, 0, 4, options={"incremental-between-scan-mode": mode})

    assert len({k for k, _ in found}) == len(found)
    assert (9, "c") in found
    assert (2, "b") in found
