"""Waiting for a commit: a new snapshot, or one that is fresh enough."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow_provider_paimon.sensors.table import PaimonTableSensor


class PaimonSnapshotSensor(PaimonTableSensor):
    """Waits for a snapshot that meets all conditions; without any, for the table's first one.

    Gives the newest such snapshot: `{"snapshot_id", "commit_kind", "commit_time", "watermark"}`. After a rollback, ids
    are given again: a wait for more than a number continues until the table has reached it again.

    Args:
        after_snapshot: its id is greater than this; from XCom: `"{{ ti.xcom_pull('write')['snapshot_id'] or 0 }}"`,
            where a task without a commit gives none.
        newer_than: it was committed after this: a datetime, an ISO time, or an age such as `2 h`.
        watermark: its watermark has got so far, in epoch milliseconds.
        kinds: it was made by one of these kinds of commits: `APPEND`, `OVERWRITE` (both change rows), `COMPACT`,
            `ANALYZE`.
    """

    kind = "snapshot"
    wait_fields = ("after_snapshot", "newer_than", "watermark", "kinds")

    def __init__(
        self,
        *,
        after_snapshot: int | str | None = None,
        newer_than: datetime | str | None = None,
        watermark: int | str | None = None,
        kinds: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonFreshnessSensor(PaimonTableSensor):
    """Waits until the newest commit is not older than a duration.

    Gives that commit as `PaimonSnapshotSensor` does, and `age_seconds`. To fail where a table gets too old, give it a
    `timeout`.

    Args:
        max_age: how old the newest commit may be: a timedelta, or a text such as `2 h`.
        kinds: count only these kinds of commits; compactions keep no table fresh with `["APPEND", "OVERWRITE"]`.
    """

    kind = "freshness"
    wait_fields = ("max_age", "kinds")

    def __init__(self, *, max_age: timedelta | str, kinds: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
