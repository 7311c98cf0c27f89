"""Postponed rows: files of bucket −2 store rows in arrival order, until compaction gives them a bucket.

Files that were written together share `-u-<id>-s-<number>-w-` in their names. Their rows may update each other, so the
order of their files counts: in files of this engine it is that of sequence numbers, in those of Java that of creation
times.

Source: `PostponeBucketFileStoreWrite`, `PostponeBucketCompactSplitSource` of the Java library.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from paimon_engine.meta.manifest import DataFile

_WRITE_END = "-w-"


def postponed_prefix(write_id: str) -> str:
    """What the names of all files of one write have in common, behind the table's prefix."""
    return f"-u-{write_id}-s-{zlib.crc32(write_id.encode()) & 0x7FFFFFFF}{_WRITE_END}"


def in_arrival_order(files: Sequence[DataFile]) -> list[DataFile]:
    """Postponed files of a partition, oldest rows first.

    Within a write, files follow their sequence numbers, then the time and number in which they were made. Between
    writes the time decides; a file of a write counts as no older than those before it.
    """
    writes: dict[str, list[DataFile]] = {}
    for file in files:
        writes.setdefault(file.name.rpartition(_WRITE_END)[0], []).append(file)
    timed: list[tuple[int, str, int, DataFile]] = []
    for write, members in writes.items():
        time_ms = 0
        for number, file in enumerate(sorted(members, key=_order_in_write)):
            time_ms = max(time_ms, file.creation_time_ms or 0)
            timed.append((time_ms, write, number, file))
    return [file for *_, file in sorted(timed, key=lambda item: item[:3])]


def _order_in_write(file: DataFile) -> tuple[int, int, int, str]:
    number = file.name.partition(".")[0].rpartition("-")[2]
    return file.min_sequence_number, file.creation_time_ms or 0, int(number) if number.isdigit() else 0, file.name
