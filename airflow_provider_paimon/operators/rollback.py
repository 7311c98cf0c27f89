"""Rolling a table back, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.rendered import number, text


class PaimonRollbackOperator(PaimonJobOperator):
    """Makes an earlier snapshot or tag the latest; newer snapshots and tags go, and there is no way back.

    Args:
        snapshot: id of the snapshot; give this or `tag`.
        tag: name of the tag.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "snapshot", "tag")

    def __init__(self, *, snapshot: int | str | None = None, tag: str | None = None, **kwargs: Any) -> None:
        super().__init__(action="rollback", **kwargs)
        self.snapshot = snapshot
        self.tag = tag

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"snapshot": number("snapshot", self.snapshot), "tag": text(self.tag)}
