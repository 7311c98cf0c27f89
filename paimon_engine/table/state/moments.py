"""Which snapshot stands for a moment: a commit time, or a watermark, both in epoch milliseconds.

Commit times and watermarks grow with ids, so snapshots are bisected; tags stand in for snapshots that have expired.

Source: `SnapshotManager`, `CreateTagFromTimestampProcedure`, `CreateTagFromWatermarkProcedure` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable

from paimon_engine.errors import NotFoundError
from paimon_engine.meta.snapshot import NO_WATERMARK, Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import list_tags, read_snapshot, row_of_snapshots


def first_at_time(table: TableHandle, timestamp_ms: int) -> Snapshot:
    """The oldest snapshot, of those that exist or that a tag keeps, committed then or later.

    Raises: NotFoundError.
    """
    found = _first(table, lambda snapshot: snapshot.time_ms, timestamp_ms)
    if found is None:
        raise NotFoundError(f"no snapshot of {table.paths.root} was committed at {timestamp_ms} or later")
    return found


def first_at_watermark(table: TableHandle, watermark: int) -> Snapshot:
    """The oldest snapshot, of those that exist or that a tag keeps, whose watermark has got so far.

    Raises: NotFoundError.
    """
    found = _first(table, watermark_of, watermark)
    if found is None:
        raise NotFoundError(f"no snapshot of {table.paths.root} has reached the watermark {watermark}")
    return found


def first_committed_since(table: TableHandle, timestamp_ms: int) -> Snapshot | None:
    """The oldest existing snapshot committed then or later; None without one, or where none is older than that."""
    ids = row_of_snapshots(table)
    place = _bisect(table, ids, lambda snapshot: snapshot.time_ms >= timestamp_ms)
    return read_snapshot(table, ids[place]) if 0 < place < len(ids) else None


def last_at_watermark(table: TableHandle, watermark: int) -> Snapshot:
    """The newest existing snapshot whose watermark is not beyond; those without one do not count.

    Raises: NotFoundError.
    """
    ids = row_of_snapshots(table)
    beyond = _bisect(table, ids, lambda snapshot: watermark_of(snapshot) > watermark)
    if beyond > 0:
        found = read_snapshot(table, ids[beyond - 1])
        if watermark_of(found) != NO_WATERMARK:
            return found
    raise NotFoundError(f"no snapshot of {table.paths.root} has a watermark up to {watermark}")


def snapshot_at_watermark(table: TableHandle, watermark: int) -> Snapshot:
    """A snapshot whose watermark has reached `watermark` while its predecessors' has not.

    Of several with exactly that watermark it is the one on which the bisection falls, as in the Java library
    (`SnapshotManager.laterOrEqualWatermark`).

    Raises: NotFoundError.
    """
    ids = row_of_snapshots(table)
    # Snapshots inherit the watermark of the one before, so all behind the first that has one have one.
    first = next((i for i, item in enumerate(ids) if read_snapshot(table, item).watermark is not None), len(ids))
    low, high = first, len(ids) - 1
    found: Snapshot | None = None
    if low <= high and watermark_of(earliest := read_snapshot(table, ids[low])) >= watermark:
        return earliest
    while low <= high:
        middle = (low + high) // 2
        candidate = read_snapshot(table, ids[middle])
        reached = watermark_of(candidate)
        if reached == watermark:
            return candidate
        if reached > watermark:
            found, high = candidate, middle - 1
        else:
            low = middle + 1
    if found is None:
        raise NotFoundError(f"no snapshot of {table.paths.root} has reached the watermark {watermark}")
    return found


def watermark_of(snapshot: Snapshot) -> int:
    """The snapshot's watermark, lower than all others where it has none."""
    return NO_WATERMARK if snapshot.watermark is None else snapshot.watermark


def _first(table: TableHandle, clock: Callable[[Snapshot], int], moment: int) -> Snapshot | None:
    ids = row_of_snapshots(table)
    place = _bisect(table, ids, lambda snapshot: clock(snapshot) >= moment)
    found = read_snapshot(table, ids[place]) if place < len(ids) else None
    tagged = next((tag.snapshot for tag in list_tags(table) if clock(tag.snapshot) >= moment), None)
    if tagged is not None and (found is None or clock(tagged) < clock(found)):
        return tagged
    return found


def _bisect(table: TableHandle, ids: list[int], is_beyond: Callable[[Snapshot], bool]) -> int:
    """Place of the first snapshot that is beyond; the number of ids if none is."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        if is_beyond(read_snapshot(table, ids[middle])):
            high = middle
        else:
            low = middle + 1
    return low
