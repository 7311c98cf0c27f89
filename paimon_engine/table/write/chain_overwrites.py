"""What dropping and overwriting partitions of a chain table means for its other branch.

1. A complete partition is dropped only if no partition of changes is left without an earlier complete one.
2. An overwrite of changes makes the complete partitions of the same values outdated, so these are dropped after it, as
   in Java. Whether they may be is found out before. A second attempt of the same job drops only what is older than the
   overwrite: others may have made the partition again meanwhile.

Source: `ChainTableCommitPreCallback`, `ChainTableOverwriteCommitCallback` of the Java library. Difference: what is
dropped together is looked at together; Java lets two complete partitions go of which each is the other's predecessor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from paimon_engine.errors import ConflictError, InvalidArgumentError, PaimonError, UnsupportedError
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.options.chain import CHAIN_TABLE
from paimon_engine.table.commit.commit import CommitRequest, Conflict, OverwriteScope, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.read.chain_links import ChainLinks, ChainOrder
from paimon_engine.table.read.chain_table import ChainBranches
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import delta_entries, live_entries
from paimon_engine.table.state.partitions import texts_of_key
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.units import local_wall_clock_ms


def check_partitions_removable(table: TableHandle, partitions: Collection[bytes]) -> None:
    """Raises InvalidArgumentError if changes in another branch need one of these complete partitions.

    Raises UnsupportedError where the branch has changes: later partitions are made of them.
    """
    names = table.options.chain_branches
    if names is None or not partitions:
        return
    complete, delta = names
    if table.paths.branch == delta:
        raise UnsupportedError(
            f"dropping partitions of this table is not supported yet: '{CHAIN_TABLE}'; later partitions are made of "
            f"the changes in branch {delta!r}. Overwrite them, or drop complete partitions of branch {complete!r}"
        )
    if table.paths.branch == complete:
        _check(table, table.on_branch(delta), partitions)


def expired_links(
    chain: ChainBranches, complete: Iterable[bytes], delta: Iterable[bytes], old: Collection[bytes], most: int | None
) -> tuple[set[bytes], set[bytes]]:
    """Partitions of both branches that may expire, of those that are `old` enough: none that another one is made of.

    Of the complete partitions before the first one that is not old, the last is kept, with what comes after it, and so
    it is where there is none that is young. At most so many complete partitions of a group go, the oldest.

    Source: `ChainTablePartitionExpire` of the Java library.
    """
    links = ChainLinks(chain.complete.schema, (), ())
    groups: dict[ChainOrder, list[tuple[ChainOrder, bool, bytes]]] = {}
    for is_complete, partitions in ((True, complete), (False, delta)):
        for partition in partitions:
            group, place = links.place(partition)
            groups.setdefault(group, []).append((place, is_complete, partition))
    gone: dict[bool, set[bytes]] = {True: set(), False: set()}
    for members in groups.values():
        young = min((place for place, _, partition in members if partition not in old), default=None)
        anchors = sorted(place for place, is_complete, _ in members if is_complete and (young is None or place < young))
        if most is not None:
            anchors = anchors[: most + 1]
        for place, is_complete, partition in members:
            if anchors and place < anchors[-1]:
                gone[is_complete].add(partition)
    return gone[True], gone[False]


def _check(complete: TableHandle, delta: TableHandle, dropped: Collection[bytes]) -> None:
    """Raises InvalidArgumentError if a partition of changes whose anchor is dropped would have none."""
    changes = {entry.partition for entry in live_entries(delta, latest_snapshot(delta))}
    present = {entry.partition for entry in live_entries(complete, latest_snapshot(complete))}
    left = present.difference(dropped)
    before, after = ChainLinks(complete.schema, present, changes), ChainLinks(complete.schema, left, changes)
    # What is complete itself is made of nothing else.
    for partition in sorted(changes - left):
        anchor, _ = before.of(partition)
        if anchor is not None and anchor in dropped and after.of(partition)[0] is None:
            raise InvalidArgumentError(
                f"{complete.paths.root}: partition {texts_of_key(complete, anchor)} of branch "
                f"{complete.paths.branch!r} cannot be dropped: {texts_of_key(complete, partition)} in branch "
                f"{delta.paths.branch!r} has changes of its rows, and no earlier partition is complete. Make a later "
                "one complete first"
            )


def check_overwrite(table: TableHandle, scope: OverwriteScope | None, messages: Sequence[CommitMessage]) -> None:
    """Raises InvalidArgumentError if the overwrite would make a complete partition outdated that cannot be dropped."""
    complete = _outdated_branch(table)
    if scope is None or complete is None:
        return
    live = live_entries(table, latest_snapshot(table))
    changed = {message.partition for message in messages}
    changed.update(entry.partition for entry in live if scope.covers(table, entry.partition))
    _check(complete, table, changed)


def drop_outdated(table: TableHandle, done: Snapshot, *, is_first: bool) -> None:
    """Drops the complete partitions of the values of those that the snapshot has overwritten.

    Raises: PaimonError that says that the overwrite itself is done.
    """
    complete = _outdated_branch(table)
    if complete is None or done.commit_kind is not CommitKind.OVERWRITE:
        return
    try:
        changed = {entry.partition for entry in delta_entries(table, done)}
        found: dict[bytes, list[ManifestEntry]] = {}
        for entry in live_entries(complete, latest_snapshot(complete)):
            if entry.partition in changed:
                found.setdefault(entry.partition, []).append(entry)
        newest = local_wall_clock_ms(done.time_ms)
        old = [
            partition
            for partition, entries in found.items()
            if is_first or all((entry.file.creation_time_ms or 0) <= newest for entry in entries)
        ]
        if not old:
            return
        scope = OverwriteScope(
            partitions=frozenset(old), seen=frozenset(entry.file.name for key in old for entry in found[key])
        )
        outcome = commit(complete, CommitRequest([], CommitKind.OVERWRITE, table.env.new_id(), overwrite=scope))
        if isinstance(outcome, Conflict):
            raise ConflictError(f"{table.paths.root}: {outcome.conflicts[0].reason}")
    except PaimonError as error:
        error.add_note(
            f"snapshot {done.id} of branch {table.paths.branch!r} has overwritten changes, but branch "
            f"{complete.paths.branch!r} still has partitions of their values, which readers prefer: overwrite "
            "again, or drop them there"
        )
        raise


def _outdated_branch(table: TableHandle) -> TableHandle | None:
    """The branch whose partitions an overwrite of this one makes outdated."""
    names = table.options.chain_branches
    return None if names is None or table.paths.branch != names[1] else table.on_branch(names[0])
