"""Commits and tags of a table as events of an asset, for Airflow's `AssetWatcher`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any

from airflow.sdk import Asset
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_paimon import engine
from airflow_provider_paimon.assets import place_of
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.rendered import structure
from airflow_provider_paimon.table_changes import Position, changes, position_now
from airflow_provider_paimon.triggers.watch import Change, TableChanges, forget, watched
from paimon_engine.errors import InvalidArgumentError, NotFoundError, PaimonError


class PaimonTableEventTrigger(BaseEventTrigger):
    """Sends an event when a table has new snapshots or tags, or when its history broke.

    The payload, plain JSON:

    - `table`; `from_snapshot` and `to_snapshot`, both included, None where only tags are new; `commit_kinds`, how many
      snapshots of each kind; `commit_time` of the last.
    - `tags`: names of new tags with their snapshots. A tag that moves is not new.
    - `reset`: None, or how the history broke, see `table_changes`: `rollback`, `expired` or `replaced`.
    - `event_id`, the same if the event has to be sent again, and `redelivered`, whether it may have been sent before.

    What exists when the trigger first starts is not reported; a table that does not exist yet is waited for, and
    reported from its first snapshot on. Where the trigger has got to is kept in Airflow's state store of the asset:
    after a restart of the triggerer it continues there. Where the triggerer was killed within about a second after an
    event, it is not known whether that one was stored: then the same event is sent again, with `redelivered` true.

    All triggers of one connection share one poll loop, whose interval is the shortest `poke_interval` of them.

    Args:
        table: `database.table`, the path of a table's directory, or a `paimon_table`.
        paimon_conn_id: connection to the warehouse; `paimon_default` if neither this nor `warehouse` is given.
        warehouse: address of the warehouse, instead of the connection's.
        storage_options: options of the file system, without secrets: Airflow stores them.
        poke_interval: seconds between two looks.
        kinds: only these kinds of commits make an event, such as `["APPEND", "OVERWRITE"]`; those between
            them are counted in it.
        reader: a name. Triggers of other names keep separate positions; two assets must not share one trigger.
    """

    def __init__(
        self,
        *,
        table: str | Asset,
        paimon_conn_id: str | None = None,
        warehouse: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        poke_interval: float = 30.0,
        kinds: Sequence[str] | None = None,
        reader: str = "",
    ) -> None:
        super().__init__()
        place = place_of(table, paimon_conn_id, warehouse, storage_options)
        self.table, self.paimon_conn_id, self.warehouse, options = place
        self.storage_options = structure("storage_options", options, dict) or {}
        self.poke_interval = poke_interval
        self.kinds = None if kinds is None else list(kinds)
        self.reader = reader
        self._sent: Position | None = None
        self._unsure: list[dict[str, Any]] = []
        if self.storage_options and self._hook().has_given_secrets():
            raise InvalidArgumentError(
                "Airflow stores the arguments of a trigger, so they must contain no secret: move the secrets among "
                "storage_options into a connection"
            )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, which Airflow stores."""
        names = ("table", "paimon_conn_id", "warehouse", "storage_options", "poke_interval", "kinds", "reader")
        path = "airflow_provider_paimon.triggers.events.PaimonTableEventTrigger"
        return path, {name: getattr(self, name) for name in names}

    # ── the stream that all triggers of a warehouse share ───────────────────────────────────────

    def shared_stream_key(self) -> Hashable:
        """The warehouse."""
        options = json.dumps(self.storage_options, sort_keys=True)
        return ("paimon", self.paimon_conn_id or "", self.warehouse or "", options)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> TableChanges:
        """The poll loop."""
        one = cls(**kwargs)
        return TableChanges(one.shared_stream_key(), one._hook())

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Without a shared stream: a separate poll loop."""
        producer = TableChanges(self.shared_stream_key(), self._hook())

        async def stream() -> AsyncIterator[Change]:
            async for change, _ in producer.open_stream():
                yield change
                for move in change.done:
                    await move()

        async for event in self.filter_shared_stream(stream()):
            yield event

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """This trigger's events."""
        key, hook = self.shared_stream_key(), self._hook()
        tables = watched(key)
        tables.add(id(self), self.table, self.poke_interval)
        try:
            await self._load()
            position, again = self._sent, list(self._unsure)
            async for change in shared_stream:
                if change.table != self.table:
                    continue
                while again:
                    earlier = again.pop(0)
                    change.done.append(self._confirmation(earlier))
                    position = Position.from_json(earlier["next"])
                    yield TriggerEvent({**earlier["event"], "redelivered": True})
                await hook.load_connection()
                event, following = await self._read(hook, position)
                if event is not None:
                    sent = {"event": {"table": self.table, **event, "redelivered": False}, "next": following.to_json()}
                    self._unsure.append(sent)
                    await self._store()
                    change.done.append(self._confirmation(sent))
                    yield TriggerEvent(sent["event"])
                elif position is None:
                    self._sent = following
                    await self._store()
                position = following
        finally:
            tables.remove(id(self))
            forget(key)

    async def _read(self, hook: PaimonHook, position: Position | None) -> tuple[dict[str, Any] | None, Position]:
        """The event since a position, and the next one; tried until the table can be read."""
        while True:
            try:
                return await asyncio.to_thread(self._changes, hook, position)
            except (PaimonError, OSError) as error:
                self.log.warning("Trying again in %s s: %s", self.poke_interval, error)
                await asyncio.sleep(self.poke_interval)

    def _changes(self, hook: PaimonHook, position: Position | None) -> tuple[dict[str, Any] | None, Position]:
        try:
            table = hook.table(self.table)
        except NotFoundError:
            return None, position or Position()
        if position is None:
            return None, position_now(table)

        def snapshots_of_tags(names: Sequence[str]) -> dict[str, int]:
            found = {name: table.look(engine.read_wait("tag", {"tag": name})) for name in names}
            return {name: one["snapshot_id"] for name, one in found.items() if one is not None}

        return changes(table, position, snapshots_of_tags, self.kinds)

    # ── where it has got to ─────────────────────────────────────────────────────────────────────

    async def _load(self) -> None:
        """The position, and the events of which it is not known whether they were stored."""
        if self.asset_state_store is None:
            return
        try:
            stored: Any = await self.asset_state_store.aget(self._state_key)
        except ValueError as error:
            raise InvalidArgumentError(
                f"two assets watch {self.table} by the same trigger, whose position can be kept for one only: "
                'give each its own, by reader="…"'
            ) from error
        if stored is not None:
            self._sent, self._unsure = Position.from_json(stored["position"]), list(stored["unsure"])

    async def _store(self) -> None:
        if self.asset_state_store is not None and self._sent is not None:
            await self.asset_state_store.aset(
                self._state_key, {"position": self._sent.to_json(), "unsure": self._unsure}
            )

    def _confirmation(self, sent: dict[str, Any]) -> Callable[[], Awaitable[None]]:
        """To be called when an event is in Airflow's database; those before it are then, too."""

        async def confirm() -> None:
            if sent in self._unsure:
                del self._unsure[: self._unsure.index(sent) + 1]
                self._sent = Position.from_json(sent["next"])
                await self._store()

        return confirm

    @property
    def _state_key(self) -> str:
        return f"paimon:{self.table}:{self.reader}" if self.reader else f"paimon:{self.table}"

    def _hook(self) -> PaimonHook:
        return PaimonHook(self.paimon_conn_id, self.warehouse, self.storage_options)
