"""Options of keys and merging: what the rows of one key become, and what a compaction makes of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.options.texts import INT_MAX, OptionTexts, split_list


@dataclass(frozen=True)
class MergeOptions(OptionTexts):
    """A table's options of keys, merge engine, changelog and compaction."""

    @property
    def merge_engine(self) -> str:
        """How rows of one key become one: `deduplicate`, `partial-update`, `aggregation` or `first-row`."""
        engines = ("deduplicate", "partial-update", "aggregation", "first-row")
        return self._choice("merge-engine", "deduplicate", engines)

    @property
    def ignore_delete(self) -> bool:
        """Whether −U and −D records are dropped."""
        return self._bool("ignore-delete", default=False)

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
    def snapshot_ordering(self) -> bool:
        """Whether the snapshot that added a row orders the versions of its key; see `meta.snapshot_order`."""
        return self._bool("sequence.snapshot-ordering", default=False)

    @property
    def nullable_keys(self) -> bool:
        """Whether columns of the primary key may be null; a null equals a null, and is below all other values."""
        return self._bool("primary-key.nullable", default=False)

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
        """Name of the aggregate function of each column with an explicit one."""
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
        """Fields that identify the rows of a `nested_update` column; empty: none are replaced."""
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
        """Field with the time of the rows in a `merge_map_with_keytime` column; None: the last one."""
        return self.raw.get(f"fields.{column}.ts-field")

    @property
    def record_level_expire_time_ms(self) -> int | None:
        """How long compactions keep a record; None: without limit."""
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
        """Column with the row kind as text."""
        return self.raw.get("rowkind.field")

    @property
    def changelog_producer(self) -> str:
        """`none`, `input`, `full-compaction` or `lookup`."""
        return self._choice("changelog-producer", "none", ("none", "input", "full-compaction", "lookup"))

    @property
    def changelog_prefix(self) -> str:
        """Begin of the names of changelog files."""
        return self._name_part("changelog-file.prefix", "changelog-")

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
        """Whether a compaction of level 0 looks up the rows of its keys in higher levels."""
        looks_up = self.changelog_producer == "lookup" or self._bool("force-lookup", default=False)
        return looks_up or self.deletion_vectors_enabled or self.merge_engine == "first-row"

    @property
    def adds_versions(self) -> bool:
        """Whether all versions of a key make its row, rather than one of them."""
        return self.merge_engine in ("partial-update", "aggregation")

    @property
    def may_merge_again(self) -> bool:
        """Whether a record that has taken in an older one may be merged with it again, and stays what it is."""
        if self.merge_engine != "partial-update":
            return not self.adds_versions
        aggregates = self.aggregate_functions or self.default_aggregate_function
        return not (aggregates or self.sequence_groups or self.partial_update_remove_record_on_delete)

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
    def deletion_vectors_modifiable(self) -> bool:
        """Whether deletion vectors may be switched on or off when there are snapshots."""
        return self._bool("deletion-vectors.modifiable", default=False)

    @property
    def clustering_overrides_keys(self) -> bool:
        """Whether files above level 0 are in the order of `clustering.columns`, whose ends are their keys in manifests.

        Rows that were replaced are marked in deletion vectors, for every merge engine.
        """
        return self._bool("pk-clustering-override", default=False)

    @property
    def has_vectors(self) -> bool:
        """Whether readers need the deletion vectors of data files."""
        return self.deletion_vectors_enabled or self.clustering_overrides_keys

    @property
    def merges_vectors_on_read(self) -> bool:
        """Whether readers of a table with deletion vectors see level 0, too, and merge it with what is above."""
        return self.deletion_vectors_enabled and self._bool("deletion-vectors.merge-on-read", default=False)

    @property
    def row_tracking_enabled(self) -> bool:
        """Whether each row keeps an id."""
        return self._bool("row-tracking.enabled", default=False)

    @property
    def data_evolution_enabled(self) -> bool:
        """Whether the columns of a row may be in several files."""
        return self._bool("data-evolution.enabled", default=False)

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
    def compaction_rewrites_all(self) -> bool:
        """Whether a full compaction rewrites every file, as to move all of them to other directories."""
        return self._bool("compaction.force-rewrite-all-files", default=False)

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
        return self._int("num-levels", min(self.num_sorted_run_compaction_trigger + 1, INT_MAX))

    def levels_of_keys(self) -> int:
        """Levels of a bucket of a primary-key table.

        Raises: InvalidArgumentError if there is none for compacted files.
        """
        if self.num_levels < 2:
            key = "num-levels" if "num-levels" in self.raw else "num-sorted-run.compaction-trigger"
            raise InvalidArgumentError(
                f"'{key}' = '{self.raw[key]}' leaves no level for compacted files; a table has at least 2 levels"
            )
        return self.num_levels

    @property
    def compaction_size_ratio_percent(self) -> int:
        """Tolerance when comparing run sizes."""
        return self._int("compaction.size-ratio", 1)

    @property
    def compaction_max_size_amplification_percent(self) -> int:
        """Size of newer runs relative to the oldest that triggers a full compaction."""
        return self._int("compaction.max-size-amplification-percent", 200)

    @property
    def compaction_optimization_interval_ms(self) -> int | None:
        """Time after which a bucket is compacted fully again; None: other rules alone say when."""
        key = "compaction.optimization-interval"
        return self._duration(key, 0) if key in self.raw else None

    @property
    def compaction_total_size_threshold_bytes(self) -> int | None:
        """Size of a bucket below which it is compacted fully each time; None: other rules alone say when."""
        key = "compaction.total-size-threshold"
        return self._size(key, 0) if key in self.raw else None

    @property
    def compaction_incremental_size_threshold_bytes(self) -> int | None:
        """Bytes outside the highest level above which a bucket is compacted fully; None: other rules alone say when."""
        key = "compaction.incremental-size-threshold"
        return self._size(key, 0) if key in self.raw else None

    @property
    def compaction_forces_up_level_0(self) -> bool:
        """Whether each compaction takes level 0 along."""
        return self._bool("compaction.force-up-level-0", default=False)

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
