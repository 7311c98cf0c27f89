"""From tags to partitions: each tag of a table becomes a partition of an asset, once.

Events of watchers carry no partition key, so DAGs that run once for each day cannot be scheduled by them. A DAG that is
scheduled by such events, or by time, passes the tags on:

    with DAG("pass_on", schedule=[orders_watched]):
        PaimonTagPartitionsOperator(task_id="pass_on", table=orders, asset=days)

    with DAG("report", schedule=PartitionedAssetTimetable(assets=days)):
        ...  # one run for each tag; its partition key is the name of the tag

What is passed on are the tags that the table has, not what events say: a tag whose event got lost, or that was made
late for an earlier day, is found by the next run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Final

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon.assets import place_of
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.rendered import WholeTemplates, renderers, text
from airflow_provider_paimon.tag_schedule import day_of_tag
from paimon_engine.errors import InvalidArgumentError, NotFoundError, UnsupportedError

DAYS: Final = "days"
_CLOCKS: Final = timedelta(hours=1)
"""So much the clocks of workers and of Airflow's database may differ."""
_NOTE: Final = "paimon_tags_passed_on"


class PaimonTagPartitionsOperator(WholeTemplates):
    """Sends an event with a partition key for each tag that has none yet; gives `{"passed_on", "before"}`.

    Each tag is passed on once, also where this task is killed, retried or cleared: which ones were is kept in the
    asset's state store, and where a task died before that was known, in the asset's events. Without a new tag there is
    no event.

    Args:
        table: `database.table`, the path of a table's directory, or a `paimon_table`.
        asset: the asset whose partitions are the tags. Nothing else should send events of it.
        tags: which tags: `days`, those whose name is a date; or a pattern of names, such as `release-*`.
        since: the first tag, by name, such as `2013-01-01`. Without it, tags that exist when the task first runs
            count as passed on.
        paimon_conn_id: connection to the warehouse; `paimon_default` if neither this nor `warehouse` is given.
        warehouse: address of the warehouse, instead of the connection's.
        storage_options: options of the file system, over those of the connection.
    """

    template_fields: Sequence[str] = ("table", "tags", "since", "paimon_conn_id", "warehouse", "storage_options")
    template_fields_renderers: Mapping[str, str] = renderers(template_fields)
    ui_color = "#d6ecff"

    def __init__(
        self,
        *,
        table: str | Asset,
        asset: Asset,
        tags: str = DAYS,
        since: str | None = None,
        paimon_conn_id: str | None = None,
        warehouse: str | None = None,
        storage_options: Mapping[str, Any] | str | None = None,
        **kwargs: Any,
    ) -> None:
        # Two at a time would pass on the same tags.
        kwargs.setdefault("max_active_tis_per_dag", 1)
        super().__init__(inlets=[asset], outlets=[asset], **kwargs)
        place = place_of(table, paimon_conn_id, warehouse, storage_options)
        self.table, self.paimon_conn_id, self.warehouse, self.storage_options = place
        self.asset = asset
        self.tags = tags
        self.since = since

    def execute(self, context: Any) -> dict[str, Any]:
        """Passes on what is new."""
        store = context["asset_state_store"][self.asset]
        note = store.get(_NOTE)
        there = self._tags_there()
        since = text(self.since)
        if note is None:
            before = {tag for tag in there if since is None or tag < since}
        else:
            before = {*note["passed_on"], *self._known(context, note)}
        new = [tag for tag in there if tag not in before and (since is None or tag >= since)]
        store.set(_NOTE, {"passed_on": sorted(before), "pending": new, "time": datetime.now(UTC).isoformat()})
        if not new:
            self.log.info("%s has no tag that is new", self.table)
            self.outlets: list[Any] = []
            return {"passed_on": [], "before": len(before)}
        events = context["outlet_events"][self.asset]
        events.add_partitions(new)
        events.extra.update({"table": self.table})
        self.log.info("%s: passing on %s", self.table, ", ".join(new))
        return {"passed_on": new, "before": len(before)}

    def _known(self, context: Any, note: Mapping[str, Any]) -> set[str]:
        """Of the tags that an earlier attempt was about to pass on: those of which there are events."""
        if not note["pending"]:
            return set()
        since = datetime.fromisoformat(note["time"]) - _CLOCKS
        events = context["inlet_events"][self.asset].after(since.isoformat())
        return {event.partition_key for event in events} & set(note["pending"])

    def _tags_there(self) -> list[str]:
        pattern = text(self.tags) or DAYS
        try:
            names = PaimonHook(self.paimon_conn_id, self.warehouse, self.storage_options).tag_names(self.table)
        except NotFoundError:
            self.log.info("Table %s does not exist yet", self.table)
            return []
        except (InvalidArgumentError, UnsupportedError) as error:
            raise AirflowFailException(f"{self.task_id}: {error}") from error
        if pattern == DAYS:
            return [name for name in names if day_of_tag(name) is not None]
        return [name for name in names if fnmatchcase(name, pattern)]
