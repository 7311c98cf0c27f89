"""Options of commits and retention: retries, overwrites, snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_engine.options.texts import OptionTexts
from paimon_engine.units import DAY_MS

_COMMIT_RECORD_RETAINED_MS: Final = 30 * DAY_MS


@dataclass(frozen=True)
class RetentionOptions(OptionTexts):
    """A table's options of commits and of the retention of its snapshots."""

    @property
    def commit_max_retries(self) -> int | None:
        """Lost races that a commit endures; None: `table.commit.patience` says."""
        return self._int("commit.max-retries", 10) if "commit.max-retries" in self.raw else None

    @property
    def commit_timeout_ms(self) -> int | None:
        """Total time for the retries of a commit; None: `table.commit.patience` says."""
        return self._duration("commit.timeout", 0) if "commit.timeout" in self.raw else None

    @property
    def commit_min_retry_wait_ms(self) -> int | None:
        """Wait before the first retry of a commit; None: `table.commit.patience` says."""
        return self._duration("commit.min-retry-wait", 10) if "commit.min-retry-wait" in self.raw else None

    @property
    def commit_max_retry_wait_ms(self) -> int | None:
        """Upper bound of the wait between retries of a commit; None: `table.commit.patience` says."""
        return self._duration("commit.max-retry-wait", 10_000) if "commit.max-retry-wait" in self.raw else None

    @property
    def commit_record_retained_ms(self) -> int:
        """Time for which a named commit is known to be done after its snapshot has expired; our own option."""
        return self._duration("commit-record.time-retained", _COMMIT_RECORD_RETAINED_MS)

    @property
    def dynamic_partition_overwrite(self) -> bool:
        """Whether an overwrite replaces only the partitions that it has rows for."""
        return self._bool("dynamic-partition-overwrite", default=True)

    @property
    def snapshot_num_retained_min(self) -> int:
        """Snapshots that expiry always leaves."""
        return self._int("snapshot.num-retained.min", 10)

    @property
    def snapshot_num_retained_max(self) -> int | None:
        """Snapshots that expiry leaves at most; None is unbounded."""
        text = self.raw.get("snapshot.num-retained.max")
        return None if text is None else self._int("snapshot.num-retained.max", 0)

    @property
    def snapshot_time_retained_ms(self) -> int:
        """Age below which a snapshot is left unless there are too many."""
        return self._duration("snapshot.time-retained", 3_600_000)

    @property
    def snapshot_expire_limit(self) -> int | None:
        """Snapshots that one expiry removes at most; None if the table does not set it."""
        return self._int("snapshot.expire.limit", 0) if "snapshot.expire.limit" in self.raw else None

    @property
    def changelog_num_retained_min(self) -> int:
        """Changelogs that expiry always leaves, those of existing snapshots counted; as the snapshots by default."""
        return self._int("changelog.num-retained.min", self.snapshot_num_retained_min)

    @property
    def changelog_num_retained_max(self) -> int | None:
        """Changelogs that expiry leaves at most, those of existing snapshots counted; None is unbounded."""
        if "changelog.num-retained.max" not in self.raw:
            return self.snapshot_num_retained_max
        return self._int("changelog.num-retained.max", 0)

    @property
    def changelog_time_retained_ms(self) -> int:
        """Age below which a changelog is left unless there are too many; as the snapshots by default."""
        return self._duration("changelog.time-retained", self.snapshot_time_retained_ms)

    @property
    def changelog_outlives_snapshots(self) -> bool:
        """Whether one of the limits keeps changelogs when their snapshots have expired."""
        most, snapshots_most = self.changelog_num_retained_max, self.snapshot_num_retained_max
        return (
            (snapshots_most is not None and (most is None or most > snapshots_most))
            or self.changelog_time_retained_ms > self.snapshot_time_retained_ms
            or self.changelog_num_retained_min > self.snapshot_num_retained_min
        )

    @property
    def clean_empty_directories(self) -> bool:
        """Whether expiry removes bucket and partition directories that became empty."""
        return self._bool("snapshot.clean-empty-directories", default=False)
