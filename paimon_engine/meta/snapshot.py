"""A snapshot: one version of a table, the JSON of `snapshot/snapshot-<id>`; a tag is the same JSON kept elsewhere.

Keys that the engine does not know survive in `extras`, so that a snapshot copied to a tag and back loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from paimon_engine.errors import damaged
from paimon_engine.format.json_text import pretty_json
from paimon_engine.format.stored import WRONG, file_name, integer_or_none, parse_object, reason, required_integer, text

BATCH_COMMIT_IDENTIFIER = (1 << 63) - 1
"""Commit identifier of batch writers (Java's `Long.MAX_VALUE`)."""

NO_WATERMARK = -(1 << 63)


class CommitKind(StrEnum):
    """What a commit did."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True)
class Snapshot:
    """One version of a table. Manifest lists and the index manifest are file names in `manifest/`."""

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_ms: int
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_manifest_list: str | None = None
    changelog_record_count: int | None = None
    index_manifest: str | None = None
    watermark: int | None = None
    statistics: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list_size: int | None = None
    version: int = 3
    extras: Mapping[str, Any] = field(default_factory=dict)


_KEYS = {
    "version": "version",
    "id": "id",
    "schemaId": "schema_id",
    "baseManifestList": "base_manifest_list",
    "baseManifestListSize": "base_manifest_list_size",
    "deltaManifestList": "delta_manifest_list",
    "deltaManifestListSize": "delta_manifest_list_size",
    "changelogManifestList": "changelog_manifest_list",
    "changelogManifestListSize": "changelog_manifest_list_size",
    "indexManifest": "index_manifest",
    "commitUser": "commit_user",
    "commitIdentifier": "commit_identifier",
    "commitKind": "commit_kind",
    "timeMillis": "time_ms",
    "totalRecordCount": "total_record_count",
    "deltaRecordCount": "delta_record_count",
    "changelogRecordCount": "changelog_record_count",
    "watermark": "watermark",
    "statistics": "statistics",
}
# Left out when null; 0.9 writes an explicit null for the changelog list, and `{}` as log offsets.
_OPTIONAL = frozenset(
    {
        "baseManifestListSize",
        "deltaManifestListSize",
        "changelogManifestListSize",
        "indexManifest",
        "changelogRecordCount",
        "watermark",
        "statistics",
    }
)


_ORDER = (
    *("version", "uuid", "id", "schemaId", "baseManifestList", "baseManifestListSize"),
    *("deltaManifestList", "deltaManifestListSize", "changelogManifestList", "changelogManifestListSize"),
    *("indexManifest", "commitUser", "writerVersion", "commitIdentifier", "commitKind", "timeMillis", "logOffsets"),
    *("totalRecordCount", "deltaRecordCount", "changelogRecordCount", "watermark", "statistics", "properties"),
    *("nextRowId", "operation"),
)
_POSITIONS = {key: index for index, key in enumerate(_ORDER)}


def parse_snapshot(data: str | bytes, path: str) -> Snapshot:
    """Snapshot of its JSON.

    Raises: CorruptTableError naming `path`.
    """
    value = parse_object(data, path)
    try:
        return Snapshot(
            id=required_integer(value, "id", 1),
            schema_id=required_integer(value, "schemaId", 0),
            base_manifest_list=file_name(value, "baseManifestList"),
            delta_manifest_list=file_name(value, "deltaManifestList"),
            commit_user=text(value, "commitUser"),
            commit_identifier=required_integer(value, "commitIdentifier"),
            commit_kind=CommitKind(value["commitKind"]),
            time_ms=required_integer(value, "timeMillis"),
            total_record_count=integer_or_none(value, "totalRecordCount", 0),
            delta_record_count=integer_or_none(value, "deltaRecordCount"),
            changelog_manifest_list=_name_or_none(value, "changelogManifestList"),
            changelog_record_count=integer_or_none(value, "changelogRecordCount", 0),
            index_manifest=_name_or_none(value, "indexManifest"),
            watermark=integer_or_none(value, "watermark"),
            statistics=_name_or_none(value, "statistics"),
            base_manifest_list_size=integer_or_none(value, "baseManifestListSize", 0),
            delta_manifest_list_size=integer_or_none(value, "deltaManifestListSize", 0),
            changelog_manifest_list_size=integer_or_none(value, "changelogManifestListSize", 0),
            version=required_integer(value, "version", 1) if "version" in value else 1,
            extras={key: item for key, item in value.items() if key not in _KEYS},
        )
    except WRONG as error:
        raise damaged(path, f"no valid snapshot: {reason(error)}") from error


def _name_or_none(value: Mapping[str, Any], key: str) -> str | None:
    return None if value.get(key) is None else file_name(value, key)


def snapshot_to_json(snapshot: Snapshot) -> str:
    """JSON text that every release reads, in the Java library's order of keys; unknown keys come last."""
    value: dict[str, Any] = {}
    for theirs, ours in _KEYS.items():
        item = getattr(snapshot, ours)
        if item is None and theirs in _OPTIONAL:
            continue
        value[theirs] = str(item) if theirs == "commitKind" else item
    value |= snapshot.extras
    return pretty_json({key: value[key] for key in sorted(value, key=lambda key: _POSITIONS.get(key, len(_POSITIONS)))})
