"""One poll loop per warehouse, for all watchers of its tables.

The loop finds out of each table only whether something differs from the last check; each watcher reads the changes
itself, from its own position on. The stream is one of Airflow's in *ack mode*: `advance` is called once the events that
a change led to are in Airflow's database, and only then do the watchers' positions move.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow.sdk.exceptions import AirflowException
from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from airflow_provider_paimon.hooks.paimon import PaimonHook
from paimon_engine.errors import NotFoundError, PaimonError

_AT_ONCE: Final = 8
"""So many tables are checked concurrently."""

logger = logging.getLogger(__name__)


@dataclass
class Watched:
    """The tables of one warehouse that triggers of this process watch."""

    intervals: dict[int, tuple[str, float]] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, watcher: int, table: str, interval: float) -> None:
        """Adds a watcher: its table is checked next, and counts as changed."""
        self.intervals[watcher] = (table, interval)
        self.seen.pop(table, None)
        self.woken.set()

    def remove(self, watcher: int) -> None:
        """Removes a watcher."""
        self.intervals.pop(watcher, None)

    @property
    def tables(self) -> list[str]:
        """Each table once."""
        return sorted({table for table, _ in self.intervals.values()})

    @property
    def interval(self) -> float:
        """Seconds between two checks: the shortest interval of its watchers."""
        return min((interval for _, interval in self.intervals.values()), default=60.0)


_WATCHED: Final[dict[Hashable, Watched]] = {}


def watched(key: Hashable) -> Watched:
    """The tables of the stream of that key."""
    return _WATCHED.setdefault(key, Watched())


def forget(key: Hashable) -> None:
    """Removes a stream that no watcher needs any more."""
    if key in _WATCHED and not _WATCHED[key].intervals:
        del _WATCHED[key]


@dataclass
class Change:
    """Something on a table has changed. `done` moves the positions of watchers that sent an event of it."""

    table: str
    done: list[Callable[[], Awaitable[None]]] = field(default_factory=list)


class TableChanges(SharedStreamProducer):
    """The poll loop."""

    def __init__(self, key: Hashable, hook: PaimonHook) -> None:
        self._watched = watched(key)
        self._hook = hook

    async def open_stream(self) -> AsyncIterator[tuple[Change, Change]]:
        """A `Change` for each table that differs from the last check; continues whatever fails meanwhile."""
        while True:
            self._watched.woken.clear()
            for table in await self._changed():
                change = Change(table)
                yield change, change
            try:
                await asyncio.wait_for(self._watched.woken.wait(), self._watched.interval)
            except TimeoutError:
                continue

    async def _changed(self) -> list[str]:
        try:
            await self._hook.load_connection()
        except (AirflowException, PaimonError) as error:
            logger.error("Looking again in %s s: %s", self._watched.interval, error)  # noqa: TRY400 - the text says it
            return []
        found: list[str] = []
        tables = self._watched.tables
        for start in range(0, len(tables), _AT_ONCE):
            some = tables[start : start + _AT_ONCE]
            looks = await asyncio.gather(*(asyncio.to_thread(_state, self._hook, table) for table in some))
            for table, state in zip(some, looks, strict=True):
                if state is not None and self._watched.seen.get(table) != state:
                    self._watched.seen[table] = state
                    found.append(table)
        return found

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Moves the positions of watchers whose events are in Airflow's database."""
        for item in batch:
            if item.outcome.failed == 0:
                for move in item.broker_payload.done:
                    await move()

    def get_advance_lane(self, broker_payload: Change) -> Hashable:
        """No table waits for another."""
        return broker_payload.table


def _state(hook: PaimonHook, table: str) -> tuple[Any, ...] | None:
    """A value that differs after each commit, rollback or tag; None if it cannot be determined now."""
    try:
        found = hook.table(table)
        newest = found.latest_snapshot_id()
        rows = [] if newest is None else found.snapshots(newer_than=newest - 1).to_pylist()
        commit = [
            (row["snapshot_id"], row["commit_user"], row["commit_identifier"], row["commit_time"]) for row in rows
        ]
        return (*commit, *found.tag_names())
    except NotFoundError:
        return ("no such table",)
    except (PaimonError, OSError) as error:
        logger.warning("%s cannot be read now: %s", table, error)
        return None
