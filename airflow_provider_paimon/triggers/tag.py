"""Waiting for a tag in Airflow's triggerer, where it costs no worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_paimon.hooks.paimon import PaimonHook
from paimon_engine.errors import PaimonError, StorageError


class PaimonTagTrigger(BaseTrigger):
    """Fires once the table has the tag.

    The event is `{"status": "success", "tag", "snapshot_id"}`, or `{"status": "error", "message"}` if waiting is
    useless. A store that fails for a moment is tried again. `storage_options` must hold no secret: Airflow stores
    them; secrets come from the connection.
    """

    def __init__(
        self,
        *,
        table: str,
        tag: str,
        paimon_conn_id: str | None = None,
        warehouse: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        poke_interval: float = 60.0,
    ) -> None:
        super().__init__()
        self.table = table
        self.tag = tag
        self.paimon_conn_id = paimon_conn_id
        self.warehouse = warehouse
        self.storage_options = dict(storage_options or {})
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, which Airflow stores."""
        return (
            "airflow_provider_paimon.triggers.tag.PaimonTagTrigger",
            {
                "table": self.table,
                "tag": self.tag,
                "paimon_conn_id": self.paimon_conn_id,
                "warehouse": self.warehouse,
                "storage_options": self.storage_options,
                "poke_interval": self.poke_interval,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Checks every `poke_interval` seconds."""
        hook = PaimonHook(self.paimon_conn_id, self.warehouse, self.storage_options)
        try:
            await hook.load_connection()
            while True:
                snapshot_id = await self._look(hook)
                if snapshot_id is not None:
                    yield TriggerEvent({"status": "success", "tag": self.tag, "snapshot_id": snapshot_id})
                    return
                await asyncio.sleep(self.poke_interval)
        except PaimonError as error:
            yield TriggerEvent({"status": "error", "message": str(error)})

    async def _look(self, hook: PaimonHook) -> int | None:
        try:
            # Files are read by blocking calls, which would delay all other triggers.
            return await asyncio.to_thread(hook.snapshot_of_tag, self.table, self.tag)
        except StorageError as error:
            self.log.warning("Trying again in %s s: %s", self.poke_interval, error)
            return None
