"""Creating and deleting tags, as operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.rendered import duration_ms, number, text
from airflow_provider_paimon.tag_schedule import tag_of


class PaimonCreateTagOperator(PaimonJobOperator):
    """Names a snapshot, so that it is kept and can be read by name.

    Args:
        tag: its name; without one, the day that the DAG run stands for, see `tag_schedule`.
        snapshot: id of the snapshot, the latest one by default. A run for a past day should give the one that its
            write returned: `{{ ti.xcom_pull('write')['snapshot_id'] }}`.
        if_exists: `verify` accepts a tag that is there if it names the same snapshot, where one was given;
            `ignore` accepts any; `replace` moves it; `error` fails.
        time_retained: how long the tag is kept: a timedelta, or a text such as `365 d`.
    """

    template_fields: Sequence[str] = (
        *PaimonJobOperator.template_fields,
        "tag",
        "snapshot",
        "if_exists",
        "time_retained",
    )

    def __init__(
        self,
        *,
        tag: str | None = None,
        snapshot: int | str | None = None,
        if_exists: str = "verify",
        time_retained: timedelta | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(action="create_tag", **kwargs)
        self.tag = tag
        self.snapshot = snapshot
        self.if_exists = if_exists
        self.time_retained = time_retained

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fields of the action."""
        return {
            "tag": text(self.tag) or tag_of(context),
            "snapshot": number("snapshot", self.snapshot),
            "if_exists": self.if_exists,
            "time_retained_ms": duration_ms("time_retained", self.time_retained),
        }


class PaimonDeleteTagOperator(PaimonJobOperator):
    """Deletes a tag, and the files that only it kept. A tag that is not there counts as deleted.

    Args:
        tag: its name.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "tag")

    def __init__(self, *, tag: str, **kwargs: Any) -> None:
        super().__init__(action="delete_tag", **kwargs)
        self.tag = tag

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"tag": self.tag}
