"""Which small files of an append table to join.

Without buckets any files may be joined: the smallest first. Within a bucket the order of rows is kept, so only
neighbours are. Both end a pack at about two target files, so that joining again is seldom needed.

Source: `AppendCompactCoordinator`, `BucketedAppendCompactManager` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paimon_engine.lsm.pick import NothingToDo
from paimon_engine.meta.manifest import DataFile
from paimon_engine.options import TableOptions
from paimon_engine.units import MIB

Pack = tuple[DataFile, ...]
"""Files to be joined, in that order."""

_OPEN_COST_BYTES = 4 * MIB
"""What a file costs beyond its bytes; bounds the number of files in a pack."""


def small_file_bytes(options: TableOptions) -> int:
    """Size below which a file counts as small.

    Java 0.9, which has no option for the share, takes seven tenths.
    """
    if "compaction.small-file-ratio" not in options.raw:
        return options.target_file_size_bytes // 10 * 7
    return int(options.target_file_size_bytes * options.compaction_small_file_ratio)


def pack_small_files(
    files: Sequence[DataFile], options: TableOptions, *, in_order: bool, full: bool
) -> list[Pack] | NothingToDo:
    """Packs of at least `compaction.min.file-num` files, or of at least two for a full compaction."""
    least = 2 if full else options.compaction_min_file_num
    small_bytes = small_file_bytes(options)
    if in_order:
        ordered = sorted(files, key=_age)
        packs = [pack for pack in _pack(ordered, small_bytes, options) if len(pack) >= least]
    else:
        small = [file for file in files if file.size_bytes < small_bytes]
        *whole, rest = _pack(sorted(small, key=lambda file: (file.size_bytes, _age(file))), small_bytes, options)
        packs = [*(pack for pack in whole if len(pack) > 1), *([rest] if len(rest) >= least else [])]
    if packs:
        return packs
    count = sum(file.size_bytes < small_bytes for file in files)
    return NothingToDo(f"small files: {count}; compaction begins at {least}{' side by side' if in_order else ''}")


def _age(file: DataFile) -> tuple[int, int, str]:
    return file.min_sequence_number, file.creation_time_ms or 0, file.name


def _pack(files: Iterable[DataFile], small_bytes: int, options: TableOptions) -> list[Pack]:
    """Small neighbours, each pack ended at twice the target size or by a large file; the last one may be unfinished."""
    target_bytes = options.target_file_size_bytes
    open_bytes = min(_OPEN_COST_BYTES, target_bytes // 32)
    packs: list[Pack] = []
    pack: list[DataFile] = []
    pack_bytes = 0
    for file in files:
        small = file.size_bytes < small_bytes
        if small:
            pack.append(file)
            pack_bytes += file.size_bytes + open_bytes
        if not small or pack_bytes >= 2 * target_bytes:
            packs.append(tuple(pack))
            pack, pack_bytes = [], 0
    return [*packs, tuple(pack)]
