"""When operators report a change by asset events, and the content of the events.

Airflow sends an event of each outlet of a task that succeeds. Here an asset of a table has one only where the task
changed something: not after a dry run, nor where nothing was to be done, nor where a cleared task found done what an
earlier attempt had reported already. A retry reports it, because the attempt before it could not. Outlets of other
kinds have their events always, as with any operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from airflow_provider_paimon.assets import CHANGES_ROWS, MAKES_TAGS, UNCHANGED, PaimonTable, table_address

if TYPE_CHECKING:
    from airflow_provider_paimon import engine


def outlets_of(table: PaimonTable, action: str) -> list[Asset]:
    """The default outlets of an operator: the table for changed rows, its tags for tags."""
    if action in CHANGES_ROWS:
        return [table]
    return [table.tags] if action in MAKES_TAGS else []


def describe_outlets(
    outlets: Sequence[Any], context: Mapping[str, Any], result: engine.JobResult, *, is_reported: bool = False
) -> list[Any]:
    """The outlets that have an event, each with the snapshot, the tag and so on as the event's `extra`.

    Assets of other tables, which mapped tasks have among theirs, have none.
    """
    is_changed = result.status not in UNCHANGED and not (result.status == "already_done" and is_reported)
    kept = [outlet for outlet in outlets if _is_of(outlet, result.table, is_changed=is_changed)]
    events = context.get("outlet_events")
    if events is not None:
        for outlet in kept:
            if isinstance(outlet, Asset):
                events[outlet].extra.update(event_extra(result))
    return kept


def event_extra(result: engine.JobResult) -> dict[str, Any]:
    """The content of an event: plain JSON values, as far as they are known."""
    extra: dict[str, Any] = {"table": result.table, "action": result.action, "status": result.status}
    extra |= {"snapshot_id": result.snapshot_id}
    extra |= {name: result.details.get(name) for name in ("rows", "tag")}
    return {name: value for name, value in extra.items() if value is not None}


def _is_of(outlet: Any, table: str, *, is_changed: bool) -> bool:
    """Whether an outlet has an event; `table` is `database.table`, or a path, which is not compared."""
    address = table_address(outlet.uri) if isinstance(outlet, Asset) else None
    if address is None:
        return True
    return is_changed and ("/" in table or address.table == table)
