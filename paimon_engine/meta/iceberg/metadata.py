"""The metadata file of Iceberg: `v<snapshot>.metadata.json`, whose version is the id of a snapshot of the table.

The summary of a snapshot names the Paimon snapshot that it shows (`MARK`): after a rollback another one may have its
id. Java keeps that line and writes none.

Source: `IcebergMetadata`, `IcebergSnapshot`, `IcebergRef` of the Java library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from paimon_engine.errors import damaged
from paimon_engine.format.stored import WRONG, parse_object, reason
from paimon_engine.meta.iceberg.schemas import FIRST_PARTITION_FIELD
from paimon_engine.meta.snapshot import Snapshot

Metadata = dict[str, Any]
MARK: Final = "paimon.delta-manifest-list"
_LONG_MAX: Final = (1 << 63) - 1


def parse_metadata(data: bytes, path: str) -> Metadata:
    """Metadata of a file. Raises: CorruptTableError naming `path` if it lacks what is read of it."""
    found = parse_object(data, path)
    try:
        for key in ("format-version", "current-snapshot-id", "current-schema-id"):
            int(found[key])
        if not isinstance(found["location"], str) or not isinstance(found["schemas"], list):
            raise TypeError("location or schemas")
        for one in found["snapshots"]:
            int(one["snapshot-id"]), int(one["timestamp-ms"]), str(one["manifest-list"]).rindex("/")
            dict(one["summary"])
        current(found)
    except (*WRONG, StopIteration) as error:
        raise damaged(path, f"no valid Iceberg metadata: {reason(error)}") from error
    return found


def metadata_text(metadata: Metadata) -> bytes:
    """Bytes of the file."""
    return json.dumps(metadata, indent=2, ensure_ascii=False).encode()


def current(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The current snapshot."""
    wanted = metadata["current-snapshot-id"]
    found: dict[str, Any] = next(one for one in metadata["snapshots"] if one["snapshot-id"] == wanted)
    return found


def shows(entry: Mapping[str, Any], snapshot: Snapshot) -> bool:
    """Whether Iceberg's snapshot shows this one, as far as it says."""
    mark = entry["summary"].get(MARK)
    return entry["snapshot-id"] == snapshot.id and mark in (None, snapshot.delta_manifest_list)


def snapshot_entry(snapshot: Snapshot, summary: Mapping[str, str], manifest_list: str, schema_id: int) -> Metadata:
    """The entry of a snapshot."""
    found = {
        "sequence-number": snapshot.id,
        "snapshot-id": snapshot.id,
        "parent-snapshot-id": snapshot.id - 1,
        "timestamp-ms": snapshot.time_ms,
        "summary": {**summary, MARK: snapshot.delta_manifest_list},
        "manifest-list": manifest_list,
        "schema-id": schema_id,
    }
    if snapshot.id == 1:
        del found["parent-snapshot-id"]
    return found


def new_metadata(version: int, uuid: str, location: str, fields: Sequence[Mapping[str, Any]]) -> Metadata:
    """Metadata of a table without snapshots; `fields` are those of its partition spec."""
    return {
        "format-version": version,
        "table-uuid": uuid,
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "schemas": [],
        "current-schema-id": -1,
        "partition-specs": [{"spec-id": 0, "fields": list(fields)}],
        "default-spec-id": 0,
        "last-partition-id": max((field["field-id"] for field in fields), default=FIRST_PARTITION_FIELD - 1),
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "snapshots": [],
        "current-snapshot-id": -1,
        "properties": {},
        "refs": {},
    }


def with_snapshot(
    metadata: Metadata, entry: Mapping[str, Any], schemas: Sequence[Mapping[str, Any]], now_ms: int
) -> Metadata:
    """The metadata with one more snapshot, which becomes the current one, and with these schemas."""
    newest = schemas[-1]
    return {
        **metadata,
        "last-sequence-number": entry["sequence-number"],
        "last-updated-ms": max(now_ms, entry["timestamp-ms"]),
        "last-column-id": max((field["id"] for field in newest["fields"]), default=0),
        "schemas": list(schemas),
        "current-schema-id": newest["schema-id"],
        "snapshots": [*metadata["snapshots"], entry],
        "current-snapshot-id": entry["snapshot-id"],
    }


def with_refs(metadata: Metadata, tags: Mapping[str, Snapshot]) -> Metadata:
    """The metadata with those of the tags whose snapshots it shows."""
    refs = {
        name: {"snapshot-id": snapshot.id, "type": "tag", "max-ref-age-ms": _LONG_MAX}
        for name, snapshot in sorted(tags.items())
        if any(shows(one, snapshot) for one in metadata["snapshots"])
    }
    return {**metadata, "refs": refs}
