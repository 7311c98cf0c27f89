"""What a writer or a compaction task produced in one bucket; the committer turns messages into a snapshot."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.index_manifest import IndexFile, index_file_from_record, index_file_to_record
from paimon_engine.meta.manifest import DataFile, FileKind, ManifestEntry, file_from_record, file_to_record
from paimon_engine.meta.unknown_fields import UnknownField

_VERSION = 2
_VERSION_WITHOUT_INDEX_FILES = 1
_UNKNOWN = "$unknown"


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """The table that a message was prepared for, as it was then.

    `table_id` distinguishes it from another table that was, or will be, at the same `path`; `snapshot_id` is its latest
    snapshot, 0 if it had none, and `delta_list` the name of its list, which tells it from one of the same number that
    came after a rollback; empty if it is not known.
    """

    path: str
    branch: str
    table_id: str
    schema_id: int
    snapshot_id: int
    delta_list: str = ""


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """Changes of one bucket: `new_files` were written, `compact_before` is replaced by `compact_after`.

    `changelog_files` have what readers of changes see. `new_index_files` belong to the changes, whether they come
    from a write or a compaction; they replace `deleted_index_files`, which must still be live when the
    message is committed. A message that was prepared to be committed elsewhere has an `origin`.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFile, ...] = ()
    compact_before: tuple[DataFile, ...] = ()
    compact_after: tuple[DataFile, ...] = ()
    changelog_files: tuple[DataFile, ...] = ()
    new_index_files: tuple[IndexFile, ...] = ()
    deleted_index_files: tuple[IndexFile, ...] = ()
    origin: MessageOrigin | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the message changes nothing."""
        data = self.new_files or self.compact_before or self.compact_after or self.changelog_files
        return not (data or self.new_index_files or self.deleted_index_files)

    def written_names(self) -> list[str]:
        """Names of the files that the writer made, indexes too, to which nothing refers until the commit."""
        before = {name for file in self.compact_before for name in (file.name, *file.extra_files)}
        after = (*self.new_files, *self.compact_after, *self.changelog_files)
        return [name for file in after for name in (file.name, *file.extra_files) if name not in before]

    def marked_files(self) -> set[str]:
        """Names of the data files that get a deletion vector: those of the replaced index files had one before."""
        had = {vector.data_file for index in self.deleted_index_files for vector in index.vectors}
        return {vector.data_file for index in self.new_index_files for vector in index.vectors} - had

    def entries(self) -> list[ManifestEntry]:
        """The data files as manifest entries, removals before additions."""
        return [
            *(self._entry(FileKind.DELETE, file) for file in self.compact_before),
            *(self._entry(FileKind.ADD, file) for file in self.compact_after),
            *(self._entry(FileKind.ADD, file) for file in self.new_files),
        ]

    def changelog_entries(self) -> list[ManifestEntry]:
        """The changelog files as manifest entries."""
        return [self._entry(FileKind.ADD, file) for file in self.changelog_files]

    def _entry(self, kind: FileKind, file: DataFile) -> ManifestEntry:
        return ManifestEntry(kind, self.partition, self.bucket, self.total_buckets, file)

    def to_json(self) -> str:
        """Versioned JSON text, with bytes in base 64."""
        value = {
            "version": _VERSION,
            "partition": self.partition,
            "bucket": self.bucket,
            "totalBuckets": self.total_buckets,
            "newFiles": [_file_to_json(file) for file in self.new_files],
            "compactBefore": [_file_to_json(file) for file in self.compact_before],
            "compactAfter": [_file_to_json(file) for file in self.compact_after],
            "changelogFiles": [_file_to_json(file) for file in self.changelog_files],
            "newIndexFiles": [index_file_to_record(file) for file in self.new_index_files],
            "deletedIndexFiles": [index_file_to_record(file) for file in self.deleted_index_files],
        }
        if self.origin is not None:
            value["origin"] = asdict(self.origin)
        return json.dumps(value, default=_bytes_to_json)

    @classmethod
    def from_json(cls, text: str) -> CommitMessage:
        """Message of its JSON text.

        Raises: InvalidArgumentError.
        """
        try:
            value = json.loads(text, object_hook=_bytes_from_json)
            if value["version"] not in (_VERSION, _VERSION_WITHOUT_INDEX_FILES):
                raise InvalidArgumentError(f"commit message of version {value['version']}, expected {_VERSION}")
            return cls(
                partition=value["partition"],
                bucket=value["bucket"],
                total_buckets=value["totalBuckets"],
                new_files=tuple(_file_from_json(record) for record in value["newFiles"]),
                compact_before=tuple(_file_from_json(record) for record in value["compactBefore"]),
                compact_after=tuple(_file_from_json(record) for record in value["compactAfter"]),
                changelog_files=tuple(_file_from_json(record) for record in value.get("changelogFiles", ())),
                new_index_files=tuple(map(index_file_from_record, value.get("newIndexFiles", ()))),
                deleted_index_files=tuple(map(index_file_from_record, value.get("deletedIndexFiles", ()))),
                origin=MessageOrigin(**value["origin"]) if value.get("origin") else None,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidArgumentError(f"no valid commit message: {error!r}") from error


def _file_to_json(file: DataFile) -> dict[str, Any]:
    return {**file_to_record(replace(file, unknown={})), _UNKNOWN: dict(file.unknown)}


def _file_from_json(record: Mapping[str, Any]) -> DataFile:
    unknown = record.get(_UNKNOWN) or {}
    return file_from_record(record, {name: UnknownField(*field) for name, field in unknown.items()})


def _bytes_to_json(value: Any) -> Mapping[str, str]:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return {"$time": value.isoformat()}
    raise TypeError(f"{type(value).__name__} cannot be part of a commit message")


def _bytes_from_json(value: dict[str, Any]) -> Any:
    if value.keys() == {"$bytes"}:
        return base64.b64decode(value["$bytes"])
    return datetime.fromisoformat(value["$time"]) if value.keys() == {"$time"} else value
