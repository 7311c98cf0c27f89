"""The schemas of main and of a branch, where main continues from the branch."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_engine.errors import InvalidArgumentError, StorageError, UnsupportedError
from paimon_engine.table.branches_tags.branching import schema_bytes
from paimon_engine.table.reach.reachability import Root
from paimon_engine.table.state.handle import SCHEMA_PREFIX, TableHandle, numbered


def all_schema_bytes(table: TableHandle) -> dict[int, bytes]:
    """The schema files of a branch by id, also those that a listing does not show yet.

    Raises: StorageError if there is none; CorruptTableError.
    """
    storage, paths = table.env.storage, table.paths
    listed = numbered(table.env, paths.schema_dir, SCHEMA_PREFIX)
    newest = max(listed, default=-1)
    while storage.exists(paths.schema(newest + 1)):
        newest += 1
    ids = [number for number in range(newest + 1) if number in listed or storage.exists(paths.schema(number))]
    if not ids:
        raise StorageError(f"{paths.schema_dir} lists no schema, though there must be one; run it again")
    return {number: schema_bytes(table, paths.schema(number)) for number in ids}


def same_schemas(main: TableHandle, branch: TableHandle) -> bool:
    """Whether main has the branch's schemas, and none newer."""
    ours, theirs = all_schema_bytes(main), all_schema_bytes(branch)
    return max(ours) == max(theirs) and all(ours.get(number) == data for number, data in theirs.items())


def check_schemas_of(main: TableHandle, branch: TableHandle, staying: Sequence[Root], since: int) -> None:
    """Refuses to delete or change a schema that remaining versions need; main gets the branch's from `since` on.

    Raises: InvalidArgumentError.
    """
    ours, theirs = all_schema_bytes(main), all_schema_bytes(branch)
    for root in staying:
        number = root.snapshot.schema_id
        changes = number in theirs and theirs[number] != ours.get(number) and number >= since
        if number > max(theirs) or changes:
            raise InvalidArgumentError(
                f"{root.label} of {main.paths.root} stays and has schema {number}, which branch "
                f"{branch.paths.branch!r} lacks or has another of: main cannot continue from the branch and keep both; "
                "merge_branch brings its rows into main"
            )


def check_schemas_stay(main: TableHandle, branch: TableHandle) -> None:
    """Raises UnsupportedError if main loses schemas, without which what it loses could not be restored."""
    ours, theirs = all_schema_bytes(main), all_schema_bytes(branch)
    if any(number not in theirs or theirs[number] != data for number, data in ours.items()):
        raise UnsupportedError(
            f"the branch's schemas would replace others of {main.paths.root}, without which its snapshots cannot "
            "be read again: a quarantine is of no use here; make a branch of main's latest snapshot to keep it"
        )


def take_schemas(main: TableHandle, branch: TableHandle, since: int) -> None:
    """Main's schemas from `since` on become the branch's."""
    storage = main.env.storage
    theirs, ours = all_schema_bytes(branch), all_schema_bytes(main)
    for number, data in sorted(theirs.items()):
        if ours.get(number) != data and (number >= since or number not in ours):
            storage.overwrite(main.paths.schema(number), data)


def remove_schemas(main: TableHandle, branch: TableHandle) -> None:
    """Removes main's schemas that are newer than the branch's, newest first."""
    newest = max(all_schema_bytes(branch))
    latest = max(all_schema_bytes(main))
    for number in reversed(range(newest + 1, latest + 1)):
        main.env.storage.delete([main.paths.schema(number)])
