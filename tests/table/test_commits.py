"""What a commit says of itself, and what becomes of it when it is empty, overwrites, or loses every race."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, ConflictError, InvalidArgumentError, Table, open_table
from paimon_engine.env import Env, EnvConfig
from paimon_engine.executor import LocalExecutor
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.snapshots import latest_snapshot, read_snapshot
from paimon_engine.table.state.warehouse import create_table
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema([pa.field("p", pa.string(), nullable=False), pa.field("k", pa.int64(), nullable=False)])
NOTHING = SCHEMA.empty_table()


def rows(*keys: tuple[str, int]) -> pa.Table:
    return pa.table({"p": [p for p, _ in keys], "k": [k for _, k in keys]}, SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = Catalog(str(tmp_path / "lake"))
    made = catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "1"}
    )
    made.write(rows(("a", 1), ("b", 1)))
    return made


def kinds(table: Table) -> list[str]:
    return table.snapshots().column("commit_kind").to_pylist()


def test_an_empty_write_makes_a_snapshot_only_where_the_table_requires_it(table: Table, oracle: JavaPaimon):
    forced = open_table(table.path, options={"commit.force-create-snapshot": "true"})

    assert table.write(NOTHING).status == "noop"
    result = forced.write(NOTHING, commit_user="me", watermark=7)
    again = forced.write(NOTHING, commit_user="me", watermark=7)

    assert (result.status, result.snapshot_id, again.status) == ("committed", 2, "already_done")
    snapshot = latest_snapshot(load_table(table.path, EnvConfig(table.path)))
    assert snapshot is not None
    assert (snapshot.delta_record_count, snapshot.total_record_count, snapshot.watermark) == (0, 2, 7)
    assert table.verify().problems == ()
    oracle.assert_sound(table.path)
    assert_same_rows(rows_of(table.to_arrow()), oracle.read(table.path))


def test_an_overwrite_replaces_named_partitions_or_those_of_its_rows(table: Table, oracle: JavaPaimon):
    table.write(rows(("a", 2)), overwrite={"p": "a"})
    assert sorted(map(tuple, rows_of(table.to_arrow()))) == [("a", 2), ("b", 1)]

    # Dynamic, the default: partitions without new rows stay.
    table.write(rows(("b", 3)), overwrite={})
    assert sorted(map(tuple, rows_of(table.to_arrow()))) == [("a", 2), ("b", 3)]

    static = open_table(table.path, options={"dynamic-partition-overwrite": "false"})
    static.write(rows(("c", 4)), overwrite={})
    assert sorted(map(tuple, rows_of(table.to_arrow()))) == [("c", 4)]

    static.write(NOTHING, overwrite={"p": "c"})
    assert table.to_arrow().num_rows == 0
    assert kinds(table) == ["APPEND", *["OVERWRITE"] * 4]
    oracle.assert_sound(table.path)
    assert oracle.read(table.path) == []


def test_a_commit_has_its_user_and_properties(table: Table):
    table.write(rows(("a", 5)), commit_user="me", commit_identifier=41, watermark=100, properties={"source": "x"})
    table.write(rows(("a", 6)), commit_user="me", commit_identifier=42, watermark=50)

    handle = load_table(table.path, EnvConfig(table.path))
    first, second = read_snapshot(handle, 2), read_snapshot(handle, 3)
    assert (first.commit_user, first.commit_identifier, first.watermark) == ("me", 41, 100)
    assert first.extras["properties"] == {"source": "x"}
    # A watermark never decreases, and properties belong to one commit.
    assert (second.commit_identifier, second.watermark) == (42, 100)
    assert not second.extras.get("properties")


@pytest.mark.parametrize("watermark", [1 << 63, True, "seven", 1.5])
def test_what_no_snapshot_can_say_is_refused(table: Table, watermark: object):
    with pytest.raises(InvalidArgumentError, match="watermark"):
        table.write(rows(("a", 5)), watermark=watermark)  # type: ignore[arg-type]
    assert kinds(table) == ["APPEND"]


class Taken(MemoryStorage):
    """A store where the next snapshot is always taken, by somebody whose commit expired at once."""

    busy = False
    tries = 0

    def create(self, path: str, data: bytes) -> bool:
        if self.busy and "/snapshot-" in path:
            self.tries += 1
            return False
        return super().create(path, data)


@pytest.mark.parametrize("retries", [0, 3])
def test_a_commit_gives_up_after_so_many_lost_races(retries: int):
    storage = Taken()
    root, env = "memory://taken/db.db/t", Env(storage)
    options = {"bucket": "-1", "commit.max-retries": str(retries), "commit.min-retry-wait": "1 ms"}
    handle = create_table(env, EnvConfig(root), root, schema=SCHEMA, options=options)
    table = Table(handle, LocalExecutor(1, env=env))
    storage.busy = True

    with pytest.raises(ConflictError, match=r"raise 'commit.max-retries'"):
        table.write(rows(("a", 1)), commit_user="me")

    assert storage.tries == retries + 1


def test_a_commit_counts_the_records_where_the_snapshot_before_does_not_say_how_many(table: Table):
    """As snapshots of the first releases: what followed would otherwise be taken for damaged."""
    path = Path(table.path) / "snapshot" / "snapshot-1"
    stored = json.loads(path.read_text())
    del stored["totalRecordCount"], stored["deltaRecordCount"]
    path.write_text(json.dumps(stored))

    table.write(rows(("a", 2)))

    snapshot = latest_snapshot(load_table(table.path, EnvConfig(table.path)))
    assert snapshot is not None
    assert snapshot.total_record_count == 3
    assert sorted(map(tuple, rows_of(table.to_arrow()))) == [("a", 1), ("a", 2), ("b", 1)]
