"""Tags: name a snapshot and keep it; rename a tag; delete a tag and the files that only it kept.

Source: `TagManager`, `TagDeletion` of the Java library. Differences: creation is atomic; a replaced tag's files are
deleted; every other root is checked, not only neighbouring tags; a rename creates the new tag and then deletes the
old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import (
    AlreadyExistsError,
    CorruptTableError,
    InvalidArgumentError,
    NotFoundError,
)
from paimon_engine.executor import Executor
from paimon_engine.meta.names import check_inside_directory, check_tag_name
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.tag import Tag, parse_tag
from paimon_engine.specs import DryRun, IfExists, Index, Moment, Name, Span, Spec
from paimon_engine.table.branches_tags.tag_notifications import TagNotifier, notifying
from paimon_engine.table.branches_tags.tagging import (
    check_no_branch_from,
    make_tag,
    move_tag,
    new_tag,
    plan_removal,
    remove_tags,
    tag_files,
)
from paimon_engine.table.reach.reachability import Root, all_roots
from paimon_engine.table.removal.deletion_plan import (
    DeletedFile,
    Deletion,
    DeletionPlan,
    carry_out,
    finish_interrupted,
    prepare,
    with_deletion,
)
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import missing_metadata
from paimon_engine.table.state.moments import first_at_time, first_at_watermark, newest_at_time
from paimon_engine.table.state.snapshots import latest_snapshot, list_tags, read_snapshot, read_tag, same_commit
from paimon_engine.units import instant_text

IfTagExists = Literal["verify", IfExists, "replace"]
_IF_EXISTS = ("verify", "ignore", "replace", "error")


@dataclass(frozen=True, slots=True)
class CreateTag(Disposal):
    """Name a snapshot (the latest one by default) and keep it, for a time if one is given here or by the table.

    `timestamp` means the first snapshot, or snapshot that a tag keeps, committed then or later; `watermark`
    for the first with this watermark or a later one (both epoch milliseconds). `as_of` means the table's state at
    that time: the newest snapshot committed then or before, if that is still known. Give one of the four at most.

    If the tag exists: `verify` accepts it if its snapshot is complete and, if one is given, the same;
    `ignore` accepts any; `replace` moves it; `error` raises ConflictError.
    """

    tag: Annotated[Name, "name of the tag"]
    snapshot: Annotated[Index | None, "id of the snapshot to name; the latest by default"] = None
    if_exists: Annotated[
        IfTagExists, "what to do about a tag of that name: verify accepts it on the same snapshot, ignore anyway"
    ] = "verify"
    time_retained: Annotated[Span | None, "how long the tag is kept, such as 30 d"] = None
    timestamp: Annotated[Moment | None, "the first snapshot committed at this time or later"] = None
    watermark: Annotated[int | None, "the first snapshot whose watermark has got so far, in epoch milliseconds"] = None
    as_of: Annotated[Moment | None, "the table's state at this time: the newest snapshot committed by then"] = None
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class RenameTag(Spec):
    """Give a tag another name."""

    tag: Annotated[Name, "name of the tag"]
    to: Annotated[Name, "its new name"]


@dataclass(frozen=True, slots=True)
class DeleteTag(Disposal):
    """Delete a tag, and the files that only it kept; a dry run says which."""

    tag: Annotated[Name, "name of the tag"]
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class TagResult(Result):
    """A tag and its snapshot; `status` is `created`, `replaced`, `renamed`, `already_done` or `dry_run`.

    `deleted` names the files that only a replaced tag kept, `stopped` says why some were left.
    """

    status: str
    tag: str
    snapshot_id: int
    commit_time_ms: int
    files_deleted: int = 0
    bytes_deleted: int = 0
    deleted: tuple[DeletedFile, ...] = ()
    quarantine: str | None = None
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DeleteTagResult(Result):
    """What deleting a tag did; `status` is `deleted`, `dry_run`, or `already_done` if the tag does not exist.

    `stopped` says why files were left.
    """

    status: str
    tag: str
    snapshot_id: int | None = None
    files_deleted: int = 0
    bytes_deleted: int = 0
    deleted: tuple[DeletedFile, ...] = ()
    quarantine: str | None = None
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0


# ── create ──────────────────────────────────────────────────────────────────────────────────────


@action
def create_tag(context: Context, spec: CreateTag) -> TagResult:
    """Creates the tag. Safe to repeat: an equal tag counts as done.

    Raises: NotFoundError if there is no such snapshot; ConflictError if the tag exists and must not, or if its
    snapshot expired meanwhile; CorruptTableError if an existing tag is broken; InvalidArgumentError; UnsupportedError,
    CallbackError as in `table.branches_tags.tag_notifications`.
    """
    table, executor = context.table, context.executor
    _check(table, spec)
    with notifying(table, dry_run=spec.dry_run) as notifier:
        result = _answer(table, spec, executor, notifier)
        if result.status == "already_done" and not spec.dry_run:
            # The process that created it may have died before it sent the notification.
            notifier.made({result.tag: result.snapshot_id})
    return result


def _check(table: TableHandle, spec: CreateTag) -> None:
    check_tag_name(spec.tag)
    if spec.if_exists not in _IF_EXISTS:
        raise InvalidArgumentError(f"if_exists={spec.if_exists!r}; choose one of {', '.join(_IF_EXISTS)}")
    if sum(way is not None for way in (spec.snapshot, spec.timestamp, spec.watermark, spec.as_of)) > 1:
        raise InvalidArgumentError("name what to tag in one way: by snapshot, timestamp, watermark or as_of")
    now_ms = table.env.clock()
    if spec.as_of is not None and spec.as_of > now_ms:
        # Snapshots that are committed until then would be missing, and the tag would stay as it is.
        raise InvalidArgumentError(
            f"as_of={instant_text(spec.as_of)} is in the future, now is {instant_text(now_ms)}: what the table "
            "will hold then is not known yet; create the tag after that time, or leave as_of out to tag the latest one"
        )


def _answer(table: TableHandle, spec: CreateTag, executor: Executor, notifier: TagNotifier) -> TagResult:
    """Creates the tag, or decides by `if_exists` what to do with one of that name.

    Another process may create it after it was looked for: its tag is treated like one that was there before.
    """
    existing = _existing(table, spec.tag)
    if existing is not None and spec.if_exists != "replace":
        return _accept(table, spec, existing)
    tag = new_tag(table, spec.tag, _source(table, spec), spec.time_retained)
    if existing is None:
        if spec.dry_run:
            return _result("dry_run", tag)
        if make_tag(table, tag, notifier):
            return _result("created", tag)
        existing = read_tag(table, spec.tag)
        if spec.if_exists != "replace":
            return _accept(table, spec, existing)
    if same_commit(existing.snapshot, tag.snapshot) and existing.time_retained == tag.time_retained:
        return _result("already_done", existing)
    return _replace(table, existing, tag, spec, executor, notifier=notifier)


def _existing(table: TableHandle, name: str) -> Tag | None:
    try:
        return read_tag(table, name)
    except NotFoundError:
        return None


def _accept(table: TableHandle, spec: CreateTag, existing: Tag) -> TagResult:
    """The result where a tag exists and stays as it is.

    Raises: ConflictError for `if_exists` = `error`, or with `verify` if it is on another snapshot than requested;
    CorruptTableError if metadata of its snapshot is missing.
    """
    snapshot_id = existing.snapshot.id
    if spec.if_exists == "error":
        raise AlreadyExistsError(f"tag {spec.tag!r} of {table.paths.root} exists already, on snapshot {snapshot_id}")
    if spec.if_exists == "verify":
        asked = _requested_snapshot_id(table, spec, existing)
        if asked not in (None, snapshot_id):
            raise AlreadyExistsError(
                f"tag {spec.tag!r} of {table.paths.root} exists on snapshot {snapshot_id}, not {asked}; "
                "use if_exists='replace' to move it"
            )
        missing = missing_metadata(table, existing.snapshot)
        if missing is not None:
            raise CorruptTableError(f"tag {spec.tag!r} exists, but its snapshot {snapshot_id} lacks {missing}")
    return _result("already_done", existing)


def _requested_snapshot_id(table: TableHandle, spec: CreateTag, existing: Tag) -> int | None:
    """The snapshot that the existing tag must name; None if any is right."""
    if spec.as_of is not None and existing.snapshot.time_ms <= spec.as_of:
        try:
            return newest_at_time(table, spec.as_of).id
        except NotFoundError:
            # When it was created its snapshot was known to be the latest then, unless a newer tag shows another one.
            known = (tag.snapshot for tag in list_tags(table))
            return max(one.id for one in known if one.time_ms <= spec.as_of)
    by_moment = (spec.timestamp, spec.watermark, spec.as_of)
    return _source(table, spec).id if any(way is not None for way in by_moment) else spec.snapshot


def _source(table: TableHandle, spec: CreateTag) -> Snapshot:
    """The snapshot to tag; one that has expired is taken from another tag on it."""
    if spec.timestamp is not None:
        return first_at_time(table, spec.timestamp)
    if spec.watermark is not None:
        return first_at_watermark(table, spec.watermark)
    if spec.as_of is not None:
        return newest_at_time(table, spec.as_of)
    if spec.snapshot is None:
        latest = latest_snapshot(table)
        if latest is None:
            raise NotFoundError(f"{table.paths.root} has no snapshot to tag; write to the table first")
        return latest
    try:
        return read_snapshot(table, spec.snapshot)
    except NotFoundError:
        for tag in list_tags(table):
            if tag.snapshot.id == spec.snapshot:
                return tag.snapshot
        raise


def _replace(
    table: TableHandle, old: Tag, new: Tag, spec: CreateTag, executor: Executor, *, notifier: TagNotifier
) -> TagResult:
    root, roots = Root(table.paths.branch, old.snapshot, old.name), all_roots(table)
    check_no_branch_from(roots, [root])
    plan = plan_removal(table, roots, [root], executor)
    if spec.dry_run:
        return with_deletion(_result("dry_run", new), Deletion(plan.files, plan.stopped))
    prepared = prepare(table, plan, spec, "create_tag", roots=[table.paths.tag(old.name)])
    move_tag(table, old, new, notifier)
    return with_deletion(_result("replaced", new), carry_out(table, plan, executor, prepared))


def _result(status: str, tag: Tag) -> TagResult:
    return TagResult(status, tag.name, tag.snapshot.id, tag.snapshot.time_ms)


# ── rename ──────────────────────────────────────────────────────────────────────────────────────


@action
def rename_tag(context: Context, spec: RenameTag) -> TagResult:
    """Renames the tag; at any moment one of the names exists. Safe to repeat. Callbacks are not called, as in Java.

    Raises: NotFoundError; ConflictError if the new name belongs to another tag; InvalidArgumentError for a bad name,
    or if a branch was made from the tag.
    """
    table = context.table
    check_inside_directory("tag", spec.tag)
    check_tag_name(spec.to)
    with notifying(table, only_files=True) as notifier:
        result = _renamed(table, spec, notifier)
        if result.status == "already_done":
            # The run that renamed it may have died before it said so.
            notifier.gone({name: None for name in (spec.tag,) if name != spec.to})
            notifier.made({result.tag: result.snapshot_id})
    return result


def _renamed(table: TableHandle, spec: RenameTag, notifier: TagNotifier) -> TagResult:
    taken, old = _existing(table, spec.to), _existing(table, spec.tag)
    if old is None:
        # Renamed already, or never there: then the error says which tags there are.
        return _result("already_done", read_tag(table, spec.tag) if taken is None else taken)
    if spec.to == spec.tag:
        return _result("already_done", old)
    new = replace(old, name=spec.to)
    check_no_branch_from(all_roots(table), [Root(table.paths.branch, old.snapshot, old.name)])
    # An equal tag of the new name is what a rename that was interrupted has left.
    if taken not in (None, new) or not make_tag(table, new, notifier):
        raise AlreadyExistsError(f"tag {spec.to!r} of {table.paths.root} exists already; delete it first")
    remove_tags(table, {spec.tag: old.snapshot.id}, notifier)
    return _result("renamed", new)


# ── delete ──────────────────────────────────────────────────────────────────────────────────────


@action
def delete_tag(context: Context, spec: DeleteTag) -> DeleteTagResult:
    """Deletes the tag and the files that only it needed. Safe to repeat and to run concurrently with other work.

    A tag whose own file is broken is removed, and its files are left.

    Files that an unreadable version might need are kept, and `stopped` says so.

    Raises: InvalidArgumentError if a branch was made from the tag; StorageError; UnsupportedError, CallbackError as in
    `table.branches_tags.tag_notifications`.
    """
    table, executor = context.table, context.executor
    check_inside_directory("tag", spec.tag)
    with notifying(table, dry_run=spec.dry_run) as notifier:
        return _deleted(table, spec, executor, notifier)


def _deleted(table: TableHandle, spec: DeleteTag, executor: Executor, notifier: TagNotifier) -> DeleteTagResult:
    """Removes the tag, then the files that only it needed; a tag that cannot be read is deleted without its files."""
    path = table.paths.tag(spec.tag)
    status = "dry_run" if spec.dry_run else "deleted"
    try:
        tag = parse_tag(spec.tag, table.env.storage.read(path), path)
    except NotFoundError:
        if spec.dry_run:
            return DeleteTagResult("already_done", spec.tag)
        left = finish_interrupted(table, executor, spec)
        result = DeleteTagResult("already_done", spec.tag, None, len(left.files), left.size_bytes, left.files)
        return replace(result, stopped=left.stopped)
    except CorruptTableError as error:
        why = f"files that only this tag kept are left: {error}"
        result = DeleteTagResult(status, spec.tag, stopped=(why,))
        if spec.dry_run:
            return result
        moved = prepare(table, DeletionPlan({}, {}), spec, "delete_tag", roots=tag_files(table, [spec.tag])).quarantine
        remove_tags(table, {spec.tag: None}, notifier)
        return replace(result, quarantine=None if moved is None else moved.name)
    root, roots = Root(table.paths.branch, tag.snapshot, tag.name), all_roots(table)
    check_no_branch_from(roots, [root])
    plan = plan_removal(table, roots, [root], executor)
    files: Sequence[DeletedFile] = plan.files
    stopped, quarantine = plan.stopped, None
    if not spec.dry_run:
        prepared = prepare(table, plan, spec, "delete_tag", roots=tag_files(table, [spec.tag]))
        remove_tags(table, {spec.tag: tag.snapshot.id}, notifier)
        deletion = carry_out(table, plan, executor, prepared)
        files, stopped, quarantine = deletion.files, deletion.stopped, deletion.quarantine
    return DeleteTagResult(
        status=status,
        tag=spec.tag,
        snapshot_id=tag.snapshot.id,
        files_deleted=len(files),
        bytes_deleted=sum(file.size_bytes for file in files),
        deleted=tuple(files),
        quarantine=quarantine,
        stopped=stopped,
    )
