"""The request of a read, and its resolution: to one state of a branch, or to the changes between two.

A way to choose comes as an argument, as an option of the read, or as an option of the table, in this order; there
must be one at most. Options of a read that the engine does not honour are refused.

Source: `CoreOptions.startupMode`, `AbstractFileStoreTable.tryTimeTravel`, `AbstractDataTableScan` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, ClassVar, Final

from paimon_engine.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.options.older_names import with_newest_names
from paimon_engine.options.texts import option_texts
from paimon_engine.predicate import Condition
from paimon_engine.specs import Index, Moment, Spec, check_fields
from paimon_engine.table.state.changelogs import earliest_change_id, read_commit
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.moments import first_committed_since, snapshot_at_watermark
from paimon_engine.table.state.snapshots import (
    choose_snapshot,
    earliest_snapshot_id,
    latest_snapshot,
    latest_snapshot_id,
    list_tags,
    newest_compacted_snapshot,
    read_snapshot,
    read_tag,
    tag_exists,
)

_STATE_WAYS: Final = ("scan.snapshot-id", "scan.tag-name", "scan.version", "scan.watermark")
_TIME_WAYS: Final = ("scan.timestamp-millis", "scan.timestamp")
_CREATION_WAY: Final = "scan.file-creation-time-millis"
_SINCE_WAY: Final = "scan.creation-time-millis"
_AUTO_TAG_WAY: Final = "incremental-to-auto-tag"
_CHANGE_WAYS: Final = ("incremental-between", "incremental-between-timestamp", _AUTO_TAG_WAY)
_WAYS: Final = (*_STATE_WAYS, *_TIME_WAYS, _CREATION_WAY, _SINCE_WAY, *_CHANGE_WAYS)
_WAYS_OF_MODE: Final[Mapping[str, tuple[str, ...]]] = {
    "default": _WAYS,
    "latest-full": (),
    "full": (),
    "latest": (),
    "compacted-full": (),
    "from-timestamp": _TIME_WAYS,
    "from-snapshot": _STATE_WAYS,
    "from-snapshot-full": ("scan.snapshot-id",),
    "from-file-creation-time": (_CREATION_WAY,),
    "from-creation-timestamp": (_SINCE_WAY,),
    "incremental": _CHANGE_WAYS,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SCAN_MODE: Final = "scan.mode"
_CHANGE_MODE: Final = "incremental-between-scan-mode"
_TAGS_AS_SNAPSHOTS: Final = "incremental-between-tag-to-snapshot"
_CHANGE_MODES: Final = ("auto", "delta", "changelog", "diff")
_SPLITTING: Final = ("source.split.target-size", "source.split.open-file-cost")
_WITHOUT_EFFECT: Final = frozenset(
    {
        "blob.split-by-file-size",
        "file-reader-async-threshold",
        "read.batch-size",
        "read.shuffle-bucket-with-partition",
        "scan.dedicated-split-generation",
        "scan.infer-parallelism",
        "scan.infer-parallelism.max",
        "scan.manifest.parallelism",
        "scan.max-splits-per-task",
        "scan.parallelism",
        "scan.plan-sort-partition",
        "scan.push-down",
        "scan.split-enumerator.batch-size",
        "scan.split-enumerator.mode",
        "source.checkpoint-align.enabled",
        "source.checkpoint-align.timeout",
        "source.operator-uid.suffix",
        "source.split.target-size-with-column-pruning",
    }
)
"""How a reader of Java, Flink or Spark spends memory and threads, or cuts its work: the rows are the same."""
HONOURED: Final = frozenset({*_WAYS, SCAN_MODE, _CHANGE_MODE, _TAGS_AS_SNAPSHOTS, "branch", *_SPLITTING})
"""Options that a read may pass."""

_WATERMARK_PREFIX: Final = "watermark-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest(Spec):
    """A read as requested: `where` is a SQL condition or a predicate, `incremental` two snapshot ids or tags."""

    spec_name: ClassVar[str] = "read"

    columns: tuple[str, ...] | None = None
    where: str | Condition | None = None
    snapshot: Index | None = None
    tag: str | None = None
    timestamp_ms: Moment | None = None
    branch: str | None = None
    incremental: tuple[int | str, int | str] | None = None
    with_row_kinds: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    limit: Index | None = None

    def __post_init__(self) -> None:
        """Raises: InvalidArgumentError for a wrong field, or a read of no column, whose batches would have no rows."""
        check_fields(self)
        if self.columns is not None and not self.columns and not self.with_row_kinds:
            raise InvalidArgumentError("columns=[]: name at least one column, or give none (None) to read all")


@dataclass(frozen=True, slots=True)
class State:
    """One snapshot; None on a table without any. Its files count that were created since `created_since_ms`."""

    snapshot: Snapshot | None
    created_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What the snapshots after `start_id` up to and with `end_id` changed; `mode` is `delta` or `changelog`."""

    start_id: int
    end_id: int
    mode: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two snapshots, or two tags; nothing was there before None."""

    before: Snapshot | None
    after: Snapshot


Scope = State | Changes | Difference
_Bounds = tuple[int | str, int | str]


def locate(table: TableHandle, request: ReadRequest) -> tuple[TableHandle, Scope]:
    """The table on the branch and at the schema that the read sees, and what of it is read.

    Raises: InvalidArgumentError, UnsupportedError, NotFoundError, CorruptTableError.
    """
    options = _texts(request)
    _check_options(options)
    branch = _branch(request.branch, options)
    handle = table if branch in (None, table.paths.branch) else table.on_branch(branch)
    splitting: dict[str, str] = {key: options[key] for key in _SPLITTING if key in options}
    handle = replace(handle, schema=handle.schema.with_options(splitting))
    mode, way, value = way_of(handle, request, options)
    if way in _CHANGE_WAYS:
        return handle, _changes(handle, way, value, options)
    if _CHANGE_MODE in options:
        raise InvalidArgumentError(f"'{_CHANGE_MODE}' says how to read changes; add incremental=(from, to)")
    if way is None:
        snapshot = newest_compacted_snapshot(handle) if mode == "compacted-full" else latest_snapshot(handle)
        check_newest_schema(handle, snapshot)
        return handle, State(snapshot)
    if way in (_CREATION_WAY, _SINCE_WAY):
        since_ms = _integer_option(way, str(value))
        snapshot = first_committed_since(handle, since_ms) if way == _SINCE_WAY else None
        if snapshot is None:
            return handle, State(latest_snapshot(handle), since_ms)
    else:
        snapshot = _travel(handle, way, value)
    return (handle if snapshot is None else handle.at_schema(snapshot.schema_id)), State(snapshot)


def check_newest_schema(table: TableHandle, snapshot: Snapshot | None) -> None:
    """Raises NotFoundError if the schema of a snapshot is newer than the table's and its file is missing.

    Otherwise the table would be read with an older schema. If the file exists, somebody has
    changed the table since it was opened.
    """
    if snapshot is not None and snapshot.schema_id > table.schema.id and table.schema_service is None:
        table.schema_of(snapshot.schema_id)


def reads_latest(table: TableHandle, request: ReadRequest) -> bool:
    """Whether the read is of the latest snapshot, without any other choice."""
    options = _texts(request)
    mode, way, _ = way_of(table, request, options)
    return way is None and mode in ("default", "full", "latest-full")


def _texts(request: ReadRequest) -> Mapping[str, str]:
    """The options of a read by their newest names."""
    return with_newest_names(option_texts(request.options))


def _check_options(options: Mapping[str, str]) -> None:
    unknown = sorted(options.keys() - HONOURED - _WITHOUT_EFFECT)
    if unknown:
        near = get_close_matches(unknown[0], sorted(HONOURED | _WITHOUT_EFFECT), 1)
        hint = f"; did you mean '{near[0]}'?" if near else ";"
        raise UnsupportedError(
            f"option '{unknown[0]}' is not honoured by a read{hint} these are: {', '.join(sorted(HONOURED))}"
        )


def _branch(asked: str | None, options: Mapping[str, str]) -> str | None:
    given = options.get("branch")
    if asked is not None and given is not None and asked != given:
        raise InvalidArgumentError(f"branch {asked!r} is given as an argument, and {given!r} as an option; give one")
    return asked or given


def way_of(
    handle: TableHandle, request: ReadRequest, options: Mapping[str, str]
) -> tuple[str, str | None, str | _Bounds]:
    """Scan mode, the one option that chooses what is read (None: the latest snapshot), and its value."""
    asked = _asked(request)
    given: dict[str, str | _Bounds] = {**asked, **{key: options[key] for key in _WAYS if key in options}}
    if len(given) < len(asked) + sum(key in options for key in _WAYS):
        raise InvalidArgumentError(f"{_words(asked)} is given twice, as an argument and as an option")
    modes = options
    if not given and SCAN_MODE not in options:
        modes = handle.options.raw
        given = {key: modes[key] for key in _WAYS if key in modes}
    if len(given) > 1:
        raise InvalidArgumentError(f"give one of {_words(given)}, not several")
    mode = modes.get(SCAN_MODE, "default").lower()
    if mode not in _WAYS_OF_MODE:
        raise InvalidArgumentError(f"'{SCAN_MODE}' = '{mode}'; choose one of {', '.join(_WAYS_OF_MODE)}")
    way = next(iter(given), None)
    fitting = _WAYS_OF_MODE[mode]
    if way is not None and way not in fitting:
        raise InvalidArgumentError(f"'{SCAN_MODE}' = '{mode}' does not go with {_words(given)}")
    if way is None and fitting and mode != "default":
        raise InvalidArgumentError(f"'{SCAN_MODE}' = '{mode}' needs one of {', '.join(fitting)}")
    return mode, way, "" if way is None else given[way]


def _asked(request: ReadRequest) -> dict[str, str | _Bounds]:
    """The arguments that choose what is read, as options."""
    asked: dict[str, str | _Bounds] = {}
    if request.snapshot is not None:
        asked["scan.snapshot-id"] = str(request.snapshot)
    if request.tag is not None:
        asked["scan.tag-name"] = request.tag
    if request.timestamp_ms is not None:
        asked["scan.timestamp-millis"] = str(request.timestamp_ms)
    if request.incremental is not None:
        asked["incremental-between"] = request.incremental
    return asked


def _words(ways: Iterable[str]) -> str:
    arguments = {
        "scan.snapshot-id": "snapshot",
        "scan.tag-name": "tag",
        "scan.timestamp-millis": "timestamp",
        "incremental-between": "incremental",
    }
    return ", ".join(arguments.get(key, f"'{key}'") for key in ways)


def _integer_option(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InvalidArgumentError(f"option '{key}' = {text!r} is not an integer") from error


# ── one state ───────────────────────────────────────────────────────────────────────────────────


def _travel(handle: TableHandle, way: str, value: str | _Bounds) -> Snapshot | None:
    """The snapshot that one of the options names; None if the table has none yet.

    Raises: InvalidArgumentError for a text that is not of the option's kind; NotFoundError.
    """
    text = str(value)
    match way:
        case "scan.snapshot-id":
            return choose_snapshot(handle, snapshot=_integer_option(way, text))
        case "scan.tag-name":
            return choose_snapshot(handle, tag=text)
        case "scan.watermark":
            return snapshot_at_watermark(handle, _integer_option(way, text))
        case "scan.version":
            return _version(handle, text)
        case "scan.timestamp":
            return choose_snapshot(handle, timestamp_ms=_local_ms(way, text))
        case _:
            return choose_snapshot(handle, timestamp_ms=_integer_option(way, text))


def _version(handle: TableHandle, text: str) -> Snapshot | None:
    """A tag of that name comes before a snapshot of that id."""
    if tag_exists(handle, text):
        return choose_snapshot(handle, tag=text)
    if text.startswith(_WATERMARK_PREFIX):
        return snapshot_at_watermark(handle, _integer_option("scan.version", text.removeprefix(_WATERMARK_PREFIX)))
    if text.isdigit():
        return choose_snapshot(handle, snapshot=int(text))
    raise NotFoundError(f"'scan.version' = {text!r} is not a tag of {handle.paths.root}, snapshot id or watermark")


def _local_ms(key: str, text: str) -> int:
    try:
        return (datetime.fromisoformat(text).astimezone() - _EPOCH) // timedelta(milliseconds=1)
    except ValueError as error:
        raise InvalidArgumentError(f"option '{key}' = {text!r} is not a time; write 2013-01-01 12:00:00") from error


# ── changes ─────────────────────────────────────────────────────────────────────────────────────


def _change_mode(handle: TableHandle, options: Mapping[str, str]) -> str:
    mode = options.get(_CHANGE_MODE, handle.options.raw.get(_CHANGE_MODE, "auto")).lower()
    if mode not in _CHANGE_MODES:
        raise InvalidArgumentError(f"'{_CHANGE_MODE}' = '{mode}'; choose one of {', '.join(_CHANGE_MODES)}")
    return mode


def _changes(handle: TableHandle, way: str, value: str | _Bounds, options: Mapping[str, str]) -> Scope:
    """What `incremental` means: the commits between two snapshots, times or tags, or the difference of two tags.

    Raises: InvalidArgumentError, NotFoundError, UnsupportedError.
    """
    if way == _AUTO_TAG_WAY:
        return _to_automatic_tag(handle, str(value))
    mode = _change_mode(handle, options)
    bounds = value if isinstance(value, tuple) else _parse_bounds(way, value)
    if way == "incremental-between-timestamp":
        times = (_integer_option(way, str(bound)) for bound in bounds)
        between = _between_times(handle, *times, mode=_usual_mode(handle) if mode == "auto" else mode)
        return State(None) if between is None else _between_ids(handle, *between, mode)
    match bounds:
        case (int() | str(), int() | str()) if _are_snapshots(handle, bounds):
            return _between_ids(handle, int(bounds[0]), int(bounds[1]), mode)
        case (str(start), str(end)):
            first, last = read_tag(handle, start).snapshot, read_tag(handle, end).snapshot
            if _switched_on(handle, options, _TAGS_AS_SNAPSHOTS):
                return _between_ids(handle, first.id, last.id, mode)
            if _CHANGE_MODE in options and mode in ("delta", "changelog"):
                raise UnsupportedError(
                    f"two tags are compared as states; '{_CHANGE_MODE}' = '{mode}' needs snapshots: "
                    f"add '{_TAGS_AS_SNAPSHOTS}' = 'true'"
                )
            return _difference(first, last, bounds)
        case _:
            raise InvalidArgumentError(f"incremental={bounds!r}: give two snapshot ids or two tag names")


def _are_snapshots(handle: TableHandle, bounds: _Bounds) -> bool:
    """Whether the bounds are snapshot ids: numbers, also as texts unless there are tags of these names, as in Java."""
    texts = [bound for bound in bounds if isinstance(bound, str)]
    if not all(text.isascii() and text.isdigit() for text in texts):
        return False
    return len(texts) < len(bounds) or not all(tag_exists(handle, text) for text in texts)


def _switched_on(handle: TableHandle, options: Mapping[str, str], key: str) -> bool:
    text = options.get(key, handle.options.raw.get(key, "false")).lower()
    if text not in ("true", "false"):
        raise InvalidArgumentError(f"option '{key}' = {text!r} is neither true nor false")
    return text == "true"


def _to_automatic_tag(handle: TableHandle, name: str) -> Scope:
    """From the automatic tag before the one of that name; nothing where either does not exist, as in Java."""
    from paimon_engine.meta.tag_periods import periods_of_names

    periods = periods_of_names(handle.options)
    end = periods.time_of(name)
    if end is None:
        raise InvalidArgumentError(
            f"'{_AUTO_TAG_WAY}' = {name!r} is not a name of an automatic tag; the table's are like "
            f"{periods.name_of(_EPOCH)!r}"
        )
    known = {tag.name: tag.snapshot for tag in list_tags(handle)}
    earlier = [(time, tag) for tag in known if (time := periods.time_of(tag)) is not None and time < end]
    if name not in known or not earlier:
        return State(None)
    start = max(earlier)[1]
    return _difference(known[start], known[name], (start, name))


def _parse_bounds(key: str, text: str) -> _Bounds:
    parts = text.split(",")
    if len(parts) != 2:
        raise InvalidArgumentError(f"option '{key}' = {text!r}: write FROM,TO")
    return parts[0], parts[1]


def _between_times(handle: TableHandle, start_ms: int, end_ms: int, *, mode: str) -> tuple[int, int] | None:
    """Ids of the commits at or before two times, None where the table has none in between.

    Commits whose snapshots have expired and whose changelogs are kept count, too, unless states are compared.
    """
    earliest_id, latest = earliest_snapshot_id(handle), latest_snapshot(handle)
    if earliest_id is None or latest is None:
        return None
    first = earliest_id if mode == "diff" else earliest_change_id(handle, earliest_id)
    earliest = read_commit(handle, first).snapshot
    if start_ms > latest.time_ms or end_ms < earliest.time_ms:
        return None
    start = earliest.id - 1 if earliest.time_ms > start_ms else _at(handle, earliest.id, latest.id, start_ms)
    return start, _at(handle, earliest.id, latest.id, end_ms)


def _at(handle: TableHandle, low: int, high: int, timestamp_ms: int) -> int:
    """The newest of the commits `low` to `high` that is not younger, of which the first one is."""
    while low < high:
        middle = (low + high + 1) // 2
        if read_commit(handle, middle).snapshot.time_ms <= timestamp_ms:
            low = middle
        else:
            high = middle - 1
    return low


def _between_ids(handle: TableHandle, start: int, end: int, mode: str) -> Scope:
    """The scope of the changes after `start` up to `end`: their files, or with mode `diff` the two states.

    Raises: InvalidArgumentError if they are in the wrong order; NotFoundError naming what exists.
    """
    earliest, latest = earliest_snapshot_id(handle), latest_snapshot_id(handle)
    if earliest is None or latest is None:
        return State(None)
    if start > end:
        raise InvalidArgumentError(f"incremental=({start}, {end}): the changes after {start} end before they begin")
    is_automatic = mode == "auto"
    mode = _usual_mode(handle) if is_automatic else mode
    if mode == "diff" and start == 0:
        return Difference(None, read_snapshot(handle, end))
    if mode == "diff" and (start < earliest or end > latest):
        read_snapshot(handle, start)  # distinguishes an expired snapshot from one that never existed
    known = earliest if start >= earliest - 1 else earliest_change_id(handle, earliest)
    if start < known - 1 or end > latest:
        also = "" if known == earliest else f", and changelogs of {known} to {earliest - 1}"
        raise NotFoundError(
            f"no changes after {start} up to {end} in {handle.paths.root}; "
            f"it has snapshots {earliest} to {latest}{also}"
        )
    if start == end and is_automatic:
        return State(None)
    if mode == "diff":
        return _difference(read_snapshot(handle, start), read_snapshot(handle, end), (start, end))
    return Changes(start, end, mode)


def _usual_mode(handle: TableHandle) -> str:
    """How changes are found unless the caller says it: in deltas that nobody would see, there are none."""
    if handle.options.changelog_producer != "none":
        return "changelog"
    hides = handle.options.hides_level_0 or handle.schema.bucket_mode is BucketMode.POSTPONED
    return "diff" if hides else "delta"


def _difference(before: Snapshot, after: Snapshot, bounds: _Bounds) -> Scope:
    if after.id <= before.id:
        raise InvalidArgumentError(
            f"incremental={bounds!r}: the second (snapshot {after.id}) must be newer than the first ({before.id})"
        )
    return Difference(before, after)
