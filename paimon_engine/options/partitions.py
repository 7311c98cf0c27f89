"""Options of the expiration of partitions."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_engine.options.texts import OptionTexts


@dataclass(frozen=True)
class PartitionOptions(OptionTexts):
    """A table's options `partition.expiration-*` and `partition.timestamp-*`."""

    @property
    def partition_expiration_time_ms(self) -> int | None:
        """Age at which a partition expires; None: never."""
        key = "partition.expiration-time"
        return self._duration(key, 0) if self.raw.get(key) else None

    @property
    def partition_expiration_strategy(self) -> str:
        """What the age is counted from: `values-time`, the time that the values mean, or `update-time`."""
        return self.raw.get("partition.expiration-strategy", "values-time").lower()

    @property
    def partition_expiration_max_num(self) -> int | None:
        """Partitions that one run drops at most; None is unbounded."""
        key = "partition.expiration-max-num"
        return self._int(key, 0) if key in self.raw else None

    @property
    def partition_timestamp_pattern(self) -> str | None:
        """How the time of a partition is made of its values, such as `$dt $hour:00:00`; None: it is the first one."""
        return self.raw.get("partition.timestamp-pattern")

    @property
    def partition_timestamp_formatter(self) -> str | None:
        """How the time of a partition is written, such as `yyyyMMdd`; None: as `2024-1-31` or `2024-1-31 7:05:00`."""
        return self.raw.get("partition.timestamp-formatter")
