"""The event trigger by itself: positions, broken histories, one poll loop, events of which nobody knows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.triggers.events import PaimonTableEventTrigger
from airflow_provider_paimon.triggers.watch import TableChanges
from paimon_engine import Catalog, InvalidArgumentError, Table
from tests.provider.conftest import SCHEMA, TABLE, rows

airflow_streams = pytest.importorskip("airflow.triggers.shared_stream")


class Store:
    """What Airflow keeps for an asset, as JSON; calls take a moment."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        await asyncio.sleep(0)
        return json.loads(self.kept[key]) if key in self.kept else default

    async def aset(self, key: str, value: Any) -> None:
        await asyncio.sleep(0)
        self.kept[key] = json.dumps(value)


class Triggerer:
    """Airflow's own shared streams, with triggers in them, and a database whose confirmations can be held back."""

    def __init__(self, *, confirms: bool = True) -> None:
        self._streams = airflow_streams.SharedStreamManager()
        self._tasks: list[asyncio.Task] = []
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.confirms = confirms

    def start(self, trigger: PaimonTableEventTrigger, store: Store, name: str = "") -> None:
        path, arguments = trigger.serialize()
        assert path == f"{type(trigger).__module__}.{type(trigger).__name__}"
        running = PaimonTableEventTrigger(**json.loads(json.dumps(arguments)))
        running.asset_state_store = store
        number = len(self._tasks)
        events = self.events.setdefault(name or trigger.table, [])
        self._tasks.append(asyncio.create_task(self._run(number, running, events)))

    async def _run(self, number: int, trigger: PaimonTableEventTrigger, events: list) -> None:
        key = trigger.shared_stream_key()
        stream = self._streams.subscribe(trigger_id=number, trigger=trigger, key=key)
        try:
            async for event in trigger.filter_shared_stream(stream):
                seq = self._streams.bind_pending_event(trigger_id=number, key=key)
                events.append(event.payload)
                if self.confirms:
                    self._streams.confirm_persisted([seq])
        finally:
            await self._streams.unsubscribe(number, key)

    @property
    def loops(self) -> int:
        return len(self._streams._groups)

    async def stop(self) -> None:
        for task in self._tasks:
            assert not task.done() or task.exception() is None
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._streams.stop_all()


def trigger(catalog: Catalog, table: str = TABLE, **more: Any) -> PaimonTableEventTrigger:
    return PaimonTableEventTrigger(**{"table": table, "warehouse": catalog.warehouse, "poke_interval": 0.02, **more})


async def until(true: Any) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def quiet() -> None:
    """Long enough for some looks."""
    await asyncio.sleep(0.4)


def summaries(events: list[dict[str, Any]]) -> list[tuple]:
    return [(event["from_snapshot"], event["to_snapshot"], event["tags"]) for event in events]


def covered(events: list[dict[str, Any]]) -> list[int]:
    return [
        number
        for event in events
        if event["from_snapshot"] is not None
        for number in range(event["from_snapshot"], event["to_snapshot"] + 1)
    ]


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.table(TABLE)


async def one_life(
    catalog: Catalog, store: Store, act: Any, count: int, *, before: int = 0, **more: Any
) -> list[dict[str, Any]]:
    """The events of a triggerer that lives while `act` is done; `count` of them are waited for, `before` of them before it."""
    triggerer = Triggerer()
    triggerer.start(trigger(catalog, **more), store)
    await until(lambda: store.kept)
    events = next(iter(triggerer.events.values()))
    await until(lambda: len(events) >= before)
    await asyncio.to_thread(act)
    await until(lambda: len(events) >= count)
    await quiet()
    await triggerer.stop()
    return events


def test_nothing_that_was_there_is_told_and_each_commit_is(catalog: Catalog, table: Table):
    table.create_tag("before")

    def act() -> None:
        table.write(rows(4))
        table.compact(full=True)
        table.create_tag("after", snapshot=4)

    events = asyncio.run(one_life(catalog, Store(), act, 1))

    assert covered(events) == [4, 5]
    assert [tag for event in events for tag in event["tags"].items()] == [("after", 4)]
    kinds = [kind for event in events for kind in event["commit_kinds"].items()]
    assert kinds == [("APPEND", 1), ("COMPACT", 1)]
    assert {event["table"] for event in events} == {TABLE}
    assert all(event["reset"] is None and not event["redelivered"] for event in events)
    assert len({event["event_id"] for event in events}) == len(events)


def test_what_happened_while_no_triggerer_ran_is_one_event(catalog: Catalog, table: Table):
    store = Store()
    assert asyncio.run(one_life(catalog, store, lambda: table.write(rows(4)), 1))[0]["to_snapshot"] == 4

    for number in (5, 6, 7):
        table.write(rows(number))
    table.create_tag("day", snapshot=5)
    events = asyncio.run(one_life(catalog, store, lambda: None, 1))

    assert summaries(events) == [(5, 7, {"day": 5})]


def test_a_table_that_is_not_there_yet_is_told_from_its_first_snapshot_on(catalog: Catalog):
    def act() -> None:
        created = catalog.create_table("air.later", schema=SCHEMA, options={"bucket": "-1"})
        created.write(rows(1))
        created.write(rows(2))

    events = asyncio.run(one_life(catalog, Store(), act, 1, table="air.later"))

    assert covered(events) == [1, 2]


def test_only_chosen_kinds_make_an_event(catalog: Catalog, table: Table):
    def act() -> None:
        table.compact(full=True)
        table.write(rows(4))

    events = asyncio.run(one_life(catalog, Store(), act, 1, kinds=["APPEND"]))

    assert [event["to_snapshot"] for event in events] == [5]


@pytest.mark.parametrize("count", [1, 5])
def test_a_rollback_is_named_and_what_follows_it_is_told(catalog: Catalog, table: Table, count: int):
    store = Store()

    def commits() -> None:
        for number in range(4, 8):
            table.write(rows(number))

    asyncio.run(one_life(catalog, store, commits, 1))
    table.rollback(snapshot=5)
    for number in range(count):
        table.write(rows(20 + number))

    (event,) = asyncio.run(one_life(catalog, store, lambda: None, 1))

    assert summaries([event]) == [(6, 5 + count, {})]
    assert event["reset"] == {"reason": "rollback", "common": 5, "was": 7, "now": 5 + count}


def test_a_rollback_alone_is_an_event(catalog: Catalog, table: Table):
    (event,) = asyncio.run(one_life(catalog, Store(), lambda: table.rollback(snapshot=2), 1))

    assert summaries([event]) == [(None, None, {})]
    assert event["reset"] == {"reason": "rollback", "common": 2, "was": 3, "now": 2}


def test_snapshots_that_expired_unseen_are_named(catalog: Catalog, table: Table):
    store = Store()
    asyncio.run(one_life(catalog, store, lambda: None, 0))
    for number in range(4, 9):
        table.write(rows(number))
    table.expire_snapshots(retain_max=2, retain_min=1)

    (event,) = asyncio.run(one_life(catalog, store, lambda: None, 1))

    assert summaries([event]) == [(7, 8, {})]
    assert event["reset"] == {"reason": "expired", "missed": [4, 6]}


def test_a_table_that_was_made_again_is_named(catalog: Catalog, table: Table):
    store = Store()
    asyncio.run(one_life(catalog, store, lambda: None, 0))
    catalog.drop_table(TABLE)
    again = catalog.create_table(TABLE, schema=SCHEMA, options={"bucket": "-1"})
    again.write(rows(1))

    def act() -> None:
        again.write(rows(2))

    # The store keeps something from the first life: only the event says that the second one has looked.
    events = asyncio.run(one_life(catalog, store, act, 2, before=1))

    assert events[0]["reset"] == {"reason": "replaced", "was": 3, "now": 1}
    assert summaries(events) == [(None, None, {}), (2, 2, {})]


def test_an_event_of_which_nobody_knows_comes_again_with_its_name(catalog: Catalog, table: Table):
    """Killed after the event left the trigger and before Airflow said that it is stored."""
    store = Store()

    async def killed() -> list[dict[str, Any]]:
        triggerer = Triggerer(confirms=False)
        triggerer.start(trigger(catalog), store)
        await until(lambda: store.kept)
        await asyncio.to_thread(table.write, rows(4))
        await until(lambda: triggerer.events[TABLE])
        await asyncio.to_thread(table.write, rows(5))
        await until(lambda: len(triggerer.events[TABLE]) == 2)
        kept = dict(store.kept)
        await triggerer.stop()
        store.kept = kept
        return triggerer.events[TABLE]

    before = asyncio.run(killed())
    after = asyncio.run(one_life(catalog, store, lambda: table.write(rows(6)), 3))

    assert summaries(after) == [(4, 4, {}), (5, 5, {}), (6, 6, {})]
    assert [event["redelivered"] for event in after] == [True, True, False]
    assert [event["event_id"] for event in before] == [event["event_id"] for event in after[:2]]
    assert asyncio.run(one_life(catalog, store, lambda: None, 0)) == []


def test_all_watchers_of_a_warehouse_share_one_loop(catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch):
    others = [catalog.create_table(f"air.t{n}", schema=SCHEMA, options={"bucket": "-1"}) for n in range(5)]
    opened: list[int] = []
    open_stream = TableChanges.open_stream

    def counted(self: TableChanges) -> AsyncIterator:
        opened.append(1)
        return open_stream(self)

    monkeypatch.setattr(TableChanges, "open_stream", counted)

    async def run() -> dict[str, list[dict[str, Any]]]:
        triggerer, stores = Triggerer(), [Store() for _ in range(7)]
        for number in range(5):
            triggerer.start(trigger(catalog, f"air.t{number}", poke_interval=0.02 * (1 + number)), stores[number])
        triggerer.start(trigger(catalog), stores[5], "one")
        triggerer.start(trigger(catalog, reader="other"), stores[6], "other")
        await until(lambda: all(store.kept for store in stores))
        assert triggerer.loops == 1
        for one in (*others, table):
            await asyncio.to_thread(one.write, rows(9))
        await until(lambda: len(triggerer.events) == 7 and all(triggerer.events.values()))
        await quiet()
        await triggerer.stop()
        return triggerer.events

    events = asyncio.run(run())

    assert len(opened) == 1
    assert {name: covered(found) for name, found in events.items()} == {
        **{f"air.t{number}": [1] for number in range(5)},
        "one": [4],
        "other": [4],
    }


def test_a_store_that_fails_for_a_moment_is_tried_again(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
):
    opened, fails = PaimonHook.table, [0]

    def sometimes(self: PaimonHook, name: str) -> Table:
        fails[0] += 1
        if fails[0] % 3:
            raise OSError("busy")
        return opened(self, name)

    monkeypatch.setattr(PaimonHook, "table", sometimes)

    events = asyncio.run(one_life(catalog, Store(), lambda: table.write(rows(4)), 1))

    assert covered(events) == [4]


def test_it_also_runs_alone(catalog: Catalog, table: Table):
    store = Store()

    async def run() -> dict[str, Any]:
        alone = trigger(catalog)
        alone.asset_state_store = store
        event = asyncio.ensure_future(anext(alone.run()))
        await until(lambda: store.kept)
        await asyncio.to_thread(table.write, rows(4))
        return (await asyncio.wait_for(event, 30)).payload

    assert asyncio.run(run())["to_snapshot"] == 4


def test_no_secret_is_stored(catalog: Catalog):
    with pytest.raises(InvalidArgumentError, match="into a connection"):
        trigger(catalog, storage_options={"s3.secret-key": "x"})
