"""Roll back without losing anything: a new snapshot with the rows of an earlier one.

1. The files live now and then are compared; a tag keeps the earlier snapshot, since files are live again that later
   snapshots removed, and an expiry of those must not delete them. During the work another one keeps it, since others
   may delete or move the tag that was named.
2. The next snapshot removes what is live only now and adds what was live only then, with the schema, index and
   statistics of the earlier one. If another process commits first, this is repeated.

Source: `FileStoreCommitImpl.rollbackToAsLatest`, `RollbackToAsLatestProcedure` of the Java library.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Annotated, Final

import tenacity

from paimon_engine.action import Context, Result, action_once
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError
from paimon_engine.meta.commit_identifier import Maker
from paimon_engine.meta.manifest import FileKind, ManifestEntry
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.meta.tag import Tag
from paimon_engine.specs import Index, Moment, Name, Spec
from paimon_engine.supported import check_metadata_writable
from paimon_engine.table.branches_tags.tag_notifications import TagNotifier, notifying
from paimon_engine.table.branches_tags.tagging import held, make_tag
from paimon_engine.table.commit.job_commit import JobCommit
from paimon_engine.table.commit.own_commits import Recorder
from paimon_engine.table.commit.own_files import work_begins
from paimon_engine.table.commit.patience import Patience
from paimon_engine.table.commit.publish_metadata import publish_metadata
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.metadata_writer import MetadataWriter
from paimon_engine.table.state.moments import last_at_watermark
from paimon_engine.table.state.presence import is_tagged
from paimon_engine.table.state.snapshots import (
    choose_snapshot,
    latest_snapshot,
    list_tags,
    same_commit,
)

TAG_PREFIX: Final = "rollback-to-as-latest-"
_CARRIED: Final = ("logOffsets", "properties", "nextRowId")
"""What the new snapshot takes over of those keys that the format leaves open."""


@dataclass(frozen=True, slots=True)
class RollbackToAsLatest(Spec):
    """Make a new snapshot of an earlier one, a tag or a moment, exactly one of them; as in `Rollback`."""

    snapshot: Annotated[Index | None, "id of the snapshot to go back to"] = None
    tag: Annotated[Name | None, "name of the tag to go back to"] = None
    timestamp: Annotated[Moment | None, "to the newest snapshot not younger than this time"] = None
    watermark: Annotated[int | None, "to the newest snapshot whose watermark is not beyond, in epoch milliseconds"] = (
        None
    )


@dataclass(frozen=True, slots=True)
class RollbackToAsLatestResult(Result):
    """What was made; `status` is `committed`, or `already_done` if this job has made it before.

    `snapshot_id` is the new snapshot, `restored_snapshot` the one whose rows it has, `tag` the tag that keeps that one.
    """

    status: str
    snapshot_id: int
    restored_snapshot: int | None = None
    previous_snapshot: int | None = None
    tag: str | None = None
    files_added: int = 0
    files_removed: int = 0
    seconds: float = 0.0


@action_once(CommitKind.OVERWRITE, Maker.ROLLBACK_TO_AS_LATEST, RollbackToAsLatestResult)
def rollback_to_as_latest(context: Context, spec: RollbackToAsLatest) -> RollbackToAsLatestResult:
    """Makes the snapshot. Once for a `commit_user`; safe to run concurrently with writers, readers and expiry.

    Raises: NotFoundError; InvalidArgumentError; ConflictError if others always commit first, or if the earlier snapshot
    expires meanwhile; OutcomeUnknownError if the store never said whether it was made; UnsupportedError; CallbackError
    as in `table.branches_tags.tag_notifications`, if a tag is made.
    """
    table, job = context.table, context.job
    check_metadata_writable(table.options)
    recorder = Recorder(table, job.key, job.checked_up_to)
    target = _target(table, spec)
    with held(table, target):
        with notifying(table, dry_run=spec.tag is not None) as notifier:
            tag = spec.tag or _keep(table, target, notifier)
            result = _commit(table, target, job, recorder)
        if not is_tagged(table, tag, target):
            with notifying(table) as notifier:
                tag = _keep(table, target, notifier)
    return replace(result, tag=tag)


def _commit(table: TableHandle, target: Snapshot, job: JobCommit, recorder: Recorder) -> RollbackToAsLatestResult:
    """Tries until a try is not overtaken by another commit, with the waits of the table's options.

    Raises: ConflictError if others were faster in all tries.
    """
    patience = Patience(table.options)
    attempt_s = 0.0

    def attempt() -> RollbackToAsLatestResult | None:
        nonlocal attempt_s
        begun = time.monotonic()
        result = _try(table, target, job, recorder)
        attempt_s = time.monotonic() - begun
        return result

    try:
        result = patience.retrying(lambda: attempt_s, tenacity.retry_if_result(lambda made: made is None))(attempt)
    except tenacity.RetryError as error:
        tries = error.last_attempt.attempt_number
        raise ConflictError(
            f"{table.paths.root}: others committed first in {tries} tries; {patience.remedy}"
        ) from error
    assert result is not None
    return result


def _target(table: TableHandle, spec: RollbackToAsLatest) -> Snapshot:
    if sum(way is not None for way in (spec.snapshot, spec.tag, spec.timestamp, spec.watermark)) != 1:
        raise InvalidArgumentError("name what to go back to in one way: snapshot, tag, timestamp or watermark")
    if spec.watermark is not None:
        return last_at_watermark(table, spec.watermark)
    try:
        found = choose_snapshot(table, snapshot=spec.snapshot, tag=spec.tag, timestamp_ms=spec.timestamp)
    except NotFoundError:
        found = next((tag.snapshot for tag in list_tags(table) if tag.snapshot.id == spec.snapshot), None)
        if found is None:
            raise
    assert found is not None
    return found


def _keep(table: TableHandle, target: Snapshot, notifier: TagNotifier) -> str:
    """The tag that keeps the snapshot, made unless an earlier try has made it."""
    for tag in list_tags(table):
        if tag.name.startswith(TAG_PREFIX) and same_commit(tag.snapshot, target):
            return tag.name
    name = f"{TAG_PREFIX}{target.id}-{table.env.new_id()}"
    if not make_tag(table, Tag(name, target), notifier):
        raise ConflictError(f"tag {name!r} of {table.paths.root} exists already; run again")
    return name


def _try(table: TableHandle, target: Snapshot, job: JobCommit, recorder: Recorder) -> RollbackToAsLatestResult | None:
    """The result, or None if another process committed first."""
    latest = latest_snapshot(table)
    if latest is None:
        raise NotFoundError(f"{table.paths.root} has no snapshot to go back from")
    begun = work_begins(table, latest)
    writer = MetadataWriter(table)
    try:
        snapshot, changes = _next(table, latest, target, job, writer)
        other = recorder.begin(latest.id)
    except BaseException:
        writer.take_back()
        raise
    if other is not None:
        writer.take_back()
        return RollbackToAsLatestResult("already_done", other.id)
    if not publish_metadata(table, snapshot, latest, changes, writer=writer, begun=begun, request=job.request()):
        return None
    recorder.done(snapshot)
    added = sum(entry.kind is FileKind.ADD for entry in changes)
    return RollbackToAsLatestResult(
        "committed", snapshot.id, target.id, latest.id, files_added=added, files_removed=len(changes) - added
    )


def _next(
    table: TableHandle, latest: Snapshot, target: Snapshot, job: JobCommit, writer: MetadataWriter
) -> tuple[Snapshot, list[ManifestEntry]]:
    """The snapshot after `latest` with the files of `target`, its lists written, and the changes between both."""
    now, then = ({entry.identity: entry for entry in live_entries(table, item)} for item in (latest, target))
    removed = [replace(entry, kind=FileKind.DELETE) for key, entry in now.items() if key not in then]
    changes = [*removed, *(entry for key, entry in then.items() if key not in now)]
    base = writer.manifest_list(writer.manifests(list(now.values())), base_of=latest.id + 1)
    delta = writer.manifest_list(writer.manifests(changes))
    rows = sum(entry.file.row_count for entry in then.values())
    extras = {"logOffsets": {}, **target.extras}
    row_ids = [item.extras["nextRowId"] for item in (latest, target) if item.extras.get("nextRowId") is not None]
    if row_ids:
        # Ids that rows have got since must not be given again.
        extras["nextRowId"] = max(row_ids)
    snapshot = replace(
        job.next_like(target, latest, base, delta, table.env.clock()),
        total_record_count=rows,
        delta_record_count=rows - sum(entry.file.row_count for entry in now.values()),
        version=latest.version,
        extras={key: value for key, value in extras.items() if key in _CARRIED},
    )
    return snapshot, changes
