"""Tags: name a snapshot and keep it; delete a tag and the files that only it kept.

Creating is *create if absent* plus another look: an expiry that removed the snapshot in between has not seen the tag
and deletes the snapshot's files, so the tag is taken back. If the snapshot is still there after the tag was written,
every expiry that begins to delete later sees the tag (`table.deletion`).

Source: `TagManager`, `TagDeletion` of the Java library. Differences: creation is atomic; a replaced tag's files are
deleted; every other root is asked, not only neighbouring tags.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from paimon_engine.errors import (
    ConflictError,
    CorruptTableError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
)
from paimon_engine.executor import Executor
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.tag import Tag, check_tag_name, parse_tag, tag_to_json
from paimon_engine.table.deletion import Candidates, DeletedFile, Deletion, carry_out, plan_deletion
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.manifests import missing_metadata
from paimon_engine.table.reachability import Root, all_roots
from paimon_engine.table.snapshots import latest_snapshot, list_tags, read_snapshot, read_tag
from paimon_engine.units import parse_duration_ms

IfExists = Literal["verify", "ignore", "replace", "error"]
_IF_EXISTS = ("verify", "ignore", "replace", "error")


@dataclass(frozen=True, slots=True)
class CreateTag:
    """Name a snapshot (the latest one by default) and keep it, for a time if one is given here or by the table.

    If the tag exists: `verify` accepts it if its snapshot is whole and, where one is asked for, the same;
    `ignore` accepts it as it is; `replace` moves it; `error` raises ConflictError.
    """

    tag: str
    snapshot: int | None = None
    if_exists: IfExists = "verify"
    time_retained_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteTag:
    """Delete a tag, and the files that only it kept."""

    tag: str


@dataclass(frozen=True, slots=True)
class TagResult:
    """A tag and its snapshot; `status` is `created`, `replaced` or `already_done`.

    `stopped` says why files of a replaced tag were left.
    """

    status: str
    tag: str
    snapshot_id: int
    commit_time_ms: int
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DeleteTagResult:
    """What deleting a tag did; `status` is `deleted`, or `already_done` if there is no such tag.

    `stopped` says why files were left.
    """

    status: str
    tag: str
    snapshot_id: int | None = None
    files_deleted: int = 0
    bytes_deleted: int = 0
    deleted: tuple[DeletedFile, ...] = ()
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


# ── create ──────────────────────────────────────────────────────────────────────────────────────


def create_tag(table: TableHandle, spec: CreateTag, executor: Executor) -> TagResult:
    """Creates the tag. Safe to repeat: an equal tag counts as done.

    Raises: NotFoundError if there is no such snapshot; ConflictError if the tag exists and must not, or if its
    snapshot expired meanwhile; CorruptTableError if an existing tag is broken; InvalidArgumentError.
    """
    begun = time.monotonic()
    _check(spec)
    result = _answer(table, spec, executor)
    return replace(result, seconds=time.monotonic() - begun)


def _check(spec: CreateTag) -> None:
    check_tag_name(spec.tag)
    if spec.if_exists not in _IF_EXISTS:
        raise InvalidArgumentError(f"if_exists={spec.if_exists!r}; choose one of {', '.join(_IF_EXISTS)}")
    if spec.time_retained_ms is not None and spec.time_retained_ms <= 0:
        raise InvalidArgumentError(f"time_retained_ms={spec.time_retained_ms} must be positive")


def _answer(table: TableHandle, spec: CreateTag, executor: Executor) -> TagResult:
    existing = _existing(table, spec.tag)
    if existing is not None and spec.if_exists != "replace":
        return _accept(table, spec, existing)
    tag = _new_tag(table, spec)
    if existing is None:
        if _create(table, tag):
            _look_again(table, tag, undo=lambda: _remove(table, tag.name))
            return _result("created", tag)
        existing = read_tag(table, spec.tag)
        if spec.if_exists != "replace":
            return _accept(table, spec, existing)
    if _same(existing.snapshot, tag.snapshot) and existing.time_retained == tag.time_retained:
        return _result("already_done", existing)
    return _replace(table, existing, tag, executor)


def _existing(table: TableHandle, name: str) -> Tag | None:
    try:
        return read_tag(table, name)
    except NotFoundError:
        return None


def _accept(table: TableHandle, spec: CreateTag, existing: Tag) -> TagResult:
    snapshot_id = existing.snapshot.id
    if spec.if_exists == "error":
        raise ConflictError(f"tag {spec.tag!r} of {table.paths.root} exists already, on snapshot {snapshot_id}")
    if spec.if_exists == "verify":
        if spec.snapshot not in (None, snapshot_id):
            raise ConflictError(
                f"tag {spec.tag!r} of {table.paths.root} exists on snapshot {snapshot_id}, not {spec.snapshot}; "
                "use if_exists='replace' to move it"
            )
        missing = missing_metadata(table, existing.snapshot)
        if missing is not None:
            raise CorruptTableError(f"tag {spec.tag!r} exists, but its snapshot {snapshot_id} lacks {missing}")
    return _result("already_done", existing)


def _new_tag(table: TableHandle, spec: CreateTag) -> Tag:
    snapshot = _source(table, spec.snapshot)
    retained_ms = spec.time_retained_ms
    default = table.options.raw.get("tag.default-time-retained")
    if retained_ms is None and default is not None:
        retained_ms = parse_duration_ms(default)
    if retained_ms is None:
        return Tag(spec.tag, snapshot)
    # The format keeps the creator's wall clock.
    created = datetime.fromtimestamp(table.env.clock() / 1000)  # noqa: DTZ006
    return Tag(spec.tag, snapshot, created, timedelta(milliseconds=retained_ms))


def _source(table: TableHandle, snapshot_id: int | None) -> Snapshot:
    """The snapshot to tag; one that has expired is taken from another tag on it."""
    if snapshot_id is None:
        latest = latest_snapshot(table)
        if latest is None:
            raise NotFoundError(f"{table.paths.root} has no snapshot to tag; write to the table first")
        return latest
    try:
        return read_snapshot(table, snapshot_id)
    except NotFoundError:
        for tag in list_tags(table):
            if tag.snapshot.id == snapshot_id:
                return tag.snapshot
        raise


def _same(one: Snapshot, other: Snapshot) -> bool:
    """Whether both are the same commit; the delta list's name is unique to it."""
    return one.id == other.id and one.delta_manifest_list == other.delta_manifest_list


def _create(table: TableHandle, tag: Tag) -> bool:
    """Whether the tag is there now with our content; False if another one is."""
    path, data = table.paths.tag(tag.name), tag_to_json(tag).encode()
    try:
        if table.env.storage.create(path, data):
            return True
    except OutcomeUnknownError:
        if not table.env.storage.exists(path):
            raise
    # A store's client may have repeated our own request, which then found our own tag.
    return table.env.storage.read(path) == data


def _look_again(table: TableHandle, tag: Tag, *, undo: Callable[[], None]) -> None:
    held = _is_held_elsewhere(table, tag)
    missing = missing_metadata(table, tag.snapshot) if held else None
    if not held or missing is not None:
        undo()
        lacks = "expired" if missing is None else f"lost {missing}"
        raise ConflictError(
            f"snapshot {tag.snapshot.id} of {table.paths.root} {lacks} while tag {tag.name!r} was made; "
            "tag a newer snapshot"
        )


def _is_held_elsewhere(table: TableHandle, tag: Tag) -> bool:
    try:
        return _same(read_snapshot(table, tag.snapshot.id), tag.snapshot)
    except NotFoundError:
        return any(other.name != tag.name and _same(other.snapshot, tag.snapshot) for other in list_tags(table))


def _replace(table: TableHandle, old: Tag, new: Tag, executor: Executor) -> TagResult:
    path = table.paths.tag(new.name)

    def move() -> None:
        table.env.storage.overwrite(path, tag_to_json(new).encode())
        _look_again(table, new, undo=lambda: table.env.storage.overwrite(path, tag_to_json(old).encode()))

    deletion = _forget(table, Root(table.paths.branch, old.snapshot, old.name), executor, hide=move)
    return replace(_result("replaced", new), stopped=deletion.stopped)


def _result(status: str, tag: Tag) -> TagResult:
    return TagResult(status, tag.name, tag.snapshot.id, tag.snapshot.time_ms)


# ── delete ──────────────────────────────────────────────────────────────────────────────────────


def delete_tag(table: TableHandle, spec: DeleteTag, executor: Executor) -> DeleteTagResult:
    """Deletes the tag and what only it kept. Safe to repeat, and beside writers, readers and expiry.

    A tag whose own file is broken is removed, and its files are left.

    Raises: InvalidArgumentError if a branch was made from the tag; CorruptTableError if another snapshot or tag
    cannot be understood, since it may protect anything; UnsupportedError for long-lived changelogs.
    """
    begun = time.monotonic()
    path = table.paths.tag(spec.tag)
    if not spec.tag.strip() or "/" in spec.tag or "\\" in spec.tag:
        raise InvalidArgumentError(f"{spec.tag!r} is no tag name")
    try:
        tag = parse_tag(spec.tag, table.env.storage.read(path), path)
    except NotFoundError:
        return DeleteTagResult("already_done", spec.tag, seconds=time.monotonic() - begun)
    except CorruptTableError as error:
        _remove(table, spec.tag)
        stopped = (f"files that only this tag kept are left: {error}",)
        return DeleteTagResult("deleted", spec.tag, stopped=stopped, seconds=time.monotonic() - begun)
    root = Root(table.paths.branch, tag.snapshot, tag.name)
    deletion = _forget(table, root, executor, hide=lambda: _remove(table, spec.tag))
    return DeleteTagResult(
        status="deleted",
        tag=spec.tag,
        snapshot_id=tag.snapshot.id,
        files_deleted=len(deletion.files),
        bytes_deleted=deletion.size_bytes,
        deleted=deletion.files,
        stopped=deletion.stopped,
        seconds=time.monotonic() - begun,
    )


def _remove(table: TableHandle, name: str) -> None:
    table.env.storage.delete([table.paths.tag(name)])


def _forget(table: TableHandle, root: Root, executor: Executor, *, hide: Callable[[], None]) -> Deletion:
    """Plan, hide the tag, delete what only it kept."""
    roots = all_roots(table)
    check_no_branch_from(roots, [root])
    kept = [other for other in roots if other.identity != root.identity]
    if any(_same(other.snapshot, root.snapshot) for other in kept):
        hide()
        return Deletion((), ())
    candidates = Candidates(table)
    candidates.add_live(root, f"only in {root.label}")
    candidates.add_changelog(root)
    candidates.add_metadata([root])
    plan = plan_deletion(table, candidates, kept, executor)
    hide()
    return carry_out(table, plan, executor)


def check_no_branch_from(roots: Sequence[Root], tags: Sequence[Root]) -> None:
    """Refuses to remove tags that branches were made from: Java's expiry looks at no branch, only at the tag.

    Raises: InvalidArgumentError.
    """
    for tag in tags:
        for root in roots:
            made = tag.branch == MAIN_BRANCH != root.branch and root.tag == tag.tag is not None
            if made and _same(root.snapshot, tag.snapshot):
                raise InvalidArgumentError(
                    f"branch {root.branch!r} was made from tag {tag.tag!r}, which keeps its files; "
                    "delete the branch first"
                )
