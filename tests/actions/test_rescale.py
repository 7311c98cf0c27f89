"""Rescale: another number of buckets, the same rows, and nothing lost that others write meanwhile."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, ConflictError, Table, UnsupportedError, open_table
from paimon_engine.action import Context
from paimon_engine.actions.rescale import Rescale, rescale
from paimon_engine.env import EnvConfig
from paimon_engine.meta.schema_change import SetOption
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.commit.commit import CommitRequest, Conflict, commit
from paimon_engine.table.compaction.rescale import sources_of
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.write.writer import write_batches, write_state
from tests.support.meddling import Meddling
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema(
    [
        pa.field("day", pa.string(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        ("a", pa.int64()),
        ("b", pa.string()),
    ]
)
ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "aggregation": {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "lookup": {"changelog-producer": "lookup"},
}


def rows(chance: random.Random, count: int) -> pa.Table:
    keys = [chance.randint(0, 300) for _ in range(count)]
    columns = {
        "day": [chance.choice("xy") for _ in keys],
        "k": keys,
        "a": [chance.choice([None, chance.randint(0, 9)]) for _ in keys],
        "b": [chance.choice([None, "u", "v"]) for _ in keys],
    }
    return pa.table(columns, SCHEMA)


def make(warehouse: str, buckets: int, *, keys: tuple[str, ...] = ("day", "k"), **options: str) -> Table:
    given = {"bucket": str(buckets), **({} if keys else {"bucket-key": "k"}), **options}
    return Catalog(warehouse).create_table(
        "db.t", schema=SCHEMA, primary_keys=list(keys), partition_keys=["day"], options=given
    )


def with_buckets(table: Table, buckets: int) -> Table:
    table.alter([SetOption("bucket", str(buckets))])
    return open_table(table.path)


def in_order(table: Table) -> list[str]:
    return sorted(map(repr, table.to_arrow().to_pylist()))


def sound(table: Table) -> bool:
    return check_table(load_table(table.path, EnvConfig(table.path))) == []


@pytest.mark.parametrize("after", [1, 6, 5])
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_are_the_same_in_another_number_of_buckets(tmp_path: Path, oracle: JavaPaimon, engine: str, after: int):
    chance = random.Random(after)
    table = make(str(tmp_path), 2, **ENGINES[engine])
    for _ in range(3):
        table.write(rows(chance, 400))
    table.compact()
    table.write(rows(chance, 100))
    table.compact()
    before, in_java = in_order(table), sorted(oracle.read(table.path), key=repr)

    rescaled = with_buckets(table, after)
    result = rescaled.rescale()

    assert (result.status, result.partitions, result.buckets) == ("committed", 2, after)
    assert in_order(rescaled) == before
    assert set(rescaled.files()["bucket"].to_pylist()) == set(range(after))
    assert sound(rescaled)
    oracle.assert_sound(rescaled.path)
    assert sorted(oracle.read(rescaled.path), key=repr) == in_java
    assert rescaled.rescale().status == "noop"
    # What comes after finds the keys that are there.
    more = rows(chance, 100)
    rescaled.write(more)
    rescaled.compact(full=True)
    keys = rescaled.to_arrow().select(["day", "k"]).to_pylist()
    assert len({tuple(key.values()) for key in keys}) == len(keys)


def test_rows_of_append_tables_keep_their_order_within_a_key(tmp_path: Path, oracle: JavaPaimon):
    table = make(str(tmp_path), 3, keys=())
    for number in range(3):
        keys = [*range(20)]
        table.write(pa.table({"day": ["x"] * 20, "k": keys, "a": [number] * 20, "b": [None] * 20}, SCHEMA))
    before = in_order(table)

    rescaled = with_buckets(table, 2)
    result = rescaled.rescale()

    assert result.status == "committed"
    assert in_order(rescaled) == before
    found: dict[int, list[int]] = {}
    for row in rescaled.to_arrow().to_pylist():
        found.setdefault(row["k"], []).append(row["a"])
    assert all(seen == [0, 1, 2] for seen in found.values())
    oracle.assert_sound(rescaled.path)


def test_only_old_buckets_that_can_have_rows_are_read():
    assert [sources_of(number, 2, 4) for number in range(4)] == [[0], [1], [0], [1]]
    assert [sources_of(number, 4, 2) for number in range(2)] == [[0, 2], [1, 3]]
    assert sources_of(1, 3, 2) == [0, 1, 2]


@pytest.fixture
def table() -> Table:
    made = make(f"memory://{uuid.uuid4()}/lake", 2)
    made.write(rows(random.Random(1), 200))
    return with_buckets(made, 4)


def opened_before(table: Table) -> TableHandle:
    """The table as somebody has it who opened it when it had two buckets."""
    handle = load_table(table.path, EnvConfig(table.path))
    return replace(handle, schema=handle.schema_of(0))


def test_chosen_partitions_are_rescaled_and_a_dry_run_only_plans(table: Table):
    planned = table.rescale("day = 'x'", dry_run=True)
    done = table.rescale("day = 'x'", commit_user="once")
    again = table.rescale("day = 'y'", commit_user="once")

    assert (planned.status, planned.partitions, planned.files_before) == ("dry_run", 1, done.files_before)
    assert (planned.files_after, planned.bytes_after) == (done.files_before, done.bytes_before)
    assert (done.status, done.snapshot_id, done.partitions) == ("committed", 2, 1)
    assert (again.status, again.snapshot_id) == ("already_done", 2)
    assert table.rescale().partitions == 1


def test_what_others_append_meanwhile_is_a_conflict_and_not_lost(table: Table):
    handle = opened_before(table)

    def overtake() -> None:
        late = write_batches(handle, write_state(handle), rows(random.Random(2), 50).to_batches())
        commit(handle, CommitRequest(late, CommitKind.APPEND, "other"))

    slow = Context(load_table(table.path, EnvConfig(table.path)), Meddling(overtake))
    with pytest.raises(ConflictError, match="others have added"):
        rescale(slow, Rescale())

    assert table.latest_snapshot_id() == 2
    rows_before = in_order(table)
    stored = {info.path for info in handle.env.storage.walk(table.path) if "/bucket-" in info.path}
    assert len(stored) == table.files().num_rows
    assert table.rescale().status == "committed"
    assert in_order(table) == rows_before


def test_an_append_that_was_prepared_for_the_old_buckets_does_not_apply_any_more(table: Table):
    handle = opened_before(table)
    state = write_state(handle)
    late = write_batches(handle, state, rows(random.Random(2), 50).to_batches())
    table.rescale()

    outcome = commit(handle, CommitRequest(late, CommitKind.APPEND, "other", read=state.read))

    assert isinstance(outcome, Conflict)
    assert "the partition has [4] buckets" in outcome.conflicts[0].reason


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_rows_for_the_new_buckets_are_not_added_to_the_old_ones_after_a_rollback(table: Table, commits: int):
    before = table.latest_snapshot_id() or 0
    table.rescale()
    handle = load_table(table.path, EnvConfig(table.path))
    state = write_state(handle)
    late = write_batches(handle, state, rows(random.Random(2), 50).to_batches())
    table.rollback(before)
    for _ in range(commits):
        table.analyze()
    assert table.latest_snapshot_id() == before + commits

    outcome = commit(handle, CommitRequest(late, CommitKind.APPEND, "other", read=state.read))

    assert isinstance(outcome, Conflict)
    assert "the change was made for [4]" in outcome.conflicts[0].reason
    assert sound(table)


@pytest.mark.parametrize("options", [{"bucket": "-1"}, {"bucket": "-2"}])
def test_a_table_without_a_fixed_number_of_buckets_has_nothing_to_rescale(options: Mapping[str, str]):
    made = make(f"memory://{uuid.uuid4()}/lake", int(options["bucket"]))
    with pytest.raises(UnsupportedError, match="not a fixed number of buckets"):
        made.rescale()
