"""Metadata that contradicts itself or the format is refused, with the file, the position and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from paimon_engine.errors import REMEDY, CorruptTableError
from paimon_engine.format.avro import read_records, write_records
from paimon_engine.meta.manifest import (
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    DataFile,
    FileKind,
    ManifestEntry,
    ManifestFile,
    entry_from_record,
    entry_to_record,
    manifest_file_from_record,
    manifest_file_to_record,
)
from paimon_engine.meta.schema import parse_schema
from paimon_engine.meta.snapshot import parse_snapshot
from paimon_engine.meta.stats import EMPTY_STATS
from paimon_engine.meta.tag import parse_tag

PATH = "s3://lake/db.db/t/some/file"

SNAPSHOT: Mapping[str, Any] = {
    "version": 3,
    "id": 4,
    "schemaId": 0,
    "baseManifestList": "manifest-list-1",
    "deltaManifestList": "manifest-list-2",
    "changelogManifestList": None,
    "commitUser": "u",
    "commitIdentifier": 1,
    "commitKind": "APPEND",
    "timeMillis": 5,
    "totalRecordCount": 6,
}
SCHEMA: Mapping[str, Any] = {
    "version": 3,
    "id": 0,
    "fields": [{"id": 0, "name": "k", "type": "INT NOT NULL"}, {"id": 1, "name": "v", "type": "STRING"}],
    "highestFieldId": 1,
    "partitionKeys": [],
    "primaryKeys": ["k"],
    "options": {"bucket": "1"},
    "timeMillis": 5,
}
FILE = DataFile(name="data-1.parquet", size_bytes=10, row_count=2)
ENTRY = entry_to_record(ManifestEntry(FileKind.ADD, b"\0" * 12, 0, 1, FILE))
LISTED = manifest_file_to_record(ManifestFile("manifest-1", 100, 1, 0, EMPTY_STATS, 0))


def of_snapshot(changes: Mapping[str, Any]) -> None:
    parse_snapshot(json.dumps({**SNAPSHOT, **changes}), PATH)


def of_tag(changes: Mapping[str, Any]) -> None:
    parse_tag("t", json.dumps({**SNAPSHOT, **changes}), PATH)


def of_schema(changes: Mapping[str, Any]) -> None:
    parse_schema(json.dumps({**SCHEMA, **changes}), PATH)


def of_entry(changes: Mapping[str, Any]) -> None:
    entry_from_record({**ENTRY, **changes}, PATH)


def of_file(changes: Mapping[str, Any]) -> None:
    entry_from_record({**ENTRY, "_FILE": {**ENTRY["_FILE"], **changes}}, PATH)


def of_list(changes: Mapping[str, Any]) -> None:
    manifest_file_from_record({**LISTED, **changes}, PATH)


WRONG: tuple[tuple[Callable[[Mapping[str, Any]], None], dict[str, Any], str], ...] = (
    (of_snapshot, {"id": 0}, "id is 0, expected an integer from 1"),
    (of_snapshot, {"id": True}, "id is True"),
    (of_snapshot, {"id": 1 << 63}, "id is 9223372036854775808"),
    (of_snapshot, {"schemaId": "0"}, "schemaId is '0'"),
    (of_snapshot, {"totalRecordCount": -1}, "totalRecordCount is -1"),
    (of_snapshot, {"baseManifestList": "../../other/manifest/x"}, "not a file name"),
    (of_snapshot, {"deltaManifestList": None}, "not a file name"),
    (of_snapshot, {"indexManifest": ".."}, "not a file name"),
    (of_snapshot, {"statistics": "a\0b"}, "not a file name"),
    (of_snapshot, {"commitKind": "APPENX"}, "APPENX"),
    (of_tag, {"tagCreateTime": [2024, 13, 1], "tagTimeRetained": 1.0}, "no valid tag: month"),
    (of_tag, {"tagCreateTime": "yesterday", "tagTimeRetained": 1.0}, "no valid tag"),
    (of_tag, {"tagCreateTime": [2024, 1, 1], "tagTimeRetained": "long"}, "no valid tag"),
    (of_schema, {"id": -1}, "id is -1"),
    (of_schema, {"highestFieldId": 0}, "an id above highestFieldId 0"),
    (of_schema, {"primaryKeys": ["x"]}, "no column 'x'"),
    (of_schema, {"partitionKeys": "k"}, "partitionKeys is 'k'"),
    (of_schema, {"fields": [SCHEMA["fields"][0]] * 2}, "two columns have one name"),
    (of_schema, {"fields": [{"id": 0, "name": 7, "type": "INT"}]}, "column 7"),
    (of_schema, {"fields": [{"id": 0, "name": "k", "type": "IMT"}]}, "'IMT' is not a Paimon type"),
    (of_schema, {"fields": [{"id": 0, "name": "k", "type": "DECIMAL(99, 2)"}]}, "no valid schema"),
    (of_schema, {"fields": [{"id": 0, "name": "k"}]}, "it has no 'type'"),
    (of_schema, {"options": {"bucket": 1}}, "an option is not a text"),
    (of_entry, {"_VERSION": 1}, "manifest version 1, expected 2"),
    (of_entry, {"_KIND": 2}, "2 is not a valid FileKind"),
    (of_entry, {"_BUCKET": -3}, "_BUCKET is -3"),
    (of_entry, {"_TOTAL_BUCKETS": None}, "_TOTAL_BUCKETS is None"),
    (of_file, {"_FILE_NAME": "../bucket-1/data-1.parquet"}, "not a file name"),
    (of_file, {"_EXTRA_FILES": ["data-1.index", "/etc/passwd"]}, "not a file name"),
    (of_file, {"_FILE_SIZE": -1}, "_FILE_SIZE is -1"),
    (of_file, {"_ROW_COUNT": -1}, "_ROW_COUNT is -1"),
    (of_file, {"_LEVEL": -1}, "_LEVEL is -1"),
    (of_file, {"_LEVEL": 1 << 31}, "_LEVEL is 2147483648"),
    (of_file, {"_MIN_KEY": "text"}, "_MIN_KEY is 'text', expected bytes"),
    (of_file, {"_FILE_SOURCE": 2}, "2 is not a valid FileSource"),
    (of_file, {"_SCHEMA_ID": None}, "_SCHEMA_ID is None"),
    (of_file, {"_VALUE_STATS": None}, "no valid manifest entry"),
    (of_list, {"_FILE_NAME": "snapshot/../x"}, "not a file name"),
    (of_list, {"_NUM_ADDED_FILES": -1}, "_NUM_ADDED_FILES is -1"),
    (of_list, {"_PARTITION_STATS": {"_MIN_VALUES": b"", "_MAX_VALUES": b"", "_NULL_COUNTS": ["x"]}}, "_NULL_COUNTS"),
)


@pytest.mark.parametrize(("decode", "changes", "what"), WRONG)
def test_what_the_format_does_not_allow(
    decode: Callable[[Mapping[str, Any]], None], changes: dict[str, Any], what: str
) -> None:
    decode({})

    with pytest.raises(CorruptTableError) as caught:
        decode(changes)

    assert str(caught.value).startswith(f"{PATH}: ")
    assert what in str(caught.value)
    assert str(caught.value).endswith(REMEDY)


@pytest.mark.parametrize("parse", [of_snapshot, of_tag, of_schema])
def test_keys_of_later_releases_are_fine(parse: Callable[[Mapping[str, Any]], None]) -> None:
    parse({"nextRowId": 5, "somethingNew": {"deep": [1]}})


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'"text"', b"[" * 100_000])
@pytest.mark.parametrize("parse", [parse_snapshot, parse_schema, lambda data, path: parse_tag("t", data, path)])
def test_files_that_are_no_json_objects(parse: Callable[[bytes, str], Any], data: bytes) -> None:
    with pytest.raises(CorruptTableError, match=f"^{PATH}: "):
        parse(data, PATH)


def test_records_without_bytes() -> None:
    nothing = {"type": "record", "name": "nothing", "fields": [{"name": "a", "type": "null"}]}

    with pytest.raises(CorruptTableError, match="records take no bytes"):
        read_records(write_records(nothing, [{"a": None}] * 1000, "null"), PATH)


def test_records_of_another_kind_of_file() -> None:
    entries = read_records(write_records(MANIFEST_SCHEMA, [ENTRY]), PATH)
    listed = read_records(write_records(MANIFEST_LIST_SCHEMA, [LISTED]), PATH)

    with pytest.raises(CorruptTableError, match="no valid manifest entry"):
        entry_from_record(listed[0], PATH)
    with pytest.raises(CorruptTableError, match="no valid manifest list"):
        manifest_file_from_record(entries[0], PATH)
