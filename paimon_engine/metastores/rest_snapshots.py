"""Snapshots of a table that a REST server manages: the server knows the latest one, and decides on the next one.

A commit request carries the UUID of the snapshot that the new one is based on. The server accepts it only if that one
is still the latest.

Source: `CatalogSnapshotCommit`, `SnapshotLoaderImpl`, `PartitionEntry` of the Java library.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from paimon_engine.errors import (
    REMEDY,
    ConflictError,
    CorruptTableError,
    OutcomeUnknownError,
    PaimonError,
    shown,
)
from paimon_engine.format.binary_row import decode_row
from paimon_engine.meta.manifest import FileKind, ManifestEntry
from paimon_engine.meta.paths import MAIN_BRANCH, partition_text
from paimon_engine.meta.snapshot import Snapshot, parse_snapshot, snapshot_to_json
from paimon_engine.metastores.config import CatalogConfig
from paimon_engine.metastores.rest_client import RestClient, RestDeniedError, RestNotFoundError, client_of, unclear
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.warehouse import BRANCH_MARK, SYSTEM_MARK

logger = logging.getLogger(__name__)

_UUID: Final = "uuid"
_NUMBERS: Final = ("commitIdentifier", "id", "schemaId", "timeMillis")


def branch_object(table: str, branch: str) -> str:
    """The object name of a table's branch in request paths: `t`, or `t$branch_b`."""
    return table if branch == MAIN_BRANCH else f"{table}{SYSTEM_MARK}{BRANCH_MARK}{branch}"


@dataclass(frozen=True)
class RestSnapshotService:
    """`SnapshotService` of one table."""

    config: CatalogConfig
    database: str
    table: str
    table_id: str | None

    @property
    def _client(self) -> RestClient:
        return client_of(self.config)

    def latest(self, table: TableHandle) -> Snapshot | None:
        return self._snapshot(table, "snapshot")

    def read(self, table: TableHandle, snapshot_id: int) -> Snapshot | None:
        return self._snapshot(table, "snapshots", str(snapshot_id))

    def publish(
        self, table: TableHandle, snapshot: Snapshot, base: Snapshot | None, changes: Sequence[ManifestEntry]
    ) -> bool:
        named = replace(snapshot, extras={**snapshot.extras, _UUID: table.env.new_id()})
        body = {
            "tableId": self.table_id,
            "baseSnapshotUuid": base.extras.get(_UUID) if base is not None else None,
            "snapshot": json.loads(snapshot_to_json(named)),
            "statistics": partition_statistics(table, changes),
        }
        try:
            answer = self._client.post(*self._path(table), "commit", body=body)
        except OutcomeUnknownError:
            raise
        except PaimonError as refused:
            if self._has(table, named, refused):
                return True
            if isinstance(refused, ConflictError):
                # 409: the server's way to say that the base is not the latest one, or that another commit is under way.
                logger.warning("snapshot %d of %s was refused: %s", named.id, self.full_name(), refused)
                return False
            raise
        if not isinstance(answer.get("success"), bool):
            where = f"{self._client}: the commit of {self.full_name()}"
            raise unclear("POST", where, "the answer does not say whether it succeeded")
        return bool(answer["success"])

    def roll_back(self, table: TableHandle, target: Snapshot, *, tag: str | None, latest: Snapshot) -> None:
        """Lets the server roll back to a tag or snapshot, if `latest` is still the latest one.

        Raises: NotFoundError; ConflictError if the server has not done it; OutcomeUnknownError if it does not say.
        """
        instant: dict[str, Any] = {"type": "tag", "tagName": tag}
        if tag is None:
            instant = {"type": "snapshot", "snapshotId": target.id}
        try:
            self._client.post(*self._path(table), "rollback", body={"instant": instant, "fromSnapshot": latest.id})
        except PaimonError as error:
            if isinstance(error, RestNotFoundError) and error.resource is not None:
                raise
            # Servers answer 500 if another commit came first. That does not say whether the rollback was done, so
            # compare the latest snapshot with the target.
            try:
                now = self.latest(table)
            except PaimonError as unanswered:
                raise OutcomeUnknownError(
                    f"the server does not say whether it rolled {table.paths.root} back to snapshot {target.id}, "
                    f"after: {error}; look at the table's latest snapshot, or run the same rollback again"
                ) from unanswered
            if now is not None and now.delta_manifest_list == target.delta_manifest_list:
                return
            raise ConflictError(
                f"{table.paths.root}: the server did not roll back to snapshot {target.id}; "
                f"its latest is {'none' if now is None else now.id}"
            ) from error

    def full_name(self) -> str:
        return f"{self.database}.{self.table}"

    def mark_done(self, table: TableHandle, partitions: Sequence[Mapping[str, str]]) -> None:
        self._client.post(*self._path(table), "partitions", "mark", body={"specs": [dict(item) for item in partitions]})

    def add_partitions(self, table: TableHandle, partitions: Sequence[Mapping[str, str]]) -> None:
        body = {"partitionSpecs": [dict(item) for item in partitions], "ignoreIfExists": True}
        self._client.post(*self._path(table), "partitions", body=body)

    # ── details ─────────────────────────────────────────────────────────────────────────────────

    def _has(self, table: TableHandle, ours: Snapshot, refused: PaimonError) -> bool:
        """Whether the server has the snapshot though it, or what stands in between, answered that it refused it.

        A gateway may have sent the request twice. If the snapshot existed and its metadata were deleted, the table
        could not be read. Raises: OutcomeUnknownError if the server does not say.
        """
        try:
            latest = self.latest(table)
            there = latest if latest is None or latest.id <= ours.id else self.read(table, ours.id)
        except RestNotFoundError as error:
            if error.resource is None:
                raise _never_said(ours, refused) from error
            return False  # the table is gone
        except RestDeniedError as error:
            if isinstance(refused, RestDeniedError):
                return False
            raise _never_said(ours, refused) from error
        except PaimonError as error:
            raise _never_said(ours, refused) from error
        return there is not None and there.delta_manifest_list == ours.delta_manifest_list

    def _path(self, table: TableHandle) -> tuple[str, ...]:
        return "databases", self.database, "tables", branch_object(self.table, table.paths.branch)

    def _snapshot(self, table: TableHandle, *which: str) -> Snapshot | None:
        """The snapshot that the server gives there; None if it says that there is none. Raises: StorageError."""
        try:
            answer = self._client.get(*self._path(table), *which)
        except RestNotFoundError as error:
            if error.resource == "SNAPSHOT":
                return None
            raise
        found = answer.get("snapshot")
        if isinstance(found, dict) and isinstance(found.get("snapshot"), dict):
            found = found["snapshot"]  # some servers wrap the snapshot in an object that also has statistics
        where = f"{self._client}: {'/'.join(which)} of {self.full_name()}"
        if not isinstance(found, dict):
            # A table without snapshots is a 404: an answer without one is not the server's, or only half of it.
            raise unclear("GET", where, f"the answer has no snapshot, but {shown(answer)}")
        try:
            return parse_snapshot(json.dumps(_with_numbers(found)), "the answer")
        except CorruptTableError as error:
            # The server's word, not a file: there is nothing to restore.
            raise unclear("GET", where, str(error).removesuffix(f"; {REMEDY}")) from error


def _never_said(ours: Snapshot, refused: PaimonError) -> OutcomeUnknownError:
    return OutcomeUnknownError(f"the server does not say whether snapshot {ours.id} exists, after: {refused}")


def _with_numbers(found: dict[str, Any]) -> dict[str, Any]:
    """The snapshot's JSON with numbers where servers send texts: the specification and Java's files differ here."""
    texts = {
        key: found[key] for key in _NUMBERS if isinstance(found.get(key), str) and found[key].lstrip("-").isdigit()
    }
    return {**found, **{key: int(text) for key, text in texts.items()}}


def partition_statistics(table: TableHandle, changes: Sequence[ManifestEntry]) -> list[dict[str, Any]]:
    """By how much a commit changes each partition: rows, bytes and files added, minus those removed."""
    found: dict[bytes, dict[str, Any]] = {}
    for entry in changes:
        sign = 1 if entry.kind is FileKind.ADD else -1
        kept = found.setdefault(
            entry.partition,
            {
                "spec": _spec(table, entry.partition),
                "recordCount": 0,
                "fileSizeInBytes": 0,
                "fileCount": 0,
                "lastFileCreationTime": 0,
                "totalBuckets": entry.total_buckets,
            },
        )
        kept["recordCount"] += sign * entry.file.row_count
        kept["fileSizeInBytes"] += sign * entry.file.size_bytes
        kept["fileCount"] += sign
        kept["lastFileCreationTime"] = max(kept["lastFileCreationTime"], _epoch_ms(entry.file.creation_time_ms))
        kept["totalBuckets"] = entry.total_buckets
    return list(found.values())


def _spec(table: TableHandle, partition: bytes) -> Mapping[str, str]:
    columns = table.schema.partition_type
    values = decode_row([item.type for item in columns], partition)
    options = table.options
    spec = {}
    for item, value in zip(columns, values, strict=True):
        text = partition_text(item.type, value, legacy_name=options.partition_legacy_name) if value is not None else ""
        spec[item.name] = text if text.strip() else options.partition_default_name
    return spec


def _epoch_ms(local_ms: int | None) -> int:
    """Epoch milliseconds of a file's creation time, which manifests store as local time written as if it were UTC."""
    if local_ms is None:
        return 0
    wall = datetime.fromtimestamp(local_ms / 1000, UTC).replace(tzinfo=None)
    return int(wall.astimezone().timestamp() * 1000)
