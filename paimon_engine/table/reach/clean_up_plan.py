"""Plans of clean-ups: the files that a removal of orphan files will delete, stored so that commits can check them.

`table.removal.fence` explains how they are used. A plan is not a record of an interrupted deletion
(`table.reach.deletion_records`): no later run finishes it, since before the fence its files may still be committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import CorruptTableError, NotFoundError
from paimon_engine.format.stored import WRONG, checked_name, parse_object, reason, texts
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.state.handle import DELETION_DIRECTORY, TableHandle

FENCE_USER: Final = "paimon-engine-clean-up-"
"""Prefix of the commit user of a fence; the id of its plan follows."""
_DIRECTORY: Final = "orphans"
_ENDING: Final = ".json"


@dataclass(frozen=True, slots=True)
class CleanUpPlan:
    """Paths that a clean-up will delete."""

    id: str
    paths: tuple[str, ...]


def is_fence(snapshot: Snapshot) -> bool:
    """Whether the snapshot is a fence: made by a clean-up, so that commits prepared before it have to check again."""
    return snapshot.commit_user.startswith(FENCE_USER)


def write_plan(table: TableHandle, paths: Iterable[str]) -> CleanUpPlan:
    """Stores a plan under a new id. Of files outside the table it has the names only. Raises: StorageError."""
    plan = CleanUpPlan(table.env.new_id(), tuple(paths))
    home = f"{table.paths.root}/"
    files = [path.removeprefix(home) if path.startswith(home) else path.rpartition("/")[2] for path in plan.paths]
    value = {"timeMillis": table.env.clock(), "files": files}
    table.env.storage.overwrite(plan_path(table, plan.id), json.dumps(value).encode())
    return plan


def forget_plan(table: TableHandle, plan_id: str) -> None:
    """Removes a plan, if it exists. Raises: StorageError."""
    table.env.storage.delete([plan_path(table, plan_id)])


def plans(table: TableHandle) -> list[CleanUpPlan]:
    """All stored plans.

    Raises: CorruptTableError if one cannot be parsed: it may name any file.
    """
    found = []
    for info in table.env.storage.list(plan_directory(table)):
        name = info.path.rpartition("/")[2]
        if info.is_dir or name.startswith(".") or not name.endswith(_ENDING):
            continue
        try:
            found.append(_read(table, name.removesuffix(_ENDING)))
        except NotFoundError:
            continue
    return found


def _read(table: TableHandle, plan_id: str) -> CleanUpPlan:
    path = plan_path(table, plan_id)
    try:
        relative = texts(parse_object(table.env.storage.read(path), path), "files")
        for item in relative:
            for part in item.split("/"):
                checked_name(part, "files")
    except (*WRONG, CorruptTableError) as error:
        raise CorruptTableError(
            f"{path} is not a valid plan of a clean-up ({reason(error)}), so it is unknown which files it will delete. "
            "Delete it when no clean-up of orphan files is running"
        ) from error
    return CleanUpPlan(plan_id, tuple(f"{table.paths.root}/{item}" for item in relative))


def plan_directory(table: TableHandle) -> str:
    """Directory of the table's plans."""
    return f"{table.paths.root}/{DELETION_DIRECTORY}/{_DIRECTORY}"


def plan_path(table: TableHandle, plan_id: str) -> str:
    """Where the plan of that id is stored."""
    return f"{plan_directory(table)}/{plan_id}{_ENDING}"
