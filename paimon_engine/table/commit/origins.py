"""Messages that were prepared to be committed later: whether they are of this table, and not committed yet.

A message that its maker gave no origin is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.files.commit_message import CommitMessage, MessageOrigin
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.identity import table_id
from paimon_engine.table.state.manifests import changelog_entries, delta_entries, live_entries
from paimon_engine.table.state.snapshots import latest_snapshot, list_tags, read_snapshot, snapshot_ids


def origin_now(table: TableHandle) -> MessageOrigin:
    """What messages that are prepared now say of the table."""
    latest = latest_snapshot(table)
    return MessageOrigin(
        path=table.paths.root,
        branch=table.paths.branch,
        table_id=table_id(table),
        schema_id=table.schema.id,
        snapshot_id=0 if latest is None else latest.id,
        delta_list="" if latest is None else latest.delta_manifest_list,
    )


def check_origins(table: TableHandle, messages: Sequence[CommitMessage]) -> None:
    """Raises InvalidArgumentError unless the messages are of this table and branch; or if its schema has changed."""
    origins = {message.origin for message in messages if message.origin is not None}
    if not origins:
        return
    here, newest = table_id(table), table.newest().schema.id
    for origin in sorted(origins, key=lambda item: (item.path, item.schema_id)):
        check_origin(table, origin, here)
        if origin.schema_id != newest:
            raise InvalidArgumentError(
                f"{table.paths.root}: the messages were prepared for schema {origin.schema_id}, and the table has "
                f"schema {newest} by now; abort them and prepare the rows again"
            )


def each_once(table: TableHandle, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """The messages without repetitions, by which a snapshot would name a file twice, so that nobody could read it.

    Raises: InvalidArgumentError if different messages have a file in common.
    """
    first_of: dict[tuple[bytes, int, str], CommitMessage] = {}
    kept: list[CommitMessage] = []
    for message in messages:
        places = [(message.partition, message.bucket, name) for name in message.written_names()]
        known = [place for place in places if place in first_of]
        for place in known:
            if first_of[place] != message:
                raise InvalidArgumentError(
                    f"{table.paths.root}: different messages have the file {place[2]}; commit what `prepare` gave"
                )
        if not known:
            kept.append(message)
            first_of |= dict.fromkeys(places, message)
    return kept


def check_origin(table: TableHandle, origin: MessageOrigin, here: str) -> None:
    """Raises InvalidArgumentError unless the origin is this branch of this table, whose id is `here`."""
    root = table.paths.root
    if origin.table_id != here:
        if origin.path == root:
            raise InvalidArgumentError(
                f"{root}: the table was dropped and created again since the messages were prepared; their files went "
                "with the old one, so prepare the rows again"
            )
        raise InvalidArgumentError(f"{root}: the messages were prepared for another table, {origin.path}")
    if origin.branch != table.paths.branch:
        raise InvalidArgumentError(
            f"{root}: the messages were prepared for branch {origin.branch!r}, not for {table.paths.branch!r}"
        )


def committed_before(
    table: TableHandle, messages: Sequence[CommitMessage], latest: Snapshot | None = None
) -> Snapshot | None:
    """The snapshot that has these messages already, committed under whatever name; None if none has any.

    Only what was committed after they were prepared is read, up to `latest`, which a listing may not show yet. Where
    snapshots since then have expired, the files that they added are live in the earliest one left, or kept by a tag, or
    deleted, which the commit itself finds out.

    Raises: ConflictError if only some of them are committed.
    """
    known = [message for message in messages if message.origin is not None and not message.is_empty]
    wanted = {name for message in known for name in message.written_names()}
    if not wanted:
        return None
    origins = {message.origin for message in known if message.origin is not None}
    since = min(_still_since(table, origin, latest) for origin in origins)
    partitions = {message.partition for message in known}
    found: dict[str, Snapshot] = {}
    for snapshot, entries in _brought_since(table, since, partitions, latest):
        for entry in entries:
            for name in {entry.file.name, *entry.file.extra_files} & wanted:
                found.setdefault(name, snapshot)
    if not found:
        return None
    in_order = sorted(found.values(), key=lambda snapshot: snapshot.id)
    if missing := sorted(wanted - found.keys()):
        raise ConflictError(
            f"{table.paths.root}: some of the messages are in snapshot {in_order[0].id} already, but not all: "
            f"{missing[0]} is in none; commit these alone"
        )
    return in_order[-1]


def _still_since(table: TableHandle, origin: MessageOrigin, latest: Snapshot | None) -> int:
    """The snapshot behind which the messages may be committed; 0 if there was a rollback to one before it."""
    newest = latest_snapshot(table) if latest is None else latest
    if newest is None or newest.id < origin.snapshot_id:
        return 0
    try:
        there = newest if newest.id == origin.snapshot_id else read_snapshot(table, origin.snapshot_id)
    except NotFoundError:
        return origin.snapshot_id
    is_other = origin.delta_list and there.delta_manifest_list != origin.delta_list
    return 0 if is_other else origin.snapshot_id


def _brought_since(
    table: TableHandle, since: int, partitions: set[bytes], latest: Snapshot | None
) -> Iterator[tuple[Snapshot, Sequence[ManifestEntry]]]:
    """Snapshots after `since`, oldest first, with the files that they added; those of expired ones are in the next."""
    listed = {*snapshot_ids(table), *(() if latest is None else (latest.id,))}
    ids = sorted(number for number in listed if number > since)
    expected = since + 1
    for number in ids:
        try:
            snapshot = latest if latest is not None and latest.id == number else read_snapshot(table, number)
            yield snapshot, [*delta_entries(table, snapshot), *changelog_entries(table, snapshot)]
            if number != expected:
                yield snapshot, live_entries(table, snapshot, partitions)
        except NotFoundError:
            continue  # it has expired meanwhile: the next one is read completely
        expected = number + 1
    for tag in list_tags(table):
        if tag.snapshot.id > since and tag.snapshot.id not in ids:
            yield tag.snapshot, live_entries(table, tag.snapshot, partitions)
