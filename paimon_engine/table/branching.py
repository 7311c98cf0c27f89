"""Branches as directories of schemas, snapshots and tags: making one, giving it another name, removing it.

Data, manifests and indexes of all branches lie together, so a branch is made and renamed without touching them. A
branch is there when it has a schema; schemas are written last, and what a creation that was cut short has left is made
whole by the next try.

Source: `FileSystemBranchManager` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping

from paimon_engine.errors import ConflictError, NotFoundError, UnsupportedError
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths
from paimon_engine.meta.snapshot import Snapshot, snapshot_to_json
from paimon_engine.meta.tag import Tag, tag_to_json
from paimon_engine.table.handle import SCHEMA_PREFIX, TableHandle, latest_schema_id, numbered
from paimon_engine.table.reachability import on_line
from paimon_engine.table.snapshots import branches


def refuse_server(table: TableHandle) -> None:
    """Raises UnsupportedError where a server keeps the branches, which would not hear of a change in the store."""
    if table.door is not None or table.has_served_schema:
        raise UnsupportedError(
            f"a REST catalog keeps the branches of {table.paths.root}; changing them from here is not supported yet"
        )


def branch_exists(table: TableHandle, name: str) -> bool:
    """Whether the table has that branch."""
    return latest_schema_id(table.env, TablePaths(table.paths.root, name)) is not None


def existing_branch(table: TableHandle, name: str) -> TableHandle:
    """The table's metadata on that branch; its schema stays that of the handle.

    Raises: NotFoundError naming some of the branches that exist.
    """
    if not branch_exists(table, name):
        names = [other for other in branches(table) if branch_exists(table, other)]
        raise NotFoundError(
            f"no branch {name!r} in {table.paths.root}; of {len(names)}: {', '.join(names[-5:]) or 'none'}"
        )
    return on_line(table, name)


def branch_files(table: TableHandle, name: str, snapshot: Snapshot | None, tag: Tag | None) -> dict[str, bytes]:
    """The files of a new branch, in the order in which they are to be written: main's schemas come last.

    These are the schemas up to that of the snapshot; all of them without one.
    """
    main, paths = on_line(table, MAIN_BRANCH).paths, TablePaths(table.paths.root, name)
    ids = numbered(table.env, main.schema_dir, SCHEMA_PREFIX)
    last = snapshot.schema_id if snapshot is not None else max(ids, default=0)
    files: dict[str, bytes] = {}
    if tag is not None:
        files[paths.tag(tag.name)] = tag_to_json(tag).encode()
    if snapshot is not None:
        files[paths.snapshot(snapshot.id)] = snapshot_to_json(snapshot).encode()
    # The newest one first: nobody ever takes an old schema for the branch's latest.
    for number in sorted((item for item in ids if item <= last), reverse=True):
        files[paths.schema(number)] = table.env.storage.read(main.schema(number))
    return files


def is_cut_short(table: TableHandle, name: str, files: Mapping[str, bytes]) -> bool:
    """Whether the branch is what a creation out of these files leaves when it ends half-way through the schemas."""
    stored = [info.path for info in table.env.storage.walk(TablePaths(table.paths.root, name).branch_root)]
    begun = list(files)[: len(stored)]
    return len(begun) < len(files) and set(stored) == set(begun) and all(_same(table, path, files) for path in stored)


def _same(table: TableHandle, path: str, files: Mapping[str, bytes]) -> bool:
    return table.env.storage.read(path) == files[path]


def write_branch(table: TableHandle, name: str, files: Mapping[str, bytes]) -> None:
    """Makes a branch of its files.

    Raises: ConflictError if somebody else makes another branch so called.
    """
    for path, data in files.items():
        if not table.env.storage.create(path, data) and not _same(table, path, files):
            raise ConflictError(
                f"{path} is there already: somebody else makes branch {name!r}, or left parts of it; delete it first"
            )


def remove_branch_files(table: TableHandle, name: str) -> None:
    """Removes a branch's directory: what a reader begins with first."""
    paths = TablePaths(table.paths.root, name)
    for directory in (paths.schema_dir, paths.snapshot_dir, paths.tag_dir):
        found = [info.path for info in table.env.storage.list(directory) if not info.is_dir]
        table.env.storage.delete(sorted(found, reverse=True))
    table.env.storage.delete_tree(paths.branch_root)


def move_branch(table: TableHandle, name: str, to: str) -> None:
    """Gives a branch's directory another name; where stores cannot, its files are copied, schemas last."""
    storage = table.env.storage
    source, target = TablePaths(table.paths.root, name), TablePaths(table.paths.root, to)
    if not storage.exists(target.branch_root):
        try:
            storage.rename_dir(source.branch_root, target.branch_root)
        except UnsupportedError:
            pass
        else:
            return
    files = sorted(info.path for info in storage.walk(source.branch_root))
    schemas = [path for path in files if path.startswith(f"{source.schema_dir}/")]
    for path in (*(path for path in files if path not in schemas), *reversed(schemas)):
        copy = target.branch_root + path[len(source.branch_root) :]
        storage.overwrite(copy, storage.read(path))
    remove_branch_files(table, name)
