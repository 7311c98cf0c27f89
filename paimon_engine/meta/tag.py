"""Tags: a named snapshot that expiry leaves alone.

A tag file is the snapshot's JSON; with a retention it has two keys more. Without one these keys are left out,
since readers up to 0.7 fail on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from paimon_engine.errors import damaged
from paimon_engine.format.stored import WRONG, reason
from paimon_engine.meta.snapshot import Snapshot, parse_snapshot, snapshot_to_json

_CREATE_TIME = "tagCreateTime"
_TIME_RETAINED = "tagTimeRetained"


@dataclass(frozen=True)
class Tag:
    """A named snapshot. `create_time` is a local wall clock; both times are None without a retention."""

    name: str
    snapshot: Snapshot
    create_time: datetime | None = None
    time_retained: timedelta | None = None


def parse_tag(name: str, data: str | bytes, path: str) -> Tag:
    """Tag of its file.

    Raises: CorruptTableError naming `path`.
    """
    snapshot = parse_snapshot(data, path)
    extras = dict(snapshot.extras)
    created, retained = extras.pop(_CREATE_TIME, None), extras.pop(_TIME_RETAINED, None)
    try:
        return Tag(
            name=name,
            snapshot=replace(snapshot, extras=extras),
            create_time=None if created is None else _parse_time(created),
            time_retained=None if retained is None else timedelta(seconds=float(retained)),
        )
    except WRONG as error:
        raise damaged(path, f"no valid tag: {reason(error)}") from error


def tag_to_json(tag: Tag) -> str:
    """JSON text of the tag file."""
    if tag.create_time is None or tag.time_retained is None:
        return snapshot_to_json(tag.snapshot)
    time = tag.create_time
    parts: list[Any] = [time.year, time.month, time.day, time.hour, time.minute]
    # As Java leaves them out.
    if time.second or time.microsecond:
        parts.append(time.second)
    if time.microsecond:
        parts.append(time.microsecond * 1000)
    seconds = (Decimal(tag.time_retained // timedelta(microseconds=1)) / 1_000_000).quantize(Decimal("1e-9"))
    extras = {**tag.snapshot.extras, _CREATE_TIME: parts, _TIME_RETAINED: seconds}
    return snapshot_to_json(replace(tag.snapshot, extras=extras))


def _parse_time(value: Any) -> datetime:
    """Java's `LocalDateTime` as Jackson writes it: an array that may end early, or ISO text."""
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    year, month, day, *rest = (int(part) for part in value)
    hour, minute, second, nanos = (*rest, 0, 0, 0, 0)[:4]
    return datetime(year, month, day, hour, minute, second, nanos // 1000)  # noqa: DTZ001 - a wall clock without a zone
