"""Expire changelogs: delete those of expired snapshots whose time to live has ended, and the files only they needed.

1. `choose_expired_changelogs` says which ids go: the oldest ones, by number, age, consumers and a limit where one is
given; with `delete_all` every one of them. They are deleted in rounds, so that memory is bounded.
2. Their files are planned for deletion, unless a snapshot, tag, branch or other changelog reaches them.
3. The changelogs are removed, oldest first, then the planned files (`table.removal.expiry`,
   `table.removal.deletion_plan`).

A dry run is steps 1 and 2. Snapshots are left as they are; expiring those of a table whose changelogs live longer does
this step, too.

Source: `ExpireChangelogImpl`, `ExpireChangelogsProcedure` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.specs import Count, DryRun, Moment
from paimon_engine.table.reach.reachability import all_roots
from paimon_engine.table.removal.deletion_plan import DeletedFile
from paimon_engine.table.removal.expiry import (
    ROUND_SNAPSHOTS,
    BranchHistory,
    ExpiryRound,
    expiry_round,
    history_of,
    plan_expiration,
    plan_expired_files,
    remaining_changelog_ids,
    run_rounds,
)
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.removal.retention import (
    ExpiryChoice,
    Retention,
    changelog_retention,
    check_older_than,
    choose_expired_changelogs,
)
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import consumers


@dataclass(frozen=True, slots=True)
class ExpireChangelogs(Disposal):
    """Which changelogs of expired snapshots to delete; what is None comes from the table's options.

    At most `retain_max` and at least `retain_min` newest commits can be read as changes, by snapshot or by changelog;
    between these, changelogs of commits at `older_than` (epoch milliseconds) or later stay. At most `limit` go, or
    as many as the option `snapshot.expire.limit` says where the table has it. The
    newest one stays, unless `delete_all` takes all of them, as is wanted once the options no longer keep changelogs.
    """

    retain_max: Annotated[Count | None, "keep the changes of at most so many commits, snapshots counted"] = None
    retain_min: Annotated[Count | None, "keep the changes of at least so many commits, snapshots counted"] = None
    older_than: Annotated[Moment | None, "only changelogs that are older: a time, or an age such as 7 d"] = None
    limit: Annotated[Count | None, "delete at most so many"] = None
    delete_all: Annotated[bool, "delete all of them"] = False
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class ExpireChangelogsResult(Result):
    """What an expiry did; `status` is `expired`, `noop` or `dry_run` (then: what it would do).

    `kept_by_tags` maps tags that kept files of expired changelogs to their snapshot ids. `deleted` names every file.
    `stopped` says what ended the run early or kept files from being deleted. `remaining` counts the changelogs that are
    old enough to expire but stay; `stopped` says why. `quarantines` are as those of `ExpireResult`.
    """

    status: str
    expired_changelogs: tuple[int, ...] = ()
    kept_by_tags: Mapping[str, int] = field(default_factory=dict)
    files_deleted: int = 0
    bytes_deleted: int = 0
    deleted: tuple[DeletedFile, ...] = ()
    quarantine: str | None = None
    stopped: tuple[str, ...] = ()
    earliest_changelog_id: int | None = None
    latest_changelog_id: int | None = None
    seconds: float = 0.0
    remaining: int = 0
    quarantines: tuple[str, ...] = ()


@action
def expire_changelogs(context: Context, spec: ExpireChangelogs) -> ExpireChangelogsResult:
    """Expires changelogs of the table's branch. Safe to repeat and to run concurrently with other work.

    Files that an unreadable version might need are kept, and `stopped` says so.

    Raises: InvalidArgumentError for a contradicting retention or a time in the future; CorruptTableError if a consumer
    cannot be parsed, since it may still have to read anything; UnsupportedError; StorageError.
    """
    table, executor = context.table, context.executor
    check_older_than(table, spec)
    history = history_of(table, all_roots(table))
    choice = _choose(table, spec, history)
    shares = [
        choice.expired[begin : begin + ROUND_SNAPSHOTS] for begin in range(0, len(choice.expired), ROUND_SNAPSHOTS)
    ]

    def run(history: BranchHistory, rounds: Sequence[ExpiryRound]) -> ExpiryRound:
        expiration = plan_expiration(table, history, (), {}, set(shares[len(rounds)] if shares else ()))
        plan = plan_expired_files(table, history, expiration, executor)
        return expiry_round(
            table, history, expiration, plan, executor, how=spec, what="expire_changelogs", dry_run=spec.dry_run
        )

    def should_continue(rounds: Sequence[ExpiryRound]) -> bool:
        return len(rounds) < len(shares) and not rounds[-1].plan.unknown

    rounds, failure = run_rounds(table, history, run, should_continue=should_continue, dry_run=spec.dry_run)
    over = set(choice.expired if spec.delete_all else _over(table, spec, history))
    result = _summarize(table, spec, rounds, (*choice.reasons, *failure))
    done = [item for item in rounds if not item.plan.unknown]
    tried = {number for share in shares[: len(done)] for number in share}
    return replace(result, remaining=len(over - tried))


def _summarize(
    table: TableHandle, spec: ExpireChangelogs, rounds: Sequence[ExpiryRound], reasons: Sequence[str]
) -> ExpireChangelogsResult:
    """The result of all rounds; each file is listed once."""
    files = tuple({file.path: file for item in rounds for file in item.done.files}.values())
    left = remaining_changelog_ids(rounds[-1].before, rounds[-1].expiration)
    aside = tuple(item.done.quarantine for item in reversed(rounds) if item.done.quarantine is not None)
    is_empty = all(item.expiration.is_empty for item in rounds)
    return ExpireChangelogsResult(
        status="noop" if is_empty else "dry_run" if spec.dry_run else "expired",
        expired_changelogs=tuple(number for item in rounds for number in item.expiration.changelog_ids),
        kept_by_tags={
            root.tag: root.snapshot.id
            for item in rounds
            for root in item.before.roots
            if root.tag is not None and root.branch == table.paths.branch and item.plan.holders.get(root.identity)
        },
        files_deleted=len(files),
        bytes_deleted=sum(file.size_bytes for file in files),
        deleted=files,
        quarantine=aside[0] if aside else None,
        stopped=tuple(dict.fromkeys((*reasons, *(reason for item in rounds for reason in item.done.stopped)))),
        earliest_changelog_id=left[0] if left else None,
        latest_changelog_id=left[-1] if left else None,
        quarantines=aside,
    )


def _over(table: TableHandle, spec: ExpireChangelogs, history: BranchHistory) -> tuple[int, ...]:
    """Ids of the changelogs that are old enough, also those that something else keeps."""
    retention = changelog_retention(table, spec.retain_max, spec.retain_min, spec.older_than)
    return _chosen(history, replace(retention, limit=None), {}).expired


def _chosen(history: BranchHistory, retention: Retention, readers: Mapping[str, int]) -> ExpiryChoice:
    times_ms = {root.snapshot.id: root.snapshot.time_ms for root in history.changelogs}
    latest = history.snapshots[-1].snapshot.id if history.snapshots else 0
    return choose_expired_changelogs(times_ms, latest, retention, consumers=readers)


def _choose(table: TableHandle, spec: ExpireChangelogs, history: BranchHistory) -> ExpiryChoice:
    times_ms = {root.snapshot.id: root.snapshot.time_ms for root in history.changelogs}
    if spec.delete_all:
        limits = (spec.retain_max, spec.retain_min, spec.older_than, spec.limit)
        if any(limit is not None for limit in limits):
            raise InvalidArgumentError("delete_all takes every changelog; leave out what limits it")
        ids = (*times_ms, *history.roots.unread(table.paths.branch, table.paths.changelog))
        slowest = min(consumers(table).items(), key=lambda item: item[1], default=None)
        if slowest is None or all(number < slowest[1] for number in ids):
            return ExpiryChoice(ids)
        reason = f"consumer {slowest[0]!r} will read snapshot {slowest[1]} next"
        return ExpiryChoice(tuple(number for number in ids if number < slowest[1]), (reason,))
    retention = changelog_retention(table, spec.retain_max, spec.retain_min, spec.older_than, spec.limit)
    return _chosen(history, retention, consumers(table))
