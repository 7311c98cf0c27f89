"""Table options: the stored text of each, as typed values with Paimon's defaults.

`TableOptions` keeps every given key; properties parse those that the engine uses.
`supported` refuses tables whose options change what the table means in a way that the engine does not implement, so
that no option is ever ignored in silence.

Source: `CoreOptions` of the Java library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.options.chain import ChainOptions
from paimon_engine.options.external import ExternalOptions
from paimon_engine.options.iceberg import IcebergOptions
from paimon_engine.options.merging import MergeOptions
from paimon_engine.options.partitions import PartitionOptions
from paimon_engine.options.retention import RetentionOptions
from paimon_engine.options.tags import TagOptions
from paimon_engine.options.variants import VariantOptions
from paimon_engine.units import MIB

POSTPONED_BUCKET: Final = -2
"""Bucket, and number of buckets, of files whose rows have no bucket yet."""
_PARTITION_NAME_BYTES_MAX: Final = 200
_CODEC_EXTENSIONS: Final = {"none": "", "zstd": "zst", "gzip": "gz", "bzip2": "bz2"}
"""Ends of the names of files of codecs; those of others are their own names."""

_CODECS_OF_LEVELS: Final = "file.compression.per.level"
_CODEC_OPTIONS: Final = {"parquet": "parquet.compression", "orc": "orc.compress", "avro": "avro.codec"}


@dataclass(frozen=True)
class TableOptions(
    MergeOptions,
    RetentionOptions,
    TagOptions,
    PartitionOptions,
    IcebergOptions,
    VariantOptions,
    ExternalOptions,
    ChainOptions,
):
    """The options of one table; unknown keys are kept in `raw`.

    A property raises InvalidArgumentError if the stored text cannot be parsed; the message names the option.
    """

    has_primary_key: bool = True

    def _per_level(self, key: str) -> dict[int, str]:
        found = super()._per_level(key)
        # Append tables have no levels: Java writes all their files as the options without a level say.
        return found if self.has_primary_key else {}

    @property
    def hides_level_0(self) -> bool:
        """Whether readers see new rows only after they have been compacted."""
        waits = self.has_vectors or self.merge_engine == "first-row"
        return self.has_primary_key and waits and not self.merges_vectors_on_read

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
        return self._int("dynamic-bucket.target-row-num", 2_000_000, bits=64)

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
    def data_file_directory(self) -> str:
        """Directory below the table's directory with the partitions and buckets; empty: the table's directory.

        Raises: InvalidArgumentError for one that leads elsewhere.
        """
        key = "data-file.path-directory"
        given = self.raw.get(key, "")
        parts = [part for part in given.split("/") if part]
        if (
            given.startswith("/")
            or "\\" in given
            or not given.isprintable()
            or any(part in (".", "..") or ":" in part for part in parts)
        ):
            raise InvalidArgumentError(f"option {key!r} = {given[:100]!r}; use a directory below that of the table")
        return "/".join(parts)

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
        return (self.file_format, *self.file_formats_of_levels.values())

    @property
    def file_formats_of_levels(self) -> dict[int, str]:
        """Formats of new data files of some levels."""
        return self._per_level("file.format.per.level")

    def file_format_of(self, level: int) -> str:
        """Format of new data files of a level."""
        return self._per_level("file.format.per.level").get(level, self.file_format)

    def file_compression_of(self, level: int) -> str:
        """Codec of new data files of a level."""
        return self._per_level("file.compression.per.level").get(level, self.file_compression)

    def codec_of(self, file_format: str, compression: str) -> str:
        """That codec, or the one that an option of the file format's own names, which wins."""
        return self.raw.get(_CODEC_OPTIONS.get(file_format, ""), compression).lower()

    def chooses_codec(self, file_format: str) -> bool:
        """Whether an option says how files of the format are compressed, so that all of them are."""
        named = "file.compression", "file.compression.zstd-level", "changelog-file.compression", _CODECS_OF_LEVELS
        return not self.raw.keys().isdisjoint((*named, _CODEC_OPTIONS.get(file_format, "")))

    def codec_option(self, file_format: str, compression: str) -> str:
        """The option that names this codec of files of the format."""
        own = _CODEC_OPTIONS.get(file_format, "")
        if own in self.raw:
            return own
        if compression in self._per_level(_CODECS_OF_LEVELS).values():
            return _CODECS_OF_LEVELS
        is_of_changelog = compression == self.changelog_file_compression != self.file_compression
        return "changelog-file.compression" if is_of_changelog else "file.compression"

    @property
    def formats_and_codecs(self) -> frozenset[tuple[str, str]]:
        """Format and codec of new data files of every level, and of changelog files."""
        levels = {None, *self._per_level("file.format.per.level"), *self._per_level("file.compression.per.level")}
        pairs = {
            (self.file_format, self.file_compression)
            if level is None
            else (self.file_format_of(level), self.file_compression_of(level))
            for level in levels
        }
        own = tuple(self.raw.get(f"changelog-file.{part}", "").lower() for part in ("format", "compression"))
        return frozenset(pairs | {(own[0] or file_format, own[1] or codec) for file_format, codec in pairs})

    @property
    def manifest_compression(self) -> str:
        """Codec of new manifests."""
        return self.raw.get("manifest.compression", "zstd")

    @property
    def manifest_format(self) -> str:
        """Format of new manifests and of their lists."""
        return self.raw.get("manifest.format", "avro").lower()

    @property
    def thin_files(self) -> bool:
        """Whether data files leave out the key columns that come again among the values."""
        return self._bool("data-file.thin-mode", default=False)

    @property
    def index_files_beside_data(self) -> bool:
        """Whether index files are in the directories of their buckets."""
        return self._bool("index-file-in-data-file-dir", default=False)

    def file_suffix(self, file_format: str, compression: str) -> str:
        """What names of new data files of that format and codec end with."""
        extension = _CODEC_EXTENSIONS.get(compression.lower(), compression.lower())
        named = self._bool("file.suffix.include.compression", default=False) and extension
        return f".{extension}.{file_format}" if named else f".{file_format}"

    @property
    def zstd_level(self) -> int:
        """Level for the zstd codec."""
        return self._int("file.compression.zstd-level", 1)

    @property
    def target_file_size_bytes(self) -> int:
        """Size at which a writer begins the next data file."""
        default = 128 * MIB if self.has_primary_key else 256 * MIB
        # Java takes 0 as well, which ends a file as soon as it has a row.
        return max(1, self._size("target-file-size", default))

    @property
    def blob_target_file_size_bytes(self) -> int:
        """Size at which a writer begins the next file of a BLOB column."""
        return self._size("blob.target-file-size", self.target_file_size_bytes)

    @property
    def vector_file_format(self) -> str | None:
        """Format of files that have columns of VECTOR alone; None: they are in data files."""
        return self.raw.get("vector.file.format", "").strip().lower() or None

    @property
    def vector_target_file_size_bytes(self) -> int:
        """Size at which a writer begins the next file of VECTOR columns."""
        return self._size("vector.target-file-size", self.target_file_size_bytes)

    @property
    def bucket_append_ordered(self) -> bool:
        """Whether the rows of a bucket of an append table must be read in the order in which they were written."""
        return self._bool("bucket-append-ordered", default=True)

    @property
    def clustering_columns(self) -> tuple[str, ...]:
        """Columns that a clustering orders rows by; empty if the caller must name them."""
        return self._list("clustering.columns")

    @property
    def clustering_strategy(self) -> str:
        """`order`, `zorder` or `hilbert`; `auto`: by the number of columns."""
        return self._choice("clustering.strategy", "auto", ("auto", "order", "zorder", "hilbert"))

    @property
    def write_buffer_size_bytes(self) -> int:
        """Arrow bytes that a writer buffers before it flushes a level-0 file."""
        return self._size("write-buffer-size", 256 * MIB)

    @property
    def split_target_size_bytes(self) -> int:
        """File bytes of one unit of reading at most, if it has several sections."""
        return self._size("source.split.target-size", 128 * MIB)

    @property
    def split_open_file_cost_bytes(self) -> int:
        """Size that the smallest file counts as when files are packed for reading."""
        return self._size("source.split.open-file-cost", 4 * MIB)

    @property
    def adds_columns_before_partition_keys(self) -> bool:
        """Whether a new column comes before those that are partition keys, if its place is not said."""
        return self._bool("add-column-before-partition", default=False)

    @property
    def refuses_lossy_casts(self) -> bool:
        """Whether a column's type cannot change to one that may lose what values have."""
        return self._bool("disable-explicit-type-casting", default=False)

    @property
    def refuses_not_null(self) -> bool:
        """Whether a column that may contain nulls cannot become NOT NULL."""
        return self._bool("alter-column-null-to-not-null.disabled", default=True)

    @property
    def creates_empty_snapshots(self) -> bool:
        """Whether a write without rows makes a snapshot too."""
        return self._bool("commit.force-create-snapshot", default=False)

    @property
    def data_file_prefix(self) -> str:
        """Begin of data file names."""
        return self._name_part("data-file.prefix", "data-")

    @property
    def partition_default_name(self) -> str:
        """Directory name of null and blank partition values."""
        text = self.raw.get("partition.default-name", "__DEFAULT_PARTITION__")
        # Other characters are escaped where they become part of a path.
        if not text.strip() or len(text.encode(errors="surrogatepass")) > _PARTITION_NAME_BYTES_MAX:
            raise InvalidArgumentError(
                f"option 'partition.default-name' = {text[:40]!r} is the name of a directory; it must not be blank, "
                f"nor longer than {_PARTITION_NAME_BYTES_MAX} bytes"
            )
        return text

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
        """Statistics mode that is set for a column."""
        return self.raw.get(f"fields.{column}.stats-mode")

    def stats_mode_of_level(self, level: int) -> str:
        """Statistics mode of the files of a level, for columns without their own."""
        return self.stats_modes_of_levels.get(level, self.stats_mode)

    @property
    def stats_modes_of_levels(self) -> dict[int, str]:
        """Statistics mode of the files of some levels, for columns without their own."""
        return self._per_level("metadata.stats-mode.per.level")

    @property
    def changelog_stats_mode(self) -> str | None:
        """Statistics mode of changelog files, for columns without their own; None: as data files of their level."""
        return self.raw.get("changelog-file.stats-mode")

    @property
    def stats_columns_max(self) -> int | None:
        """Columns, from the first on, that have statistics if no mode is set for them; None is unbounded."""
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
        """Size up to which the index of a data file is stored in its manifest entry, not in a separate file."""
        return self._size("file-index.in-manifest-threshold", 500)

    @property
    def file_index_read_enabled(self) -> bool:
        """Whether reads look at file indexes."""
        return self._bool("file-index.read.enabled", default=True)

    @property
    def file_index_types(self) -> tuple[str, ...]:
        """Types of the indexes that new data files get."""
        begin, end = "file-index.", ".columns"
        return tuple(
            key[len(begin) : -len(end)]
            for key in self.raw
            if key.startswith(begin) and key.endswith(end) and len(key) > len(begin) + len(end)
        )
