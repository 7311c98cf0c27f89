"""Consumers: moved, forgotten by name or age; what they have yet to read stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.action import Context
from paimon_engine.actions.consumers import (
    ClearConsumers,
    ConsumersResult,
    ExpireConsumers,
    ResetConsumer,
    clear_consumers,
)
from paimon_engine.errors import CorruptTableError, InvalidArgumentError, NotFoundError
from paimon_engine.table.check.table_check import Depth, check_table
from paimon_engine.table.state.snapshots import consumers
from tests.support.clock import next_ms
from tests.support.world.made_up import History


def reset(history: History, name: str, next_snapshot: int | None = None) -> str:
    return history.run(ResetConsumer(name, next_snapshot)).status


def several() -> History:
    history = History().write().write().write()
    for number, name in enumerate(("etl-1", "etl-2", "report"), start=1):
        reset(history, name, number)
    return history


def test_a_consumer_is_moved_and_keeps_its_snapshots():
    history = several()

    assert consumers(history.handle) == {"etl-1": 1, "etl-2": 2, "report": 3}
    assert history.storage.read(history.handle.paths.consumer("etl-1")) == b'{\n  "nextSnapshot" : 1\n}'
    history.expire(retain_max=1)
    assert history.ids() == [1, 2, 3]
    reset(history, "etl-1", 4)
    history.expire(retain_max=1)
    assert history.ids() == [2, 3]


def test_a_consumer_without_a_next_snapshot_is_deleted():
    history = several()

    assert [reset(history, "etl-1"), reset(history, "etl-1")] == ["removed", "noop"]
    assert list(consumers(history.handle)) == ["etl-2", "report"]


@pytest.mark.parametrize("number", [0, 5, -1])
def test_a_consumer_continues_from_an_existing_snapshot(number: int):
    with pytest.raises(NotFoundError, match="choose 1 to 4"):
        reset(several(), "etl-1", number)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a\0", "x" * 10_000])
def test_bad_names_are_refused(name: str):
    with pytest.raises(InvalidArgumentError):
        reset(several(), name, 1)


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        (ClearConsumers(), []),
        (ClearConsumers("etl-.*"), ["report"]),
        (ClearConsumers("etl"), ["etl-1", "etl-2", "report"]),
        (ClearConsumers(excluding="etl-2|report"), ["etl-2", "report"]),
        (ClearConsumers(dry_run=True), ["etl-1", "etl-2", "report"]),
    ],
)
def test_consumers_are_forgotten_by_name(spec: ClearConsumers, left: list[str]):
    history = several()

    result = history.run(spec)

    assert sorted(consumers(history.handle)) == left
    if spec.dry_run:
        assert (result.status, result.removed) == ("dry_run", ("etl-1", "etl-2", "report"))


def test_a_pattern_that_is_none_is_named():
    with pytest.raises(InvalidArgumentError, match="excluding='\\['"):
        clear_consumers(Context(several().handle), ClearConsumers(excluding="["))


def test_consumers_are_forgotten_by_age():
    history = several()
    moved = history.storage.stat(history.handle.paths.consumer("etl-1")).modified_ms
    # The clock of the history is in 1970, that of the store is now.
    history.now_ms = moved + 3_600_000

    assert history.run(ExpireConsumers()).status == "noop"
    assert history.run(ExpireConsumers(older_than=moved)).status == "noop"
    result = history.run(ExpireConsumers(older_than=history.now_ms))
    assert result.removed == ("etl-1", "etl-2", "report")


def test_the_table_says_how_old_a_consumer_may_be():
    history = History({"consumer.expiration-time": "1 h"}).write()
    reset(history, "old", 1)
    moved = history.storage.stat(history.handle.paths.consumer("old")).modified_ms

    history.now_ms = moved + 3_600_000
    assert history.run(ExpireConsumers()).status == "noop"
    history.now_ms += 1
    assert history.run(ExpireConsumers()).removed == ("old",)


@pytest.mark.parametrize("stored", [b"", b"{", b"[]", b"{}", b'{"nextSnapshot": "soon"}', b'{"nextSnapshot": -1}'])
def test_a_broken_consumer_stops_expiry_and_the_message_says_what_to_do(stored: bytes):
    history = several().write().write()
    path = history.handle.paths.consumer("broken")
    history.storage.overwrite(path, stored)

    with pytest.raises(CorruptTableError, match=r"no valid consumer.*reset_consumer\('broken', …\).*clear_consumers"):
        history.expire(retain_max=1, retain_min=1)
    (problem,) = check_table(history.handle, depth=Depth.METADATA)
    assert path in problem.what

    history.run(ClearConsumers("broken"))
    assert check_table(history.handle, depth=Depth.METADATA) == []


@pytest.mark.parametrize(
    "forget",
    [
        lambda table, **words: table.reset_consumer("etl-1", **words),
        lambda table, **words: table.clear_consumers("etl-1", **words),
        lambda table, **words: table.expire_consumers(next_ms(), **words),
    ],
    ids=["reset", "clear", "expire"],
)
def test_deleted_consumers_are_reported_and_restored(forget: Callable[..., ConsumersResult], tmp_path: Path):
    made = Catalog(str(tmp_path)).create_table("db.t", schema=pa.schema([pa.field("k", pa.int64())]))
    for number in range(3):
        made.write(pa.table({"k": [number]}))
    made.reset_consumer("etl-1", 2)
    before = made.consumers().to_pylist()

    done = forget(made, quarantine=True)

    assert (done.status, done.removed, made.consumers().num_rows) == ("removed", ("etl-1",), 0)
    (forgotten,) = done.forgotten
    assert (forgotten.consumer, forgotten.next_snapshot) == ("etl-1", 2)
    assert forgotten.why
    assert done.quarantine is not None
    made.restore(done.quarantine)
    assert made.consumers().to_pylist() == before
    assert forget(made).quarantine is None
    assert made.consumers().num_rows == 0
