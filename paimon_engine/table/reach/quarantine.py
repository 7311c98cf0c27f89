"""Quarantines: files that a deletion moves to another directory instead of deleting them, so that it can be undone.

A quarantine is a directory `quarantine/<id>` of the table with a list `moved.json`. The list holds the original path
of each file, the content of the *roots* that were removed (files of snapshots, tags, branches, changelogs, consumers),
and the content of the snapshots next to them. It is written before anything is removed or moved, so that an interrupted
run can be undone, too: a file that is not in the quarantine is still at its original path, or was moved back already.
It is deleted last, so that an interrupted `empty_quarantine` can be repeated. No reader and no other engine looks into
the directory. Before a restore deletes the list, it notes its result beside the directory (`<id>.restored.json`), which
a repeated one then finds. A directory without a list, or with a damaged one, is possible nevertheless: see
`table.removal.quarantine_state`.

A restore works in the opposite order: files first, then roots, so that no reader meets an incomplete snapshot. Tags,
branches, changelogs and consumers get their names back, unless these are in use again. Snapshots get their ids back if
the history has not changed: the ids are free, ids stay without gaps, and the neighbouring snapshots are still the same
commits. Otherwise a snapshot can be restored as a tag.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from paimon_engine.errors import CorruptTableError, InvalidArgumentError, NotFoundError, StorageError, damaged
from paimon_engine.format.stored import WRONG, checked_name, parse_object, reason, required_integer, text
from paimon_engine.storage.locations import leads_out
from paimon_engine.table.state.handle import TableHandle

LIST_NAME: Final = "moved.json"
_RESTORED: Final = ".restored.json"


@dataclass(frozen=True)
class Quarantine:
    """Files that were moved by one deletion; all paths are relative to the table.

    `files` maps paths to sizes in bytes; `roots` and `neighbours` map paths to the files' content. `what` names the
    action.
    """

    name: str
    what: str
    time_ms: int
    files: Mapping[str, int] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)
    neighbours: Mapping[str, str] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Total size of the files."""
        return sum(self.files.values())

    def quarantine_moves(
        self, table: TableHandle, paths: Iterable[str], *, only_while: str | None = None
    ) -> list[Move]:
        """The moves into the quarantine, for files of it that are given by their full original paths.

        They are only made while the file `only_while` exists, by default the quarantine's list.
        """
        home, prefix = f"{table.paths.root}/", f"{quarantine_directory(table, self.name)}/"
        names = (path.removeprefix(home) for path in paths)
        only_while = only_while or prefix + LIST_NAME
        return [Move(home + name, prefix + name, self.files[name], only_while=only_while) for name in names]

    def restore_moves(self, table: TableHandle) -> list[Move]:
        """The moves of all its files back to their original paths."""
        home, prefix = f"{table.paths.root}/", f"{quarantine_directory(table, self.name)}/"
        return [Move(prefix + name, home + name, size, is_back=True) for name, size in self.files.items()]


def write_quarantine(
    table: TableHandle,
    name: str,
    what: str,
    sizes: Mapping[str, int],
    *,
    roots: Sequence[str] = (),
    neighbours: Sequence[str] = (),
) -> Quarantine:
    """Writes the list of a new quarantine.

    `sizes`: paths of the files to move, with sizes in bytes. `roots`: paths of the root files that will be removed.
    `neighbours`: paths of the snapshots next to these. Raises: StorageError.
    """
    quarantine = Quarantine(
        name,
        what,
        table.env.clock(),
        {_relative(table, path): size for path, size in sizes.items()},
        _texts(table, roots),
        _texts(table, neighbours),
    )
    _store(table, quarantine)
    return quarantine


def extend_quarantine(table: TableHandle, quarantine: Quarantine, sizes: Mapping[str, int]) -> Quarantine:
    """Adds files to the list, by paths with sizes in bytes."""
    more = {_relative(table, path): size for path, size in sizes.items()}
    extended = replace(quarantine, files={**quarantine.files, **more})
    _store(table, extended)
    return extended


def _store(table: TableHandle, quarantine: Quarantine) -> None:
    """Writes the list of a quarantine, which is read as JSON by every later version of the engine."""
    value = {
        "action": quarantine.what,
        "timeMillis": quarantine.time_ms,
        "files": quarantine.files,
        "roots": quarantine.roots,
        "neighbours": quarantine.neighbours,
    }
    directory = quarantine_directory(table, quarantine.name)
    try:
        table.env.storage.overwrite(f"{directory}/{LIST_NAME}", json.dumps(value, indent=1).encode())
    except StorageError:
        # On a full disk the directory may exist by now, without a list.
        table.env.storage.delete_dir(directory)
        raise


def _relative(table: TableHandle, path: str) -> str:
    return path.removeprefix(f"{table.paths.root}/")


def _texts(table: TableHandle, paths: Sequence[str]) -> dict[str, str]:
    found = {}
    for path in paths:
        try:
            # "surrogateescape": a damaged root must be restored with exactly the same bytes.
            found[_relative(table, path)] = table.env.storage.read(path).decode("utf-8", "surrogateescape")
        except NotFoundError:
            continue
    return found


def read_quarantine(table: TableHandle, name: str) -> Quarantine:
    """The quarantine of that name.

    Raises: InvalidArgumentError if there is none, or none with a list; CorruptTableError if its list is damaged.
    """
    found = find_quarantine(table, name)
    if found is None:
        raise no_quarantine(table, name)
    return found


def no_quarantine(table: TableHandle, name: str) -> InvalidArgumentError:
    """The error for a name without a quarantine, or whose quarantine has no list."""
    have = quarantine_names(table)
    if name in have:
        return InvalidArgumentError(f"quarantine {name!r} in {table.paths.root} has no list of the files moved into it")
    some = ", ".join(have[-5:]) if have else "none"
    return InvalidArgumentError(f"no quarantine {name!r} in {table.paths.root}; there are: {some}")


def find_quarantine(table: TableHandle, name: str) -> Quarantine | None:
    """The quarantine of that name; None if there is none, or only a directory without a list.

    Raises: InvalidArgumentError if the name is not valid; CorruptTableError if its list is damaged.
    """
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise InvalidArgumentError(f"{name!r} is not a quarantine's name; give only the name of its directory")
    path = f"{quarantine_directory(table, name)}/{LIST_NAME}"
    try:
        return _parsed(name, parse_object(table.env.storage.read(path), path))
    except NotFoundError:
        return None
    except WRONG as error:
        raise damaged(path, f"it is not a valid list of moved files: {reason(error)}") from error


def _parsed(name: str, value: Mapping[str, Any]) -> Quarantine:
    files = value["files"]
    return Quarantine(
        name,
        text(value, "action") if "action" in value else "remove_orphan_files",
        required_integer(value, "timeMillis", 0) if "timeMillis" in value else 0,
        {_checked_path(item): required_integer(files, item, 0) for item in files},
        *({_checked_path(item): text(found, item) for item in found} for found in _root_texts(value)),
    )


def _root_texts(value: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return value.get("roots", {}), value.get("neighbours", {})


def _checked_path(path: str) -> str:
    """The relative path, if it stays inside the table. Raises: ValueError."""
    return "/".join(checked_name(part, "files") for part in path.split("/"))


def quarantine_names(table: TableHandle) -> list[str]:
    """Names of the quarantines, sorted, also of those without a list. Links to other directories do not count."""
    found = table.env.storage.list(table.paths.quarantine_dir)
    ours = (info.path for info in found if info.is_dir and not leads_out(f"{info.path}/.", table.paths.root))
    return sorted(path.rpartition("/")[2] for path in ours)


def note_restored(table: TableHandle, name: str, result: Mapping[str, Any]) -> None:
    """Notes the result of a restore, as plain JSON values. Raises: StorageError."""
    table.env.storage.overwrite(_note_path(table, name), json.dumps(result).encode())


def restored_before(table: TableHandle, name: str) -> Mapping[str, Any] | None:
    """The noted result of the restore of that quarantine; None if there is none, or none that can be parsed.

    Raises: StorageError.
    """
    path = _note_path(table, name)
    try:
        return parse_object(table.env.storage.read(path), path)
    except (NotFoundError, CorruptTableError):
        return None


def forget_restored(table: TableHandle, older_than_ms: int) -> None:
    """Deletes the notes of restores from before a time in epoch milliseconds. Raises: StorageError."""
    found = table.env.storage.list(table.paths.quarantine_dir)
    # A process that dies may leave the temporary file of a note.
    notes = (info for info in found if not info.is_dir and _RESTORED in info.path)
    table.env.storage.delete([info.path for info in notes if 0 < info.modified_ms < older_than_ms])


def _note_path(table: TableHandle, name: str) -> str:
    return f"{table.paths.quarantine_dir}/{name}{_RESTORED}"


def quarantine_directory(table: TableHandle, name: str) -> str:
    """The directory of the quarantine of that name, whether or not it exists."""
    return f"{table.paths.quarantine_dir}/{name}"


@dataclass(frozen=True, slots=True)
class Move:
    """A file to be moved; by `size_bytes` a complete copy is distinguished from an interrupted one.

    `only_while` is the path of a file without which the source must not be deleted. `is_back`: out of a quarantine.
    """

    source: str
    target: str
    size_bytes: int
    only_while: str | None = None
    is_back: bool = False
