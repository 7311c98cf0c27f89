"""Records of deletions, so that the next run can finish one that was interrupted.

Before an action removes roots, it writes a record `deletion/<id>.json` with the files that only these roots need, and
deletes it when the files are deleted. A run that dies in between leaves the record; without it the files would stay
until an orphan clean-up. A run that finishes a record does not trust it: for each file it checks again that no
snapshot, tag, branch or changelog needs it, and in doubt the file stays.

A record also explains why snapshots and changelogs are missing that a hint still names. So the hints are brought past
them before it is deleted, by the run that removed them or by the one that finishes its work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import NotFoundError, PaimonError, damaged
from paimon_engine.format.stored import WRONG, checked_name, parse_object, reason, text
from paimon_engine.table.reach.quarantine import find_quarantine
from paimon_engine.table.state.handle import DELETION_DIRECTORY, TableHandle
from paimon_engine.table.state.hints import bring_hints_past
from paimon_engine.units import DAY_MS

_ENDING: Final = ".json"
_VERSIONS: Final = ("snapshot", "changelog")
"""Kinds of roots that have numbers, and hints; also the names of their directories."""
_FORGOTTEN_AFTER_MS: Final = DAY_MS
"""Age at which a record whose roots still exist is deleted: its run ended before it removed them."""


@dataclass(frozen=True)
class Record:
    """Files to be deleted, by full path.

    `data` maps data files and their extra files to the name of the data file. `roots` are the root files that are
    removed first. `quarantine` says that files are moved into the quarantine with the record's id.
    """

    id: str
    data: Mapping[str, str]
    metadata: Sequence[str]
    roots: Sequence[str]
    quarantine: bool = False
    modified_ms: int = 0

    @property
    def has_files(self) -> bool:
        """Whether it names any; one that does not only says which roots are removed."""
        return bool(self.data or self.metadata)


def write_record(table: TableHandle, record: Record) -> None:
    """Stores the record."""

    def relative(path: str) -> str:
        return path.removeprefix(f"{table.paths.root}/")

    value = {
        "data": {relative(path): name for path, name in record.data.items()},
        "metadata": [relative(path) for path in record.metadata],
        "roots": [relative(path) for path in record.roots],
        "quarantine": record.quarantine,
    }
    table.env.storage.overwrite(record_path(table, record.id), json.dumps(value).encode())


def forget_record(table: TableHandle, record: Record) -> None:
    """Deletes a record, if it exists, once no hint names what it says is removed."""
    for directory, removed in versions_among(record.roots).items():
        bring_hints_past(table, directory, removed)
    delete_record(table, record.id)


def delete_record(table: TableHandle, record_id: str) -> None:
    """Deletes a record, if it exists."""
    table.env.storage.delete([record_path(table, record_id)])


def versions_among(roots: Iterable[str]) -> Mapping[str, set[int]]:
    """The numbers of the snapshots and changelogs among roots, which are paths, by their directory."""
    found: dict[str, set[int]] = {}
    for path in roots:
        directory, _, name = path.rpartition("/")
        kind, _, number = name.partition("-")
        if number.isdigit() and kind in _VERSIONS and directory.endswith(f"/{kind}"):
            found.setdefault(directory, set()).add(int(number))
    return found


def forget_old_records(table: TableHandle, older_than_ms: int) -> None:
    """Deletes records older than a time; for an orphan clean-up that has just handled all old files of the table.

    Records of quarantines stay: the run that finishes them has to move files, not delete them.
    """
    for record in records(table)[0]:
        if not record.quarantine and 0 < record.modified_ms < older_than_ms:
            forget_record(table, record)


def open_records(table: TableHandle) -> tuple[list[Record], list[str]]:
    """The records that can still be finished, and messages about those that cannot be parsed.

    A record whose files were to be moved into a quarantine that no longer exists cannot be finished and is deleted; an
    orphan clean-up finds its files.
    """
    found, problems = records(table)
    left = []
    for record in found:
        try:
            is_gone = record.quarantine and find_quarantine(table, record.id) is None
        except PaimonError:
            # The quarantine's list is damaged; the code that needs it reports that.
            is_gone = False
        if is_gone:
            forget_record(table, record)
        else:
            left.append(record)
    return left, problems


def records(table: TableHandle) -> tuple[list[Record], list[str]]:
    """All records, and messages about those that cannot be parsed."""
    found: list[Record] = []
    problems: list[str] = []
    for info in table.env.storage.list(f"{table.paths.root}/{DELETION_DIRECTORY}"):
        name = info.path.rpartition("/")[2]
        if info.is_dir or not name.endswith(_ENDING):
            continue
        try:
            found.append(_read(table, name.removesuffix(_ENDING), info.modified_ms))
        except NotFoundError:
            continue
        except PaimonError as error:
            problems.append(f"files of an interrupted deletion stay: {error}")
    return found, problems


def _read(table: TableHandle, record_id: str, modified_ms: int) -> Record:
    """The record of that id. Raises: NotFoundError; CorruptTableError if it names paths that no deletion may touch."""
    path = record_path(table, record_id)
    try:
        value = parse_object(table.env.storage.read(path), path)

        def full(relative: str) -> str:
            return "/".join((table.paths.root, *(checked_name(part, "files") for part in relative.split("/"))))

        return Record(
            record_id,
            {full(_deletable(item)): text(value["data"], item) for item in value["data"]},
            [full(_deletable(item)) for item in value["metadata"]],
            [full(item) for item in value["roots"]],
            bool(value["quarantine"]),
            modified_ms,
        )
    except WRONG as error:
        raise damaged(path, f"it is not a valid record of a deletion: {reason(error)}") from error


def _deletable(relative: str) -> str:
    """The path, if it is in a directory for files of commits; a record may not name schemas, snapshots or tags.

    Raises: ValueError.
    """
    *directories, _ = relative.split("/")
    directory = directories[-1] if directories else ""
    if directory.startswith("bucket-") or directories in [[name] for name in ("manifest", "index", "statistics")]:
        return relative
    raise ValueError(f"{relative!r} is not a data, index or metadata file")


def is_over(table: TableHandle, record: Record) -> bool:
    """Whether a record can be deleted once its files are handled: its roots are removed, or it is old."""
    if table.env.clock() - record.modified_ms > _FORGOTTEN_AFTER_MS and record.modified_ms:
        return True
    return not any(table.env.storage.exists(path) for path in record.roots)


def record_path(table: TableHandle, record_id: str) -> str:
    """The path of a record, whether or not it exists."""
    return f"{table.paths.root}/{DELETION_DIRECTORY}/{record_id}{_ENDING}"
