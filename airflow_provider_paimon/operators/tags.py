"""Creating, renaming, deleting and expiring tags, as operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow_provider_paimon.operators.job import PaimonDeletingOperator, PaimonJobOperator
from airflow_provider_paimon.rendered import duration_ms, flag, moment_ms, number, text
from airflow_provider_paimon.tag_schedule import tag_of


class PaimonCreateTagOperator(PaimonDeletingOperator):
    """Names a snapshot, so that it is kept and can be read by name.

    Args:
        tag: its name; without one, the day that the DAG run stands for, see `tag_schedule`.
        snapshot: id of the snapshot, the latest one by default. A run for a past day should give the one that its
            write returned: `{{ ti.xcom_pull('write')['snapshot_id'] }}`.
        timestamp: instead, the first snapshot committed then or later: a datetime or an ISO time, such as
            `{{ data_interval_end }}`.
        watermark: instead, the first snapshot whose watermark has got so far, in epoch milliseconds.
        if_exists: `verify` accepts a tag that is there if it names the same snapshot, where one was given;
            `ignore` accepts any; `replace` moves it; `error` fails.
        time_retained: how long the tag is kept: a timedelta, or a text such as `365 d`.
        dry_run: say what would be made, and which files of a replaced tag would go; change nothing.
    """

    template_fields: Sequence[str] = (
        *PaimonDeletingOperator.template_fields,
        "tag",
        "snapshot",
        "timestamp",
        "watermark",
        "if_exists",
        "time_retained",
        "dry_run",
    )

    def __init__(
        self,
        *,
        tag: str | None = None,
        snapshot: int | str | None = None,
        timestamp: datetime | str | None = None,
        watermark: int | str | None = None,
        if_exists: str = "verify",
        time_retained: timedelta | str | None = None,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(action="create_tag", **kwargs)
        self.tag = tag
        self.snapshot = snapshot
        self.timestamp = timestamp
        self.watermark = watermark
        self.if_exists = if_exists
        self.time_retained = time_retained
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fields of the action."""
        return {
            "tag": text(self.tag) or tag_of(context),
            "snapshot": number("snapshot", self.snapshot),
            "if_exists": self.if_exists,
            "time_retained_ms": duration_ms("time_retained", self.time_retained),
            "timestamp_ms": moment_ms("timestamp", self.timestamp),
            "watermark": number("watermark", self.watermark),
            "dry_run": flag("dry_run", self.dry_run),
            **self.disposal_arguments(),
        }


class PaimonDeleteTagOperator(PaimonDeletingOperator):
    """Deletes a tag, and the files that only it kept. A tag that is not there counts as deleted.

    Args:
        tag: its name.
        dry_run: say what would be deleted, and delete nothing.
    """

    template_fields: Sequence[str] = (*PaimonDeletingOperator.template_fields, "tag", "dry_run")

    def __init__(self, *, tag: str, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(action="delete_tag", **kwargs)
        self.tag = tag
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"tag": self.tag, "dry_run": flag("dry_run", self.dry_run), **self.disposal_arguments()}


class PaimonRenameTagOperator(PaimonJobOperator):
    """Gives a tag another name.

    Args:
        tag: its name.
        to: its new name.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "tag", "to")

    def __init__(self, *, tag: str, to: str, **kwargs: Any) -> None:
        super().__init__(action="rename_tag", **kwargs)
        self.tag = tag
        self.to = to

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"tag": self.tag, "to": self.to}


class PaimonExpireTagsOperator(PaimonDeletingOperator):
    """Deletes tags whose time is over, and the files that only they kept.

    Args:
        older_than: also all tags made before: a datetime, an ISO time, an age (timedelta, or a text such as `90 d`).
        dry_run: say what would be deleted, and delete nothing.
    """

    template_fields: Sequence[str] = (*PaimonDeletingOperator.template_fields, "older_than", "dry_run")

    def __init__(
        self, *, older_than: datetime | timedelta | str | None = None, dry_run: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init__(action="expire_tags", **kwargs)
        self.older_than = older_than
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "older_than_ms": moment_ms("older_than", self.older_than),
            "dry_run": flag("dry_run", self.dry_run),
            **self.disposal_arguments(),
        }


class PaimonCreateDueTagsOperator(PaimonDeletingOperator):
    """Makes the tags that the table's option `tag.automatic-creation` asks for by now.

    Args:
        dry_run: say what would be made, and make nothing.
    """

    template_fields: Sequence[str] = (*PaimonDeletingOperator.template_fields, "dry_run")

    def __init__(self, *, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(action="create_due_tags", **kwargs)
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"dry_run": flag("dry_run", self.dry_run), **self.disposal_arguments()}
