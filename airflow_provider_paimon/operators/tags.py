"""Creating, renaming, deleting and expiring tags, as operators."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator, PaimonDeletingOperator
from airflow_provider_paimon.rendered import text
from airflow_provider_paimon.tag_schedule import tag_of
from paimon_engine.actions.create_due_tags import CreateDueTags
from paimon_engine.actions.expire_tags import ExpireTags
from paimon_engine.actions.tags import CreateTag, DeleteTag, RenameTag


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

    spec = CreateTag

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
        super().__init__(fields=locals(), **kwargs)

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fields of the action; without a tag, the one of the run's day."""
        given = super().action_arguments(context)
        return {**given, "tag": text(given["tag"]) or tag_of(context)}


class PaimonDeleteTagOperator(PaimonDeletingOperator):
    """Deletes a tag, and the files that only it kept. A tag that is not there counts as deleted.

    Args:
        tag: its name.
        dry_run: say what would be deleted, and delete nothing.
    """

    spec = DeleteTag

    def __init__(self, *, tag: str, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonRenameTagOperator(PaimonActionOperator):
    """Gives a tag another name.

    Args:
        tag: its name.
        to: its new name.
    """

    spec = RenameTag

    def __init__(self, *, tag: str, to: str, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonExpireTagsOperator(PaimonDeletingOperator):
    """Deletes tags whose time is over, and the files that only they kept.

    Args:
        older_than: also all tags made before: a datetime, an ISO time, an age (timedelta, or a text such as `90 d`).
        dry_run: say what would be deleted, and delete nothing.
    """

    spec = ExpireTags

    def __init__(
        self, *, older_than: datetime | timedelta | str | None = None, dry_run: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonCreateDueTagsOperator(PaimonDeletingOperator):
    """Makes the tags that the table's option `tag.automatic-creation` asks for by now.

    Args:
        dry_run: say what would be made, and make nothing.
    """

    spec = CreateDueTags

    def __init__(self, *, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
