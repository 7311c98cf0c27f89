"""What has changed on a table since it was last read: new snapshots and tags, and breaks in its history.

A `Position` says up to where a table was seen, as plain JSON. `changes` compares it with the table and
gives an event and the next position. Snapshots are recognised by who committed them, not by their number alone: after a
rollback, numbers are used again. Where the history broke, the event names it as `reset`:

- `rollback`: snapshots that were seen were deleted; the range begins after the last common one.
- `expired`: snapshots expired before they were seen; `missed` are their ids.
- `replaced`: no snapshot that was seen exists: the table was created again, or rolled back further than is recorded.
  The event has no range then; read the complete table.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from airflow_provider_paimon import engine

_REMEMBERED: Final = 20
"""So many snapshots are recognised after a rollback."""


@dataclass(frozen=True, slots=True)
class Position:
    """The newest snapshots that were seen, as id and fingerprint, oldest first, and the names of all tags."""

    snapshots: tuple[tuple[int, str], ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def newest(self) -> int:
        """Id of the newest snapshot that was seen; 0 if there was none."""
        return self.snapshots[-1][0] if self.snapshots else 0

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"snapshots": [list(one) for one in self.snapshots], "tags": list(self.tags)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """What `to_json` gave."""
        return cls(tuple((int(number), str(mark)) for number, mark in stored["snapshots"]), tuple(stored["tags"]))


def position_now(table: engine.Table | None) -> Position:
    """Everything that exists counts as seen; nothing if there is no table."""
    if table is None:
        return Position()
    newest = table.latest_snapshot_id()
    rows = [] if newest is None else table.snapshots(newer_than=newest - _REMEMBERED).to_pylist()
    return Position(_marks(rows), tuple(table.tag_names()))


def changes(
    table: engine.Table, seen: Position, snapshots_of_tags: Any, kinds: Sequence[str] | None = None
) -> tuple[dict[str, Any] | None, Position]:
    """The event since `seen`, None if there is none, and the next position.

    `snapshots_of_tags` gives the snapshots of tags by their names. Only snapshots of `kinds`, tags and a broken history
    make an event.
    """
    rows = table.snapshots(newer_than=max(0, seen.newest - 1)).to_pylist()
    reset, new = _new_snapshots(table, seen, rows)
    names = tuple(table.tag_names())
    tags = snapshots_of_tags(sorted(set(names) - set(seen.tags)))
    is_replaced = reset is not None and reset["reason"] == "replaced"
    position = position_now(table) if is_replaced else Position(_next_marks(seen, reset, new), names)
    counted = Counter(row["commit_kind"] for row in new)
    if reset is None and not tags and not (counted if kinds is None else counted.keys() & set(kinds)):
        return None, position
    last = new[-1] if new else None
    event = {
        "from_snapshot": new[0]["snapshot_id"] if new else None,
        "to_snapshot": None if last is None else last["snapshot_id"],
        "commit_kinds": dict(counted),
        "commit_time": None if last is None else last["commit_time"].replace(tzinfo=UTC).isoformat(),
        "tags": tags,
        "reset": reset,
    }
    return {**event, "event_id": _digest(event)}, position


def _new_snapshots(
    table: engine.Table, seen: Position, rows: list[dict[str, Any]]
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """How the history broke, and the snapshots that were not seen.

    `rows` are those from the newest seen one on, if that is still there.
    """
    known = dict(seen.snapshots)
    if not seen.newest:
        return None, rows
    there = {row["snapshot_id"]: row for row in rows}
    if seen.newest in there and _mark(there[seen.newest]) == known[seen.newest]:
        return None, rows[1:]
    latest = rows[-1]["snapshot_id"] if rows else table.latest_snapshot_id()
    if latest is not None and latest > seen.newest and seen.newest not in there:
        missed = [seen.newest + 1, rows[0]["snapshot_id"] - 1]
        return ({"reason": "expired", "missed": missed} if missed[0] <= missed[1] else None), rows
    rows = table.snapshots(newer_than=min(known) - 1).to_pylist()
    common = max((row["snapshot_id"] for row in rows if known.get(row["snapshot_id"]) == _mark(row)), default=None)
    reset = {"was": seen.newest, "now": latest}
    if common is None:
        return {"reason": "replaced", **reset}, []
    return {"reason": "rollback", "common": common, **reset}, [row for row in rows if row["snapshot_id"] > common]


def _next_marks(
    seen: Position, reset: Mapping[str, Any] | None, new: Sequence[Mapping[str, Any]]
) -> tuple[tuple[int, str], ...]:
    kept = seen.snapshots
    if reset is not None and reset["reason"] == "rollback":
        kept = tuple(one for one in kept if one[0] <= reset["common"])
    return (*kept, *_marks(new))[-_REMEMBERED:]


def _marks(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[int, str], ...]:
    return tuple((row["snapshot_id"], _mark(row)) for row in rows)


def _mark(row: Mapping[str, Any]) -> str:
    """A fingerprint of who committed a snapshot, and when."""
    return _digest([row[name] for name in ("commit_user", "commit_identifier", "commit_kind", "commit_time")])


def _digest(value: Any) -> str:
    def plain(item: Any) -> Any:
        return item.isoformat() if isinstance(item, datetime) else str(item)

    return hashlib.sha256(json.dumps(value, default=plain, sort_keys=True).encode()).hexdigest()[:16]
