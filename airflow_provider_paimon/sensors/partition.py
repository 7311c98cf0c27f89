"""Waiting for a partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_paimon.sensors.table import PaimonTableSensor


class PaimonPartitionSensor(PaimonTableSensor):
    """Waits until partitions have rows; gives `{"partition", "partitions", "rows", "snapshot_id"}`.

    A column that is not one of the table's partition columns, or a value that is none of its type, fails at once.

    Args:
        partition: values of partition columns: `{"day": "{{ partition_key }}"}`; of some of them for all partitions
            that have these.
        min_rows: at least so many rows are in data files. Old versions of a key and deletes count until they are
            compacted away. 0 requires `done` only.
        done: the partition, named by all its columns, is marked as done by a `_SUCCESS` file
            (`PaimonMarkPartitionDoneOperator`, or a writer of Paimon).
    """

    kind = "partition"
    wait_fields = ("partition", "min_rows", "done")

    def __init__(
        self,
        *,
        partition: Mapping[str, Any] | str,
        min_rows: int | str = 1,
        done: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)
