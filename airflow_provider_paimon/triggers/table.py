"""Waiting for something on a table in Airflow's triggerer, where it costs no worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from airflow.sdk import Asset
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_paimon import engine
from airflow_provider_paimon.assets import place_of
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.rendered import rendered_whole, templates, text
from paimon_engine.errors import InvalidArgumentError, NotFoundError, PaimonError, StorageError, UnsupportedError

_OF_ALL: Final = ("table", "kind", "paimon_conn_id", "warehouse", "storage_options", "poke_interval")
_CONDITIONS: Final[Mapping[str, Sequence[str]]] = {"snapshot": ("after_snapshot", "newer_than", "watermark")}
"""Fields of a kind of wait without which it ends sooner: at the first snapshot of the table."""
NEVER_COMES: Final = (InvalidArgumentError, UnsupportedError)
"""Errors of a wait that another look or try meets again."""


def read_wait(kind: str, fields: Mapping[str, Any], given: Collection[str] = ()) -> engine.Wait:
    """What is waited for, of values that templates have left; `given` names fields that have had one.

    Raises: InvalidArgumentError, also where templates have left nothing of a condition.
    """
    for name in _CONDITIONS.get(kind, ()):
        value = fields.get(name)
        if (name in given or isinstance(value, str)) and text(value) is None:
            raise InvalidArgumentError(
                f"wait for {kind}: {name} was given, and its template left no value; without it the wait ends at any "
                f"snapshot: give a value, or leave {name} out"
            )
    return engine.read_wait(kind, fields, templates())


class PaimonTableTrigger(BaseTrigger):
    """Fires once a table has what is waited for; see `paimon_engine.read_wait` for the kinds and their fields.

    The event is `{"status": "success", "found": …}`, or `{"status": "error", "message", "is_hopeless"}`. A table
    that does not exist yet is waited for, and a store that fails for a moment is tried again. `storage_options` must
    contain no secret: Airflow stores them; secrets come from the connection.

    Args:
        table: `database.table`, the path of a table's directory, or a `paimon_table`.
        kind: `tag`, `snapshot`, `partition`, `freshness` or `consumer`.
        paimon_conn_id: connection to the warehouse; `paimon_default` if neither this nor `warehouse` is given.
        warehouse: address of the warehouse, instead of the connection's.
        storage_options: options of the file system, over those of the connection.
        poke_interval: seconds between two looks.
        end_at: time in epoch seconds at which the wait has failed.
        fields: fields of the kind, such as `tag="2013-01-01"`.
    """

    def __init__(
        self,
        *,
        table: str | Asset,
        kind: str,
        paimon_conn_id: str | None = None,
        warehouse: str | None = None,
        storage_options: Mapping[str, Any] | str | None = None,
        poke_interval: float = 60.0,
        end_at: float | None = None,
        **fields: Any,
    ) -> None:
        super().__init__()
        self.kind = kind
        place = place_of(table, paimon_conn_id, warehouse, storage_options)
        self.table, self.paimon_conn_id, self.warehouse, options = place
        self.storage_options = options if isinstance(options, str) else dict(options or {})
        self.poke_interval = poke_interval
        self.end_at = end_at
        # As attributes, so that templates are rendered where a task starts in the triggerer.
        self.fields = tuple(sorted(fields))
        for name in self.fields:
            setattr(self, name, fields[name])

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, which Airflow stores."""
        end = {} if self.end_at is None else {"end_at": self.end_at}
        return (
            "airflow_provider_paimon.triggers.table.PaimonTableTrigger",
            {name: getattr(self, name) for name in (*_OF_ALL, *self.fields)} | end,
        )

    def render_template(
        self, content: Any, context: Any, jinja_env: Any = None, seen_oids: set[int] | None = None
    ) -> Any:
        """As in Airflow, which calls it for each text. Raises: AirflowFailException."""
        return rendered_whole(self, partial(super().render_template, seen_oids=seen_oids), content, context, jinja_env)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Looks every `poke_interval` seconds."""
        hook = PaimonHook(self.paimon_conn_id or None, self.warehouse or None, self.storage_options)
        try:
            await hook.load_connection()
            fields = {name: getattr(self, name) for name in self.fields}
            # The engine is loaded here, and files are read by blocking calls: both would delay all other triggers.
            wait = await asyncio.to_thread(read_wait, self.kind, fields)
            while (found := await self._look(hook, wait)) is None:
                left = self.poke_interval if self.end_at is None else self.end_at - time.time()
                if left <= 0:
                    message = f"{self.table}: not there within execution_timeout: {wait}"
                    yield TriggerEvent({"status": "error", "message": message, "is_hopeless": False})
                    return
                await asyncio.sleep(min(self.poke_interval, left))
            yield TriggerEvent({"status": "success", "found": found})
        except PaimonError as error:
            is_hopeless = isinstance(error, NEVER_COMES)
            yield TriggerEvent({"status": "error", "message": str(error), "is_hopeless": is_hopeless})

    async def _look(self, hook: PaimonHook, wait: engine.Wait) -> dict[str, Any] | None:
        try:
            return await asyncio.to_thread(hook.look, self.table, wait)
        except (StorageError, NotFoundError) as error:  # NotFoundError: a file went while it was read
            self.log.warning("Trying again in %s s: %s", self.poke_interval, error)
            return None
