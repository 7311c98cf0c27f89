"""Branches as directories of schemas, snapshots and tags: making one, giving it another name, removing it.

Data, manifests and indexes of all branches share directories, so a branch is created and renamed without touching
them. A branch exists when it has a schema. While one is being created a file says so and names its origin; the next
try completes what was interrupted.

Source: `FileSystemBranchManager` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from paimon_engine.errors import ConflictError, NotFoundError, StorageError, UnsupportedError
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths
from paimon_engine.meta.schema import parse_schema
from paimon_engine.meta.snapshot import Snapshot, snapshot_to_json
from paimon_engine.meta.tag import Tag, tag_to_json
from paimon_engine.table.reach.reachability import all_roots, with_branch_paths
from paimon_engine.table.state.changelogs import without_lost_changelog
from paimon_engine.table.state.handle import SCHEMA_PREFIX, TableHandle, numbered
from paimon_engine.table.state.snapshots import (
    branch_exists,
    branches,
    read_snapshot,
    read_tag,
    readable_tags,
    same_commit,
    snapshot_ids,
)


def refuse_server(table: TableHandle) -> None:
    """Raises UnsupportedError where a server keeps the branches, which would not notice a change in the store."""
    if table.snapshot_service is not None or table.schema_service is not None:
        raise UnsupportedError(
            f"a REST catalog keeps the branches of {table.paths.root}; changing them from here is not supported yet"
        )


_ROUNDS_MAX: Final = 5
"""Times that a new branch is written again since others have deleted parts of it."""


def existing_branch(table: TableHandle, name: str) -> TableHandle:
    """The table's metadata on that branch; its schema stays that of the handle.

    Raises: NotFoundError naming some of the branches that exist.
    """
    if not branch_exists(table, name):
        names = [other for other in branches(table) if branch_exists(table, other)]
        raise NotFoundError(
            f"no branch {name!r} in {table.paths.root}; of {len(names)}: {', '.join(names[-5:]) or 'none'}"
        )
    return with_branch_paths(table, name)


def branch_files(table: TableHandle, name: str, snapshot: Snapshot | None, tag: Tag | None) -> dict[str, bytes]:
    """The files of a new branch, in the order of writing: at any moment the written ones make a valid branch.

    They are main's schemas up to that of the snapshot and of those before (all of them without one), the snapshot, and
    the tag.
    """
    main, paths = with_branch_paths(table, MAIN_BRANCH).paths, TablePaths(table.paths.root, name)
    ids = numbered(table.env, main.schema_dir, SCHEMA_PREFIX)
    own = snapshot.schema_id if snapshot is not None else max(ids, default=0)
    last = own if snapshot is None else max(own, _newest_schema_before(table, snapshot))
    # The snapshot's own schema exists even if a listing does not show it yet.
    wanted = {number for number in ids if number <= last} | {own}
    # The newest one first: then an old schema is never taken for the branch's latest.
    newest_first = sorted(wanted, reverse=True)
    files = {paths.schema(number): schema_bytes(table, main.schema(number)) for number in newest_first}
    if snapshot is not None:
        files[paths.snapshot(snapshot.id)] = snapshot_to_json(without_lost_changelog(table, snapshot)).encode()
    if tag is not None:
        files[paths.tag(tag.name)] = tag_to_json(tag).encode()
    return files


def _newest_schema_before(table: TableHandle, snapshot: Snapshot) -> int:
    """Newest schema of all snapshots before: after `rollback_to_as_latest` a later one may have an older schema.

    A branch without it would give its number to another one, and main could not continue from the branch.
    """
    roots = (root.snapshot for root in all_roots(table) if root.branch == MAIN_BRANCH)
    return max((older.schema_id for older in roots if older.id < snapshot.id), default=0)


def schema_bytes(table: TableHandle, path: str) -> bytes:
    """The bytes of a schema file, to be copied. Raises: CorruptTableError if it is incomplete."""
    data = table.env.storage.read(path)
    parse_schema(data, path)
    return data


def is_unfinished(table: TableHandle, name: str, origin_text: str) -> bool:
    """Whether a branch of that origin is being made, or its creation was interrupted."""
    try:
        return table.env.storage.read(_marker(table, name)) == origin_text.encode()
    except NotFoundError:
        return False


def write_branch(table: TableHandle, name: str, files: Mapping[str, bytes], origin_text: str) -> None:
    """Makes a branch of its files, or what an earlier try has left to do.

    Others may have deleted the branch and made another of that name while this process slept, even for hours. Then the
    snapshot and the tag that it has added are deleted; schemas stay, since both branches may have them.

    Raises: ConflictError if another process makes another branch of that name.
    """
    schemas = f"{TablePaths(table.paths.root, name).schema_dir}/"
    made: list[str] = []
    for _ in range(_ROUNDS_MAX):
        table.env.storage.overwrite(_marker(table, name), origin_text.encode())
        for path, data in files.items():
            if path.startswith(schemas):
                if not table.env.storage.create(path, data) and _read_or_none(table, path) not in (data, None):
                    raise _taken(path, name)
                continue
            check_not_of_others(table, name, files, made)
            if table.env.storage.create(path, data):
                made.append(path)
        check_not_of_others(table, name, files, made)
        # Who deletes a branch of that name meanwhile takes what there is of this one.
        if all(table.env.storage.exists(path) for path in files):
            finish_branch(table, name)
            return
    raise ConflictError(f"others keep deleting branch {name!r} of {table.paths.root} while it is made; run it again")


def check_not_of_others(table: TableHandle, name: str, files: Mapping[str, bytes], made: Sequence[str] = ()) -> None:
    """Compares snapshots and tag of a branch of that name with these files; if others differ, deletes those `made`.

    Raises: ConflictError then.
    """
    paths = TablePaths(table.paths.root, name)
    versions = {path: data for path, data in files.items() if not path.startswith(f"{paths.schema_dir}/")}
    others = [path for path, data in versions.items() if _read_or_none(table, path) not in (data, None)]
    if not others and versions:
        # Commits to this branch follow its own snapshot without a gap.
        ids = snapshot_ids(with_branch_paths(table, name))
        found = [paths.snapshot(number) for number in ids]
        follows = not ids or (found[0] in versions and ids[-1] - ids[0] + 1 == len(ids))
        others = [] if follows else [path for path in found if path not in versions]
    if others:
        table.env.storage.delete([path for path in made if path not in others])
        raise _taken(others[0], name)


def _taken(path: str, name: str) -> ConflictError:
    return ConflictError(
        f"{path} exists already: another process creates branch {name!r}, or left parts of it; delete it first"
    )


def _read_or_none(table: TableHandle, path: str) -> bytes | None:
    try:
        return table.env.storage.read(path)
    except NotFoundError:
        return None


def finish_branch(table: TableHandle, name: str) -> None:
    """The branch is complete: deletes the file that says that it is being created."""
    table.env.storage.delete([_marker(table, name)])


def _marker(table: TableHandle, name: str) -> str:
    """A file that exists while a branch is being created. No other engine reads it."""
    return f"{TablePaths(table.paths.root, name).branch_root}/UNFINISHED"


def branch_root_files(table: TableHandle, name: str) -> list[str]:
    """The files of a branch: schemas, tags, snapshots and all others in its directory, schemas first."""
    paths = TablePaths(table.paths.root, name)
    found = sorted(info.path for info in table.env.storage.walk(paths.branch_root))
    return sorted(found, key=lambda path: not path.startswith(f"{paths.schema_dir}/"))


def check_origin_exists(
    main: TableHandle, branch: str, origin: Snapshot, tag: str | None, files: Mapping[str, bytes]
) -> None:
    """Removes a new branch if the snapshot it was made from is gone: an expiry that began before did not know of it.

    `tag` is the one that it was made from, if any. Raises: ConflictError, after the branch has been removed.
    """
    if not any(same_commit(other, origin) for other in _versions(main, origin.id, tag)):
        check_not_of_others(main, branch, files)
        remove_branch_files(main, branch)
        raise ConflictError(
            f"snapshot {origin.id} of {main.paths.root} expired while branch {branch!r} was made; try a newer one"
        )


def _versions(main: TableHandle, snapshot_id: int, tag: str | None) -> Iterator[Snapshot]:
    """The tag of that name, the snapshot of that id, and then all tags, of which there may be many; what is there."""
    if tag is not None:
        with suppress(NotFoundError):
            yield read_tag(main, tag).snapshot
    with suppress(NotFoundError):
        yield read_snapshot(main, snapshot_id)
    yield from (found.snapshot for found in readable_tags(main)[0])


def remove_branch_files(table: TableHandle, name: str) -> None:
    """Removes a branch's directory: schemas last, so that at any moment the remaining files make a valid branch."""
    paths = TablePaths(table.paths.root, name)
    for directory in (paths.commit_dir, paths.snapshot_dir, paths.changelog_dir, paths.tag_dir, paths.schema_dir):
        found = [info.path for info in table.env.storage.list(directory) if not info.is_dir]
        # Hints first, or Java would look for the snapshots that they name.
        for path in sorted(found, key=lambda path: (_is_hint(path), path), reverse=True):
            table.env.storage.delete([path])
    table.env.storage.delete_tree(paths.branch_root)


def _is_hint(path: str) -> bool:
    return path.rpartition("/")[2] in ("EARLIEST", "LATEST")


def move_branch(table: TableHandle, name: str, to: str) -> None:
    """Gives a branch's directory another name; where stores cannot, its files are copied, schemas first.

    Raises: ConflictError if another process has made a branch of the new name; then this one keeps its own.
    """
    storage = table.env.storage
    source, target = TablePaths(table.paths.root, name), TablePaths(table.paths.root, to)
    if not storage.exists(target.branch_root):
        try:
            storage.rename_dir(source.branch_root, target.branch_root)
        except UnsupportedError:
            pass
        except StorageError as error:
            # Both: else this was done, and only the reply was lost.
            if storage.exists(source.branch_root) and storage.exists(target.branch_root):
                raise _taken(target.branch_root, to) from error
            raise
        else:
            return
    is_continued = is_unfinished(table, to, name)
    if branch_exists(table, to) and not is_continued:
        raise _taken(target.branch_root, to)
    storage.overwrite(_marker(table, to), name.encode())
    made: list[str] = []
    try:
        if is_continued:
            # An earlier try may have removed some snapshots of the old name already.
            _copy_branch(table, name, to, made)
        else:
            _check_snapshots_among(table, name, to)
            _copy_branch(table, name, to, made)
            _check_snapshots_among(table, name, to)
    except ConflictError:
        # What there is belongs to others. Schemas stay, since both branches may have them.
        storage.delete([path for path in made if not path.startswith(f"{target.schema_dir}/")])
        finish_branch(table, to)
        raise
    remove_branch_files(table, name)
    finish_branch(table, to)


def _copy_branch(table: TableHandle, name: str, to: str, made: list[str]) -> None:
    """Copies a branch's files to those of the new name, and adds the ones that were absent to `made`.

    Raises: ConflictError if a schema or snapshot of another branch is there.
    """
    storage = table.env.storage
    source, target = TablePaths(table.paths.root, name), TablePaths(table.paths.root, to)
    sizes = {info.path: info.size_bytes for info in storage.walk(source.branch_root)}
    files = sorted(sizes, key=lambda path: (_is_hint(path), path))
    schemas = [path for path in files if path.startswith(f"{source.schema_dir}/")]
    for path in (*reversed(schemas), *(path for path in files if path not in schemas)):
        copy = target.branch_root + path[len(source.branch_root) :]
        data = storage.read(path)
        if len(data) != sizes[path]:
            raise StorageError(f"{path}: {len(data)} of {sizes[path]} bytes were read; run it again")
        if storage.create(copy, data):
            made.append(copy)
        elif _read_or_none(table, copy) != data:
            is_snapshot = path.startswith(f"{source.snapshot_dir}/") and not _is_hint(path)
            if is_snapshot or path in schemas:
                raise _taken(copy, to)
            # Hints, consumers and tags may have changed since a try that was interrupted.
            storage.overwrite(copy, data)


def _check_snapshots_among(table: TableHandle, name: str, to: str) -> None:
    """Raises: ConflictError if branch `to` has a snapshot whose id branch `name`, which is being copied, lacks."""
    more = set(snapshot_ids(with_branch_paths(table, to))) - set(snapshot_ids(with_branch_paths(table, name)))
    if more:
        raise _taken(TablePaths(table.paths.root, to).snapshot(min(more)), to)
