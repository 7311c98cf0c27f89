"""Automatic tags of a table: one per period, named for the time at which the period begins.

The tag of a period is put on the first snapshot at or after the period's end plus `delay`, so it holds what was
written up to there. The clock is the snapshot's own: its commit time, or its watermark. A period in which nothing was
committed gets no tag, unless missed ones must be completed: then each further snapshot fills the oldest gap.

Source: `TagAutoCreation`, `TagPeriodHandler`, `TagTimeExtractor` of the Java library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.names import check_tag_name
from paimon_engine.meta.snapshot import NO_WATERMARK, Snapshot
from paimon_engine.meta.tag import Tag
from paimon_engine.options import TableOptions

BATCH_TAG_PREFIX: Final = "batch-write-"
_CUSTOMIZED_NAME: Final = "tag.batch.customized-name"
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - periods are cut from wall clocks
_DAY_DASHES, _HOUR_DASHES, _MINUTE = "%Y-%m-%d", "%Y-%m-%d %H", "%Y%m%d%H%M"
_DAY_PATTERNS: Final = {"with_dashes": _DAY_DASHES, "without_dashes": "%Y%m%d", "without_dashes_and_spaces": "%Y%m%d"}
_HOUR_PATTERNS: Final = {
    "with_dashes": _HOUR_DASHES,
    "without_dashes": "%Y%m%d %H",
    "without_dashes_and_spaces": "%Y%m%d%H",
}
_FIELD_DIGITS: Final = {"%Y": r"(\d{4})", "%m": r"(\d{2})", "%d": r"(\d{2})", "%H": r"(\d{2})", "%M": r"(\d{2})"}
_ZONE_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


@dataclass(frozen=True)
class TagPeriods:
    """When a table gets an automatic tag, and the name of the tag.

    `zone` None is the system's. `by_watermark` takes watermarks for times, else commit times count.
    """

    by_watermark: bool
    zone: tzinfo | None
    length: timedelta
    pattern: str
    delay: timedelta = timedelta(0)
    completes: bool = False

    def time_of(self, name: str) -> datetime | None:
        """Begin of the period that a tag is named for; None for a tag of another kind of name."""
        # Text after a day is ignored, as in the Java library.
        given = name.partition(" ")[0] if self.length == timedelta(days=1) else name
        expected = re.sub("%.", lambda match: _FIELD_DIGITS[match[0]], self.pattern)
        match = re.fullmatch(expected, given, re.ASCII)
        try:
            return None if match is None else datetime(*map(int, match.groups()))  # type: ignore[arg-type]  # noqa: DTZ001
        except ValueError:
            return None

    def name_of(self, time: datetime) -> str:
        """Name of the tag of the period that begins then."""
        # Not all platforms' strftime pads years to four digits.
        return time.strftime(self.pattern.replace("%Y", f"{time.year:04d}"))

    def wall_time(self, snapshot: Snapshot) -> datetime | None:
        """What the clock says at the snapshot; None where it has no watermark to go by.

        Raises: InvalidArgumentError for a watermark beyond the calendar.
        """
        if not self.by_watermark:
            return _wall_clock(snapshot.time_ms, self.zone)
        if snapshot.watermark in (None, NO_WATERMARK):
            return None
        assert snapshot.watermark is not None
        return _wall_clock(snapshot.watermark, self.zone)

    def last_complete(self, time: datetime) -> datetime:
        """Begin of the newest period that has ended by then."""
        return _EPOCH + (time - _EPOCH) // self.length * self.length - self.length


@dataclass(frozen=True, slots=True)
class DueTag:
    """A tag to make, and its snapshot."""

    name: str
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class DueTags:
    """Tags to make, oldest first; `skipped` says which snapshots cannot be placed in time."""

    tags: tuple[DueTag, ...] = ()
    skipped: tuple[str, ...] = ()


def tag_periods(options: TableOptions) -> TagPeriods | None:
    """The periods of `tag.automatic-creation`; None for `none` and `batch`, which have no periods.

    Raises: InvalidArgumentError if an option cannot be parsed, or the delay is as long as a period.
    """
    mode = options.tag_automatic_creation
    if mode in ("none", "batch"):
        return None
    by_watermark = mode == "watermark"
    zone = zone_of(*_zone_option(options, by_watermark=by_watermark))
    length, pattern = _length_and_pattern(options)
    delay = timedelta(milliseconds=options.tag_creation_delay_ms)
    if length <= timedelta(0):
        raise InvalidArgumentError("'tag.creation-period-duration' must be longer than nothing")
    if delay >= length:
        raise InvalidArgumentError(f"'tag.creation-delay' = {delay} must be shorter than a period, which is {length}")
    return TagPeriods(by_watermark, zone, length, pattern, delay, options.tag_automatic_completion)


def check_tag_options(options: TableOptions) -> None:
    """Raises InvalidArgumentError for options by which no automatic tag could be made, or named."""
    for by_watermark in (False, True):
        zone_of(*_zone_option(options, by_watermark=by_watermark))
    tag_periods(options)
    _check_customized_name(options)


def _check_customized_name(options: TableOptions) -> None:
    name = options.raw.get(_CUSTOMIZED_NAME)
    if name is None:
        return
    try:
        check_tag_name(name)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"option '{_CUSTOMIZED_NAME}': {error}") from error


def periods_of_names(options: TableOptions) -> TagPeriods:
    """The periods by which tags of the table are named, whether or not they are created automatically."""
    length, pattern = _length_and_pattern(options)
    return TagPeriods(by_watermark=False, zone=None, length=length, pattern=pattern)


def _zone_option(options: TableOptions, *, by_watermark: bool) -> tuple[str, str | None]:
    if by_watermark:
        return "sink.watermark-time-zone", options.raw.get("sink.watermark-time-zone", "UTC")
    return "sink.process-time-zone", options.raw.get("sink.process-time-zone")


def _length_and_pattern(options: TableOptions) -> tuple[timedelta, str]:
    if options.tag_creation_period_duration_ms is not None:
        return timedelta(milliseconds=options.tag_creation_period_duration_ms), _MINUTE
    match options.tag_creation_period:
        case "daily":
            return timedelta(days=1), _DAY_PATTERNS[options.tag_period_formatter]
        case "hourly":
            return timedelta(hours=1), _HOUR_PATTERNS[options.tag_period_formatter]
        case _:
            return timedelta(hours=2), _HOUR_DASHES


def due_tags(periods: TagPeriods, tags: Sequence[Tag], snapshots: Iterable[Snapshot]) -> DueTags:
    """The tags that are due, given those there are and the existing snapshots, oldest first."""
    automatic = automatic_tags(periods, tags)
    newest = automatic[-1] if automatic else None
    expected: datetime | None = None
    if newest is not None:
        time = periods.time_of(newest.name)
        assert time is not None
        expected = time + periods.length
    due: list[DueTag] = []
    skipped: list[str] = []
    taken = {tag.name for tag in tags}
    for snapshot in snapshots:
        if newest is not None and snapshot.id <= newest.snapshot.id:
            continue
        try:
            now = periods.wall_time(snapshot)
        except InvalidArgumentError as error:
            skipped.append(f"snapshot {snapshot.id} gets no tag: {error}")
            continue
        if now is None or (expected is not None and now - periods.delay < expected + periods.length):
            continue
        begin = expected if periods.completes and expected is not None else periods.last_complete(now)
        name = periods.name_of(begin)
        if name not in taken:
            due.append(DueTag(name, snapshot))
            taken.add(name)
        expected = begin + periods.length
    return DueTags(tuple(due), tuple(skipped))


def automatic_tags(periods: TagPeriods, tags: Iterable[Tag]) -> list[Tag]:
    """Those of the tags that are named for a period, by snapshot and then by time."""
    found = [(tag.snapshot.id, time, tag) for tag in tags if (time := periods.time_of(tag.name)) is not None]
    return [tag for _, _, tag in sorted(found, key=lambda item: item[:2])]


def batch_tag_name(options: TableOptions, snapshot: Snapshot) -> str:
    """Name of the tag after a batch job: the customized one, or for the day of the snapshot."""
    customized = options.raw.get(_CUSTOMIZED_NAME)
    if customized is not None:
        _check_customized_name(options)
        return customized
    time = _wall_clock(snapshot.time_ms, zone_of(*_zone_option(options, by_watermark=False)))
    return f"{BATCH_TAG_PREFIX}{time:%Y-%m-%d}"


def batch_tags(options: TableOptions, tags: Iterable[Tag]) -> list[Tag]:
    """Those of the tags that were made after batch jobs, by snapshot and name."""
    customized = options.raw.get(_CUSTOMIZED_NAME)
    made = [tag for tag in tags if tag.name == customized or tag.name.startswith(BATCH_TAG_PREFIX)]
    return sorted(made, key=lambda tag: (tag.snapshot.id, tag.name))


def zone_of(option: str, text: str | None) -> tzinfo | None:
    """The time zone of its name (`Europe/Berlin`) or offset (`GMT-08:00`); None, the system's, if the text is empty.

    Raises: InvalidArgumentError naming the option.
    """
    if text is None:
        return None
    match = _ZONE_OFFSET.fullmatch(text.strip())
    try:
        if match is not None:
            offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
            return timezone(-offset if match[1] == "-" else offset)
        return ZoneInfo("UTC" if text.strip() == "Z" else text.strip())
    except (ValueError, OSError, KeyError) as error:
        raise InvalidArgumentError(
            f"option '{option}' = {text!r} is not a time zone; write e.g. 'Europe/Berlin' or 'GMT-08:00'"
        ) from error


def _wall_clock(epoch_ms: int, zone: tzinfo | None) -> datetime:
    try:
        seconds, millis = divmod(epoch_ms, 1000)
        time = datetime.fromtimestamp(seconds, zone)
    except (OverflowError, ValueError, OSError) as error:
        raise InvalidArgumentError(f"{epoch_ms} (epoch milliseconds) is beyond the calendar") from error
    return time.replace(tzinfo=None, microsecond=millis * 1000)
