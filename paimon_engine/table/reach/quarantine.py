"""Files moved aside instead of deleted, so that it can be undone.

A quarantine is a directory `quarantine/<id>` of the table with a file `moved.json`. It says where each file came from,
holds the text of the *roots* that were hidden (files of snapshots, tags, branches, changelogs, consumers) and that of
the snapshots next to them. It is written before anything is hidden or moved, so that a run that dies half-way can be
undone too: what is not in the quarantine is still in its place, or was moved back already. It is deleted last, so that
who empties a quarantine and dies leaves one that can be emptied again. No reader and no other engine looks in there.
A directory without a list, or with one that cannot be read, is possible all the same: `table.removal.quarantine_state`.

Bringing one back goes the other way round: files first, then roots, so that no reader meets half a snapshot. Tags,
branches, changelogs and consumers come back under their names, unless somebody has given these away meanwhile.
Snapshots come back under their numbers as long as nothing else has become of the table: the numbers are free, the row
of snapshots stays unbroken, and the snapshots next to them are still the same commits. Otherwise a snapshot can come
back as a tag.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from paimon_engine.errors import InvalidArgumentError, NotFoundError, StorageError, damaged
from paimon_engine.format.stored import WRONG, checked_name, parse_object, reason, text, whole
from paimon_engine.storage.places import leads_out
from paimon_engine.table.state.handle import TableHandle

LIST_NAME: Final = "moved.json"
_DIRECTORY: Final = "quarantine"


@dataclass(frozen=True)
class Quarantine:
    """What was moved aside together, by paths relative to the table.

    `files` maps files to their sizes in bytes, `roots` and `neighbours` files to their text. `what` names the action.
    """

    name: str
    what: str
    time_ms: int
    files: Mapping[str, int] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)
    neighbours: Mapping[str, str] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Sum over the files."""
        return sum(self.files.values())

    def moves_in(self, table: TableHandle, paths: Iterable[str]) -> list[Move]:
        """The moves that bring those of its files, given by their full paths, into the quarantine."""
        home, aside = f"{table.paths.root}/", f"{quarantine_directory(table, self.name)}/"
        names = (path.removeprefix(home) for path in paths)
        return [Move(home + name, aside + name, self.files[name]) for name in names]

    def moves_back(self, table: TableHandle) -> list[Move]:
        """The moves that bring its files back."""
        home, aside = f"{table.paths.root}/", f"{quarantine_directory(table, self.name)}/"
        return [Move(aside + name, home + name, size) for name, size in self.files.items()]


def write_quarantine(
    table: TableHandle,
    name: str,
    what: str,
    sizes: Mapping[str, int],
    *,
    roots: Sequence[str] = (),
    neighbours: Sequence[str] = (),
) -> Quarantine:
    """The list of what will be moved aside: paths with sizes in bytes, and the root files with those beside them."""
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
    """The list with more files, paths with sizes in bytes: what is in it already stays."""
    more = {_relative(table, path): size for path, size in sizes.items()}
    extended = replace(quarantine, files={**quarantine.files, **more})
    _store(table, extended)
    return extended


def _store(table: TableHandle, quarantine: Quarantine) -> None:
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
        # On a full disk the directory may be there by now, with nothing in it.
        table.env.storage.delete_dir(directory)
        raise


def _relative(table: TableHandle, path: str) -> str:
    return path.removeprefix(f"{table.paths.root}/")


def _texts(table: TableHandle, paths: Sequence[str]) -> dict[str, str]:
    found = {}
    for path in paths:
        try:
            # A root that nobody understands comes back byte by byte.
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
    """The error for a name that no quarantine with a list has."""
    have = quarantine_names(table)
    if name in have:
        return InvalidArgumentError(f"quarantine {name!r} in {table.paths.root} has no list of what was moved into it")
    some = ", ".join(have[-5:]) if have else "none"
    return InvalidArgumentError(f"no quarantine {name!r} in {table.paths.root}; there are: {some}")


def find_quarantine(table: TableHandle, name: str) -> Quarantine | None:
    """The quarantine of that name; None if there is none, or only a directory without a list.

    Raises: InvalidArgumentError if nothing can be called so; CorruptTableError if its list is damaged.
    """
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise InvalidArgumentError(f"{name!r} is no name of a quarantine; give the directory's name alone")
    path = f"{quarantine_directory(table, name)}/{LIST_NAME}"
    try:
        return _parsed(name, parse_object(table.env.storage.read(path), path))
    except NotFoundError:
        return None
    except WRONG as error:
        raise damaged(path, f"no valid list of moved files: {reason(error)}") from error


def _parsed(name: str, value: Mapping[str, Any]) -> Quarantine:
    files = value["files"]
    return Quarantine(
        name,
        text(value, "action") if "action" in value else "remove_orphan_files",
        whole(value, "timeMillis", 0) if "timeMillis" in value else 0,
        {_checked_path(item): whole(files, item, 0) for item in files},
        *({_checked_path(item): text(found, item) for item in found} for found in _root_texts(value)),
    )


def _root_texts(value: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return value.get("roots", {}), value.get("neighbours", {})


def _checked_path(path: str) -> str:
    """The relative path, if it stays inside the table. Raises: ValueError."""
    return "/".join(checked_name(part, "files") for part in path.split("/"))


def quarantine_names(table: TableHandle) -> list[str]:
    """Names of the quarantines, sorted, also of those without a list. What lies behind links is none of ours."""
    found = table.env.storage.list(f"{table.paths.root}/{_DIRECTORY}")
    ours = (info.path for info in found if info.is_dir and not leads_out(f"{info.path}/.", table.paths.root))
    return sorted(path.rpartition("/")[2] for path in ours)


def quarantine_directory(table: TableHandle, name: str) -> str:
    """The directory of the quarantine of that name, whether or not it is there."""
    return f"{table.paths.root}/{_DIRECTORY}/{name}"


@dataclass(frozen=True, slots=True)
class Move:
    """A file to be moved; `size_bytes` tells a whole copy from the begin of one."""

    source: str
    target: str
    size_bytes: int
