"""Creating and deleting tags: what all actions on tags share.

Making one is *create if absent* plus another look: an expiry that removed the snapshot in between has not seen the tag
and deletes the snapshot's files, so the tag is taken back. If the snapshot is still there after the tag was written,
every expiry that begins to delete later sees the tag (`table.removal.deletion_plan`).

Callbacks are called when tags are created or deleted (`table.branches_tags.tag_notifications`).

Source: `TagManager`, `TagDeletion` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta

from paimon_engine.errors import (
    REMEDY,
    ConflictError,
    CorruptTableError,
    InvalidArgumentError,
    NotFoundError,
    StorageError,
)
from paimon_engine.executor import Executor
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.meta.tag import Tag, tag_to_json
from paimon_engine.storage.publication import create_own
from paimon_engine.table.branches_tags.tag_notifications import TagNotifier
from paimon_engine.table.files.external import store_of
from paimon_engine.table.reach.reachability import DataPaths, Root, Roots, lost_roots
from paimon_engine.table.removal.candidates import Candidates
from paimon_engine.table.removal.deletion_plan import DeletionPlan, plan_deletion
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries, missing_metadata
from paimon_engine.table.state.presence import is_there
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import HELD_PREFIX, readable_tags, same_commit
from paimon_engine.units import DAY_MS

# ── make ────────────────────────────────────────────────────────────────────────────────────────


def new_tag(table: TableHandle, name: str, snapshot: Snapshot, time_retained_ms: int | None = None) -> Tag:
    """A tag to be made now, kept for that time or for the table's default."""
    retained_ms = table.options.tag_default_time_retained_ms if time_retained_ms is None else time_retained_ms
    if retained_ms is None:
        return Tag(name, snapshot)
    return Tag(name, snapshot, wall_clock(table.env.clock()), timedelta(milliseconds=retained_ms))


def wall_clock(epoch_ms: int) -> datetime:
    """This machine's wall clock then: what the format keeps as the time of a tag."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000)  # noqa: DTZ006 - see above
    except (ValueError, OverflowError, OSError):
        # Callers write the end of time as a very large number.
        return datetime.max if epoch_ms > 0 else datetime.min  # noqa: DTZ901 - see above


def make_tag(table: TableHandle, tag: Tag, notifier: TagNotifier) -> bool:
    """Creates the tag: True, or False if a different one of that name exists. May be repeated.

    Raises: ConflictError if its snapshot expired meanwhile; CorruptTableError if it is there and lacks metadata;
    StorageError.
    """
    notifier.expect({tag.name: tag.snapshot.id})
    if not create_own(table.env.storage, table.paths.tag(tag.name), tag_to_json(tag).encode()):
        notifier.undone(tag.name)
        return False

    def undo() -> None:
        table.env.storage.delete([table.paths.tag(tag.name)])
        notifier.undone(tag.name)

    _look_again(table, tag, undo=undo)
    notifier.made({tag.name: tag.snapshot.id})
    return True


@contextmanager
def held(table: TableHandle, snapshot: Snapshot) -> Iterator[None]:
    """Keeps the files of a snapshot, also of one that only a tag has, by a tag of its own until the work is done.

    If the run dies, the tag expires after a day. No callback is called.

    Raises: ConflictError if the snapshot has expired; CorruptTableError if it lacks metadata; StorageError.
    """
    tag = new_tag(table, f"{HELD_PREFIX}{snapshot.id}-{table.env.new_id()}", snapshot, DAY_MS)
    path = table.paths.tag(tag.name)
    create_own(table.env.storage, path, tag_to_json(tag).encode())
    _look_again(table, tag, undo=lambda: table.env.storage.delete([path]))
    try:
        yield
    finally:
        with suppress(StorageError):
            table.env.storage.delete([path])


def move_tag(table: TableHandle, old: Tag, new: Tag, notifier: TagNotifier) -> None:
    """Puts an existing tag on another snapshot; the files that only the old one kept are the caller's.

    Raises: ConflictError if the new snapshot expired meanwhile: the tag is then where it was, or is missing if others
    have deleted it or its files.
    """
    notifier.expect({new.name: new.snapshot.id})
    data = tag_to_json(new).encode()
    table.env.storage.overwrite(table.paths.tag(new.name), data)
    _look_again(table, new, undo=lambda: _put_back(table, old, data))
    notifier.made({new.name: new.snapshot.id})


def _put_back(table: TableHandle, old: Tag, written: bytes) -> None:
    """Restores the tag that `written` has replaced: the files of the new snapshot were not protected for a moment."""
    storage, path = table.env.storage, table.paths.tag(old.name)
    try:
        if storage.read(path) != written:
            return
    except NotFoundError:
        return
    storage.overwrite(path, tag_to_json(old).encode())
    if not _is_held_elsewhere(table, old) and _lacks_files(table, old.snapshot):
        storage.delete([path])


def _lacks_files(table: TableHandle, snapshot: Snapshot) -> bool:
    if missing_metadata(table, snapshot) is not None:
        return True
    paths = DataPaths(table)
    needed = [path for entry in live_entries(table, snapshot) for path, _ in paths.of(entry)]
    return not all(in_threads(table, lambda handle, path: store_of(handle, path).exists(path), needed))


def _look_again(table: TableHandle, tag: Tag, *, undo: Callable[[], None]) -> None:
    """Checks after a tag was stored that nothing has deleted its snapshot meanwhile; if so, `undo` takes the tag back.

    An expiry that lists tags from now on sees this one; one that listed them before has hidden the snapshot by now.

    Raises: ConflictError if the snapshot is gone; CorruptTableError if it is there and lacks metadata.
    """
    is_kept = _is_held_elsewhere(table, tag)
    missing = missing_metadata(table, tag.snapshot) if is_kept else None
    if not is_kept or missing is not None:
        undo()
        if missing is not None and _is_held_elsewhere(table, tag):
            # No expiry, which hides a snapshot before it deletes files of it: this one is there and not whole.
            raise CorruptTableError(
                f"snapshot {tag.snapshot.id} of {table.paths.root} cannot be tagged: {missing} cannot be read; {REMEDY}"
            )
        lacks = "expired" if missing is None else f"lost {missing}"
        raise ConflictError(
            f"snapshot {tag.snapshot.id} of {table.paths.root} {lacks} while tag {tag.name!r} was made; "
            "tag a newer snapshot"
        )


def _is_held_elsewhere(table: TableHandle, tag: Tag) -> bool:
    if is_there(table, tag.snapshot):
        return True
    return any(
        other.name != tag.name and same_commit(other.snapshot, tag.snapshot) for other in readable_tags(table)[0]
    )


# ── take away ───────────────────────────────────────────────────────────────────────────────────


def tag_files(table: TableHandle, names: Sequence[str]) -> list[str]:
    """The files that make tags, success files included."""
    return [path for name in names for path in (table.paths.tag(name), table.paths.tag_success(name))]


def remove_tags(table: TableHandle, tags: Mapping[str, int | None], notifier: TagNotifier) -> None:
    """Removes tags, by name and snapshot, and notifies listeners. What only the tags kept is the caller's."""
    notifier.expect(tags, gone=True)
    table.env.storage.delete([table.paths.tag(name) for name in tags])
    notifier.gone(tags)


def named_tags(roots: Iterable[Root]) -> dict[str, int | None]:
    """The tags among roots of one branch: their names and snapshots."""
    return {root.tag: root.snapshot.id for root in roots if root.tag is not None}


def plan_removal(table: TableHandle, roots: Roots, gone: Sequence[Root], executor: Executor) -> DeletionPlan:
    """The files that are deleted with some of the roots: those that only they reach.

    Raises: UnsupportedError, as `Candidates` does, if there are any such roots that no other root represents.
    """
    identities = {root.identity for root in gone}
    kept = [root for root in roots if root.identity not in identities]
    commits = {_commit_of(root) for root in kept if not root.is_changelog}
    # Of several roots on one commit, one is enough.
    alone = {_commit_of(root): root for root in gone if not root.is_changelog}
    lonely = [root for commit, root in alone.items() if commit not in commits]
    changelogs = [root for root in gone if root.is_changelog]
    spared = [root for commit, root in alone.items() if commit in commits]
    # Another root may have the same commit, unless it is removed, too.
    unread = (lambda: _candidates(table, spared)) if spared else None
    if not lonely and not changelogs:
        return DeletionPlan({}, {}, frozenset(root.identity for root in roots) - identities, unread=unread)
    candidates = _candidates(table, [*lonely, *changelogs])
    plan = plan_deletion(table, candidates, kept, executor, lost=lost_roots(table, roots, but_below=gone))
    return replace(plan, unread=unread)


def _candidates(table: TableHandle, gone: Sequence[Root]) -> Candidates:
    candidates = Candidates(table)
    for root in gone:
        if root.is_changelog:
            candidates.add_named(root)
        else:
            candidates.add_live(root, f"only in {root.label}")
        candidates.add_changelog(root)
    candidates.add_metadata(gone)
    return candidates


def _commit_of(root: Root) -> tuple[int, str]:
    return root.snapshot.id, root.snapshot.delta_manifest_list


def branches_from(roots: Sequence[Root], tag: Root) -> list[str]:
    """Branches that were made from a tag of main: Java's expiry looks at no branch, only at the tag."""
    if tag.branch != MAIN_BRANCH or tag.tag is None:
        return []
    return sorted(
        root.branch
        for root in roots
        if root.branch != MAIN_BRANCH and root.tag == tag.tag and same_commit(root.snapshot, tag.snapshot)
    )


def check_no_branch_from(roots: Sequence[Root], tags: Sequence[Root]) -> None:
    """Refuses to remove tags that branches were made from.

    Raises: InvalidArgumentError.
    """
    for tag in tags:
        for branch in branches_from(roots, tag):
            raise InvalidArgumentError(
                f"branch {branch!r} was made from tag {tag.tag!r}, which keeps its files; delete the branch first"
            )
