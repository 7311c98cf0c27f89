"""Expire snapshots: forget old ones, and delete the files that only they needed.

1. `choose_expired` says which ids go: the oldest ones, by number, age, consumers and a limit per run.
2. Files that the expired snapshots reach and no other snapshot, tag or branch does, are planned for deletion.
3. Snapshot files are removed, oldest first, so that at any moment the table has an unbroken row of snapshots;
   then the `EARLIEST` hint is moved. From here on no reader can start from them.
4. The planned files are deleted, after another look for new tags and branches (`table.deletion`).

A dry run is steps 1 and 2.

Source: `ExpireSnapshotsImpl` of the Java library. Differences: snapshot files go before their data, so that a crash
leaves superfluous files rather than broken snapshots; tags and branches are all asked, not only neighbouring tags.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.executor import Executor
from paimon_engine.table.deletion import (
    Candidates,
    DeletedFile,
    Deletion,
    DeletionPlan,
    carry_out,
    finish_interrupted,
    plan_deletion,
    prepare,
)
from paimon_engine.table.disposal import Disposal
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.reachability import Root, all_roots
from paimon_engine.table.snapshots import consumers, write_hint
from paimon_engine.units import parse_duration_ms

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

    `kept_by_tags` maps tags that kept files of expired snapshots to their snapshot ids. `deleted` names every file,
    `quarantine` where they lie now, if they were moved aside. `stopped` says what ended the run early or kept files
    from being deleted.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def expire_snapshots(table: TableHandle, spec: ExpireSnapshots, executor: Executor) -> ExpireResult:
    """Expires snapshots of the table's branch. Safe to repeat, and to run beside writers, readers and taggers.

    Raises: InvalidArgumentError for a contradicting retention; UnsupportedError for long-lived changelogs;
    CorruptTableError if a snapshot, tag or consumer cannot be understood, since it may protect anything.
    """
    begun = time.monotonic()
    _check_changelog_lifetime(table)
    roots = all_roots(table)
    line = sorted((root for root in roots if _is_snapshot_of(root, table)), key=lambda root: root.snapshot.id)
    choice = choose_expired(
        {root.snapshot.id: root.snapshot.time_ms for root in line},
        retention_of(table, spec),
        consumers=consumers(table),
    )
    doomed = [root for root in line if root.snapshot.id in choice.expired]
    plan = _plan(table, roots, line, doomed, executor)
    # Forgetting a snapshot whose files cannot be deleted gains nothing, and the next run could not find them.
    expired = [] if plan.unknown else [root.snapshot.id for root in doomed]
    files, stopped = plan.files, plan.stopped
    quarantine = None
    if not spec.dry_run:
        deletion = _carry_out(table, plan, line, expired, how=spec, executor=executor)
        files, stopped, quarantine = deletion.files, deletion.stopped, deletion.quarantine
    kept = [root.snapshot.id for root in line if root.snapshot.id not in expired]
    result = ExpireResult(
        status="noop" if not expired else "dry_run" if spec.dry_run else "expired",
        expired_snapshots=tuple(expired),
        kept_by_tags=_kept_by_tags(table, roots, plan, expired),
        files_deleted=len(files),
        bytes_deleted=sum(file.size_bytes for file in files),
        deleted=files,
        quarantine=quarantine,
        stopped=(*choice.reasons, *stopped),
        earliest_snapshot_id=kept[0] if kept else None,
        latest_snapshot_id=kept[-1] if kept else None,
        seconds=time.monotonic() - begun,
    )
    logger.info("%s %d snapshots of %s", result.status, len(expired), table.paths.root)
    return result


def _is_snapshot_of(root: Root, table: TableHandle) -> bool:
    return root.tag is None and root.branch == table.paths.branch


# ── which snapshots go ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Retention:
    """What stays: at most `retain_max` (None: any number), at least `retain_min`; between, by `older_than_ms`.

    One run expires at most `limit` ids.
    """

    retain_max: int | None
    retain_min: int
    older_than_ms: int
    limit: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The ids that go, and what kept more from going."""

    expired: tuple[int, ...]
    reasons: tuple[str, ...] = ()


def retention_of(table: TableHandle, spec: ExpireSnapshots) -> Retention:
    """The retention that spec and options ask for.

    Raises: InvalidArgumentError.
    """
    options = table.options
    retain_max = options.snapshot_num_retained_max if spec.retain_max is None else spec.retain_max
    retain_min = options.snapshot_num_retained_min if spec.retain_min is None else spec.retain_min
    if spec.retain_max is not None and spec.retain_min is None:
        retain_min = min(retain_min, spec.retain_max)
    if retain_min < 1 or (retain_max is not None and retain_max < 1):
        raise InvalidArgumentError(f"retain_max={retain_max}, retain_min={retain_min}: keep at least one snapshot")
    if retain_max is not None and retain_max < retain_min:
        raise InvalidArgumentError(f"retain_max={retain_max} is less than retain_min={retain_min}")
    older_than_ms = spec.older_than_ms
    if older_than_ms is None:
        older_than_ms = table.env.clock() - options.snapshot_time_retained_ms
    return Retention(retain_max, retain_min, older_than_ms, options.snapshot_expire_limit)


def choose_expired(times_ms: Mapping[int, int], retention: Retention, *, consumers: Mapping[str, int]) -> Choice:
    """Ids that go, of the existing snapshots' commit times by id; always the oldest ones, never the latest.

    A snapshot counts as old from the time on at which the next one replaced it.
    """
    ids = sorted(times_ms)
    if not ids:
        return Choice(())
    earliest, latest = ids[0], ids[-1]
    reasons = []
    end = latest - retention.retain_min + 1
    by_number = earliest if retention.retain_max is None else max(latest - retention.retain_max + 1, earliest)
    for position, snapshot_id in enumerate(ids[:-1]):
        replaced_ms = times_ms[ids[position + 1]]
        if by_number <= snapshot_id < end and replaced_ms >= retention.older_than_ms:
            end = snapshot_id
    for name, next_id in sorted(consumers.items()):
        if max(next_id, earliest) < end:
            end = max(next_id, earliest)
            reasons.append(f"consumer {name!r} reads on from snapshot {next_id}")
    if end > earliest + retention.limit:
        end = earliest + retention.limit
        reasons.append(f"'snapshot.expire.limit' = {retention.limit} is reached; run again for the rest")
    return Choice(tuple(item for item in ids[:-1] if item < end), tuple(reasons))


_CHANGELOG_LIFETIME: Final = (
    ("changelog.num-retained.max", "snapshot.num-retained.max", int, None),
    ("changelog.num-retained.min", "snapshot.num-retained.min", int, 10),
    ("changelog.time-retained", "snapshot.time-retained", parse_duration_ms, 3_600_000),
)


def _check_changelog_lifetime(table: TableHandle) -> None:
    raw = table.options.raw
    for changelog, snapshot, parse, default in _CHANGELOG_LIFETIME:
        if changelog not in raw:
            continue
        limit = parse(raw[snapshot]) if snapshot in raw else default
        if limit is not None and parse(raw[changelog]) > limit:
            raise UnsupportedError(
                f"'{changelog}' = '{raw[changelog]}' keeps changelogs longer than snapshots; "
                "expiring snapshots of such a table is not supported yet"
            )


# ── what goes with them ─────────────────────────────────────────────────────────────────────────


def _plan(
    table: TableHandle, roots: Sequence[Root], line: Sequence[Root], doomed: Sequence[Root], executor: Executor
) -> DeletionPlan:
    candidates = Candidates(table)
    if not doomed:
        return DeletionPlan({}, {})
    gone = {root.identity for root in doomed}
    kept = [root for root in roots if root.identity not in gone]
    first_kept = line[len(doomed)]
    # What was live in an expired snapshot but is not in the first one that stays was removed in between.
    for root in (*doomed[1:], first_kept):
        candidates.add_removed(root, f"removed by {root.label}")
    for root in doomed:
        candidates.add_changelog(root)
    candidates.add_metadata(doomed)
    return plan_deletion(table, candidates, kept, executor)


def _carry_out(
    table: TableHandle,
    plan: DeletionPlan,
    line: Sequence[Root],
    expired: Sequence[int],
    *,
    how: Disposal,
    executor: Executor,
) -> Deletion:
    if not expired:
        _hide(table, line, expired)
        left_over = finish_interrupted(table, executor, how)
        return replace(left_over, stopped=(*plan.stopped, *left_over.stopped))
    prepared = prepare(
        table,
        plan,
        how,
        "expire_snapshots",
        roots=[table.paths.snapshot(snapshot_id) for snapshot_id in expired],
        neighbours=[table.paths.snapshot(line[len(expired)].snapshot.id)],
    )
    _hide(table, line, expired)
    return carry_out(table, plan, executor, prepared)


def _hide(table: TableHandle, line: Sequence[Root], expired: Sequence[int]) -> None:
    storage, paths = table.env.storage, table.paths
    for snapshot_id in expired:
        storage.delete([paths.snapshot(snapshot_id)])
    if expired or (line and not storage.exists(paths.earliest_hint)):
        write_hint(table, paths.earliest_hint, line[len(expired)].snapshot.id)


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
