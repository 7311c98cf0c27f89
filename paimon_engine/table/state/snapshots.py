"""Finding snapshots, tags, branches and consumers in the store.

Hints are only hints: `LATEST` is right if no newer file exists and it is not below `EARLIEST`, that one if its file
exists; otherwise the directory is listed. Files may vanish between two calls, since an expiry may run beside us.

Source: `SnapshotManager`, `TagManager`, `HintFileUtils`, `TimeTravelUtil` of the Java library.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise, takewhile
from typing import Final, TypeVar

from paimon_engine.errors import (
    REMEDY,
    CorruptTableError,
    InvalidArgumentError,
    NotFoundError,
    damaged,
)
from paimon_engine.format.stored import WRONG, parse_object, reason, required_integer
from paimon_engine.meta.names import check_inside_directory
from paimon_engine.meta.paths import TablePaths
from paimon_engine.meta.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot, parse_snapshot
from paimon_engine.meta.tag import Tag, parse_tag
from paimon_engine.storage import FileInfo
from paimon_engine.table.state.handle import TableHandle, latest_schema_id, numbered
from paimon_engine.table.state.hints import hint_of
from paimon_engine.table.state.side_by_side import reading_ahead, side_by_side
from paimon_engine.table.state.vanished import check_never_had_snapshots, vanished

T = TypeVar("T")

SNAPSHOT_PREFIX: Final = "snapshot-"
TAG_PREFIX: Final = "tag-"
HELD_PREFIX: Final = "at-work-"
"""Begins the names of tags that last as long as the work of a job."""
_BRANCH_PREFIX: Final = "branch-"
_KINDS_WITHOUT_ROWS: Final = (CommitKind.COMPACT, CommitKind.ANALYZE)
_CONSUMER_PREFIX: Final = "consumer-"
_LOOKS_MAX: Final = 5
"""Times that the latest snapshot is looked at, while it expires as it is read, and a file that others are writing."""
_WRITING_S: Final = 0.05
"""Until a file is looked at again that others are writing."""


def read_at_latest(table: TableHandle, look: Callable[[Snapshot | None], T]) -> T:
    """The result of `look` for the latest snapshot; repeated if it expires, or is rolled back, while it is read.

    Raises: NotFoundError if a file is missing though it is still the latest one.
    """
    for _ in range(_LOOKS_MAX - 1):
        snapshot = latest_snapshot(table)
        try:
            return look(snapshot)
        except NotFoundError:
            if snapshot is None or is_latest(table, snapshot):
                raise
    return look(latest_snapshot(table))


def is_latest(table: TableHandle, snapshot: Snapshot) -> bool:
    """Whether it is still the latest one; after a rollback another commit may have its id."""
    found = latest_snapshot(table)
    return found is not None and same_commit(found, snapshot)


def snapshot_ids(table: TableHandle) -> list[int]:
    """Ids of the existing snapshots, ascending; there may be gaps while an expiry runs."""
    ids = numbered(table.env, table.paths.snapshot_dir, SNAPSHOT_PREFIX)
    if table.snapshot_service is None:
        return ids
    latest = table.snapshot_service.latest(table)
    return [] if latest is None else [*(item for item in ids if item < latest.id), latest.id]


def existing_snapshot_ids(table: TableHandle, newest: int | None = None) -> list[int]:
    """As `snapshot_ids`, with the snapshots that the listing lacks: those that exist by name next to its ends and gaps.

    `newest` is the latest id, if it is known. Raises: CorruptTableError as `latest_snapshot_id`.
    """
    ids = snapshot_ids(table)
    if table.snapshot_service is not None:
        return ids
    newest = latest_snapshot_id(table) if newest is None else newest
    known = [*ids, *([newest] if newest and newest not in ids else [])]
    if not known:
        return known
    found = set(known)
    for one, following in pairwise([0, *sorted(known)]):
        for inwards in (range(following - 1, one, -1), range(one + 1, following) if one else ()):
            found.update(takewhile(lambda number: table.env.storage.exists(table.paths.snapshot(number)), inwards))
    return sorted(found)


def latest_snapshot_id(table: TableHandle) -> int | None:
    """Newest snapshot id; None on a table without snapshots.

    Raises: CorruptTableError if the table has lost its newest snapshot, or all of them.
    """
    if table.snapshot_service is not None:
        latest = table.snapshot_service.latest(table)
        return None if latest is None else latest.id
    storage, paths = table.env.storage, table.paths
    hint, is_late = _latest_hint(table)
    if hint and not is_late and not storage.exists(paths.snapshot(hint + 1)) and storage.exists(paths.snapshot(hint)):
        return hint
    return _newest_id(table, hint)


def _latest_hint(table: TableHandle) -> tuple[int | None, bool]:
    """The hint LATEST, and whether it names a snapshot that came too late.

    A commit of another engine that was paused until its number had expired makes that snapshot nevertheless, and names
    it in the hint. It is before those of EARLIEST, with no other after it; what is committed on it would be lost.
    """
    paths = table.paths
    calls = [partial(hint_of, table, path) for path in (paths.latest_hint, paths.earliest_hint)]
    latest, earliest = side_by_side(table, calls)
    return latest, latest is not None and earliest is not None and latest < earliest


def _newest_id(table: TableHandle, hint: int | None) -> int | None:
    """Newest snapshot id where the hint is no help: it names none, or one that is missing, late, or has a successor.

    Raises: CorruptTableError, as `latest_snapshot_id`.
    """
    try:
        return _listed_newest_id(table, hint)
    except CorruptTableError:
        # Others may have made the first snapshots, or expired what was listed, between two of the requests.
        return _listed_newest_id(table, hint_of(table, table.paths.latest_hint))


def _listed_newest_id(table: TableHandle, hint: int | None) -> int | None:
    """The newest snapshot id of the listing and of the hint, None if there are no snapshots.

    A listing may be old, so what the hint names, and what follows, is looked up by name.

    Raises: CorruptTableError if the hint's snapshot is not there, or if there are signs that there were snapshots.
    """
    storage, paths = table.env.storage, table.paths
    newest = max(snapshot_ids(table), default=0)
    if hint and newest <= hint:
        # The listing lacks the hint's snapshot, or its successor: files are requested by their names.
        while storage.exists(paths.snapshot(max(newest, hint) + 1)):
            newest = max(newest, hint) + 1
    if hint and newest < hint and not storage.exists(paths.snapshot(hint)):
        # A rollback lowers the hint before it removes snapshots.
        hint = hint_of(table, paths.latest_hint)
        if hint and newest < hint and not storage.exists(paths.snapshot(hint)):
            raise vanished(table, hint, newest)
    elif hint:
        newest = max(newest, hint)
    if newest == 0:
        check_never_had_snapshots(table, hint_of(table, paths.earliest_hint))
    return newest or None


def earliest_snapshot_id(table: TableHandle) -> int | None:
    """Oldest snapshot id; None on a table without snapshots."""
    hint = hint_of(table, table.paths.earliest_hint)
    if hint and table.env.storage.exists(table.paths.snapshot(hint)):
        return hint
    ids = snapshot_ids(table)
    return ids[0] if ids else None


def read_snapshot(table: TableHandle, snapshot_id: int) -> Snapshot:
    """The snapshot of that id.

    Raises: NotFoundError, CorruptTableError.
    """
    try:
        return stored_snapshot(table, snapshot_id)
    except NotFoundError as error:
        known = None if table.snapshot_service is None else table.snapshot_service.read(table, snapshot_id)
        if known is not None:
            return known
        if table.env.storage.exists(table.paths.changelog(snapshot_id)):
            raise NotFoundError(
                f"snapshot {snapshot_id} of {table.paths.root} has expired and only its changelog is kept: "
                "its changes can be read, with incremental=(from, to), its rows cannot"
            ) from error
        ids = snapshot_ids(table)
        have = f"the table has {ids[0]} to {ids[-1]}" if ids else "the table has none"
        raise NotFoundError(f"no snapshot {snapshot_id} in {table.paths.root}; {have}") from error


def latest_snapshot(table: TableHandle) -> Snapshot | None:
    """Newest snapshot; None on a table without snapshots.

    Raises: CorruptTableError if the table has lost its newest snapshot, or all of them.
    """
    if table.snapshot_service is not None:
        return table.snapshot_service.latest(table)
    hint, is_late = _latest_hint(table)
    if (
        hint
        and not is_late
        and _snapshot_if_there(table, hint + 1) is None
        and (hinted := _snapshot_if_there(table, hint)) is not None
    ):
        return hinted
    newest = _newest_id(table, hint)
    return None if newest is None else read_snapshot(table, newest)


def latest_with_schema(table: TableHandle) -> tuple[TableHandle, Snapshot | None]:
    """The newest snapshot, and the table with a schema that knows every column of its files.

    What rewrites files needs that: a handle that was opened before a column was added would drop the column's values.
    """
    snapshot = latest_snapshot(table)
    return table.newest(), snapshot


def _snapshot_if_there(table: TableHandle, snapshot_id: int) -> Snapshot | None:
    try:
        return stored_snapshot(table, snapshot_id)
    except NotFoundError:
        return None


def stored_snapshot(table: TableHandle, snapshot_id: int) -> Snapshot:
    """The snapshot of that id, as the store has it, in one request. Raises: NotFoundError, CorruptTableError."""
    path = table.paths.snapshot(snapshot_id)
    snapshot = parse_snapshot(table.env.storage.read(path), path)
    if snapshot.id != snapshot_id:
        raise damaged(path, f"the file holds snapshot {snapshot.id}")
    return snapshot


def snapshots_newest_first(table: TableHandle, newer_than: int = 0, *, newest: int | None = None) -> Iterator[Snapshot]:
    """Existing snapshots with an id above `newer_than`, newest first; those that vanish meanwhile are left out.

    `newest` is the latest id, if it is known: then the listing is completed up to it. On object stores some snapshots
    are read ahead.
    """
    ids = snapshot_ids(table) if newest is None else existing_snapshot_ids(table, newest)
    chosen = [number for number in reversed(ids) if number > newer_than]
    for found in reading_ahead(table, read_snapshot, chosen):
        if isinstance(found, Snapshot):
            yield found
        elif not isinstance(found, NotFoundError):
            raise found


def snapshots_of_user(table: TableHandle, user: str, newer_than: int = 0) -> Iterator[Snapshot]:
    """Snapshots that this commit user made, newest first."""
    return (snapshot for snapshot in snapshots_newest_first(table, newer_than) if snapshot.commit_user == user)


# ── tags ────────────────────────────────────────────────────────────────────────────────────────


def only_compactions_since(table: TableHandle, begin: Snapshot | None, latest: Snapshot | None) -> bool:
    """Whether `latest` holds the rows of `begin` and no others; None means an empty table.

    Where snapshots in between have expired, or a rollback has taken `begin` away, the answer is no.
    """
    if begin is None or latest is None:
        return begin is latest
    if latest.id < begin.id:
        return False
    try:
        later = [read_snapshot(table, number) for number in range(begin.id, latest.id)]
    except NotFoundError:
        return False
    first, *others = [*later, latest]
    return first == begin and all(item.commit_kind in _KINDS_WITHOUT_ROWS for item in others)


def read_tag(table: TableHandle, name: str) -> Tag:
    """The tag of that name.

    Raises: NotFoundError naming some of the tags that exist, InvalidArgumentError, CorruptTableError.
    """
    check_inside_directory("tag", name)
    path = table.paths.tag(name)
    try:
        return _once_written(table, path, lambda data: parse_tag(name, data, path))
    except CorruptTableError as error:
        raise CorruptTableError(f"{error}, or delete_tag({name!r})") from error
    except NotFoundError as error:
        names = tag_names(table)
        some = ", ".join(names[-5:]) if names else "none"
        raise NotFoundError(
            f"no tag {name!r} in {table.paths.root}; the newest of {len(names)} tags: {some}"
        ) from error


def tag_exists(table: TableHandle, name: str) -> bool:
    """Whether there is a tag of that name."""
    return table.env.storage.exists(table.paths.tag(name))


def tag_names(table: TableHandle) -> list[str]:
    """Names of all tags, sorted."""
    names = (info.path.rsplit("/", 1)[-1] for info in table.env.storage.list(table.paths.tag_dir) if not info.is_dir)
    return sorted(name[len(TAG_PREFIX) :] for name in names if name.startswith(TAG_PREFIX))


def list_tags(table: TableHandle) -> list[Tag]:
    """All tags, by snapshot id and then name; those that vanish meanwhile are left out.

    Raises: CorruptTableError if one cannot be read: a tag that cannot be read still protects files.
    """
    tags, unread = readable_tags(table)
    for error in unread:
        raise error
    return tags


def readable_tags(table: TableHandle) -> tuple[list[Tag], list[CorruptTableError]]:
    """All tags that can be parsed, by snapshot id and then name; and what is wrong with the others."""
    tags: list[Tag] = []
    unread: list[CorruptTableError] = []
    for found in reading_ahead(table, read_tag, tag_names(table)):
        match found:
            case Tag():
                tags.append(found)
            case CorruptTableError():
                unread.append(found)
            case NotFoundError():
                continue
            case error:
                raise error
    return sorted(tags, key=lambda tag: (tag.snapshot.id, tag.name)), unread


# ── branches and consumers ──────────────────────────────────────────────────────────────────────


def branches(table: TableHandle) -> list[str]:
    """Names of the table's branches besides main, sorted."""
    names = (info.path.rsplit("/", 1)[-1] for info in table.env.storage.list(table.paths.branch_dir) if info.is_dir)
    return sorted(name[len(_BRANCH_PREFIX) :] for name in names if name.startswith(_BRANCH_PREFIX))


def consumer_files(table: TableHandle) -> list[tuple[str, FileInfo]]:
    """Names of the consumers, and their files."""
    found = []
    for info in table.env.storage.list(table.paths.consumer_dir):
        name = info.path.rsplit("/", 1)[-1]
        if not info.is_dir and name.startswith(_CONSUMER_PREFIX):
            found.append((name[len(_CONSUMER_PREFIX) :], info))
    return found


def next_snapshot_of(table: TableHandle, consumer: str) -> int | None:
    """The snapshot that a consumer reads next; None if there is none of that name, or if its file cannot be read."""
    path = table.paths.consumer(consumer)
    try:
        return required_integer(parse_object(table.env.storage.read(path), path), "nextSnapshot", 0)
    except (NotFoundError, CorruptTableError, *WRONG):
        return None


def consumers(table: TableHandle) -> dict[str, int]:
    """Next snapshot id of each consumer.

    Raises: CorruptTableError if a consumer file cannot be read.
    """
    found = {}
    for name, info in consumer_files(table):
        try:
            stored = _once_written(table, info.path, partial(parse_object, path=info.path))
            found[name] = required_integer(stored, "nextSnapshot", 0)
        except NotFoundError:
            continue
        except (*WRONG, CorruptTableError) as error:
            what = reason(error).removeprefix(f"{info.path}: ").removesuffix(f"; {REMEDY}")
            ways = f"reset_consumer({name!r}, …) says where it continues, clear_consumers deletes it"
            raise damaged(info.path, f"no valid consumer, {what}; {ways}") from error
    return found


def _once_written(table: TableHandle, path: str, parse: Callable[[bytes], T]) -> T:
    """What `parse` makes of a JSON file that Java writes in place, so that it is empty or cut off for a moment.

    Raises: NotFoundError; what `parse` raises, if the file stays so.
    """
    for _ in range(_LOOKS_MAX - 1):
        data = table.env.storage.read(path)
        try:
            return parse(data)
        except CorruptTableError:
            if data.rstrip().endswith(b"}"):
                raise
        time.sleep(_WRITING_S)
    return parse(table.env.storage.read(path))


# ── time travel ─────────────────────────────────────────────────────────────────────────────────


def choose_snapshot(
    table: TableHandle, *, snapshot: int | None = None, tag: str | None = None, timestamp_ms: int | None = None
) -> Snapshot | None:
    """The snapshot that the caller names, in at most one way; the latest if none. None on an empty table.

    A timestamp picks the newest snapshot that is not younger; when snapshots that old have expired, the newest tag
    that is not younger is used.

    Raises: InvalidArgumentError if asked in two ways, NotFoundError.
    """
    if sum(way is not None for way in (snapshot, tag, timestamp_ms)) > 1:
        raise InvalidArgumentError("give one of snapshot, tag and timestamp, not several")
    if snapshot is not None:
        return read_snapshot(table, snapshot)
    if tag is not None:
        return read_tag(table, tag).snapshot
    if timestamp_ms is not None:
        return _at_time(table, timestamp_ms)
    return latest_snapshot(table)


def newest_compacted_snapshot(table: TableHandle) -> Snapshot | None:
    """The newest snapshot that a compaction made, the latest if none did.

    Where full compactions come every so many commits, only those count (`FullCompactedStartingScanner`).
    """
    every = table.options.full_compaction_delta_commits
    only_full = table.options.changelog_producer == "full-compaction" or every is not None
    for snapshot in snapshots_newest_first(table, newest=latest_snapshot_id(table)):
        is_full = (
            snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER or snapshot.commit_identifier % (every or 1) == 0
        )
        if snapshot.commit_kind is CommitKind.COMPACT and (is_full or not only_full):
            return snapshot
    return latest_snapshot(table)


def _at_time(table: TableHandle, timestamp_ms: int) -> Snapshot:
    """Bisects, since commit times grow with ids."""
    ids = existing_snapshot_ids(table)
    low, high = 0, len(ids)
    found: Snapshot | None = None
    while low < high:
        middle = (low + high) // 2
        candidate = read_snapshot(table, ids[middle])
        if candidate.time_ms <= timestamp_ms:
            found, low = candidate, middle + 1
        else:
            high = middle
    if found is not None:
        return found
    tagged = [item.snapshot for item in list_tags(table) if item.snapshot.time_ms <= timestamp_ms]
    if tagged:
        return max(tagged, key=lambda item: (item.time_ms, item.id))
    raise NotFoundError(f"no snapshot or tag of {table.paths.root} is as old as {timestamp_ms} (epoch milliseconds)")


def same_commit(one: Snapshot, other: Snapshot) -> bool:
    """Whether both are the same commit; the delta list's name is unique to it."""
    return one.id == other.id and one.delta_manifest_list == other.delta_manifest_list


def branch_exists(table: TableHandle, name: str) -> bool:
    """Whether the table has that branch."""
    return latest_schema_id(table.env, TablePaths(table.paths.root, name)) is not None
