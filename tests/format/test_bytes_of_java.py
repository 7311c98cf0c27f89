"""What Java wrote, read and written again by us: the same bytes, wherever the format leaves no choice.

Free are the Avro sync marker, how records are cut into blocks, and the codec's framing; so the bytes of all decoded
blocks together are compared, under the schema of the file itself.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from paimon_engine.format.avro import read_records, write_records
from paimon_engine.format.binary_row import EMPTY_ROW, decode_row, encode_row
from paimon_engine.meta import index_manifest, manifest
from paimon_engine.meta.schema import TableSchema, parse_schema, schema_to_json
from paimon_engine.meta.snapshot import parse_snapshot, snapshot_to_json
from paimon_engine.meta.stats import EMPTY_STATS, SimpleStats, from_simple_stats, to_simple_stats
from paimon_engine.meta.table_statistics import parse_table_statistics, table_statistics_to_json
from paimon_engine.meta.tag import parse_tag, tag_to_json
from paimon_engine.types import RowType
from tests.support.corpus import Case, corpus_cases

CASES = corpus_cases()


def avro_files(case: Case, begin: str) -> Iterator[tuple[Path, bytes]]:
    for path in sorted((case.table / "manifest").glob(f"{begin}-*")):
        data = path.read_bytes()
        if data.startswith(b"Obj") and re.fullmatch(rf"{begin}-[0-9a-f]{{8}}-.*", path.name):
            yield path, data


def decoded_blocks(data: bytes) -> bytes:
    """The bytes of all records, one after another."""
    return b"".join(block.bytes_.getvalue() for block in fastavro.block_reader(io.BytesIO(data)))


def schema_of(data: bytes) -> dict[str, Any]:
    return json.loads(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"])


def same_but_later_fields(ours: Any, theirs: Any) -> bool:
    """Whether our schema is that of Java 0.9, but for nullable fields at the end of a record."""
    match ours, theirs:
        case {"fields": [*mine]}, {"fields": [*yours]}:
            more = mine[len(yours) :]
            rest = {key: item for key, item in ours.items() if key != "fields"} == {
                key: item for key, item in theirs.items() if key != "fields"
            }
            nullable = all(item["type"][0] == "null" and item["default"] is None for item in more)
            return rest and nullable and all(map(same_but_later_fields, mine[: len(yours)], yours))
        case {"type": dict() | list()}, {"type": dict() | list()}:
            same = {key: item for key, item in ours.items() if key != "type"} == {
                key: item for key, item in theirs.items() if key != "type"
            }
            return same and same_but_later_fields(ours["type"], theirs["type"])
        case {"type": "array", "items": mine}, {"type": "array", "items": yours}:
            return same_but_later_fields(mine, yours)
        case [*mine], [*yours]:
            return len(mine) == len(yours) and all(map(same_but_later_fields, mine, yours))
    return bool(ours == theirs)


@pytest.mark.parametrize("case", CASES)
def test_manifests_are_written_as_java_writes_them(case: Case):
    for path, data in avro_files(case, "manifest"):
        entries = [manifest.entry_from_record(record, path.name) for record in read_records(data, path.name)]

        ours = write_records(schema_of(data), [manifest.entry_to_record(entry) for entry in entries])
        assert decoded_blocks(ours) == decoded_blocks(data), path.name
        assert same_but_later_fields(manifest.manifest_schema(entries), schema_of(data))


@pytest.mark.parametrize("case", CASES)
def test_manifest_lists_are_written_as_java_writes_them(case: Case):
    for path, data in avro_files(case, "manifest-list"):
        listed = [manifest.manifest_file_from_record(record, path.name) for record in read_records(data, path.name)]

        ours = write_records(schema_of(data), [manifest.manifest_file_to_record(item) for item in listed])
        assert decoded_blocks(ours) == decoded_blocks(data), path.name
        assert manifest.manifest_list_schema(listed) == schema_of(data)


@pytest.mark.parametrize("case", CASES)
def test_index_manifests_are_written_as_java_writes_them(case: Case):
    for path, data in avro_files(case, "index-manifest"):
        files = index_manifest.index_files(read_records(data, path.name), path.name)

        ours = write_records(schema_of(data), [index_manifest.index_file_to_record(file) for file in files])
        assert decoded_blocks(ours) == decoded_blocks(data), path.name
        assert same_but_later_fields(index_manifest.INDEX_MANIFEST_SCHEMA, schema_of(data))


@pytest.mark.parametrize("case", CASES)
def test_snapshots_schemas_and_statistics_are_written_as_java_writes_them(case: Case):
    for path in [*case.table.rglob("snapshot/snapshot-*"), *case.table.rglob("schema/schema-*")]:
        text = path.read_text(encoding="utf-8")
        if path.name.startswith("schema"):
            assert schema_to_json(parse_schema(text, path.name)) == text, path
        elif "tagCreateTime" not in text:
            ours = snapshot_to_json(parse_snapshot(text, path.name))
            # A snapshot that Java made of a tag again is in one line.
            assert text in (ours, ours.replace("\n", "")), path
    for path in case.table.glob("statistics/stats-*"):
        text = path.read_text(encoding="utf-8")
        assert table_statistics_to_json(parse_table_statistics(text, path.name)) == text


@pytest.mark.parametrize("case", CASES)
def test_tags_are_written_as_java_writes_them(case: Case):
    for path in case.table.rglob("tag/tag-*"):
        text = path.read_text(encoding="utf-8")
        # A creation time of ours has microseconds.
        expected = re.sub(r'("tagCreateTime" : \[.* \d+)\d{3} \]', r"\g<1>000 ]", text)

        assert tag_to_json(parse_tag("t", text, path.name)) == expected, path


def reencoded(row: bytes, columns: RowType, *, reserve_null: bool) -> bytes:
    types = [field.type for field in columns]
    return encode_row(types, decode_row(types, row), reserve_null=reserve_null)


def reencoded_stats(stats: SimpleStats, columns: RowType) -> SimpleStats:
    if stats == EMPTY_STATS:
        return stats
    types = [field.type for field in columns]
    return to_simple_stats(types, from_simple_stats(types, stats))


@pytest.mark.parametrize("case", CASES)
def test_rows_and_statistics_in_manifests_are_encoded_as_java_encodes_them(case: Case):
    schemas: dict[int, TableSchema] = {}
    for number in case.expected["schema_ids"]:
        schemas[number] = parse_schema((case.table / f"schema/schema-{number}").read_text(encoding="utf-8"), case.name)
    for path, data in avro_files(case, "manifest"):
        for record in read_records(data, path.name):
            entry = manifest.entry_from_record(record, path.name)
            file = entry.file
            schema = schemas.get(file.schema_id)
            if schema is None:  # a schema of a branch
                continue
            assert reencoded(entry.partition, schema.partition_type, reserve_null=True) == entry.partition
            for key in (file.min_key, file.max_key):
                assert key == EMPTY_ROW or reencoded(key, schema.key_type, reserve_null=True) == key
            assert reencoded_stats(file.key_stats, schema.key_type) == file.key_stats
            assert reencoded_stats(file.value_stats, schema.row_type) == file.value_stats
