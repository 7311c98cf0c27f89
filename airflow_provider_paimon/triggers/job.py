"""Waiting for a job in Airflow's triggerer, where it costs no worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_paimon import engine
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.launchers.watching import JobLostError, Watch, forget
from paimon_engine.errors import PaimonError

STOP_S: Final = 40.0
"""Time for a job to stop on request: it sees the request within 5 s, and then deletes what it has not committed."""
_ENDINGS: Final[set[asyncio.Future[None]]] = set()
"""The event loop itself keeps no tasks alive."""


class PaimonJobTrigger(BaseTrigger):
    """Fires once the job has ended, by the record in `folder`; or when it is lost, or takes longer than it may.

    The event is `{"status": "ended" | "lost" | "timeout" | "error", "folder", "message"}`. A store that fails for a
    moment is called again. `storage_options` must contain no secret: Airflow stores them; secrets come from the
    connection. `end_at` is the time in epoch seconds at which the job is stopped.
    """

    def __init__(
        self,
        *,
        folder: str,
        paimon_conn_id: str | None = None,
        warehouse: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        poll_interval: float = 5.0,
        end_at: float | None = None,
    ) -> None:
        super().__init__()
        self.folder = folder
        self.paimon_conn_id = paimon_conn_id
        self.warehouse = warehouse
        self.storage_options = dict(storage_options or {})
        self.poll_interval = poll_interval
        self.end_at = end_at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, which Airflow stores."""
        return (
            "airflow_provider_paimon.triggers.job.PaimonJobTrigger",
            {
                "folder": self.folder,
                "paimon_conn_id": self.paimon_conn_id,
                "warehouse": self.warehouse,
                "storage_options": self.storage_options,
                "poll_interval": self.poll_interval,
                "end_at": self.end_at,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Looks every `poll_interval` seconds."""
        try:
            record = await self._record()
            watch = Watch(record)
            while not await self._has_ended(watch):
                if self.end_at is not None and time.time() > self.end_at:
                    await asyncio.to_thread(record.ask_to_stop)
                    yield self._event("timeout", "the job took longer than execution_timeout, and was stopped")
                    return
                await asyncio.sleep(self.poll_interval)
            yield self._event("ended")
        except JobLostError as error:
            # Should it run nevertheless, it stops when it checks next.
            await asyncio.to_thread(record.ask_to_stop)
            yield self._event("lost", str(error))
        except PaimonError as error:
            yield self._event("error", str(error))

    async def on_kill(self) -> None:
        """Stops the job, when a user ends the task, and waits until it has ended.

        Airflow's triggerer cancels this call, too, about a second later; so the work goes on in a task of its own.
        """
        ending = asyncio.ensure_future(self._stop())
        _ENDINGS.add(ending)
        ending.add_done_callback(_ENDINGS.discard)
        await asyncio.shield(ending)

    async def _stop(self) -> None:
        record = await self._record()
        await asyncio.to_thread(record.ask_to_stop)
        watch, deadline = Watch(record, lost_s=STOP_S), time.monotonic() + STOP_S
        try:
            while time.monotonic() < deadline and not await self._has_ended(watch):  # noqa: ASYNC110 - another process ends
                await asyncio.sleep(1)
        except JobLostError as error:
            self.log.warning("%s", error)
            return
        self.log.info("The job has ended")
        await asyncio.to_thread(forget, record)

    async def _record(self) -> engine.JobRecord:
        hook = PaimonHook(self.paimon_conn_id, self.warehouse, self.storage_options)
        await hook.load_connection()
        # It loads the engine, and files are read by blocking calls, which would delay all other triggers.
        return await asyncio.to_thread(lambda: engine.JobRecord.at(self.folder, hook.storage_options))

    async def _has_ended(self, watch: Watch) -> bool:
        """Raises: JobLostError."""
        try:
            await asyncio.to_thread(watch.tell)
            return await asyncio.to_thread(watch.outcome) is not None
        except PaimonError as error:
            self.log.warning("Asking again in %s s: %s", self.poll_interval, error)
            return False

    def _event(self, status: str, message: str = "") -> TriggerEvent:
        return TriggerEvent({"status": status, "folder": self.folder, "message": message})
