"""Option names that are nearly those of Paimon: a warning, or an error if the environment requires it.

Options of other names are kept, as Java keeps them: people store their own notes there. But a name that is nearly
one of an option is a mistake that nothing else would report.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from paimon_engine.errors import InvalidArgumentError, PaimonWarning
from paimon_engine.options.families import OF_PAIMON, is_known_in_family, is_of_family, nearest_in_family
from paimon_engine.options.known import KNOWN_OPTIONS, OWN_OPTIONS
from paimon_engine.options.older_names import OLDER_NAMES

STRICT_VARIABLE: Final = "PAIMON_ENGINE_STRICT_OPTIONS"
"""Environment variable that, with the value `true` or `1`, has every unknown name refused."""

_LIKENESS_MIN: Final = 0.8
"""Of names, as difflib measures it: `buckt` is 0.91 like `bucket`, `bukcet` 0.83."""
_FREE: Final = ("log.", "hadoop.", "fs.", "s3.", "tag.callback.", "commit.callback.")
"""Beginnings of names that others define."""

_OF_OTHERS: Final = frozenset(
    [
        "changelog-producer.compaction-interval",
        "changelog.precommit-compact",
        "changelog.precommit-compact.buffer-size",
        "changelog.precommit-compact.thread-num",
        "codec",
        "comment",
        "commit.custom-listeners",
        "compaction.bucket-distribution-strategy",
        "connector",
        "end-input.watermark",
        "external",
        "filesystem.job-level-settings.enabled",
        "format-table.repair.collect-statistics",
        "format-table.statistics.parallelism",
        "is_managed_location",
        "legacy-timestamp-mapping.enabled",
        "location",
        "lookup.async",
        "lookup.async-thread-number",
        "lookup.bootstrap-parallelism",
        "lookup.cache",
        "lookup.dynamic-partition",
        "lookup.dynamic-partition.refresh-interval",
        "lookup.dynamic-partition.refresh.async",
        "lookup.refresh.async",
        "lookup.refresh.async.pending-snapshot-count",
        "lookup.refresh.full-load-threshold",
        "lookup.refresh.time-periods-blacklist",
        "object-location",
        "owner",
        "partition.idle-time-to-done",
        "partition.mark-done-action.mode",
        "partition.mark-done.recover-from-state",
        "partition.time-interval",
        "precommit-compact",
        "provider",
        "read.allow.fullScan",
        "read.changelog",
        "read.shuffle-bucket-with-partition",
        "read.stream.maxBytesPerTrigger",
        "read.stream.maxFilesPerTrigger",
        "read.stream.maxRowsPerTrigger",
        "read.stream.maxTriggerDelayMs",
        "read.stream.minRowsPerTrigger",
        "requiredSparkConfsCheck.enabled",
        "row-name-mapping",
        "scan.bounded",
        "scan.dedicated-split-generation",
        "scan.infer-parallelism",
        "scan.infer-parallelism.max",
        "scan.max-snapshot.count",
        "scan.parallelism",
        "scan.partitions",
        "scan.push-down",
        "scan.remove-normalize",
        "scan.split-enumerator.batch-size",
        "scan.split-enumerator.mode",
        "scan.watermark.alignment.group",
        "scan.watermark.alignment.max-drift",
        "scan.watermark.alignment.update-interval",
        "scan.watermark.emit.strategy",
        "scan.watermark.idle-timeout",
        "sink.clustering.sample-factor",
        "sink.clustering.sort-in-cluster",
        "sink.committer-cpu",
        "sink.committer-memory",
        "sink.committer-operator-chaining",
        "sink.coordinator-commit.enabled",
        "sink.cross-partition.managed-memory",
        "sink.key-only-deletes.enabled",
        "sink.managed.writer-buffer-memory",
        "sink.operator-uid.suffix",
        "sink.parallelism",
        "sink.savepoint.auto-tag",
        "sink.use-managed-memory-allocator",
        "sink.writer-coordinator.cache-expire-after-access",
        "sink.writer-coordinator.cache-memory",
        "sink.writer-coordinator.cache-soft-values",
        "sink.writer-coordinator.enabled",
        "sink.writer-coordinator.page-size",
        "sink.writer-coordinator.prefetch-manifests",
        "sink.writer-cpu",
        "sink.writer-memory",
        "sink.writer-refresh-detectors",
        "source.checkpoint-align.enabled",
        "source.checkpoint-align.timeout",
        "source.operator-uid.suffix",
        "source.split.target-size-with-column-pruning",
        "streaming-read.shuffle-bucket-with-partition",
        "transient_lastDdlTime",
        "unaware-bucket.compaction.parallelism",
        "unaware-bucket.no-shuffle",
        "vector-search.lateral-join.parallelism",
        "write.data-evolution.update-conflict-retry.max-attempts",
        "write.data-evolution.update-conflict-retry.wait-ms",
        "write.hive-style-dynamic-partition.enabled",
        "write.merge-schema",
        "write.merge-schema.explicit-cast",
        "write.merge-schema.type-widening",
        "write.use-v2-write",
    ]
)
"""Options of the connectors of Flink and Spark, and what catalogs note in tables."""

_KNOWN: Final = KNOWN_OPTIONS | OWN_OPTIONS | OLDER_NAMES.keys() | _OF_OTHERS


def is_known(name: str) -> bool:
    """Whether some release knows an option of that name, or it belongs to a family that others define."""
    return name in _KNOWN or name.startswith(_FREE) or is_known_in_family(name)


def nearest(name: str) -> str | None:
    """The known name that is most like it; None if none is similar."""
    if is_of_family(name):
        return nearest_in_family(name)
    found = get_close_matches(name.lower().replace("_", "-"), sorted(_KNOWN), 1, _LIKENESS_MIN)
    return found[0] if found else None


def check_names(names: Iterable[str]) -> None:
    """Warns of names that are nearly those of options, or begin as those of Paimon alone.

    Raises: InvalidArgumentError for any unknown name, if the environment requires it.
    """
    strict = os.environ.get(STRICT_VARIABLE, "").lower() in ("true", "1")
    for name in names:
        if is_known(name):
            continue
        near = nearest(name)
        hint = "" if near is None else f"; did you mean '{near}'?"
        if strict:
            raise InvalidArgumentError(f"option '{name}' is unknown{hint} ({STRICT_VARIABLE} is on)")
        if near is not None or name.startswith(OF_PAIMON):
            warnings.warn(f"option '{name}' is unknown, so it has no effect{hint}", PaimonWarning, stacklevel=2)
