"""Expire tags: delete those whose time to live has ended, and the files that only they needed.

Source: `TagTimeExpire` of the Java library. Difference: tags that branches were made from stay, and the result says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import NotFoundError
from paimon_engine.executor import Executor
from paimon_engine.meta.tag import Tag
from paimon_engine.specs import DryRun, Moment
from paimon_engine.table.branches_tags.tag_notifications import TagNotifier, notifying
from paimon_engine.table.branches_tags.tagging import (
    branches_from,
    named_tags,
    plan_removal,
    remove_tags,
    tag_files,
    wall_clock,
)
from paimon_engine.table.reach.reachability import Root, all_roots
from paimon_engine.table.removal.deletion_plan import DeletedFile, carry_out, finish_interrupted, prepare
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.removal.retention import check_older_than
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import readable_tags


@dataclass(frozen=True, slots=True)
class ExpireTags(Disposal):
    """Delete tags whose retention has passed, and with `older_than` (epoch milliseconds) all made before then.

    A tag that does not say when it was made counts by its file's time of change. `tag.time-expire-enabled` = `false`
    leaves retentions alone.
    """

    older_than: Annotated[Moment | None, "also all tags made before: a time, or an age such as 90 d"] = None
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class ExpireTagsResult(Result):
    """What an expiry did; `status` is `expired`, `noop` or `dry_run` (then: what it would do).

    `expired` maps deleted tags to the reason, `kept` those whose time to live has ended to why they were not deleted.
    `stopped` says why files were left.
    """

    status: str
    expired: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    files_deleted: int = 0
    bytes_deleted: int = 0
    deleted: tuple[DeletedFile, ...] = ()
    quarantine: str | None = None
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0


@action
def expire_tags(context: Context, spec: ExpireTags) -> ExpireTagsResult:
    """Expires tags of the table's branch. Safe to repeat, and concurrently with writers, readers and expiry.

    A tag that cannot be parsed is kept with its files; `stopped` says so.

    Raises: InvalidArgumentError for a time in the future; StorageError; UnsupportedError, CallbackError as in
    `table.branches_tags.tag_notifications`.
    """
    table, executor = context.table, context.executor
    check_older_than(table, spec)
    with notifying(table, dry_run=spec.dry_run) as notifier:
        return _expired(table, spec, executor, notifier)


def _expired(table: TableHandle, spec: ExpireTags, executor: Executor, notifier: TagNotifier) -> ExpireTagsResult:
    """Removes expired tags, except those that branches were made from; then files that only they needed."""
    tags, unread = readable_tags(table)
    over = {tag.name: (tag, why) for tag in tags if (why := _expiry_reason(table, tag, spec)) is not None}
    roots = all_roots(table)
    kept: dict[str, str] = {}
    expired: list[Root] = []
    for name, (tag, _) in over.items():
        root = Root(table.paths.branch, tag.snapshot, name)
        if made := branches_from(roots, root):
            kept[name] = f"branch {made[0]!r} was made from it"
        else:
            expired.append(root)
    plan = plan_removal(table, roots, expired, executor)
    plan = replace(plan, stopped=(*(f"it stays: {reason}" for reason in unread), *plan.stopped))
    files, stopped = plan.files, plan.stopped
    quarantine = None
    if not spec.dry_run:
        if expired:
            names = named_tags(expired)
            prepared = prepare(table, plan, spec, "expire_tags", roots=tag_files(table, list(names)))
            remove_tags(table, names, notifier)
            deletion = carry_out(table, plan, executor, prepared)
        else:
            deletion = finish_interrupted(table, executor, spec)
            deletion = replace(deletion, stopped=(*plan.stopped, *deletion.stopped))
        files, stopped, quarantine = deletion.files, deletion.stopped, deletion.quarantine
    return ExpireTagsResult(
        status="dry_run" if spec.dry_run else "expired" if expired else "noop",
        expired={name: why for name, (_, why) in over.items() if name not in kept},
        kept=kept,
        files_deleted=len(files),
        bytes_deleted=sum(file.size_bytes for file in files),
        deleted=files,
        quarantine=quarantine,
        stopped=stopped,
    )


def _expiry_reason(table: TableHandle, tag: Tag, spec: ExpireTags) -> str | None:
    """Why the tag expires; None if it does not."""
    if tag.create_time is not None and tag.time_retained is not None and table.options.tag_time_expire_enabled:
        now = wall_clock(table.env.clock())
        if now > tag.create_time + tag.time_retained:
            return f"made {tag.create_time.isoformat(' ')} and kept for {tag.time_retained}"
    if spec.older_than is None:
        return None
    limit = wall_clock(spec.older_than)
    made = _made(table, tag)
    return f"made {made.isoformat(' ')}" if made is not None and made < limit else None


def _made(table: TableHandle, tag: Tag) -> datetime | None:
    if tag.create_time is not None and tag.time_retained is not None:
        return tag.create_time
    try:
        return wall_clock(table.env.storage.stat(table.paths.tag(tag.name)).modified_ms)
    except NotFoundError:
        return None
