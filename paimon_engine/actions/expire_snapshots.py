"""Expire snapshots: forget old ones, and delete the files that only they needed.

1. `choose_expired` says which ids go: the oldest ones, by number, age, consumers and a limit per run.
2. Where the options let changelogs live longer than snapshots, each snapshot that goes leaves its changelog, and the
   changelogs whose time is over go as well (`actions.expire_changelogs`).
3. Files that what goes reaches and no other snapshot, tag, branch or changelog does, are planned for deletion.
4. Snapshot files are removed, oldest first, so that at any moment the table has an unbroken row of snapshots;
   then the `EARLIEST` hint is moved. From here on no reader can start from them (`table.expiry`).
5. The planned files are deleted, after another look for new tags and branches (`table.deletion`).

A dry run is steps 1 to 3.

Source: `ExpireSnapshotsImpl` of the Java library, and what its commits do after that. Differences: snapshot files go
before their data, so that a crash leaves superfluous files rather than broken snapshots; tags and branches are all
asked, not only neighbouring tags.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from paimon_engine.errors import PaimonError, StorageError
from paimon_engine.executor import Executor
from paimon_engine.table.deletion import DeletedFile, DeletionPlan
from paimon_engine.table.disposal import Disposal
from paimon_engine.table.expiry import (
    Going,
    Line,
    carry_out_expiry,
    going,
    line_of,
    plan_expiry,
    would_be_changelogs,
)
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.manifests import live_entries
from paimon_engine.table.reachability import Root, all_roots
from paimon_engine.table.retention import (
    changelog_retention,
    choose_expired,
    choose_expired_changelogs,
    snapshot_retention,
)
from paimon_engine.table.snapshots import consumers

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExpireSnapshots(Disposal):
    """Which snapshots to forget; what is None comes from the table's options.

    At most `retain_max` and at least `retain_min` newest snapshots stay; between these, those that were the latest
    one at `older_than_ms` (epoch milliseconds) or later. A `retain_max` given alone lowers the option for the least.
    """

    retain_max: int | None = None
    retain_min: int | None = None
    older_than_ms: int | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ExpireResult:
    """What an expiry did; `status` is `expired`, `noop` or `dry_run` (then: what it would do).

    `kept_changelogs` are those of the expired snapshots whose changelogs live on, `expired_changelogs` the changelogs
    that went. `kept_by_tags` maps tags that kept files of expired snapshots to their snapshot ids. `deleted` names
    every file. `stopped` says what ended the run early or kept files from being deleted.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def expire_snapshots(table: TableHandle, spec: ExpireSnapshots, executor: Executor) -> ExpireResult:
    """Expires snapshots of the table's branch. Safe to repeat, and to run beside writers, readers and taggers.

    What cannot be understood keeps what it might need, and `stopped` says so; the newest snapshot that can be read
    stays.

    Raises: InvalidArgumentError for a contradicting retention; CorruptTableError if a consumer cannot be understood,
    since it may still have to read anything; ConflictError if others roll back meanwhile; UnsupportedError;
    StorageError.
    """
    begun = time.monotonic()
    roots = all_roots(table)
    line = line_of(table, roots)
    gone, reasons = _choose(table, spec, line)
    plan = plan_expiry(table, line, gone, executor)
    if (sound := _newest_readable(table, line, gone, plan)) is not None:
        gone, _ = _choose(table, spec, line, before=sound)
        reasons = (*reasons, f"snapshot {sound} stays: it is the newest one that can be read")
        plan = replace(plan_expiry(table, line, gone, executor), stopped=plan.stopped, unknown=plan.unknown)
    # Where a later run may know more, nothing is forgotten for now.
    if plan.unknown:
        gone, plan = Going(), replace(plan, data={}, metadata={})
    expired = gone.snapshot_ids
    files, stopped = plan.files, plan.stopped
    quarantine = None
    if not spec.dry_run:
        deletion = carry_out_expiry(table, line, gone, plan, executor, how=spec, what="expire_snapshots")
        files, stopped, quarantine = deletion.files, deletion.stopped, deletion.quarantine
    kept = [root.snapshot.id for root in line.snapshots if root.snapshot.id not in expired]
    result = ExpireResult(
        status="noop" if gone.is_empty else "dry_run" if spec.dry_run else "expired",
        expired_snapshots=expired,
        kept_by_tags=_kept_by_tags(table, roots, plan, expired),
        files_deleted=len(files),
        bytes_deleted=sum(file.size_bytes for file in files),
        deleted=files,
        quarantine=quarantine,
        stopped=(*reasons, *stopped),
        earliest_snapshot_id=kept[0] if kept else None,
        latest_snapshot_id=kept[-1] if kept else None,
        seconds=time.monotonic() - begun,
        kept_changelogs=tuple(sorted(root.snapshot.id for root in gone.kept)),
        expired_changelogs=gone.changelog_ids,
    )
    logger.info("%s %d snapshots of %s", result.status, len(expired), table.paths.root)
    return result


def _newest_readable(table: TableHandle, line: Line, gone: Going, plan: DeletionPlan) -> int | None:
    """The newest snapshot that can be read, if it is to go; None if one that is to stay can be."""
    staying = line.snapshots[len(gone.snapshots) :]
    if plan.unknown or any(root.identity in plan.holders for root in staying):
        return None
    for root in reversed(gone.snapshots):
        try:
            live_entries(table, root.snapshot)
        except StorageError:
            raise
        except PaimonError:
            continue
        return root.snapshot.id
    return None


def _choose(
    table: TableHandle, spec: ExpireSnapshots, line: Line, before: int | None = None
) -> tuple[Going, tuple[str, ...]]:
    """What goes, of the snapshots up to `before`; and what kept more from going."""
    readers = consumers(table)
    choice = choose_expired(
        {root.snapshot.id: root.snapshot.time_ms for root in line.snapshots},
        snapshot_retention(table, spec.retain_max, spec.retain_min, spec.older_than_ms),
        consumers=readers,
    )
    doomed = [root for root in line.snapshots if root.snapshot.id in choice.expired]
    doomed = [root for root in doomed if before is None or root.snapshot.id < before]
    if not table.options.changelog_outlives_snapshots:
        return going(table, line, doomed, {}, ()), choice.reasons
    changelogs = would_be_changelogs(table, line, doomed)
    over = choose_expired_changelogs(
        {number: root.snapshot.time_ms for number, root in changelogs.items()},
        line.snapshots[-1].snapshot.id if line.snapshots else 0,
        changelog_retention(table),
        consumers=readers,
    )
    return going(table, line, doomed, changelogs, over.expired), tuple(dict.fromkeys((*choice.reasons, *over.reasons)))


def _kept_by_tags(
    table: TableHandle, roots: Sequence[Root], plan: DeletionPlan, expired: Sequence[int]
) -> dict[str, int]:
    return {
        root.tag: root.snapshot.id
        for root in roots
        if root.tag is not None
        and root.branch == table.paths.branch
        and (root.snapshot.id in expired or plan.holders.get(root.identity))
    }
