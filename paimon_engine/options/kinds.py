"""Which options are switches, numbers, sizes and durations, with an effect here or not: Java parses them all.

Source: the types in `CoreOptions` and `IcebergOptions` of the Java library, from 0.9 to its newest sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.options.older_names import newest_name
from paimon_engine.options.texts import boolean_of, integer_of, named, number_of
from paimon_engine.units import java_duration_ms, java_size_bytes

_BOOLEANS: Final = """
add-column-before-partition aggregation.remove-record-on-delete alter-column-null-to-not-null.disabled
async-file-write auto-create blob-as-descriptor blob-compaction.enabled blob-view.resolve.enabled
blob-write-null-on-fetch-failure blob-write-null-on-missing-file blob.split-by-file-size bucket-append-ordered
chain-table.enabled chain-table.split.key-range-enabled chain-table.streaming.merge-snapshot
changelog-producer.row-deduplicate clustering.incremental clustering.incremental.optimize-write
commit.discard-duplicate-files commit.force-compact commit.force-create-snapshot compaction.force-rewrite-all-files
compaction.force-up-level-0 compaction.skip-expired-partitions consumer.changelog-only consumer.ignore-progress
data-evolution.compaction.rewrite-row-ids data-evolution.enabled data-evolution.merge-into.file-pruning
data-evolution.merge-into.source-persist data-evolution.row-sidecar.enabled data-file.thin-mode
delete.force-produce-changelog deletion-vectors.bitmap64 deletion-vectors.enabled deletion-vectors.merge-on-read
deletion-vectors.modifiable disable-explicit-type-casting dynamic-partition-overwrite end-input.check-partition-expire
file-index.read.enabled file.suffix.include.compression force-lookup format-table.partition-path-only-value
global-index.enabled ignore-delete ignore-update-before incremental-between-tag-to-snapshot
index-file-in-data-file-dir key-value.sequence_number.enabled lookup-wait lookup.blob-as-descriptor
lookup.cache.bloom.filter.enabled lookup.remote-file.enabled manifest-sort.enabled manifest.delete-file-drop-stats
manifest.merge-optimize.enabled metadata.iceberg-compatible metadata.stats-dense-store metastore.partitioned-table
overwrite-upgrade partial-update.remove-record-on-delete partition.end-input-to-done partition.legacy-name
partition.timestamp-format.strict pk-clustering-override postpone.batch-write-fixed-bucket postpone.merge-on-read
primary-key.nullable query-auth.enabled row-tracking.enabled row-tracking.partition-group-on-commit
scan.fallback-branch.read-fail-fast scan.ignore-corrupt-files scan.ignore-lost-files scan.plan-sort-partition
sequence.snapshot-ordering snapshot.clean-empty-directories snapshot.ignore-empty-commit
streaming-read-append-overwrite streaming-read-overwrite table-read.sequence-number.enabled tag.automatic-completion
tag.create-success-file tag.time-expire-enabled variant.inferShreddingSchema vector-search.distribute.enabled
visibility-callback.enabled write-buffer-for-append write-buffer-spillable write-only
metadata.iceberg.delete-after-commit.enabled metadata.iceberg.glue.skip-archive metadata.iceberg.hive-skip-update-stats
metadata.iceberg.manifest-legacy-version
"""
_INTEGERS: Final = """
bucket changelog.num-retained.max changelog.num-retained.min clustering.history-partition.limit commit.max-retries
compaction.file-num-limit compaction.max-size-amplification-percent compaction.max.file-num compaction.min.file-num
compaction.offpeak-ratio compaction.offpeak.end.hour compaction.offpeak.start.hour compaction.size-ratio
cross-partition-upsert.bootstrap-parallelism delete-file.thread-num dynamic-bucket.assigner-parallelism
dynamic-bucket.initial-buckets dynamic-bucket.max-buckets file-operation.thread-num file.compression.zstd-level
format-table.scan.list-parallelism full-compaction.delta-commits global-index.build.max-parallelism
global-index.build.max-shard global-index.thread-num local-sort.max-num-file-handles lookup-compact.max-interval
lookup.merge-records-threshold lookup.remote-file.level-threshold manifest.merge-min-count
metadata.stats-keep-first-n-columns num-levels num-sorted-run.compaction-trigger num-sorted-run.stop-trigger
partition.expiration-batch-size partition.expiration-max-num postpone.batch-write-fixed-bucket.max-parallelism
postpone.batch-write-fixed-bucket.rescale-load-factor postpone.default-bucket-num read.batch-size scan.bucket
scan.manifest.parallelism scan.max-splits-per-task snapshot.expire.limit snapshot.num-retained.max
snapshot.num-retained.min sort-compaction.local-sample.magnification sort-spill-threshold spill-compression.zstd-level
tag.num-retained-max variant.shredding.adaptive.maxInferBufferRow variant.shredding.maxInferBufferRow
variant.shredding.maxSchemaDepth variant.shredding.maxSchemaWidth vector-search.lateral-join.batch-size
write-max-writers-to-spill write.batch-size zorder.var-length-contribution
metadata.iceberg.compaction.max.file-num metadata.iceberg.compaction.min.file-num metadata.iceberg.format-version
metadata.iceberg.previous-versions-max
"""
_LONG_INTEGERS: Final = """
commit.strict-mode.last-safe-snapshot data-evolution.reassign.skip-contiguous-row-count
data-evolution.row-sidecar.max-selected-rows dynamic-bucket.target-row-num global-index.row-count-per-shard
lookup.cache-rows postpone.target-row-num-per-bucket scan.bounded.watermark scan.creation-time-millis
scan.file-creation-time-millis scan.snapshot-id scan.timestamp-millis scan.watermark target-file-row-num
"""
_NUMBERS: Final = """
compaction.delete-ratio-threshold compaction.small-file-ratio data-evolution.row-sidecar.max-selection-ratio
lookup.cache.bloom.filter.fpp lookup.cache.high-priority-pool-ratio lookup.hash-load-factor
variant.shredding.adaptive.retentionRatio variant.shredding.minFieldCardinalityRatio
"""
_SIZES: Final = """
blob.copy-buffer-size blob.target-file-size cache-page-size compaction.incremental-size-threshold
compaction.total-size-threshold data-evolution.row-id-conflict-rewrite.max-size deletion-vector.index-file.target-size
file-index.in-manifest-threshold file-reader-async-threshold file.block-size local-kv-db.block-size
local-merge-buffer-size lookup.cache-max-disk-size lookup.cache-max-memory-size lookup.merge-buffer-size
manifest-sort.max-rewrite-size manifest.full-compaction-threshold-size manifest.target-file-size page-size
postpone.target-size-per-bucket sort-spill-buffer-size source.split.open-file-cost source.split.target-size
target-file-size vector.target-file-size write-buffer-size write-buffer-spill.max-disk-size write-manifest-cache
write.batch-memory
"""
_DURATIONS: Final = """
changelog.time-retained clustering.history-partition.idle-to-full-sort commit.max-retry-wait commit.min-retry-wait
commit.timeout compaction.optimization-interval consumer.expiration-time continuous.discovery-interval
cross-partition-upsert.index-ttl lookup.cache-file-retention lookup.continuous.discovery-interval
partition.expiration-check-interval partition.expiration-time partition.idle-time-to-report-statistic
record-level.expire-time scan.plan-auto-tag-for-read.time-retained snapshot.time-retained
snapshot.watermark-idle-timeout streaming.read.snapshot.delay tag.creation-delay tag.creation-period-duration
tag.default-time-retained visibility-callback.check-interval visibility-callback.timeout
"""

_PARSERS: Final[Mapping[str, Callable[[str, str], object]]] = {
    _BOOLEANS: boolean_of,
    _INTEGERS: partial(integer_of, bits=32),
    _LONG_INTEGERS: partial(integer_of, bits=64),
    _NUMBERS: number_of,
    _SIZES: partial(named, parse=java_size_bytes),
    _DURATIONS: partial(named, parse=java_duration_ms),
}
PARSERS: Final = {name: parse for names, parse in _PARSERS.items() for name in names.split()}
"""What parses the text of an option as Java does, by its newest name; it takes name and text."""


_LEAST: Final[Mapping[str, int]] = {
    "partition.expiration-max-num": 1,
    "snapshot.expire.limit": 1,
    "tag.num-retained-max": 1,
    "target-file-size": 1,
}
"""Numbers below which an option does harm in Java (each automatic tag is deleted), or never lets its work be done."""


def check_text(name: str, text: str) -> None:
    """Raises InvalidArgumentError, naming the option, for a text that Java cannot parse, or too low a number."""
    parse = PARSERS.get(newest_name(name))
    if parse is None:
        return
    found, least = parse(name, text), _LEAST.get(newest_name(name))
    if least is not None and isinstance(found, int) and found < least:
        raise InvalidArgumentError(f"option '{name}' = {text!r}: it must be at least {least}")
