"""Compaction within limits: budgets, filters, memory of a task, and buckets split into parts."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, InvalidArgumentError, Table, open_table
from paimon_engine.action import Context
from paimon_engine.actions.compact import Compact, CompactResult, compact
from paimon_engine.env import EnvConfig
from paimon_engine.executor import LocalExecutor
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.snapshot import BATCH_COMMIT_IDENTIFIER
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.compaction import compaction_round
from paimon_engine.table.compaction.rewrite import rewrite
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import live_index_files
from paimon_engine.table.state.snapshots import latest_snapshot, read_snapshot, snapshot_ids
from tests.support.oracle import JavaPaimon
from tests.support.seeds import seeds

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        ("a", pa.int64()),
        ("b", pa.string()),
    ]
)
DAYS = pa.schema([pa.field("day", pa.string(), nullable=False), *SCHEMA])


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(f"memory://{uuid.uuid4()}/lake")


def batch(first: int, count: int, **more: Any) -> pa.Table:
    keys = range(first, first + count)
    columns = {
        "k": keys,
        "name": [f"n{key % 7}" for key in keys],
        "a": keys,
        "b": [str(key * 7919 % 1009) for key in keys],
    }
    return pa.table({name: list(values) for name, values in {**more, **columns}.items()})


def by_days(catalog: Catalog, writes: Mapping[str, int], **options: str) -> Table:
    """Partitions of one bucket, each written so many times; one with more writes costs readers more."""
    table = catalog.create_table(
        "db.t", schema=DAYS, primary_keys=["day", "k"], partition_keys=["day"], options={"bucket": "1", **options}
    )
    for day, count in writes.items():
        for _ in range(count):
            table.write(batch(0, 50, day=[day] * 50).cast(DAYS))
    return table


class Rounds(LocalExecutor):
    """Does something before and after the tasks of each round; `tasks` counts them."""

    def __init__(self, before: Callable[[int], None] | None = None, after: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self._before, self._after = before, after
        self.tasks: list[int] = []

    def map(self, run: Any, tasks: Any, **more: Any) -> Any:
        self.tasks.append(len(tasks))
        if self._before is not None:
            self._before(len(self.tasks))
        outcomes = super().map(run, tasks, **more)
        if self._after is not None:
            self._after(len(self.tasks))
        return outcomes


def days_done(result: CompactResult) -> list[str | None]:
    return [bucket.partition["day"] for bucket in result.buckets if bucket.files_after is not None]


def sound(table: Table) -> bool:
    return check_table(load_table(table.path, EnvConfig(table.path))) == []


# ── budget ──────────────────────────────────────────────────────────────────────────────────────


def test_buckets_in_most_need_come_first_until_nothing_is_left(catalog: Catalog):
    table = by_days(catalog, {"a": 2, "b": 4, "c": 3})
    before = table.to_arrow().sort_by([("day", "ascending"), ("k", "ascending")])

    results = [table.compact(full=True, max_buckets=1) for _ in range(4)]

    assert [days_done(result) for result in results] == [["b"], ["c"], ["a"], []]
    assert [result.buckets_left for result in results] == [2, 1, 0, 0]
    assert [result.status for result in results] == ["committed", "committed", "committed", "noop"]
    left = {bucket.partition["day"]: bucket for bucket in results[0].buckets if bucket.is_left}
    assert left.keys() == {"a", "c"}
    assert left["a"].skipped == "left: max_buckets=1 are done"
    assert table.to_arrow().sort_by([("day", "ascending"), ("k", "ascending")]) == before
    assert sound(table)


def test_bytes_of_a_budget_are_not_exceeded(catalog: Catalog):
    table = by_days(catalog, {"a": 2, "b": 4, "c": 3})
    planned = table.compact(full=True, dry_run=True)
    cost = {bucket.partition["day"]: bucket.rewritten_bytes for bucket in planned.buckets}

    result = table.compact(full=True, max_bytes=cost["b"] + cost["a"])
    alone = table.compact(full=True, max_bytes=cost["c"] - 1)

    # c comes before a, but for c the budget has no room any more.
    assert sorted(days_done(result)) == ["a", "b"]
    assert result.buckets_left == 1
    assert (alone.status, alone.buckets_left) == ("noop", 1)
    assert [bucket.skipped for bucket in alone.buckets if bucket.is_left] == [
        f"left: the bucket alone has {cost['c']:,} bytes to rewrite, more than max_bytes={cost['c'] - 1}"
    ]


def test_a_dry_run_has_the_budget_and_the_order_of_the_real_one(catalog: Catalog):
    table = by_days(catalog, {"a": 2, "b": 4, "c": 3})

    planned = table.compact(full=True, max_buckets=2, dry_run=True)
    done = table.compact(full=True, max_buckets=2)

    def comparable(result: CompactResult) -> list[tuple[Any, ...]]:
        return [(b.partition["day"], b.reason, b.skipped, b.rewritten_bytes, b.tasks) for b in result.buckets]

    assert comparable(planned) == comparable(done)
    assert (planned.status, planned.buckets_left, planned.rounds) == ("dry_run", 1, 1)


def test_read_amplification_is_reported_before_and_after(catalog: Catalog):
    table = by_days(catalog, {"a": 3})

    planned, done = table.compact(full=True, dry_run=True), table.compact(full=True)

    for result in (planned, done):
        (bucket,) = result.buckets
        assert (bucket.read_amplification_before, bucket.read_amplification_after) == (3.0, 1.0)
        assert (result.read_amplification_before, result.read_amplification_after) == (3.0, 1.0)


def test_rounds_commit_what_is_done(catalog: Catalog):
    table = by_days(catalog, {"a": 2, "b": 4, "c": 3})
    first = table.latest_snapshot_id() or 0

    result = table.compact(full=True, round_bytes=1)

    handle = load_table(table.path, EnvConfig(table.path))
    identifiers = [read_snapshot(handle, first + number).commit_identifier for number in (1, 2, 3)]
    assert (result.rounds, result.snapshot_id) == (3, first + 3)
    assert identifiers == [*(identifier_of(Maker.JOB, part) for part in (1, 2)), BATCH_COMMIT_IDENTIFIER]


def test_a_repeated_job_continues_where_it_was_stopped(catalog: Catalog):
    table = by_days(catalog, {"a": 2, "b": 4})

    def stopped_in_the_second_round(number: int) -> None:
        if number > 1:
            raise KeyboardInterrupt

    handle, rounds = load_table(table.path, EnvConfig(table.path)), Rounds(before=stopped_in_the_second_round)
    with pytest.raises(KeyboardInterrupt):
        compact(Context(handle, rounds, commit_user="night"), Compact(full=True, round_bytes=1))

    went_on = table.compact(full=True, round_bytes=1, commit_user="night")
    again = table.compact(full=True, round_bytes=1, commit_user="night")

    assert days_done(went_on) == ["a"]
    assert (again.status, again.snapshot_id) == ("already_done", went_on.snapshot_id)


def test_no_round_begins_after_the_time_is_over(catalog: Catalog):
    table = by_days(catalog, {"a": 2, "b": 4})

    result = table.compact(full=True, round_bytes=1, max_seconds=1e-9)

    assert (days_done(result), result.buckets_left, result.rounds) == (["b"], 1, 1)
    assert [b.skipped for b in result.buckets if b.is_left] == ["left: max_seconds=1e-09 were over"]


def test_of_an_append_table_a_budget_takes_what_fits(catalog: Catalog):
    table = catalog.create_table("db.t", schema=SCHEMA, options={"bucket": "-1", "target-file-size": "2 kb"})
    for number in range(12):
        table.write(batch(number * 100, 100).cast(SCHEMA))
    rows = table.to_arrow().sort_by("k")
    size = sum(table.files()["file_size_in_bytes"].to_pylist())

    results = []
    while not results or results[-1].buckets_left:
        results.append(table.compact(full=True, max_bytes=size // 2))

    assert len(results) > 1
    assert all(result.status == "committed" for result in results)
    assert all(result.bytes_before - result.bytes_after < size // 2 for result in results)
    assert table.to_arrow().sort_by("k") == rows
    assert table.compact(full=True).status == "noop"


def test_a_budget_too_small_for_any_part_of_an_append_table_is_told_with_what_it_takes(catalog: Catalog):
    table = catalog.create_table("db.t", schema=SCHEMA, options={"bucket": "-1"})
    for number in range(12):
        table.write(batch(number * 100, 100).cast(SCHEMA))
    size = sum(table.files()["file_size_in_bytes"].to_pylist())

    planned, done = (table.compact(full=True, max_bytes=size - 1, dry_run=dry_run) for dry_run in (True, False))
    enough = table.compact(full=True, max_bytes=size)

    why = f"left: the smallest part of the bucket alone has {size:,} bytes to rewrite, more than max_bytes={size - 1}"
    for result in (planned, done):
        assert [(bucket.skipped, bucket.rewritten_bytes) for bucket in result.buckets] == [(why, 0)]
        assert result.buckets_left == 1
    assert (done.status, enough.status, enough.buckets_left) == ("noop", "committed", 0)


def test_a_part_of_an_append_table_that_finds_no_room_any_more_is_told_apart_from_one_that_never_would(
    catalog: Catalog,
):
    table = catalog.create_table("db.t", schema=DAYS, partition_keys=["day"], options={"bucket": "-1"})
    for day in ("a", *"aaaa", *"bbbbbbbb"):
        table.write(batch(0, 50, day=[day] * 50).cast(DAYS))
    cost = {b.partition["day"]: b.rewritten_bytes for b in table.compact(full=True, dry_run=True).buckets}

    result = table.compact(full=True, max_bytes=cost["b"])
    second = table.compact(full=True, max_bytes=cost["b"])

    assert days_done(result) == ["b"]
    assert [bucket.skipped for bucket in result.buckets if bucket.is_left] == [
        f"left: {cost['a']:,} bytes or more to rewrite, and max_bytes={cost['b']} has room for 0"
    ]
    assert (days_done(second), second.buckets_left) == (["a"], 0)


@pytest.mark.parametrize(("options", "joined"), [({}, True), ({"bucket": "1", "bucket-key": "v"}, False)])
def test_small_files_with_large_ones_between_them_are_joined_where_there_are_no_buckets(
    catalog: Catalog, options: dict[str, str], joined: bool
):
    """Writers alternate between a small file and one of the target size; in a bucket the order of rows is kept."""
    options = {**options, "target-file-size": "2 kb", "compaction.min.file-num": "3", "file.compression": "none"}
    table = catalog.create_table("db.t", schema={"v": "BIGINT"}, options={**options, "write-only": "true"})
    for first in range(0, 4_000, 1_000):
        table.write(pa.table({"v": [first]}))
        table.write(pa.table({"v": range(first + 1, first + 1_000)}))
    before = table.files().num_rows

    result = table.compact()

    assert (result.status == "committed", table.files().num_rows < before) == (joined, joined)
    assert sorted(table.to_arrow()["v"].to_pylist()) == list(range(4_000))


def test_others_in_a_bucket_make_only_that_bucket_be_planned_again(catalog: Catalog):
    table = by_days(catalog, {"a": 2, "b": 2, "c": 2})

    def overtaken(number: int) -> None:
        if number == 1:
            open_table(table.path).compact(full=True, where="day = 'b'")
            table.write(batch(0, 50, day=["b"] * 50).cast(DAYS))

    rounds = Rounds(after=overtaken)
    result = compact(Context(load_table(table.path, EnvConfig(table.path)), rounds), Compact(full=True))

    assert rounds.tasks == [3, 1]
    assert (result.status, result.conflicts) == ("committed", 1)
    assert table.files().num_rows == 3
    assert sound(table)


@pytest.mark.parametrize(
    "limit",
    [
        {"max_bytes": 0},
        {"max_buckets": -1},
        {"max_seconds": 0.0},
        {"round_bytes": 0},
        {"task_bytes": 0},
        {"task_memory_bytes": 0},
        {"buckets": []},
        {"buckets": [-2]},
        {"partition_idle_time": "soon"},
    ],
)
def test_limits_that_allow_nothing_are_refused(catalog: Catalog, limit: Mapping[str, Any]):
    table = by_days(catalog, {"a": 2})
    with pytest.raises(InvalidArgumentError, match=f"soon|{next(iter(limit))}="):
        table.compact(**limit)


# ── filters ─────────────────────────────────────────────────────────────────────────────────────


def test_buckets_are_chosen_by_number(catalog: Catalog):
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "4"})
    for _ in range(2):
        table.write(batch(0, 100).cast(SCHEMA))

    result = table.compact(full=True, buckets=[1, 3])

    assert sorted(bucket.bucket for bucket in result.buckets) == [1, 3]
    assert sorted(table.files()["bucket"].to_pylist()) == [0, 0, 1, 2, 2, 3]


def test_partitions_are_chosen_by_the_age_of_their_newest_file(catalog: Catalog):
    table = by_days(catalog, {"old": 2, "new": 2})
    handle = load_table(table.path, EnvConfig(table.path))
    now = handle.env.clock()

    def at(clock_ms: int, idle: str) -> CompactResult:
        env = replace(handle.env, clock=lambda: clock_ms)
        spec = Compact(full=True, partition_idle_time=idle, dry_run=True)
        return compact(Context(replace(handle, env=env), LocalExecutor()), spec)

    assert at(now, "1 h").buckets == ()
    assert len(at(now + 2 * 3_600_000, "1 h").buckets) == 2


def test_one_new_file_keeps_a_partition_from_being_idle(catalog: Catalog):
    table = by_days(catalog, {"old": 2, "busy": 2})
    handle = load_table(table.path, EnvConfig(table.path))
    day_later = handle.env.clock() + 86_400_000
    later = replace(handle, env=replace(handle.env, clock=lambda: day_later))
    executor = LocalExecutor(env=later.env)
    Table(later, executor).write(batch(0, 50, day=["busy"] * 50).cast(DAYS))

    result = compact(Context(later, executor), Compact(full=True, partition_idle_time="1 h"))

    assert [bucket.partition["day"] for bucket in result.buckets] == ["old"]
    assert days_done(result) == ["old"]


def test_an_idle_partition_of_postponed_rows_is_compacted_although_that_gives_it_new_files(catalog: Catalog):
    table = catalog.create_table(
        "db.t", schema=DAYS, primary_keys=["day", "k"], partition_keys=["day"], options={"bucket": "-2"}
    )
    for _ in range(2):
        table.write(batch(0, 50, day=["a"] * 50).cast(DAYS))
    handle = load_table(table.path, EnvConfig(table.path))
    hour_later = handle.env.clock() + 3_600_000
    later = replace(handle, env=replace(handle.env, clock=lambda: hour_later))

    spec = Compact(full=True, partition_idle_time="30 min")
    result = compact(Context(later, LocalExecutor(env=later.env)), spec)

    assert (result.rows_distributed, days_done(result)) == (100, ["a"])


# ── memory ──────────────────────────────────────────────────────────────────────────────────────


def test_a_task_keeps_to_its_memory_by_smaller_batches(catalog: Catalog):
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    for _ in range(3):
        table.write(batch(0, 5000).cast(SCHEMA))
    rows = table.to_arrow().sort_by("k")
    (usual,) = table.compact(full=True, dry_run=True).buckets

    (bounded,) = table.compact(full=True, dry_run=True, task_memory_bytes=usual.memory_bytes // 4).buckets
    (refused,) = table.compact(full=True, dry_run=True, task_memory_bytes=1000).buckets
    done = table.compact(full=True, task_memory_bytes=usual.memory_bytes // 4)

    assert 0 < bounded.memory_bytes <= usual.memory_bytes // 4
    assert refused.skipped is not None
    assert refused.skipped.startswith("needs about ")
    assert done.status == "committed"
    assert table.to_arrow().sort_by("k") == rows


@pytest.mark.parametrize("texts", ["different", "equal"])
def test_long_values_are_compacted_in_little_memory(catalog: Catalog, texts: str):
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    for number in range(3):
        long = [f"{key * (texts == 'different')}" * 100_000 for key in range(number, number + 100)]
        table.write(batch(number, 100).set_column(3, "b", pa.array(long)).cast(SCHEMA))
    expected = table.to_arrow().sort_by("k")
    memory_bytes = 64 << 20

    (planned,) = table.compact(full=True, dry_run=True, task_memory_bytes=memory_bytes).buckets
    assert planned.skipped is None
    assert 0 < planned.memory_bytes <= memory_bytes
    assert table.compact(full=True, task_memory_bytes=memory_bytes).status == "committed"
    assert table.to_arrow().sort_by("k") == expected


@pytest.mark.parametrize(("parallelism", "tasks"), [(1, 1), (2, 4)])
def test_a_bucket_is_split_where_tasks_run_at_the_same_time(
    parallelism: int, tasks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compaction_round, "PART_BYTES_MIN", 4_000)
    catalog = Catalog(str(tmp_path), executor=LocalExecutor(parallelism))
    options = {"bucket": "1", "target-file-size": "1 kb"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    for number in range(3):
        table.write(batch(number, 500))

    (done,) = table.compact(full=True).buckets

    assert done.tasks == tasks
    assert table.to_arrow().num_rows == 502


def test_wide_rows_take_no_more_memory_than_makes_a_task_fast(tmp_path: Path):
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("s", pa.binary())])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options={"bucket": "1"})
    random = np.random.default_rng(7)
    for _ in range(3):
        table.write(pa.table([range(100), [random.bytes(100_000) for _ in range(100)]], schema=schema))

    (planned,) = table.compact(full=True, dry_run=True).buckets
    (limited,) = table.compact(full=True, dry_run=True, task_memory_bytes=1 << 30).buckets
    done = table.compact(full=True)

    assert planned.memory_bytes <= 352 << 20 < limited.memory_bytes
    assert (done.status, table.to_arrow().num_rows) == ("committed", 100)


def test_a_limit_of_memory_makes_row_groups_smaller(tmp_path: Path):
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("s", pa.binary())])
    sizes = {}
    for name, limit in (("limited", {"task_memory_bytes": 32 << 20}), ("usual", {})):
        table = Catalog(str(tmp_path)).create_table(
            f"db.{name}", schema=schema, primary_keys=["k"], options={"bucket": "1"}
        )
        for keys in (range(24), range(1, 25)):
            table.write(pa.table([list(keys), [bytes([key]) * 500_000 for key in keys]], schema=schema))
        table.compact(full=True, **limit)
        (path,) = Catalog(str(tmp_path)).table(f"db.{name}$files").to_arrow(["file_path"])["file_path"].to_pylist()
        metadata = pq.read_metadata(Path(table.path) / "bucket-0" / Path(path).name)
        sizes[name] = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]

    assert sizes["usual"] == [sum(sizes["limited"])] == [25]
    # An eighth of the memory, and what a window holds on top.
    assert max(sizes["limited"]) * 500_000 <= 2 * (32 << 20) // 8


# ── parts ───────────────────────────────────────────────────────────────────────────────────────

ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "by sequence": {"sequence.field": "a"},
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "aggregation": {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "sums with deletion vectors": {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "deletion-vectors.enabled": "true",
    },
}
KEYS = (["k"], ["name", "k"], ["b"])


def program(chance: random.Random) -> tuple[dict[str, str], list[str], list[Any]]:
    """Options, keys and steps: rows to write, or whether a compaction is full."""
    engine = chance.choice(list(ENGINES))
    producers = ["none", "lookup"] if engine == "first-row" else ["none", "input", "lookup", "full-compaction"]
    producer = chance.choice([name for name in producers if name != "full-compaction" or "vectors" not in engine])
    options = {
        "bucket": "1",
        "target-file-size": "4 kb",
        "num-sorted-run.compaction-trigger": "3",
        "file.format": chance.choice(["parquet", "orc", "avro"]),
        "changelog-producer": producer,
        **ENGINES[engine],
    }
    kinds = ["+I", "+U"] if options.get("merge-engine") in ("first-row", "aggregation") else ["+I", "+U", "-D"]
    steps: list[Any] = []
    for number in range(5):
        steps.append(rows(chance, 6000 if number == 0 else chance.randint(1, 800), kinds))
        steps += [chance.random() < 0.5] * (chance.random() < 0.7)
    return options, chance.choice(KEYS), [*steps, True]


def rows(chance: random.Random, count: int, kinds: list[str]) -> tuple[pa.Table, pa.Array]:
    keys = [chance.randint(0, 9000) for _ in range(count)]
    columns = {
        "k": keys,
        "name": [f"n{key % 3}" for key in keys],
        "a": [chance.choice([None, chance.randint(0, 99)]) for _ in keys],
        "b": [f"{key * 7919 % 9001:x}" for key in keys],
    }
    return pa.table(columns, SCHEMA), pa.array([chance.choice(kinds) for _ in keys])


def make(path: str, keys: list[str], options: Mapping[str, str]) -> Table:
    columns = [pa.field(field.name, field.type, nullable=field.name not in keys) for field in SCHEMA]
    return Catalog(path).create_table("db.t", schema=pa.schema(columns), primary_keys=keys, options=options)


def changes(warehouse: str, last: int) -> list[list[str]]:
    log = Catalog(warehouse).table("db.t$audit_log")
    options = {"incremental-between-scan-mode": "changelog"}
    found = [log.to_arrow(incremental=(number, number + 1), options=options) for number in range(1, last)]
    return [sorted(map(repr, part.to_pylist())) for part in found]


@pytest.mark.parametrize("seed", seeds(8))
def test_a_bucket_compacted_in_parts_is_the_bucket_compacted_at_once(
    tmp_path: Path, seed: int, request: pytest.FixtureRequest
):
    chance = random.Random(seed)
    options, keys, steps = program(chance)
    warehouses = {name: f"{tmp_path}/{name}" for name in ("whole", "parts")}
    tables = {name: make(path, keys, options) for name, path in warehouses.items()}
    most = 0

    for step in steps:
        if isinstance(step, tuple):
            for table in tables.values():
                table.write(step[0], row_kinds=step[1])
            continue
        tables["whole"].compact(full=step)
        result = tables["parts"].compact(full=step, task_bytes=4000, task_memory_bytes=16 << 20)
        most = max([most, *(bucket.tasks for bucket in result.buckets)])
        found = {name: sorted(map(repr, table.to_arrow().to_pylist())) for name, table in tables.items()}
        assert found["parts"] == found["whole"], (options, keys)

    assert sound(tables["parts"])
    assert most > 1
    if options["changelog-producer"] != "none":
        last = tables["whole"].latest_snapshot_id() or 0
        assert tables["parts"].latest_snapshot_id() == last
        assert changes(warehouses["parts"], last) == changes(warehouses["whole"], last), (options, keys)
    if seed % 4 == 0:
        oracle: JavaPaimon = request.getfixturevalue("oracle")
        oracle.assert_sound(tables["parts"].path)


HOT = "a long common prefix of all keys, behind which they begin to differ: "
SPREADS: Mapping[str, Any] = {
    "over the same range": lambda chance: f"{chance.getrandbits(64):016x}",
    "behind a long prefix": lambda chance: f"{HOT}{chance.getrandbits(64):016x}",
    "nearly all in a small range": lambda chance: (
        f"{HOT}{chance.randrange(10**9):09d}" if chance.random() < 0.99 else f"{chance.getrandbits(64):016x}"
    ),
}


@pytest.mark.parametrize("kind", SPREADS)
def test_parts_are_of_like_size_although_all_files_span_the_same_keys(catalog: Catalog, kind: str):
    chance = random.Random(7)
    schema = pa.schema([pa.field("k", pa.string(), nullable=False), ("v", pa.int64())])
    table = catalog.create_table("db.t", schema=schema, primary_keys=["k"], options={"bucket": "1"})
    for _ in range(4):
        keys = [SPREADS[kind](chance) for _ in range(3_000)]
        table.write(pa.table({"k": keys, "v": range(3_000)}, schema))
    task_bytes = sum(table.files()["file_size_in_bytes"].to_pylist()) // 4
    expected = table.to_arrow().sort_by("k")

    (planned,) = table.compact(full=True, dry_run=True, task_bytes=task_bytes).buckets
    (done,) = table.compact(full=True, task_bytes=task_bytes).buckets

    counts = table.files()["record_count"].to_pylist()
    assert planned.tasks == done.tasks == len(counts) >= 4
    assert max(counts) < 2 * expected.num_rows / len(counts)
    assert table.to_arrow().sort_by("k") == expected
    assert sound(table)


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_parts_mark_their_rows_of_upper_files_in_one_index_file(tmp_path: Path, oracle: JavaPaimon, producer: str):
    options = {"bucket": "1", "target-file-size": "4 kb", "deletion-vectors.enabled": "true"}
    table = make(str(tmp_path), ["k"], {**options, "changelog-producer": producer})
    table.write(batch(0, 6000).cast(SCHEMA))
    table.compact(full=True)
    marks = []
    for begin in (0, 2):
        # Several files at a time, each of keys that are spread over few of the upper ones.
        for part in (0, 2000, 4000):
            table.write(batch(part + begin, 1200).take([*range(0, 1200, 4)]).cast(SCHEMA))
        result = table.compact(task_bytes=4000)
        marks.append(table.files()["file_path"].to_pylist())
        assert result.buckets[0].tasks > 1
        expected = sorted(batch(0, 6000).cast(SCHEMA).to_pylist(), key=lambda row: row["k"])
        assert table.to_arrow().sort_by("k").to_pylist() == expected
    assert marks[0] != marks[1]

    assert sound(table)
    oracle.assert_sound(table.path)
    assert len(oracle.read(table.path)) == 6000
    handle = load_table(table.path, EnvConfig(table.path))
    files = live_index_files(handle, latest_snapshot(handle))
    assert [sum(vector.cardinality or 0 for vector in file.vectors) for file in files] == [1800]
    stored = {info.path for info in handle.env.storage.walk(f"{table.path}/index")}
    named = {
        file.name for number in snapshot_ids(handle) for file in live_index_files(handle, read_snapshot(handle, number))
    }
    assert {path.rpartition("/")[2] for path in stored} == named


def test_a_part_that_fails_fails_the_bucket_and_leaves_no_file(catalog: Catalog, monkeypatch: pytest.MonkeyPatch):
    table = catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", "target-file-size": "4 kb"}
    )
    table.write(batch(0, 6000).cast(SCHEMA))
    table.compact(full=True)
    table.write(batch(0, 500).cast(SCHEMA))
    table.write(batch(4000, 500).cast(SCHEMA))
    handle = load_table(table.path, EnvConfig(table.path))
    stored = {info.path for info in handle.env.storage.walk(f"{table.path}/bucket-0")}

    def failing(env: Any, work: Any) -> Any:
        if work.task.keys is not None and work.task.keys.low is None:
            raise InvalidArgumentError("no luck")
        return rewrite(env, work)

    monkeypatch.setattr(compaction_round, "rewrite", failing)
    with pytest.raises(InvalidArgumentError, match="no luck"):
        table.compact(full=True, task_bytes=4000)

    assert {info.path for info in handle.env.storage.walk(f"{table.path}/bucket-0")} == stored
    assert table.latest_snapshot_id() == 4


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({"num-sorted-run.compaction-trigger": "1001"}, 1001),
        ({"num-sorted-run.compaction-trigger": "2147483647"}, 2147483646),
        ({"num-levels": "1000000"}, 999999),
        ({"num-levels": "2147483647"}, 2147483646),
    ],
    ids=str,
)
@pytest.mark.parametrize("producer", ["none", "full-compaction", "lookup"])
def test_a_table_has_as_many_levels_as_its_options_say(
    catalog: Catalog, options: Mapping[str, str], level: int, producer: str
):
    given = {"bucket": "1", "changelog-producer": producer, **options}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=given)
    for first in (0, 5):
        table.write(batch(first, 10).cast(SCHEMA))
        assert table.compact(full=True).levels_after == {str(level): 1}

    assert sorted(table.to_arrow()["k"].to_pylist()) == list(range(15))
    assert table.files()["level"].to_pylist() == [level]
    assert sound(table)
