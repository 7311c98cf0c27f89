"""Rollback: make an earlier snapshot the latest one again.

1. Files that only newer snapshots, tags and changelogs reach are planned for deletion.
2. Newer changelogs of expired snapshots are removed; then newer snapshots, newest first, so that at any moment the
   table has an unbroken row of snapshots (but for those that had expired); a target that has expired is written again
   from its tag just before the last of them is deleted. Others may delete that tag, so until then another one keeps
   the target. Then newer tags are removed, and callbacks are called.
3. The planned files are deleted, after the roots are listed again (`table.removal.deletion_plan`).

No one should write meanwhile: a commit that began before would build on a snapshot that was removed. One that came
before the end is found by the gap in front of it.

Source: `RollbackHelper` of the Java library. Like 0.9 and unlike later releases, it deletes what it removes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Final

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import (
    ConflictError,
    CorruptTableError,
    InvalidArgumentError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from paimon_engine.meta.snapshot import Snapshot, snapshot_to_json
from paimon_engine.specs import DryRun, Index, Moment, Name
from paimon_engine.table.branches_tags.merges import take_back_merges
from paimon_engine.table.branches_tags.tag_notifications import TagNotifier, notifying
from paimon_engine.table.branches_tags.tagging import (
    check_no_branch_from,
    held,
    named_tags,
    remove_tags,
    tag_files,
)
from paimon_engine.table.commit.commit_callbacks import keep_iceberg
from paimon_engine.table.commit.records import take_back_records
from paimon_engine.table.reach.reachability import Root, Roots, all_roots, lost_roots
from paimon_engine.table.removal.candidates import Candidates
from paimon_engine.table.removal.deletion_plan import (
    DeletedFile,
    Deletion,
    carry_out,
    finish_interrupted,
    plan_deletion,
    prepare,
    with_deletion,
)
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.state.changelogs import changelog_ids, forget_newest, without_lost_changelog
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.hints import (
    hint_of,
    lower_latest_hint,
    repair_latest_hint,
    write_earliest_hint,
    write_hint,
)
from paimon_engine.table.state.moments import last_at_watermark
from paimon_engine.table.state.presence import create_again
from paimon_engine.table.state.snapshots import (
    choose_snapshot,
    consumers,
    latest_snapshot,
    read_snapshot,
    read_tag,
    snapshot_ids,
    tag_exists,
)

logger = logging.getLogger(__name__)

_ROUNDS_MAX: Final = 5
"""How often snapshots that others commit meanwhile are removed too."""


@dataclass(frozen=True, slots=True)
class Rollback(Disposal):
    """Go back to a snapshot, a tag or a moment, exactly one of them.

    `timestamp` means the newest snapshot not younger, or where those have expired the newest such tag;
    `watermark` for the newest snapshot whose watermark is not beyond (both epoch milliseconds).
    """

    snapshot: Annotated[Index | None, "id of the snapshot to go back to"] = None
    tag: Annotated[Name | None, "name of the tag to go back to"] = None
    timestamp: Annotated[Moment | None, "to the newest snapshot not younger than this time"] = None
    watermark: Annotated[int | None, "to the newest snapshot whose watermark is not beyond, in epoch milliseconds"] = (
        None
    )
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class RollbackResult(Result):
    """What a rollback did; `status` is `rolled_back`, `noop` or `dry_run` (then: what it would do).

    `consumers_ahead` names consumers that would continue from a snapshot that was removed. `deleted` names every file,
    which is not known where a server rolls back. `stopped` says why files were left.
    """

    status: str
    snapshot_id: int
    removed_snapshots: tuple[int, ...] = ()
    removed_tags: tuple[str, ...] = ()
    files_deleted: int = 0
    bytes_deleted: int = 0
    consumers_ahead: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0
    removed_changelogs: tuple[int, ...] = ()
    deleted: tuple[DeletedFile, ...] = ()
    quarantine: str | None = None


@dataclass(frozen=True, slots=True)
class _Newer:
    """What is newer than the target: roots, and numbers of snapshots and changelogs that were not read."""

    snapshots: Sequence[Root]
    changelogs: Sequence[Root]
    tags: Sequence[Root]
    unread_snapshots: Sequence[int]
    unread_changelogs: Sequence[int]

    @classmethod
    def of(cls, table: TableHandle, roots: Roots, target: Snapshot) -> _Newer:
        """Raises: StorageError if the listing lacks some: they would stay, and be the latest."""
        branch = table.paths.branch
        for doubt in roots.doubts:
            if doubt.is_certain and doubt.branch == branch:
                raise StorageError(f"nothing is rolled back: {doubt.reason}; run it again, or repair the store")
        found = [root for root in roots if root.branch == branch and root.snapshot.id > target.id]
        in_order = sorted(found, key=lambda root: root.snapshot.id)
        return cls(
            [root for root in in_order if root.is_snapshot],
            [root for root in in_order if root.is_changelog],
            [root for root in found if root.tag is not None],
            [number for number in roots.unread(branch, table.paths.snapshot) if number > target.id],
            [number for number in roots.unread(branch, table.paths.changelog) if number > target.id],
        )

    def __bool__(self) -> bool:
        return bool(self.roots or self.unread_snapshots or self.unread_changelogs)

    @property
    def roots(self) -> list[Root]:
        return [*self.snapshots, *self.changelogs, *self.tags]

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        return tuple(sorted((*(root.snapshot.id for root in self.snapshots), *self.unread_snapshots)))

    @property
    def changelog_ids(self) -> tuple[int, ...]:
        return tuple(sorted((*(root.snapshot.id for root in self.changelogs), *self.unread_changelogs)))


@action
def rollback(context: Context, spec: Rollback) -> RollbackResult:
    """Rolls the table's branch back. A rollback that was interrupted may be repeated.

    Raises: NotFoundError; InvalidArgumentError if a branch was made from a tag that would be deleted; ConflictError if
    others keep committing, or have committed on what was removed, or if the tag belongs to a history that an earlier
    rollback removed; CorruptTableError if snapshots around the moment are missing; StorageError if the store's listing
    lacks snapshots that are there; UnsupportedError, CallbackError as in `table.branches_tags.tag_notifications`, if
    tags are deleted.
    """
    table, executor = context.table, context.executor
    target, expired = _target(table, spec)
    roots = all_roots(table)
    newer = _Newer.of(table, roots, target)
    check_no_branch_from(roots, newer.roots)
    result = RollbackResult(
        status="rolled_back" if newer or expired else "noop",
        snapshot_id=target.id,
        removed_snapshots=newer.snapshot_ids,
        removed_tags=tuple(root.tag for root in newer.tags if root.tag is not None),
        consumers_ahead=tuple(name for name, next_id in consumers(table).items() if next_id > target.id + 1),
        removed_changelogs=newer.changelog_ids,
    )
    if result.status == "noop":
        if not spec.dry_run and table.snapshot_service is None and _is_named(spec):
            # It may name a newer snapshot that is lost, and so keep readers from this one.
            repair_latest_hint(table)
            take_back_merges(table, target.id)
        return result if spec.dry_run else with_deletion(result, finish_interrupted(table, executor, spec))
    with notifying(table, dry_run=spec.dry_run or not newer.tags) as notifier:
        if table.snapshot_service is not None:
            return _roll_back_on_server(table, spec, target, result, notifier=notifier)
        gone = {root.identity for root in newer.roots}
        plan = plan_deletion(
            table,
            _candidates(table, target, newer.snapshots, newer.tags, newer.changelogs),
            [root for root in roots if root.identity not in gone],
            executor,
            lost=lost_roots(table, roots, but_below=newer.roots),
        )
        if spec.dry_run:
            return with_deletion(replace(result, status="dry_run"), Deletion(plan.files, plan.stopped))
        paths = table.paths
        hidden = [paths.snapshot(number) for number in result.removed_snapshots]
        hidden += tag_files(table, result.removed_tags)
        hidden += [paths.changelog(number) for number in result.removed_changelogs]
        # Others may delete or move the tag that alone has the target's files until the snapshot is there again.
        with held(table, target) if expired else nullcontext():
            prepared = prepare(table, plan, spec, "rollback", roots=hidden, neighbours=[paths.snapshot(target.id)])
            take_back_records(table, target.id)
            _remove_versions(table, target, expired=expired, result=result)
        # An expiry may have put changelogs in place of newer snapshots meanwhile.
        late = [number for number in changelog_ids(table) if number > target.id]
        forget_newest(table, late)
        result = replace(result, removed_changelogs=tuple(sorted({*result.removed_changelogs, *late})))
        remove_tags(table, named_tags(newer.tags), notifier)
        take_back_merges(table, target.id)
        deletion = carry_out(table, plan, executor, prepared)
    _check_alone(table, target)
    logger.info("rolled %s back to snapshot %d", paths.root, target.id)
    return with_deletion(result, deletion)


def _roll_back_on_server(
    table: TableHandle, spec: Rollback, target: Snapshot, result: RollbackResult, *, notifier: TagNotifier
) -> RollbackResult:
    """Lets the server roll back, which removes newer versions with their files."""
    if spec.quarantine:
        raise UnsupportedError(f"the server that manages {table.paths.root} deletes the files, and has no quarantine")
    if spec.dry_run:
        return replace(result, status="dry_run")
    latest = latest_snapshot(table)
    assert latest is not None
    assert table.snapshot_service is not None
    removed: dict[str, int | None] = {name: read_tag(table, name).snapshot.id for name in result.removed_tags}
    notifier.expect(removed, gone=True)
    take_back_records(table, target.id)
    table.snapshot_service.roll_back(table, target, tag=spec.tag, latest=latest)
    keep_iceberg(table)
    notifier.gone({name: number for name, number in removed.items() if not tag_exists(table, name)})
    return result


def _target(table: TableHandle, spec: Rollback) -> tuple[Snapshot, bool]:
    """The snapshot to go back to, and whether it has expired, so that only its tag has it."""
    if sum(way is not None for way in (spec.snapshot, spec.tag, spec.timestamp, spec.watermark)) != 1:
        raise InvalidArgumentError("name what to roll back to in one way: snapshot, tag, timestamp or watermark")
    if spec.snapshot is not None:
        return read_snapshot(table, spec.snapshot), False
    if spec.watermark is not None:
        found = last_at_watermark(table, spec.watermark)
        _check_none_between(table, found)
        return found, False
    target = choose_snapshot(table, tag=spec.tag, timestamp_ms=spec.timestamp)
    assert target is not None
    if spec.timestamp is not None:
        _check_none_between(table, target)
    try:
        present = read_snapshot(table, target.id)
    except NotFoundError:
        return target, True
    if present.delta_manifest_list != target.delta_manifest_list:
        source = f"tag {spec.tag!r}" if spec.tag is not None else f"the tag for {spec.timestamp}"
        raise ConflictError(f"{source} belongs to another history: snapshot {target.id} is a different commit now")
    return target, False


def _is_named(spec: Rollback) -> bool:
    """Whether the caller says which snapshot it is, and does not leave the choice to the visible snapshots."""
    return spec.snapshot is not None or spec.tag is not None


def _check_none_between(table: TableHandle, target: Snapshot) -> None:
    """Checks that the snapshot after one that was found by its time is visible: a missing one may be the right one.

    If only a tag has it, all snapshots before the first one have expired, as the hint to the first one shows.

    Raises: CorruptTableError.
    """
    ids = snapshot_ids(table)
    newer = [number for number in ids if number > target.id]
    if not newer:
        return
    missing = newer[0] != target.id + 1
    if target.id not in ids:
        earliest = hint_of(table, table.paths.earliest_hint)
        missing = earliest is not None and 0 < earliest < ids[0]
    if missing:
        way = f"rollback(snapshot={target.id})" if target.id in ids else "rollback(tag=…) with its tag"
        raise CorruptTableError(
            f"snapshots between {target.id} and {newer[0]} of {table.paths.root} are missing, so it is not known "
            f"which was the latest then; {way} if you want that one"
        )


def _check_alone(table: TableHandle, target: Snapshot) -> None:
    """Raises ConflictError if another process has committed on a snapshot that was removed meanwhile."""
    repair_latest_hint(table)
    # Others may have committed since, and have expired the first ones: only a gap between those that are there tells.
    ids = [number for number in snapshot_ids(table) if number >= target.id]
    late = [number for before, number in pairwise(ids) if number != before + 1]
    if late:
        raise ConflictError(
            f"others committed snapshot {late[-1]} of {table.paths.root} on one that was rolled back at the same time: "
            "it is the latest, and may lack files; stop writers and run the rollback again, which removes it"
        )


def _candidates(
    table: TableHandle, target: Snapshot, snapshots: Sequence[Root], tags: Sequence[Root], changelogs: Sequence[Root]
) -> Candidates:
    """Files that only the removed roots may need; what remaining ones need is subtracted by the caller.

    `snapshots` are those above the target, oldest first; tags and changelogs are those of snapshots above it.
    """
    candidates = Candidates(table)
    for position, root in enumerate(snapshots):
        if position == 0 and root.snapshot.id != target.id + 1:
            # Snapshots between the target and this one have expired, and what they added may be live only here.
            candidates.add_live(root, f"only in {root.label}")
        candidates.add_added(root, f"added by {root.label}")
        candidates.add_changelog(root)
    candidates.add_tagged(tags, snapshots)
    for root in changelogs:
        candidates.add_named(root)
        candidates.add_changelog(root)
    candidates.add_metadata([*snapshots, *tags, *changelogs])
    return candidates


def _delete_newer(table: TableHandle, target: Snapshot, number: int) -> None:
    """Removes a newer snapshot, or leaves it where the target has expired meanwhile: one of them must stay.

    An expiry does the same with the snapshots that it removes, if the newest one is gone then. The one of both
    that looks last notices it.

    Raises: ConflictError.
    """
    storage, paths = table.env.storage, table.paths
    try:
        data = storage.read(paths.snapshot(number))
    except NotFoundError:
        return
    storage.delete([paths.snapshot(number)])
    if not storage.exists(paths.snapshot(target.id)):
        if snapshot_ids(table):
            # Others have made a newer one, and may have deleted the files of this one.
            repair_latest_hint(table)
            number = snapshot_ids(table)[-1]
        else:
            create_again(table, number, data)
            write_hint(table, paths.latest_hint, number)
        raise ConflictError(
            f"snapshot {target.id} of {paths.root} expired while it was rolled back to; {number} is the latest now: "
            "roll back to a newer snapshot or to a tag"
        )


def _remove_versions(table: TableHandle, target: Snapshot, *, expired: bool, result: RollbackResult) -> None:
    """Removes the newer snapshots, newest first, and points the hints to the target.

    Raises: ConflictError if others keep committing, or remove the target.
    """
    storage, paths = table.env.storage, table.paths
    forget_newest(table, list(result.removed_changelogs))
    lower_latest_hint(table, target.id)
    for _ in range(_ROUNDS_MAX):
        newer = [snapshot_id for snapshot_id in snapshot_ids(table) if snapshot_id > target.id]
        for snapshot_id in reversed(newer[1:]):
            if expired:
                storage.delete([paths.snapshot(snapshot_id)])
            else:
                _delete_newer(table, target, snapshot_id)
        if expired:
            # The table must never be without a snapshot, so that for a moment it has a gap: as short as can be.
            storage.create(paths.snapshot(target.id), snapshot_to_json(without_lost_changelog(table, target)).encode())
        if not newer:
            break
        _delete_newer(table, target, newer[0])
    else:
        raise ConflictError(f"others keep committing to {paths.root} during the rollback; stop them and run it again")
    write_hint(table, paths.latest_hint, target.id)
    if not storage.exists(paths.snapshot(target.id)):
        repair_latest_hint(table)
        raise ConflictError(
            f"snapshot {target.id} of {paths.root} vanished while it was rolled back to: others roll back or "
            "purge; check the table's rows, and run it again if they are not the expected ones"
        )
    if expired:
        write_earliest_hint(table, table.paths.snapshot_dir, target.id)
