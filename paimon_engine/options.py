"""Table options: the stored text of each, as typed values with Paimon's defaults.

`TableOptions` keeps every key that it was given; properties parse the ones the engine understands.
`supported` refuses tables whose options change what the table means in a way that the engine does not implement, so
that no option is ever ignored in silence.

Source: `CoreOptions` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.option_texts import split_list
from paimon_engine.tag_options import TagOptions
from paimon_engine.units import MIB

POSTPONED_BUCKET: Final = -2
"""Bucket, and number of buckets, of files whose rows have no bucket yet."""
_CODEC_OPTIONS: Final = {"parquet": "parquet.compression", "orc": "orc.compress", "avro": "avro.codec"}


@dataclass(frozen=True)
class TableOptions(TagOptions):
    """The options of one table; unknown keys are kept in `raw`.

    A property raises InvalidArgumentError if the stored text cannot be parsed; the message names the option.
    """

    has_primary_key: bool = True

    # ── storage ─────────────────────────────────────────────────────────────────────────────────

    @property
    def bucket(self) -> int:
        """Number of buckets; −1 dynamic or unaware, −2 postponed."""
        return self._int("bucket", -1)

    @property
    def bucket_key(self) -> tuple[str, ...]:
        """Columns that choose the bucket; empty means the trimmed primary key."""
        return self._list("bucket-key")

    @property
    def bucket_function(self) -> str:
        """`default`, `mod` or `hive`."""
        return self._choice("bucket-function.type", "default", ("default", "mod", "hive"))

    @property
    def dynamic_bucket_target_row_num(self) -> int:
        """Keys that a dynamic bucket takes before a new one is begun."""
        return self._int("dynamic-bucket.target-row-num", 2_000_000)

    @property
    def dynamic_bucket_initial_buckets(self) -> int | None:
        """Buckets that writing in tasks begins a partition with; None: as many as tasks run at once."""
        key = "dynamic-bucket.initial-buckets"
        return self._int(key, 1) if key in self.raw else None

    @property
    def dynamic_bucket_max_buckets(self) -> int | None:
        """Dynamic buckets of a partition at most; None is unbounded."""
        count = self._int("dynamic-bucket.max-buckets", -1)
        if count == 0 or count < -1:
            raise InvalidArgumentError(
                f"option 'dynamic-bucket.max-buckets' = '{count}'; use a positive number, or -1 for no limit"
            )
        return None if count == -1 else count

    @property
    def postpone_default_bucket_num(self) -> int:
        """Buckets of a partition whose postponed rows are the first to get one."""
        return self._int("postpone.default-bucket-num", 1)

    @property
    def file_format(self) -> str:
        """Format of new data files: `parquet`, `orc` or `avro`."""
        return self.raw.get("file.format", "parquet").lower()

    @property
    def file_compression(self) -> str:
        """Codec of new data files."""
        return self.raw.get("file.compression", "zstd").lower()

    @property
    def file_formats(self) -> tuple[str, ...]:
        """All formats that new data files may have."""
        return (self.file_format, *self._per_level("file.format.per.level").values())

    def file_format_of(self, level: int) -> str:
        """Format of new data files of a level."""
        return self._per_level("file.format.per.level").get(level, self.file_format)

    def file_compression_of(self, level: int) -> str:
        """Codec of new data files of a level."""
        return self._per_level("file.compression.per.level").get(level, self.file_compression)

    def codec_of(self, file_format: str, compression: str) -> str:
        """That codec, or the one that an option of the file format's own names, which wins."""
        return self.raw.get(_CODEC_OPTIONS.get(file_format, ""), compression).lower()

    @property
    def thin_files(self) -> bool:
        """Whether data files leave out the key columns that come again among the values."""
        return self._bool("data-file.thin-mode", default=False)

    @property
    def zstd_level(self) -> int:
        """Level for the zstd codec."""
        return self._int("file.compression.zstd-level", 1)

    @property
    def target_file_size_bytes(self) -> int:
        """Size at which a writer begins the next data file."""
        default = 128 * MIB if self.has_primary_key else 256 * MIB
        return self._size("target-file-size", default)

    @property
    def write_buffer_size_bytes(self) -> int:
        """Arrow bytes that a writer holds before it flushes a level-0 file."""
        return self._size("write-buffer-size", 256 * MIB)

    @property
    def split_target_size_bytes(self) -> int:
        """File bytes that one unit of reading holds at most, if it has several sections."""
        return self._size("source.split.target-size", 128 * MIB)

    @property
    def split_open_file_cost_bytes(self) -> int:
        """Size that the smallest file counts as when files are packed for reading."""
        return self._size("source.split.open-file-cost", 4 * MIB)

    @property
    def data_file_prefix(self) -> str:
        """Begin of data file names."""
        return self.raw.get("data-file.prefix", "data-")

    @property
    def partition_default_name(self) -> str:
        """Directory name of null and blank partition values."""
        return self.raw.get("partition.default-name", "__DEFAULT_PARTITION__")

    @property
    def partition_legacy_name(self) -> bool:
        """Whether dates and timestamps appear in partition directories in Java's internal form."""
        return self._bool("partition.legacy-name", default=True)

    @property
    def manifest_target_file_size_bytes(self) -> int:
        """Size at which a new manifest begins, and above which one is not merged."""
        return self._size("manifest.target-file-size", 8 * MIB)

    @property
    def manifest_merge_min_count(self) -> int:
        """Small manifests that gather before they are merged."""
        return self._int("manifest.merge-min-count", 30)

    @property
    def manifest_full_compaction_threshold_size_bytes(self) -> int:
        """Size of manifests with deletions that triggers a full merge."""
        return self._size("manifest.full-compaction-threshold-size", 16 * MIB)

    @property
    def stats_mode(self) -> str:
        """Statistics mode of columns without their own: `none`, `counts`, `truncate(n)` or `full`."""
        return self.raw.get("metadata.stats-mode", "truncate(16)")

    def stats_mode_of(self, column: str) -> str | None:
        """Statistics mode that a column has of its own."""
        return self.raw.get(f"fields.{column}.stats-mode")

    def stats_mode_of_level(self, level: int) -> str:
        """Statistics mode of the files of a level, for columns without their own; append tables have no levels."""
        by_level = self._per_level("metadata.stats-mode.per.level") if self.has_primary_key else {}
        return by_level.get(level, self.stats_mode)

    @property
    def changelog_stats_mode(self) -> str | None:
        """Statistics mode of changelog files, for columns without their own; None: as data files of their level."""
        return self.raw.get("changelog-file.stats-mode")

    @property
    def stats_columns_max(self) -> int | None:
        """Columns, from the first on, that have statistics without a mode of their own; None is unbounded."""
        count = self._int("metadata.stats-keep-first-n-columns", -1)
        return None if count < 0 else count

    @property
    def stats_dense(self) -> bool:
        """Whether statistics leave out columns without any, which Paimon 0.9.0 cannot read.

        Without the option only tables with another statistics option of the releases that came with it do so.
        """
        later = ("metadata.stats-mode.per.level", "metadata.stats-keep-first-n-columns")
        return self._bool("metadata.stats-dense-store", default=any(key in self.raw for key in later))

    @property
    def delete_entries_drop_stats(self) -> bool:
        """Whether manifest entries that remove a file say nothing of its values."""
        return self._bool("manifest.delete-file-drop-stats", default=False)

    @property
    def file_index_in_manifest_threshold_bytes(self) -> int:
        """Size up to which the index of a data file goes into its manifest entry, not into a file of its own."""
        return self._size("file-index.in-manifest-threshold", 500)

    @property
    def file_index_read_enabled(self) -> bool:
        """Whether reads look at file indexes."""
        return self._bool("file-index.read.enabled", default=True)

    @property
    def file_index_types(self) -> tuple[str, ...]:
        """Types of the indexes that new data files get."""
        begin, end = "file-index.", ".columns"
        return tuple(key[len(begin) : -len(end)] for key in self.raw if key.startswith(begin) and key.endswith(end))

    # ── keys and merging ────────────────────────────────────────────────────────────────────────

    @property
    def merge_engine(self) -> str:
        """How rows of one key become one: `deduplicate`, `partial-update`, `aggregation` or `first-row`."""
        engines = ("deduplicate", "partial-update", "aggregation", "first-row")
        return self._choice("merge-engine", "deduplicate", engines)

    @property
    def ignore_delete(self) -> bool:
        """Whether −U and −D records are dropped; older spellings count too."""
        keys = (
            "ignore-delete",
            *(f"{engine}.ignore-delete" for engine in ("deduplicate", "partial-update", "first-row")),
        )
        return any(self._bool(key, default=False) for key in keys)

    @property
    def ignore_update_before(self) -> bool:
        """Whether −U records are dropped when written."""
        return self._bool("ignore-update-before", default=False)

    @property
    def sequence_fields(self) -> tuple[str, ...]:
        """Columns whose values order the versions of a key, before the sequence number."""
        return self._list("sequence.field")

    @property
    def sequence_descending(self) -> bool:
        """Whether smaller `sequence.field` values are newer."""
        order = self._choice("sequence.field.sort-order", "ascending", ("ascending", "descending"))
        return order == "descending"

    @property
    def default_values(self) -> Mapping[str, str]:
        """Text that a read gives for null, by column."""
        return self._by_column("default-value")

    @property
    def sequence_groups(self) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
        """Sequence groups of `partial-update`: the columns that order each, and the columns that they order."""
        found = self._by_column("sequence-group").items()
        return tuple((split_list(columns), split_list(members)) for columns, members in found)

    @property
    def partial_update_remove_record_on_delete(self) -> bool:
        """Whether a −D removes the row of a `partial-update` table."""
        return self._bool("partial-update.remove-record-on-delete", default=False)

    @property
    def partial_update_remove_record_on_sequence_group(self) -> tuple[str, ...]:
        """Columns that order sequence groups whose −D removes the row of a `partial-update` table."""
        return self._list("partial-update.remove-record-on-sequence-group")

    @property
    def aggregation_remove_record_on_delete(self) -> bool:
        """Whether a −D removes the row of an `aggregation` table."""
        return self._bool("aggregation.remove-record-on-delete", default=False)

    @property
    def aggregate_functions(self) -> Mapping[str, str]:
        """Name of the aggregate function of each column that has one of its own."""
        return self._by_column("aggregate-function")

    @property
    def default_aggregate_function(self) -> str | None:
        """Name of the aggregate function of the other columns."""
        return self.raw.get("fields.default-aggregate-function")

    def ignore_retract(self, column: str) -> bool:
        """Whether −U and −D leave the aggregated value of the column."""
        return self._bool(f"fields.{column}.ignore-retract", default=False)

    def distinct(self, column: str) -> bool:
        """Whether `collect` keeps equal elements of the column once, and `listagg` equal texts."""
        return self._bool(f"fields.{column}.distinct", default=False)

    def list_agg_delimiter(self, column: str) -> str:
        """What `listagg` puts between the values of the column."""
        return self.raw.get(f"fields.{column}.list-agg-delimiter", ",")

    def nested_key(self, column: str) -> tuple[str, ...]:
        """Fields that tell the rows of a `nested_update` column apart; empty: none are replaced."""
        return self._list(f"fields.{column}.nested-key")

    def nested_key_null_strategy(self, column: str) -> str | None:
        """What becomes of rows with a null in their nested key: `merge`, `ignore` or `error`; None: not said."""
        key = f"fields.{column}.nested-key-null-strategy"
        return self._choice(key, "", ("merge", "ignore", "error")) if key in self.raw else None

    def nested_sequence_fields(self, column: str) -> tuple[str, ...]:
        """Fields that say which of two rows of a nested key is newer."""
        return self._list(f"fields.{column}.nested-sequence-field")

    def count_limit(self, column: str) -> int | None:
        """Rows that a `nested_update` column takes in per key."""
        key = f"fields.{column}.count-limit"
        return self._int(key, 0) if key in self.raw else None

    def merge_map_time_field(self, column: str) -> str | None:
        """Field that holds the time of the rows in a `merge_map_with_keytime` column; None: the last one."""
        return self.raw.get(f"fields.{column}.ts-field")

    @property
    def record_level_expire_time_ms(self) -> int | None:
        """How long compactions keep a record; None: for ever."""
        key = "record-level.expire-time"
        return self._duration(key, 0) if key in self.raw else None

    @property
    def record_level_time_field(self) -> str | None:
        """Column with the time of a record."""
        return self.raw.get("record-level.time-field")

    @property
    def record_level_time_field_type(self) -> str:
        """`seconds-int`, `seconds-long`, `millis-long` or `timestamp`; empty: as the column's type and values say."""
        kinds = ("", "seconds-int", "seconds-long", "millis-long", "timestamp")
        return self._choice("record-level.time-field-type", "", kinds)

    @property
    def rowkind_field(self) -> str | None:
        """Column that holds the row kind as text."""
        return self.raw.get("rowkind.field")

    @property
    def changelog_producer(self) -> str:
        """`none`, `input`, `full-compaction` or `lookup`."""
        return self._choice("changelog-producer", "none", ("none", "input", "full-compaction", "lookup"))

    @property
    def changelog_prefix(self) -> str:
        """Begin of the names of changelog files."""
        return self.raw.get("changelog-file.prefix", "changelog-")

    @property
    def changelog_file_format(self) -> str | None:
        """Format of new changelog files; None: as data files of their level."""
        return self.raw.get("changelog-file.format", "").lower() or None

    @property
    def changelog_file_compression(self) -> str | None:
        """Codec of new changelog files; None: as data files of their level."""
        return self.raw.get("changelog-file.compression", "").lower() or None

    @property
    def changelog_row_deduplicate(self) -> bool:
        """Whether updates that change nothing stay out of the changelog."""
        return self._bool("changelog-producer.row-deduplicate", default=False)

    @property
    def changelog_row_deduplicate_ignore_fields(self) -> tuple[str, ...]:
        """Columns whose change alone makes no update for the changelog."""
        return self._list("changelog-producer.row-deduplicate-ignore-fields")

    @property
    def needs_lookup(self) -> bool:
        """Whether a compaction of level 0 looks up what higher levels hold of its keys."""
        looks_up = self.changelog_producer == "lookup" or self._bool("force-lookup", default=False)
        return looks_up or self.deletion_vectors_enabled or self.merge_engine == "first-row"

    @property
    def levels_hold_older_versions(self) -> bool:
        """Whether a record above level 0 has taken in all older ones of its key, as lookup compaction sees to."""
        looks_up = self.changelog_producer == "lookup" or self._bool("force-lookup", default=False)
        return looks_up and self.merge_engine != "first-row"

    @property
    def deletion_vectors_enabled(self) -> bool:
        """Whether deleted rows are marked in deletion vectors."""
        return self._bool("deletion-vectors.enabled", default=False)

    @property
    def deletion_vectors_bitmap64(self) -> bool:
        """Whether vectors count rows in 64 bits, which releases before 1.2 cannot read."""
        return self._bool("deletion-vectors.bitmap64", default=False)

    # ── compaction ──────────────────────────────────────────────────────────────────────────────

    @property
    def compaction_delete_ratio_threshold(self) -> float:
        """Share of deleted rows above which a file is rewritten without them."""
        return self._float("compaction.delete-ratio-threshold", 0.5)

    @property
    def num_sorted_run_compaction_trigger(self) -> int:
        """Sorted runs of a bucket that make compaction worth while."""
        return self._int("num-sorted-run.compaction-trigger", 5)

    @property
    def sort_spill_threshold(self) -> int:
        """Sorted runs that the Java library merges without spilling."""
        stop_trigger = self._int("num-sorted-run.stop-trigger", self.num_sorted_run_compaction_trigger + 3)
        return self._int("sort-spill-threshold", stop_trigger + 1)

    @property
    def num_levels(self) -> int:
        """Levels of the LSM tree, level 0 included."""
        return self._int("num-levels", self.num_sorted_run_compaction_trigger + 1)

    @property
    def compaction_size_ratio_percent(self) -> int:
        """Tolerance when comparing run sizes."""
        return self._int("compaction.size-ratio", 1)

    @property
    def compaction_max_size_amplification_percent(self) -> int:
        """Size of newer runs relative to the oldest that triggers a full compaction."""
        return self._int("compaction.max-size-amplification-percent", 200)

    @property
    def compaction_small_file_ratio(self) -> float:
        """Share of the target size below which a file counts as small."""
        return self._float("compaction.small-file-ratio", 0.7)

    @property
    def compaction_min_file_num(self) -> int:
        """Small files of an append table that make compaction worth while."""
        return self._int("compaction.min.file-num", 5)

    @property
    def full_compaction_delta_commits(self) -> int | None:
        """Commits of a streaming writer between two full compactions."""
        key = "full-compaction.delta-commits"
        return self._int(key, 1) if key in self.raw else None

    # ── commits and life cycle ──────────────────────────────────────────────────────────────────

    @property
    def commit_max_retries(self) -> int:
        """Lost races that a commit endures."""
        return self._int("commit.max-retries", 10)

    @property
    def commit_timeout_ms(self) -> int | None:
        """Total time for the retries of a commit; None is unbounded."""
        return self._duration("commit.timeout", 0) if "commit.timeout" in self.raw else None

    @property
    def commit_min_retry_wait_ms(self) -> int:
        """Wait before the first retry of a commit."""
        return self._duration("commit.min-retry-wait", 10)

    @property
    def commit_max_retry_wait_ms(self) -> int:
        """Upper bound of the wait between retries of a commit."""
        return self._duration("commit.max-retry-wait", 10_000)

    @property
    def dynamic_partition_overwrite(self) -> bool:
        """Whether an overwrite replaces only the partitions that it brings rows for."""
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
    def snapshot_expire_limit(self) -> int:
        """Snapshots that one expiry removes at most."""
        return self._int("snapshot.expire.limit", 50)

    @property
    def clean_empty_directories(self) -> bool:
        """Whether expiry removes bucket and partition directories that became empty."""
        return self._bool("snapshot.clean-empty-directories", default=False)
