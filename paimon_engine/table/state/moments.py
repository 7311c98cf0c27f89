"""Which snapshot belongs to a moment: a commit time, or a watermark, both in epoch milliseconds.

Commit times and watermarks grow with ids, so snapshots are bisected; tags replace snapshots that have expired.

Source: `SnapshotManager`, `CreateTagFromTimestampProcedure`, `CreateTagFromWatermarkProcedure` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from paimon_engine.errors import NotFoundError
from paimon_engine.meta.snapshot import NO_WATERMARK, CommitKind, Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import existing_snapshot_ids, list_tags, read_snapshot
from paimon_engine.units import instant_text

_TIDYING: Final = (CommitKind.COMPACT, CommitKind.ANALYZE)


def first_at_time(table: TableHandle, timestamp_ms: int) -> Snapshot:
    """The oldest snapshot, of those that exist or that a tag keeps, committed then or later.

    Raises: NotFoundError.
    """
    found = _first(table, lambda snapshot: snapshot.time_ms, timestamp_ms)
    if found is None:
        raise NotFoundError(f"no snapshot of {table.paths.root} was committed at {timestamp_ms} or later")
    return found


def newest_at_time(table: TableHandle, timestamp_ms: int) -> Snapshot:
    """What the table held at that time: the newest snapshot committed then or before, or the tag that keeps it.

    Raises: NotFoundError if there was none, or if it is not known any more because snapshots of then have expired.
    """
    ids = existing_snapshot_ids(table)
    index = _bisect(table, ids, lambda snapshot: snapshot.time_ms > timestamp_ms)
    following = read_snapshot(table, ids[index]) if index < len(ids) else None
    if index > 0:
        found: Snapshot | None = read_snapshot(table, ids[index - 1])
    else:
        tagged = [tag.snapshot for tag in list_tags(table)]
        found = max((one for one in tagged if one.time_ms <= timestamp_ms), key=_id, default=None)
        later = [one for one in (following, *tagged) if one is not None and one.time_ms > timestamp_ms]
        following = min(later, key=_id, default=None)
    if found is not None and (following is None or following.id == found.id + 1):
        return found
    raise NotFoundError(_unknown_time_reason(table, timestamp_ms, following))


def only_tidied(table: TableHandle, one: int, other: int) -> bool:
    """Whether the snapshots from one to the other hold the same rows: all but the first are compactions and the like.

    False also where one of them has expired.
    """
    ids = range(min(one, other), max(one, other) + 1)
    try:
        return all(read_snapshot(table, number).commit_kind in _TIDYING for number in reversed(ids[1:]))
    except NotFoundError:
        return False


def _id(snapshot: Snapshot) -> int:
    return snapshot.id


def _unknown_time_reason(table: TableHandle, timestamp_ms: int, following: Snapshot | None) -> str:
    then, root = instant_text(timestamp_ms), table.paths.root
    if following is None:
        return f"{root} has no snapshot, so that nothing of {then} can be named"
    if following.id == 1:
        return f"{root} had no snapshot at {then}: its first is of {instant_text(following.time_ms)}"
    return (
        f"what {root} held at {then} has expired: snapshot {following.id} is the oldest that is known, "
        f"of {instant_text(following.time_ms)}; expire later (retain_max=, older_than=), or tag before that"
    )


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
    ids = existing_snapshot_ids(table)
    index = _bisect(table, ids, lambda snapshot: snapshot.time_ms >= timestamp_ms)
    return read_snapshot(table, ids[index]) if 0 < index < len(ids) else None


def last_at_watermark(table: TableHandle, watermark: int) -> Snapshot:
    """The newest existing snapshot whose watermark is not beyond; those without one do not count.

    Raises: NotFoundError.
    """
    ids = existing_snapshot_ids(table)
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
    ids = existing_snapshot_ids(table)
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
    ids = existing_snapshot_ids(table)
    index = _bisect(table, ids, lambda snapshot: clock(snapshot) >= moment)
    found = read_snapshot(table, ids[index]) if index < len(ids) else None
    tagged = next((tag.snapshot for tag in list_tags(table) if clock(tag.snapshot) >= moment), None)
    if tagged is not None and (found is None or clock(tagged) < clock(found)):
        return tagged
    return found


def _bisect(table: TableHandle, ids: list[int], is_beyond: Callable[[Snapshot], bool]) -> int:
    """Index of the first snapshot that is beyond; the number of ids if none is."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        if is_beyond(read_snapshot(table, ids[middle])):
            high = middle
        else:
            low = middle + 1
    return low
