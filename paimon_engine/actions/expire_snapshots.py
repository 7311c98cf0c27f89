"""Expire snapshots: delete old ones, and the files that only they needed.

1. `choose_expired` says which ids expire: the oldest ones, by number, age, consumers and a limit if one is given.
2. They go in rounds (`table.removal.expiry`), the oldest first, so that memory is bounded, and what is done when a run
   dies stays done. Each round looks at the table again, and consists of steps 3 to 6.
3. Where the options keep changelogs longer than snapshots, each expired snapshot leaves its changelog, and the
   changelogs whose time to live has ended are deleted as well (`actions.expire_changelogs`).
4. Files that expired versions reach, but no other snapshot, tag, branch or changelog, are planned for deletion.
5. Snapshot files are removed, oldest first, so that at any moment the table has an unbroken row of snapshots;
   then the `EARLIEST` hint is moved. From here on no reader can start from them (`table.removal.expiry`).
6. The planned files are deleted, after another search for new tags and branches (`table.removal.deletion_plan`).

A dry run plans all rounds, each as if those before it had been carried out.

Source: `ExpireSnapshotsImpl` of the Java library, and what its commits do after that. Differences: snapshot files go
before their data, so that a crash leaves superfluous files rather than broken snapshots; tags and branches are all
asked, not only neighbouring tags; a run has no limit, unless the table's options or the caller set one.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import PaimonError, StorageError
from paimon_engine.executor import Executor
from paimon_engine.progress import counting
from paimon_engine.specs import Amount, Count, DryRun, Moment
from paimon_engine.table.commit.records import forget_old_records
from paimon_engine.table.reach.reachability import Root, all_roots
from paimon_engine.table.removal.deletion_plan import DeletedFile, DeletionPlan
from paimon_engine.table.removal.expiry import (
    ROUND_SNAPSHOTS,
    BranchHistory,
    ExpirationPlan,
    ExpiryRound,
    expiry_round,
    history_of,
    plan_expiration,
    plan_expired_files,
    run_rounds,
    snapshots_in_round,
    with_new_changelogs,
)
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.removal.retention import (
    Retention,
    changelog_retention,
    check_older_than,
    choose_expired,
    choose_expired_changelogs,
    snapshot_retention,
)
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import consumers


@dataclass(frozen=True, slots=True)
class ExpireSnapshots(Disposal):
    """Which snapshots to delete; what is None comes from the table's options.

    At most `retain_max` and at least `retain_min` newest snapshots stay; between these, those that were the latest
    one at `older_than` (epoch milliseconds) or later. A `retain_max` given alone lowers the option for the least.

    At most `limit` snapshots go; without it as many as the option `snapshot.expire.limit` says where the table has it,
    and otherwise all. After `max_seconds` no round of about a thousand snapshots begins. The result says what is left.
    """

    retain_max: Annotated[Count | None, "keep at most so many snapshots"] = None
    retain_min: Annotated[Count | None, "keep at least so many snapshots"] = None
    older_than: Annotated[Moment | None, "only snapshots that are older: a time, or an age such as 7 d"] = None
    dry_run: DryRun = False
    limit: Annotated[Count | None, "expire at most so many"] = None
    max_seconds: Annotated[Amount | None, "begin no further round after this time"] = None


@dataclass(frozen=True, slots=True)
class ExpireResult(Result):
    """What an expiry did; `status` is `expired`, `noop` or `dry_run` (then: what it would do).

    `kept_changelogs` are those of the expired snapshots whose changelogs are kept, `expired_changelogs` the changelogs
    that went. `kept_by_tags` maps tags that kept files of expired snapshots to their snapshot ids. `deleted` names
    every file. `stopped` says what ended the run early or kept files from being deleted.

    `remaining` counts the snapshots that are old enough to expire but stay, `remaining_because` says why: a limit, the
    time, a consumer, or what could not be read. Each round has a separate quarantine if files are quarantined:
    `quarantines` names them in the order in which to restore them, and `quarantine` is the first to restore.
    """

    status: str
    expired_snapshots: tuple[int, ...] = ()
    kept_by_tags: Mapping[str, int] = field(default_factory=dict)
    files_deleted: int = 0
    bytes_deleted: int = 0
    deleted: tuple[DeletedFile, ...] = ()
    quarantine: str | None = None
    stopped: tuple[str, ...] = ()
    earliest_snapshot_id: int | None = None
    latest_snapshot_id: int | None = None
    seconds: float = 0.0
    kept_changelogs: tuple[int, ...] = ()
    expired_changelogs: tuple[int, ...] = ()
    remaining: int = 0
    remaining_because: tuple[str, ...] = ()
    rounds: int = 0
    quarantines: tuple[str, ...] = ()


@dataclass(frozen=True)
class _ExpiryRun:
    """What holds for all rounds of a run; `over` are all ids that are old enough, kept or not."""

    table: TableHandle
    spec: ExpireSnapshots
    executor: Executor
    snapshots: Retention
    changelogs: Retention
    over: tuple[int, ...]
    ends_at_s: float | None

    @property
    def is_late(self) -> bool:
        """Whether no round should begin any more."""
        return self.ends_at_s is not None and time.monotonic() >= self.ends_at_s


@dataclass(frozen=True)
class _SnapshotExpiryRound(ExpiryRound):
    """`why` says why no more expire; `sound` is the newest snapshot that can be read, which is kept."""

    kept_by_tags: Mapping[str, int]
    why: tuple[str, ...] = ()
    sound: int | None = None


@action
def expire_snapshots(context: Context, spec: ExpireSnapshots) -> ExpireResult:
    """Expires snapshots of the table's branch. Safe to repeat and to run concurrently with other work.

    Files that an unreadable version might need are kept, and `stopped` says so; the newest snapshot that can be read
    stays. A failure of the store after the first round ends the run, and the result says so.

    Raises: InvalidArgumentError for a contradicting retention or a time in the future; CorruptTableError if a consumer
    cannot be parsed, since it may still have to read anything; ConflictError if others roll back meanwhile;
    UnsupportedError; StorageError.
    """
    table, executor, on_progress = context.table, context.executor, context.on_progress
    begun = time.monotonic()
    check_older_than(table, spec)
    snapshots = snapshot_retention(table, spec.retain_max, spec.retain_min, spec.older_than, spec.limit)
    changelogs = changelog_retention(table, limit=spec.limit)
    ends_at_s = None if spec.max_seconds is None else begun + spec.max_seconds
    history = history_of(table, all_roots(table))
    # Snapshots that others commit meanwhile are for the next run.
    over = choose_expired(_times_ms(history), replace(snapshots, limit=None), consumers={}).expired
    run = _ExpiryRun(table, spec, executor, snapshots, changelogs, over, ends_at_s)
    listener = counting(on_progress, "expire", len(over))

    def one(history: BranchHistory, rounds: Sequence[_SnapshotExpiryRound]) -> _SnapshotExpiryRound:
        done = _round(run, history, rounds)
        if listener is not None:
            listener(sum(len(item.expiration.snapshot_ids) for item in (*rounds, done)))
        return done

    def should_continue(rounds: Sequence[_SnapshotExpiryRound]) -> bool:
        return _has_next_round(rounds[-1]) and not run.is_late

    rounds, failure = run_rounds(table, history, one, should_continue=should_continue, dry_run=spec.dry_run)
    if not spec.dry_run:
        forget_old_records(table)
    return _summarize(run, rounds, failure)


def _times_ms(history: BranchHistory) -> dict[int, int]:
    return {root.snapshot.id: root.snapshot.time_ms for root in history.snapshots}


def _has_next_round(last: _SnapshotExpiryRound) -> bool:
    """Whether there is more to do, and no request to the store failed."""
    return last.expiration.has_more and bool(last.done.files or not last.plan.files)


def _round(run: _ExpiryRun, history: BranchHistory, rounds: Sequence[_SnapshotExpiryRound]) -> _SnapshotExpiryRound:
    """One complete expiry of the oldest snapshots that are to expire."""
    table, executor = run.table, run.executor
    expiration, reasons = _choose(run, history, rounds, before=next((item.sound for item in rounds), None))
    plan = plan_expired_files(table, history, expiration, executor)
    sound = None
    if not rounds and (sound := _newest_readable(table, history, expiration, plan)) is not None:
        expiration, _ = _choose(run, history, rounds, before=sound)
        reasons = (*reasons, f"snapshot {sound} stays: it is the newest one that can be read")
        plan = replace(
            plan_expired_files(table, history, expiration, executor), stopped=plan.stopped, unknown=plan.unknown
        )
    found = expiry_round(
        table, history, expiration, plan, executor, how=run.spec, what="expire_snapshots", dry_run=run.spec.dry_run
    )
    kept_by_tags = _kept_by_tags(table, history.roots, found.plan, set(found.expiration.snapshot_ids))
    return _SnapshotExpiryRound(found.expiration, found.plan, found.done, history, kept_by_tags, reasons, sound)


def _summarize(run: _ExpiryRun, rounds: Sequence[_SnapshotExpiryRound], failure: tuple[str, ...]) -> ExpireResult:
    """The result of all rounds; each file is listed once."""
    last = rounds[-1]
    expired = tuple(number for item in rounds for number in item.expiration.snapshot_ids)
    files = tuple({file.path: file for item in rounds for file in item.done.files}.values())
    kept = [root.snapshot.id for root in last.before.snapshots[len(last.expiration.snapshots) :]]
    dropped = [number for item in rounds for number in item.expiration.changelog_ids]
    as_changelogs = {root.snapshot.id for item in rounds for root in item.expiration.kept_as_changelogs} - set(dropped)
    aside = tuple(item.done.quarantine for item in reversed(rounds) if item.done.quarantine is not None)
    remaining = len(set(run.over) - set(expired))
    late = (f"max_seconds={run.spec.max_seconds} were over",) if last.expiration.has_more and run.is_late else ()
    reasons = tuple(dict.fromkeys((*last.why, *late, *failure)))
    stopped = (*reasons, *(reason for item in rounds for reason in (*item.why, *item.done.stopped)))
    done = any(not item.expiration.is_empty for item in rounds)
    return ExpireResult(
        status="noop" if not done else "dry_run" if run.spec.dry_run else "expired",
        expired_snapshots=expired,
        kept_by_tags={tag: number for item in rounds for tag, number in item.kept_by_tags.items()},
        files_deleted=len(files),
        bytes_deleted=sum(file.size_bytes for file in files),
        deleted=files,
        quarantine=aside[0] if aside else None,
        stopped=tuple(dict.fromkeys(stopped)),
        earliest_snapshot_id=kept[0] if kept else None,
        latest_snapshot_id=kept[-1] if kept else None,
        kept_changelogs=tuple(sorted(as_changelogs)),
        expired_changelogs=tuple(dropped),
        remaining=remaining,
        remaining_because=(reasons or last.done.stopped) if remaining else (),
        rounds=sum(not item.expiration.is_empty for item in rounds),
        quarantines=aside,
    )


def _newest_readable(
    table: TableHandle, history: BranchHistory, expiration: ExpirationPlan, plan: DeletionPlan
) -> int | None:
    """The newest snapshot that can be read, if it is to go; None if one that is to stay can be."""
    staying = history.snapshots[len(expiration.snapshots) + len(expiration.later) :]
    if plan.unknown or any(root.identity in plan.holders for root in staying):
        return None
    for root in reversed((*expiration.snapshots, *expiration.later)):
        try:
            live_entries(table, root.snapshot)
        except StorageError:
            raise
        except PaimonError:
            continue
        return root.snapshot.id
    return None


def _choose(
    run: _ExpiryRun, history: BranchHistory, rounds: Sequence[_SnapshotExpiryRound], *, before: int | None
) -> tuple[ExpirationPlan, tuple[str, ...]]:
    """What expires in the next round, of the snapshots before `before`; and why no more expire."""
    table, newest = run.table, max(run.over, default=0)
    readers = consumers(table)
    count = sum(len(item.expiration.snapshot_ids) for item in rounds)
    choice = choose_expired(_times_ms(history), run.snapshots, consumers=readers, already=count)
    ids = {number for number in choice.expired if number <= newest and (before is None or number < before)}
    expired = [root for root in history.snapshots if root.snapshot.id in ids]
    now = snapshots_in_round(table, expired)
    expired, later = expired[:now], expired[now:]
    if not table.options.changelog_outlives_snapshots:
        return plan_expiration(table, history, expired, {}, (), later=later), choice.reasons
    changelogs = with_new_changelogs(table, history, expired)
    count = sum(len(item.expiration.changelog_ids) for item in rounds)
    over = choose_expired_changelogs(
        {number: root.snapshot.time_ms for number, root in changelogs.items()},
        history.snapshots[-1].snapshot.id if history.snapshots else 0,
        run.changelogs,
        consumers=readers,
        already=count,
    )
    some = set(over.expired[:ROUND_SNAPSHOTS])
    expiration = plan_expiration(
        table, history, expired, changelogs, some, later=later, has_more=len(some) < len(over.expired)
    )
    return expiration, tuple(dict.fromkeys((*choice.reasons, *over.reasons)))


def _kept_by_tags(
    table: TableHandle, roots: Sequence[Root], plan: DeletionPlan, expired: Collection[int]
) -> dict[str, int]:
    return {
        root.tag: root.snapshot.id
        for root in roots
        if root.tag is not None
        and root.branch == table.paths.branch
        and (root.snapshot.id in expired or plan.holders.get(root.identity))
    }
