"""What a table may ask for that the engine lacks: refused by name, never ignored.

Each check looks at the options of a table; what it does not find here, the engine does.
"""

from __future__ import annotations

from typing import Final

from paimon_engine.errors import UnsupportedError
from paimon_engine.options import POSTPONED_BUCKET, TableOptions


def _refuse(doing: str, reasons: list[str]) -> None:
    if reasons:
        raise UnsupportedError(f"{doing} this table is not supported yet: {'; '.join(reasons)}")


def check_readable(options: TableOptions) -> None:
    """Raises UnsupportedError if reading would give other rows than the table's options promise."""
    reasons = [
        f"'{key}'"
        for key in (
            "sequence.snapshot-ordering",
            "data-evolution.enabled",
            "deletion-vectors.merge-on-read",
            "postpone.merge-on-read",
        )
        if options.raw.get(key, "false").lower() != "false"
    ]
    if options.deletion_vectors_enabled and options.raw.get("index-file-in-data-file-dir", "false").lower() == "true":
        reasons.append("'index-file-in-data-file-dir' together with 'deletion-vectors.enabled'")
    _refuse("reading", reasons)


FILE_FORMATS: Final = ("parquet", "orc", "avro")
FILE_INDEXES: Final = ("bloom-filter", "bitmap", "bsi", "range-bitmap")

_WRITE_BLOCKERS: Final = (
    "data-file.external-paths",
    "data-file.path-directory",
    "primary-key.nullable",
    "postpone.target-row-num-per-bucket",
    "postpone.target-size-per-bucket",
)
_WRITE_BLOCKING_SWITCHES: Final = (
    "row-tracking.enabled",
    "index-file-in-data-file-dir",
    "file.suffix.include.compression",
)


def check_writable(options: TableOptions) -> None:
    """Raises UnsupportedError if the engine cannot write or compact the table as its options ask."""
    check_readable(options)
    reasons = []
    if options.bucket == POSTPONED_BUCKET and options.changelog_producer != "none":
        reasons.append(f"'changelog-producer' = '{options.changelog_producer}' together with 'bucket' = '-2'")
    if "record-level.expire-time" in options.raw:
        # Where a looked-up record counts as gone, nobody would mark it as replaced.
        others = [] if options.has_primary_key else ["a table without primary key"]
        others += ["'deletion-vectors.enabled'"] if options.deletion_vectors_enabled else []
        reasons += [f"'record-level.expire-time' together with {other}" for other in others]
    reasons += _metadata_blockers(options)
    reasons += [f"'file.format' = '{name}'" for name in options.file_formats if name not in FILE_FORMATS]
    if options.changelog_file_format not in (None, *FILE_FORMATS):
        reasons.append(f"'changelog-file.format' = '{options.changelog_file_format}'")
    reasons += [f"'{key}'" for key in _WRITE_BLOCKERS if key in options.raw]
    reasons += [f"'{key}'" for key in _WRITE_BLOCKING_SWITCHES if options.raw.get(key, "false").lower() == "true"]
    reasons += [f"'file-index.{name}.columns'" for name in options.file_index_types if name not in FILE_INDEXES]
    _refuse("writing", reasons)


def check_metadata_writable(options: TableOptions) -> None:
    """Raises UnsupportedError if the engine cannot commit to the table, even without data files."""
    _refuse("writing", _metadata_blockers(options))


def _metadata_blockers(options: TableOptions) -> list[str]:
    name = options.raw.get("manifest.format", "avro")
    # Readers go by the option, not by the file: Avro manifests would make the table unreadable to them.
    return [] if name.lower() == "avro" else [f"'manifest.format' = '{name}'"]
