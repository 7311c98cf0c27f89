"""What a writer or a compaction task produced in one bucket; the committer turns messages into a snapshot."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.manifest import DataFile, FileKind, ManifestEntry, file_from_record, file_to_record

_VERSION = 1


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """Changes of one bucket: `new_files` were written, `compact_before` is replaced by `compact_after`.

    `changelog_files` tell readers of changes what happened.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFile, ...] = ()
    compact_before: tuple[DataFile, ...] = ()
    compact_after: tuple[DataFile, ...] = ()
    changelog_files: tuple[DataFile, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the message changes nothing."""
        return not (self.new_files or self.compact_before or self.compact_after or self.changelog_files)

    def written_files(self) -> tuple[DataFile, ...]:
        """Files that the writer made, and that nothing refers to until the commit; no upgraded ones."""
        before = {file.name for file in self.compact_before}
        compacted = (file for file in self.compact_after if file.name not in before)
        return (*self.new_files, *compacted, *self.changelog_files)

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
            "newFiles": [file_to_record(file) for file in self.new_files],
            "compactBefore": [file_to_record(file) for file in self.compact_before],
            "compactAfter": [file_to_record(file) for file in self.compact_after],
            "changelogFiles": [file_to_record(file) for file in self.changelog_files],
        }
        return json.dumps(value, default=_bytes_to_json)

    @classmethod
    def from_json(cls, text: str) -> CommitMessage:
        """Message of its JSON text.

        Raises: InvalidArgumentError.
        """
        try:
            value = json.loads(text, object_hook=_bytes_from_json)
            if value["version"] != _VERSION:
                raise InvalidArgumentError(f"commit message of version {value['version']}, expected {_VERSION}")
            return cls(
                partition=value["partition"],
                bucket=value["bucket"],
                total_buckets=value["totalBuckets"],
                new_files=tuple(file_from_record(record) for record in value["newFiles"]),
                compact_before=tuple(file_from_record(record) for record in value["compactBefore"]),
                compact_after=tuple(file_from_record(record) for record in value["compactAfter"]),
                changelog_files=tuple(file_from_record(record) for record in value.get("changelogFiles", ())),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidArgumentError(f"no valid commit message: {error!r}") from error


def _bytes_to_json(value: Any) -> Mapping[str, str]:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} cannot be part of a commit message")


def _bytes_from_json(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["$bytes"]) if value.keys() == {"$bytes"} else value
