"""`sequence.snapshot-ordering`: of the rows of a key, those of a later snapshot win, whatever their writers numbered.

1. A commit notes the id of its snapshot as smallest and largest sequence number of each file of new rows. The rows in
   the file keep the numbers of their writer, which no reader uses.
2. A compaction reads such rows with the id as their sequence number, and stores it with each row. A file that only
   moves to another level stays a file of new rows.

So the rows of one commit have no order: a key must be in one of its files only. The Java library leaves it open which
of several wins; here a writer merges what it has written, and a commit with such files is refused.

Source: `FileStoreCommitImpl.stampSequenceWithSnapshotId`, `KeyValueFileReaderFactory` of the Java library (2.0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from paimon_engine.errors import CorruptTableError, InvalidArgumentError
from paimon_engine.meta.manifest import DataFile, FileKind, FileSource, ManifestEntry
from paimon_engine.meta.schema import TableSchema

OPTION: Final = "sequence.snapshot-ordering"


def check_snapshot_ordering(schema: TableSchema) -> None:
    """Raises InvalidArgumentError where snapshots cannot order the rows of a key."""
    options = schema.table_options
    if not options.snapshot_ordering:
        return
    if not schema.primary_keys:
        raise InvalidArgumentError(f"'{OPTION}' = 'true' needs a primary key; leave it out")
    if options.sequence_fields:
        raise InvalidArgumentError(
            f"'{OPTION}' = 'true' and 'sequence.field' exclude each other; leave one of them out"
        )
    if options.raw.get("write-only", "false").strip().lower() != "true":
        raise InvalidArgumentError(
            f"'{OPTION}' = 'true' needs 'write-only' = 'true': Java's writers would compact rows before their snapshot "
            "is known; compactions of their own are not affected"
        )


def has_number_of_snapshot(file: DataFile) -> bool:
    """Whether the rows of a file of such a table have the sequence number that its manifest notes, not their own.

    Raises: CorruptTableError if the file does not say whether it has new rows.
    """
    if file.file_source is None:
        raise CorruptTableError(f"{_without_source(file)}; {_REMEDY}")
    return file.file_source == FileSource.APPEND


_REMEDY: Final = (
    "an engine that does not know the option has committed it: roll back to the snapshot before, or copy the rows to a "
    "new table"
)


def _without_source(file: DataFile) -> str:
    return f"data file {file.name} does not say whether it has new rows, as '{OPTION}' requires"


def number_problem(file: DataFile) -> str | None:
    """What is wrong with the order of a live file's rows; None if nothing is."""
    if file.file_source is None:
        return f"{_without_source(file)}; {_REMEDY}"
    if not has_number_of_snapshot(file) or file.min_sequence_number == file.max_sequence_number:
        return None
    numbers = f"the sequence numbers {file.min_sequence_number} to {file.max_sequence_number}"
    return f"data file {file.name} has {numbers}, not that of its snapshot, as '{OPTION}' requires; {_REMEDY}"


def check_numbered(files: Iterable[DataFile]) -> None:
    """Raises CorruptTableError naming a live file that an engine has committed that does not know the option."""
    for file in files:
        if (wrong := number_problem(file)) is not None:
            raise CorruptTableError(wrong)


def with_number_of_snapshot(
    entries: Sequence[ManifestEntry], new_files: Collection[str], snapshot_id: int
) -> list[ManifestEntry]:
    """The entries of a commit, those of new files (by name) with the id of the snapshot."""
    return [
        replace(entry, file=replace(entry.file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id))
        if entry.kind is FileKind.ADD and entry.file.name in new_files
        else entry
        for entry in entries
    ]


def check_one_version_per_key(
    entries: Iterable[ManifestEntry], new_files: Collection[str], order: Callable[[bytes], Any]
) -> None:
    """Raises InvalidArgumentError if new files of a bucket in one commit overlap in their keys."""
    buckets: dict[tuple[bytes, int], list[DataFile]] = defaultdict(list)
    for entry in entries:
        if entry.kind is FileKind.ADD and entry.file.name in new_files:
            buckets[entry.partition, entry.bucket].append(entry.file)
    for (_, bucket), files in buckets.items():
        files.sort(key=lambda file: order(file.min_key))
        for before, after in pairwise(files):
            if not order(before.max_key) < order(after.min_key):
                raise InvalidArgumentError(
                    f"{before.name} and {after.name} of bucket {bucket} overlap in their keys, and '{OPTION}' gives "
                    "rows of one commit no order; commit what each writer has prepared in a commit of its own"
                )
