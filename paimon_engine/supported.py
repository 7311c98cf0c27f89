"""Table features that the engine lacks: refused with their option's name, never ignored.

Each check reads the options of a table. Options that are not listed here are supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_engine.errors import UnsupportedError
from paimon_engine.options import POSTPONED_BUCKET, TableOptions
from paimon_engine.options.iceberg import HIVE_CLIENT


def _refuse(doing: str, reasons: list[str]) -> None:
    if reasons:
        raise UnsupportedError(f"{doing} this table is not supported yet: {'; '.join(reasons)}")


_READ_SWITCHES: Final = (
    "postpone.merge-on-read",
    "key-value.sequence_number.enabled",
    "blob-as-descriptor",
)
"""Options that are off unless they say `true`."""

_READ_BLOCKERS: Final = (
    "blob-descriptor-field",
    "blob-external-storage-field",
    "blob-view-field",
    "scan.bucket",
)
_OFF: Final[Mapping[str, str]] = {"batch-scan-mode": "none"}
"""Options that have no effect while they have that value."""

_TYPES: Final = ("table", "materialized-table")
"""Table types whose rows are in data files of Paimon; others, such as `format-table`, have another layout."""

_MAP_LAYOUT: Final = ".map.storage-layout"


_DATA_EVOLUTION: Final = "data-evolution.enabled"


def _evolution(options: TableOptions) -> list[str]:
    return [f"'{_DATA_EVOLUTION}'"] if _is_on(options, _DATA_EVOLUTION) else []


def check_readable(options: TableOptions) -> None:
    """Raises UnsupportedError if an option that the engine lacks changes how rows are read."""
    _refuse("reading", _read_blockers(options))


def _read_blockers(options: TableOptions) -> list[str]:
    raw = options.raw
    reasons = [f"'{key}'" for key in _READ_SWITCHES if _is_on(options, key)]
    reasons += [f"'{key}'" for key in _READ_BLOCKERS if key in raw]
    reasons += [f"'{key}' = '{raw[key]}'" for key, off in _OFF.items() if raw.get(key, off).lower() != off]
    reasons += [
        f"'{key}' = '{value}'"
        for key, value in raw.items()
        if key.startswith("fields.") and key.endswith(_MAP_LAYOUT) and value.lower() != "default"
    ]
    if raw.get("type", "table").lower() not in _TYPES:
        reasons.append(f"'type' = '{raw['type']}'")
    return reasons


def check_changes_readable(options: TableOptions) -> None:
    """Raises UnsupportedError if the engine cannot read what changed in the table, but only a state of it."""
    _refuse("reading the changes of", _evolution(options))


def check_complete_files(options: TableOptions) -> None:
    """Raises UnsupportedError if a row may need several files, so that taking one away would bring old values back."""
    _refuse("removing single files of", _evolution(options))


def check_rows_rewritable(options: TableOptions) -> None:
    """Raises UnsupportedError if the engine cannot change files of the table one by one, or not write it at all."""
    check_writable(options)
    _refuse("changing single files of", _evolution(options))


def check_row_views_readable(options: TableOptions) -> None:
    """Raises UnsupportedError if the table's options require another shape of its `audit_log` and `binlog`."""
    key = "table-read.sequence-number.enabled"
    _refuse("reading the changes of", [f"'{key}'"] if _is_on(options, key) else [])


def _is_on(options: TableOptions, key: str) -> bool:
    return options.raw.get(key, "false").lower() != "false"


FILE_FORMATS: Final = ("parquet", "orc", "avro")
_VECTOR_FORMATS: Final = ("parquet", "avro")
_MANIFEST_FORMATS: Final = ("avro", "orc", "parquet")
FILE_INDEXES: Final = ("bloom-filter", "bitmap", "bsi", "range-bitmap")

_WRITE_BLOCKERS: Final = (
    "postpone.target-row-num-per-bucket",
    "postpone.target-size-per-bucket",
    "commit.strict-mode.last-safe-snapshot",
    "upsert-key",
    *(f"pk-{kind}.index.columns" for kind in ("bitmap", "btree", "full-text", "multivalue", "vector")),
)
_WRITE_BLOCKING_SWITCHES: Final = (
    "metadata.iceberg-compatible",
    "visibility-callback.enabled",
    "data-evolution.row-sidecar.enabled",
    "data-evolution.compaction.rewrite-row-ids",
)
_WRITE_OFF: Final[Mapping[str, str]] = {"log.system": "none"}
"""Systems outside the table that a write would not update; they are off while the option has that value."""

_TAG_PREVIEW: Final = "metastore.tag-to-partition.preview"
AVRO_CODECS_OF_ICEBERG: Final = ("zstd", "zstandard", "snappy", "deflate", "bzip2", "none", "null")
_POSTPONED_IN_BUCKETS: Final = "postpone.batch-write-fixed-bucket"


def check_writable(options: TableOptions) -> None:
    """Raises UnsupportedError if the engine cannot write or compact the table as its options require."""
    raw = options.raw
    reasons = _read_blockers(options)
    reasons += _postponed_blockers(options) if options.bucket == POSTPONED_BUCKET else []
    if "record-level.expire-time" in raw:
        # A lookup ignores expired records, so they would not be marked as replaced.
        others = [] if options.has_primary_key else ["a table without primary key"]
        others += ["'deletion-vectors.enabled'"] if options.deletion_vectors_enabled else []
        reasons += [f"'record-level.expire-time' together with {other}" for other in others]
    if options.levels_hold_older_versions and options.changelog_producer == "full-compaction" and options.adds_versions:
        # Java 0.9 loses rows of such a table: it compacts level 0 without a lookup, and readers do not merge.
        reasons.append("'force-lookup' together with 'changelog-producer' = 'full-compaction'; choose 'lookup'")
    if options.is_chain_table and options.deletion_vectors_enabled:
        reasons.append("'chain-table.enabled' together with 'deletion-vectors.enabled'")
    if options.has_primary_key and options.clustering_overrides_keys:
        # Such reads, and such an order of rows, need files that are sorted by key.
        by_key = ("deletion-vectors.merge-on-read", "sequence.snapshot-ordering")
        reasons += [f"'pk-clustering-override' together with '{key}'" for key in by_key if _is_on(options, key)]
    reasons += _metadata_blockers(options)
    reasons += _iceberg_blockers(options)
    if "metastore.tag-to-partition" in raw and raw.get(_TAG_PREVIEW, "none").lower() not in ("none", "batch"):
        # A commit would have to list the partition of the next tag.
        reasons.append(f"'{_TAG_PREVIEW}' = '{raw[_TAG_PREVIEW]}'")
    reasons += _format_blockers(options)
    reasons += [f"'{key}'" for key in _WRITE_BLOCKERS if raw.get(key, "").strip()]
    reasons += [f"'{key}'" for key in _WRITE_BLOCKING_SWITCHES if raw.get(key, "false").lower() == "true"]
    reasons += [f"'{key}' = '{raw[key]}'" for key, off in _WRITE_OFF.items() if raw.get(key, off).lower() != off]
    if options.vector_file_format not in (None, *_VECTOR_FORMATS):
        reasons.append(f"'vector.file.format' = '{options.vector_file_format}'")
    reasons += [f"'file-index.{name}.columns'" for name in options.file_index_types if name not in FILE_INDEXES]
    _refuse("writing", reasons)


def _format_blockers(options: TableOptions) -> list[str]:
    named = [("file.format", options.file_format), ("changelog-file.format", options.changelog_file_format)]
    named += [("file.format.per.level", f"{level}:{name}") for level, name in options.file_formats_of_levels.items()]
    return [f"'{key}' = '{text}'" for key, text in named if text and text.rpartition(":")[2] not in FILE_FORMATS]


def _iceberg_blockers(options: TableOptions) -> list[str]:
    """What Iceberg metadata would need that the engine does not write, or would show wrong rows of."""
    storage = f"'metadata.iceberg.storage' = '{options.iceberg_storage}'"
    if options.iceberg_storage == "disabled":
        return []
    reasons = []
    if options.iceberg_storage == "rest-catalog" and options.iceberg_format_version > 2:
        # Such a catalog requires ids of rows, which the metadata has none of.
        reasons.append(f"{storage} together with 'metadata.iceberg.format-version' = '3'")
    if options.iceberg_storage == "hive-catalog" and options.iceberg_hive_client_class != HIVE_CLIENT:
        reasons.append(f"'metadata.iceberg.hive-client-class' = '{options.iceberg_hive_client_class}'")
    if options.data_evolution_enabled:
        # Iceberg has no files with some of the columns.
        reasons.append(f"{storage} together with 'data-evolution.enabled'")
    if options.deletion_vectors_enabled and not options.has_primary_key:
        for key, value, is_set in (
            ("metadata.iceberg.format-version", "3", options.iceberg_format_version == 3),
            ("deletion-vectors.bitmap64", "true", options.deletion_vectors_bitmap64),
        ):
            # Iceberg would show deleted rows.
            reasons += [] if is_set else [f"{storage} and 'deletion-vectors.enabled' without '{key}' = '{value}'"]
    codec = options.iceberg_manifest_compression
    if codec not in AVRO_CODECS_OF_ICEBERG:
        reasons.append(f"'metadata.iceberg.manifest-compression' = '{codec}'")
    return reasons


def _postponed_blockers(options: TableOptions) -> list[str]:
    reasons = []
    if options.snapshot_ordering:
        # The commit that gives them their buckets is a later one than the one that added them.
        reasons.append("'sequence.snapshot-ordering' together with 'bucket' = '-2'")
    if options.changelog_producer != "none":
        reasons.append(f"'changelog-producer' = '{options.changelog_producer}' together with 'bucket' = '-2'")
    if _is_on(options, _POSTPONED_IN_BUCKETS):
        reasons.append(f"'{_POSTPONED_IN_BUCKETS}' = 'true': new rows wait for a compaction here; set it to 'false'")
    return reasons


def can_write_metadata(options: TableOptions) -> bool:
    """Whether the engine can commit to the table, even without data files."""
    return not _metadata_blockers(options)


def check_metadata_writable(options: TableOptions) -> None:
    """Raises UnsupportedError if the engine cannot commit to the table, even without data files."""
    _refuse("writing", _metadata_blockers(options))


def _metadata_blockers(options: TableOptions) -> list[str]:
    # Readers trust the option, not the file: they could not read Avro manifests of a table that says otherwise.
    name = options.manifest_format
    return [] if name in _MANIFEST_FORMATS else [f"'manifest.format' = '{name}'"]
