"""Create the missing tags of days: each on the snapshot that was the latest when its day ended.

1. The days are those from `since` to `until`; by default from the first day that has a tag, else from the day of the
   oldest known snapshot, to the last day that has ended.
2. A day that has a tag of its name is left unchanged, whatever its snapshot is. Of the others each gets the newest
   snapshot that was committed before its end.
3. What cannot be made is reported with the reason, and keeps no other day from its tag.

Java has nothing like it: `tag.automatic-creation` continues after the newest tag, and leaves gaps before it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError, shown
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.specs import DryRun, Span, Spec
from paimon_engine.table.branches_tags.tag_notifications import TagNotifier, notifying
from paimon_engine.table.branches_tags.tagging import make_tag, new_tag
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.moments import newest_at_time
from paimon_engine.table.state.snapshots import earliest_snapshot_id, list_tags, read_snapshot, tag_names

_DAY: Final = timedelta(days=1)
_DAYS_MOST: Final = 40_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CreateDayTags(Spec):
    """Create the missing tags of days, such as `2013-01-05`, on the snapshot that was the latest at each day's end."""

    since: Annotated[
        str | None, "the first day, such as 2013-01-01; by default the first that has a tag or a snapshot"
    ] = None
    until: Annotated[str | None, "the last day; by default the last one that has ended"] = None
    timezone: Annotated[str, "time zone in which days end, such as Europe/Berlin"] = "UTC"
    time_retained: Annotated[Span | None, "how long the tags are kept, such as 365 d"] = None
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class DayTagsResult(Result):
    """What was made; `status` is `created`, `noop` or `dry_run` (then: what would be).

    `created` maps tags to their snapshots, oldest first; `tag` and `snapshot_id` are the newest of them. `missing` maps
    days that stay without a tag to the reason: `2013-01-05`, or `2013-01-05 to 2013-01-07` with that of the last one.
    `days` is the number of days that were checked.
    """

    status: str
    created: dict[str, int]
    missing: dict[str, str] = field(default_factory=dict)
    days: int = 0
    tag: str | None = None
    snapshot_id: int | None = None
    seconds: float = 0.0


@action
def create_day_tags(context: Context, spec: CreateDayTags) -> DayTagsResult:
    """Creates the missing tags. Safe to repeat, and concurrently with writers, other tagging and expiry.

    Raises: InvalidArgumentError for an unknown day or time zone, or a day that has not ended; CorruptTableError if a
    tag cannot be parsed, or metadata of a snapshot cannot be read, which is no reason to leave its day out;
    UnsupportedError, CallbackError as in `table.branches_tags.tag_notifications`.
    """
    table, zone = context.table, _zone(spec.timezone)
    there = set(tag_names(table))
    first, last = _range(table, spec, zone, there)
    days = list(_days(first, last)) if first is not None else []
    created: dict[str, int] = {}
    missing: dict[date, str] = {}
    with notifying(table, dry_run=spec.dry_run) as notifier:
        for day in days:
            if day.isoformat() not in there:
                try:
                    snapshot = _tag(table, day, zone, spec, notifier)
                except (NotFoundError, ConflictError) as error:
                    missing[day] = str(error)
                else:
                    created |= {} if snapshot is None else {day.isoformat(): snapshot.id}
    spans = _spans(missing)
    for name, reason in spans.items():
        logger.warning("%s gets no tags of %s: %s", table.paths.root, name, reason)
    newest = next(reversed(created), None)
    return DayTagsResult(
        status="dry_run" if spec.dry_run else "created" if created else "noop",
        created=created,
        missing=spans,
        days=len(days),
        tag=newest,
        snapshot_id=None if newest is None else created[newest],
    )


def _tag(table: TableHandle, day: date, zone: ZoneInfo, spec: CreateDayTags, notifier: TagNotifier) -> Snapshot | None:
    """The snapshot that gets the tag of the day; None if another process has made one of that name meanwhile.

    Raises: NotFoundError if the snapshot of that time is not known; ConflictError if it expired meanwhile.
    """
    snapshot = newest_at_time(table, _end_ms(day, zone) - 1)
    tag = new_tag(table, day.isoformat(), snapshot, spec.time_retained)
    return snapshot if spec.dry_run or make_tag(table, tag, notifier) else None


# ── days ────────────────────────────────────────────────────────────────────────────────────────


def _range(table: TableHandle, spec: CreateDayTags, zone: ZoneInfo, there: set[str]) -> tuple[date | None, date]:
    """The first and the last day; no first one if no day is known."""
    now = datetime.fromtimestamp(table.env.clock() / 1000, zone)
    ended = now.date() - _DAY
    last = ended if spec.until is None else _day("until", spec.until)
    if last > ended:
        raise InvalidArgumentError(
            f"create_day_tags: until={last} has not ended in {spec.timezone}; give {ended} at most"
        )
    first = _first_known(table, zone, there) if spec.since is None else _day("since", spec.since)
    if first is not None and spec.since is not None and spec.until is not None and first > last:
        raise InvalidArgumentError(f"create_day_tags: since={first} is after until={last}")
    if first is not None and (last - first).days > _DAYS_MOST:
        raise InvalidArgumentError(f"create_day_tags: from {first} to {last} are more than {_DAYS_MOST} days")
    return first, last


def _first_known(table: TableHandle, zone: ZoneInfo, there: set[str]) -> date | None:
    """The first day that has a tag; else that of the oldest snapshot, tags included."""
    tagged = [day for name in there if (day := _date(name)) is not None]
    if tagged:
        return min(tagged)
    oldest = earliest_snapshot_id(table)
    known = [tag.snapshot for tag in list_tags(table)] if there else []
    if oldest is not None:
        known.append(read_snapshot(table, oldest))
    first = min((snapshot.time_ms for snapshot in known), default=None)
    return None if first is None else datetime.fromtimestamp(first / 1000, zone).date()


def _days(first: date, last: date) -> Iterator[date]:
    return (first + number * _DAY for number in range((last - first).days + 1))


def _spans(missing: Mapping[date, str]) -> dict[str, str]:
    """Days one after another as one entry, with the reason of the last."""
    spans: list[tuple[date, date]] = []
    for day in missing:
        if spans and spans[-1][1] + _DAY == day:
            spans[-1] = (spans[-1][0], day)
        else:
            spans.append((day, day))
    return {f"{first}" if first == last else f"{first} to {last}": missing[last] for first, last in spans}


def _end_ms(day: date, zone: ZoneInfo) -> int:
    """The instant at which the next day begins there."""
    return int(datetime.combine(day + _DAY, time(), tzinfo=zone).astimezone(UTC).timestamp() * 1000)


def _day(name: str, text: str) -> date:
    found = _date(text)
    if found is None:
        raise InvalidArgumentError(f"create_day_tags: {name}={shown(text)} is not a day; give one such as 2013-01-05")
    return found


def _date(text: str) -> date | None:
    """The day of a name such as `2013-01-05`; None for other names."""
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if found.isoformat() == text and found < date.max else None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidArgumentError(
            f"create_day_tags: timezone={shown(name)} is not known; give a name such as 'Europe/Berlin'"
        ) from error
