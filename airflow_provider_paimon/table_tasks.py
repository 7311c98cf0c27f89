"""The short way: `orders.write(…) >> orders.compact() >> orders.tag_day() >> orders.expire(keep=10)`.

Each method makes the plain operator of the same work on its table, and nothing else. Its task is called by what it does
and the table, such as `compact_orders`, unless `task_id=` says otherwise. Other arguments are passed to the
operator unchanged: `retries`, `pool`, `spark_conn_id`, `idempotency_key` and so on.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_paimon.assets import PaimonTable
    from airflow_provider_paimon.operators.clean_up import PaimonRemoveOrphanFilesOperator, PaimonVerifyOperator
    from airflow_provider_paimon.operators.compact import PaimonCompactOperator
    from airflow_provider_paimon.operators.delete import PaimonDeleteRowsOperator
    from airflow_provider_paimon.operators.expire import PaimonExpireSnapshotsOperator
    from airflow_provider_paimon.operators.job import PaimonJobOperator
    from airflow_provider_paimon.operators.rollback import PaimonRollbackOperator
    from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator, PaimonExpireTagsOperator
    from airflow_provider_paimon.operators.write import PaimonWriteOperator
    from airflow_provider_paimon.sensors.tag import PaimonTagSensor

__all__ = ["TableTasks", "for_tables"]


class TableTasks(ABC):
    """What a `paimon_table` can do as tasks of the DAG or task group that is open."""

    table: str

    @property
    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """What finds the table."""

    # Operators are imported when used: they import this module themselves.

    def write(
        self,
        source: str | Sequence[str] | Any,
        *,
        format: str = "parquet",  # noqa: A002 - as the operator has it
        overwrite: Mapping[str, Any] | None = None,
        create: Mapping[str, Any] | None = None,
        task_id: str | None = None,
        **more: Any,
    ) -> PaimonWriteOperator:
        """Writes files, or another `paimon_table`, into the table: `PaimonWriteOperator`."""
        from airflow_provider_paimon.operators.write import PaimonWriteOperator

        given: dict[str, Any] = {"source": source, "format": format, "overwrite": overwrite, "create": create}
        return PaimonWriteOperator(**self._arguments("write", task_id), **given, **more)

    def delete(self, where: str, *, task_id: str | None = None, **more: Any) -> PaimonDeleteRowsOperator:
        """Deletes the rows for which a condition is true: `PaimonDeleteRowsOperator`."""
        from airflow_provider_paimon.operators.delete import PaimonDeleteRowsOperator

        return PaimonDeleteRowsOperator(**self._arguments("delete", task_id), where=where, **more)

    def compact(
        self,
        *,
        full: bool | str = False,
        where: str | None = None,
        max_bytes: int | str | None = None,
        task_id: str | None = None,
        **more: Any,
    ) -> PaimonCompactOperator:
        """Merges small files and sorted runs: `PaimonCompactOperator`."""
        from airflow_provider_paimon.operators.compact import PaimonCompactOperator

        given: dict[str, Any] = {"full": full, "where": where, "max_bytes": max_bytes}
        return PaimonCompactOperator(**self._arguments("compact", task_id), **given, **more)

    def tag_day(
        self,
        *,
        time_retained: timedelta | str | None = None,
        timezone: str | None = None,
        if_exists: str = "verify",
        task_id: str | None = None,
        **more: Any,
    ) -> PaimonCreateTagOperator:
        """Tags the day that the run belongs to, on what this run has written: `PaimonCreateTagOperator`."""
        from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator

        given: dict[str, Any] = {"time_retained": time_retained, "timezone": timezone, "if_exists": if_exists}
        return PaimonCreateTagOperator(**self._arguments("tag_day", task_id), **given, **more)

    def create_tag(
        self, tag: str, *, snapshot: int | str | None = None, task_id: str | None = None, **more: Any
    ) -> PaimonCreateTagOperator:
        """Names a snapshot: `PaimonCreateTagOperator`."""
        from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator

        return PaimonCreateTagOperator(**self._arguments("create_tag", task_id), tag=tag, snapshot=snapshot, **more)

    def expire(
        self,
        *,
        keep: int | str | None = None,
        older_than: datetime | timedelta | str | None = None,
        dry_run: bool | str = False,
        task_id: str | None = None,
        **more: Any,
    ) -> PaimonExpireSnapshotsOperator:
        """Deletes old snapshots, all but the newest `keep`: `PaimonExpireSnapshotsOperator`. Tags stay."""
        from airflow_provider_paimon.operators.expire import PaimonExpireSnapshotsOperator

        given: dict[str, Any] = {"retain_max": keep, "older_than": older_than, "dry_run": dry_run}
        return PaimonExpireSnapshotsOperator(**self._arguments("expire", task_id), **given, **more)

    def expire_tags(
        self,
        *,
        older_than: datetime | timedelta | str | None = None,
        dry_run: bool | str = False,
        task_id: str | None = None,
        **more: Any,
    ) -> PaimonExpireTagsOperator:
        """Deletes tags whose time is over: `PaimonExpireTagsOperator`."""
        from airflow_provider_paimon.operators.tags import PaimonExpireTagsOperator

        given: dict[str, Any] = {"older_than": older_than, "dry_run": dry_run}
        return PaimonExpireTagsOperator(**self._arguments("expire_tags", task_id), **given, **more)

    def remove_orphan_files(
        self,
        *,
        older_than: datetime | timedelta | str | None = None,
        dry_run: bool | str = False,
        task_id: str | None = None,
        **more: Any,
    ) -> PaimonRemoveOrphanFilesOperator:
        """Deletes old files that nothing names: `PaimonRemoveOrphanFilesOperator`."""
        from airflow_provider_paimon.operators.clean_up import PaimonRemoveOrphanFilesOperator

        given: dict[str, Any] = {"older_than": older_than, "dry_run": dry_run}
        return PaimonRemoveOrphanFilesOperator(**self._arguments("remove_orphan_files", task_id), **given, **more)

    def rollback(
        self,
        *,
        tag: str | None = None,
        snapshot: int | str | None = None,
        dry_run: bool | str = False,
        task_id: str | None = None,
        **more: Any,
    ) -> PaimonRollbackOperator:
        """Makes an earlier tag or snapshot the latest: `PaimonRollbackOperator`."""
        from airflow_provider_paimon.operators.rollback import PaimonRollbackOperator

        given: dict[str, Any] = {"tag": tag, "snapshot": snapshot, "dry_run": dry_run}
        return PaimonRollbackOperator(**self._arguments("rollback", task_id), **given, **more)

    def verify(self, *, depth: str = "files", task_id: str | None = None, **more: Any) -> PaimonVerifyOperator:
        """Checks that the table is valid: `PaimonVerifyOperator`."""
        from airflow_provider_paimon.operators.clean_up import PaimonVerifyOperator

        return PaimonVerifyOperator(**self._arguments("verify", task_id), depth=depth, **more)

    def wait_for_tag(
        self, tag: str | None = None, *, deferrable: bool = True, task_id: str | None = None, **more: Any
    ) -> PaimonTagSensor:
        """Waits for a tag, by default that of the day that the run belongs to: `PaimonTagSensor`."""
        from airflow_provider_paimon.sensors.tag import PaimonTagSensor

        name = task_id or self.task_id("wait_for_tag")
        return PaimonTagSensor(task_id=name, **self.arguments, tag=tag, deferrable=deferrable, **more)

    def run(
        self, action: str, arguments: Mapping[str, Any] | None = None, *, task_id: str | None = None, **more: Any
    ) -> PaimonJobOperator:
        """Runs any action by its name: `PaimonJobOperator`."""
        from airflow_provider_paimon.operators.job import PaimonJobOperator

        return PaimonJobOperator(**self._arguments(action, task_id), action=action, arguments=arguments, **more)

    def _arguments(self, verb: str, task_id: str | None) -> dict[str, Any]:
        """What all of them have: the task's name and the table."""
        return {"task_id": task_id or self.task_id(verb), "table": self}

    def task_id(self, verb: str) -> str:
        """Name of the task that does this to the table, in its task group: `compact_orders`."""
        name = self.table.rpartition(".")[2]
        return re.sub(r"[^\w-]", "_", f"{verb}_{name}")


def for_tables(tables: Sequence[PaimonTable], operator: type[Any], **arguments: Any) -> Any:
    """One mapped task per table: `for_tables([orders, users], PaimonCompactOperator, task_id="compact", full=True)`.

    Airflow's UI shows the tables' names, and each task reports by the asset of its table what it has changed.
    """
    from airflow_provider_paimon.asset_events import outlets_of

    action = str(arguments.get("action") or getattr(operator, "action_name", ""))
    outlets = [asset for table in tables for asset in outlets_of(table, action)]
    given: dict[str, Any] = {"outlets": outlets, "map_index_template": "{{ task.table }}", **arguments}
    return operator.partial(**given).expand(table=list(tables))
