"""Creating, renaming, deleting and expiring tags, as operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_provider_paimon import engine
from airflow_provider_paimon.attempts import names_of_task
from airflow_provider_paimon.day_snapshots import own_snapshots, snapshot_of_day
from airflow_provider_paimon.operators.job import PaimonActionOperator, PaimonDeletingOperator
from airflow_provider_paimon.rendered import text
from airflow_provider_paimon.returned import returned_by
from airflow_provider_paimon.tag_schedule import day_of_tag, end_of_day, tag_of, unknown_zone, zone_of


class PaimonCreateTagOperator(PaimonDeletingOperator):
    """Names a snapshot, so that it is kept and can be read by name.

    A tag that is a date, such as `2013-01-05`, means that day. If no argument names a snapshot, it gets
    what this run has written, else the table's state when the day ended; else the task fails.

    Args:
        tag: its name; without one, the day of the DAG run, see `tag_schedule`.
        snapshot: id of the snapshot. Without it and the next three, a day has its own, and other tags name the latest.
        timestamp: instead, the first snapshot committed then or later: a datetime or an ISO time.
        watermark: instead, the first snapshot whose watermark has got so far, in epoch milliseconds.
        as_of: instead, the table's state at this time: the newest snapshot committed by then.
        if_exists: `verify` accepts an existing tag if it names the same snapshot, if one was given;
            `ignore` accepts any; `replace` moves it; `error` fails.
        time_retained: how long the tag is kept: a timedelta, or a text such as `365 d`.
        timezone: where the day ends, such as `Europe/Berlin`; by default in the time zone of the schedule, else of the
            DAG.
        dry_run: say what would be made, and which files of a replaced tag would go; change nothing.
    """

    action_name = "create_tag"
    more_templates = ("timezone",)

    def __init__(
        self,
        *,
        tag: str | None = None,
        snapshot: int | str | None = None,
        timestamp: datetime | str | None = None,
        watermark: int | str | None = None,
        as_of: datetime | str | None = None,
        if_exists: str = "verify",
        time_retained: timedelta | str | None = None,
        timezone: str | None = None,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)
        self.timezone = timezone

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fields of the action; without a tag, the one of the run's day; for a day without a snapshot, its snapshot."""
        given = super().action_arguments(context)
        tag = text(given["tag"]) or tag_of(context)
        day = day_of_tag(tag)
        if day is None or any(text(given[name]) for name in ("snapshot", "timestamp", "watermark", "as_of")):
            return {**given, "tag": tag}
        hook = self.hook()
        table, end = hook.table(self.table), end_of_day(day, self._zone(context))
        replaces = text(given["if_exists"]) == "replace"
        existing = None if replaces else hook.tags(self.table).get(tag)
        own = own_snapshots(
            self._results_upstream(context), {self.table, table.path}, self._commits_upstream(context, table)
        )
        return {**given, "tag": tag, "snapshot": snapshot_of_day(table, day, end, own, existing)}

    def _results_upstream(self, context: Mapping[str, Any]) -> Sequence[Any]:
        """What tasks before this one returned in this run; of mapped ones each."""
        if not self.has_dag():
            return ()
        tasks = sorted(task.task_id for task in self.get_flat_relatives(upstream=True))
        return list(returned_by(context["ti"], tasks))

    def _commits_upstream(
        self, context: Mapping[str, Any], table: engine.Table
    ) -> Sequence[tuple[str | None, str, int]]:
        """Action, kind and id of the snapshots that were committed under names of tasks before this one in this run."""
        upstream = self.get_flat_relatives(upstream=True) if self.has_dag() else ()
        if not upstream:
            return ()
        rows = table.snapshots().select(["commit_user", "commit_kind", "snapshot_id"]).to_pylist()
        users = {row["commit_user"] for row in rows}
        actions: dict[str, str | None] = {}
        for task in upstream:
            is_mapped = bool(task.is_mapped) or task.get_closest_mapped_task_group() is not None
            key = getattr(task, "idempotency_key", None)
            key = None if key is None else text(self.render_template(key, context))
            known = names_of_task(context, task.task_id, is_mapped=is_mapped, idempotency_key=key)
            names = users.intersection(known)
            actions |= dict.fromkeys(names, _action_of(task))
        own = [row for row in rows if row["commit_user"] in actions]
        return [(actions[row["commit_user"]], row["commit_kind"], row["snapshot_id"]) for row in own]

    def _zone(self, context: Mapping[str, Any]) -> tzinfo:
        name = text(self.timezone)
        try:
            return zone_of(context) if name is None else ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise unknown_zone(name) from error


class PaimonDeleteTagOperator(PaimonDeletingOperator):
    """Deletes a tag, and the files that only it kept. A tag that is not there counts as deleted.

    Args:
        tag: its name.
        dry_run: say what would be deleted, and delete nothing.
    """

    action_name = "delete_tag"

    def __init__(self, *, tag: str, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonRenameTagOperator(PaimonActionOperator):
    """Gives a tag another name.

    Args:
        tag: its name.
        to: its new name.
    """

    action_name = "rename_tag"

    def __init__(self, *, tag: str, to: str, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonExpireTagsOperator(PaimonDeletingOperator):
    """Deletes tags whose time to live has ended, and the files that only they needed.

    Args:
        older_than: also all tags made before: a datetime, an ISO time, an age (timedelta, or a text such as `90 d`).
        dry_run: say what would be deleted, and delete nothing.
    """

    action_name = "expire_tags"

    def __init__(
        self, *, older_than: datetime | timedelta | str | None = None, dry_run: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonCreateDayTagsOperator(PaimonActionOperator):
    """Finds days without a tag and creates their tags, on the latest snapshot when each day ended.

    Days whose state has expired stay without one: the result's `missing` says which, and why.

    Args:
        since: the first day, such as `2013-01-01`; by default the first that has a tag, else the oldest snapshot's.
        until: the last day; by default the last one that has ended.
        timezone: where days end, such as `Europe/Berlin`; by default in the time zone of the schedule, else of the
            DAG.
        time_retained: how long the tags are kept: a timedelta, or a text such as `365 d`.
        dry_run: say what would be made, and make nothing.
    """

    action_name = "create_day_tags"

    def __init__(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        timezone: str | None = None,
        time_retained: timedelta | str | None = None,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fields of the action, with the time zone of the schedule where none is given."""
        given = super().action_arguments(context)
        return {**given, "timezone": text(given["timezone"]) or str(zone_of(context))}


class PaimonCreateDueTagsOperator(PaimonDeletingOperator):
    """Makes the tags that are due by the table's option `tag.automatic-creation`.

    Args:
        dry_run: say what would be made, and make nothing.
    """

    action_name = "create_due_tags"

    def __init__(self, *, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)


def _action_of(task: Any) -> str | None:
    """What an operator does, as actions are called, also one that is mapped; None where it does not say."""
    return getattr(task, "action", None) or getattr(getattr(task, "operator_class", None), "action_name", None)
