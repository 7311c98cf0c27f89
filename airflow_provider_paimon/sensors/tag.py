"""Waiting for a tag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_paimon.rendered import text
from airflow_provider_paimon.sensors.table import PaimonTableSensor
from airflow_provider_paimon.tag_schedule import tag_of
from paimon_engine.errors import InvalidArgumentError


class PaimonTagSensor(PaimonTableSensor):
    """Waits until a table has a tag, or has it no more; gives `{"tag", "snapshot_id"}`.

    Args:
        tag: its name; without one, the day of the DAG run, see `tag_schedule`.
        state: `exists` or `absent`. A table that is not there is waited for in both cases: its name may be mistyped.
    """

    kind = "tag"
    wait_fields = ("tag", "state")

    def __init__(self, *, tag: str | None = None, state: str = "exists", **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
        if self.start_from_trigger and tag is None:
            raise InvalidArgumentError(
                'start_from_trigger=True needs tag=, for example tag="{{ partition_key }}": the day of a run is found '
                "in a worker"
            )

    def fields(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """The tag of the run's day, where none is given."""
        given = super().fields(context)
        return {**given, "tag": text(given["tag"]) or tag_of(context)}
