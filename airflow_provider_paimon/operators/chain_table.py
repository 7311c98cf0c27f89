"""Chain tables, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator


class PaimonCompactChainTableOperator(PaimonActionOperator):
    """Makes partitions of a chain table complete, on Spark unless they are few bytes.

    The last complete partition before each and all changes since are written to the branch of complete partitions.

    Args:
        partitions: values by column, all of the columns or some: `[{"dt": "{{ ds_nodash }}"}]`.
        rebuild: make those that are complete already again; else they stay as they are.
        dry_run: say what would be done, and do nothing.
    """

    action_name = "compact_chain_table"

    def __init__(
        self,
        *,
        partitions: Sequence[Mapping[str, Any]],
        rebuild: bool | str = False,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)
