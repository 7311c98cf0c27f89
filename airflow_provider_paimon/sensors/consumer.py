"""Waiting for a consumer of a streaming read."""

from __future__ import annotations

from typing import Any

from airflow_provider_paimon.sensors.table import PaimonTableSensor


class PaimonConsumerLagSensor(PaimonTableSensor):
    """Waits until a consumer has read up to the latest snapshot, or nearly so.

    Gives `{"consumer", "next_snapshot", "snapshot_id", "lag"}`. A consumer that is not there yet is waited for.

    Args:
        consumer: its name.
        max_lag: so many snapshots may be unread.
    """

    kind = "consumer"
    wait_fields = ("consumer", "max_lag")

    def __init__(self, *, consumer: str, max_lag: int | str = 0, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
