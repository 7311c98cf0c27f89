"""What later releases write into metadata, and this engine does not know, is still there after it wrote."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.errors import UnsupportedError
from paimon_engine.format.avro import read_records, record_fields, write_records
from paimon_engine.meta.index_manifest import (
    HASH,
    INDEX_MANIFEST_SCHEMA,
    IndexFile,
    index_file_to_record,
    index_files,
    index_manifest_schema,
)
from paimon_engine.meta.manifest import MANIFEST_LIST_SCHEMA, MANIFEST_SCHEMA
from paimon_engine.meta.schema import parse_schema, schema_to_json
from paimon_engine.meta.snapshot import parse_snapshot, snapshot_to_json
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import live_entries, snapshot_manifests
from paimon_engine.table.state.snapshots import latest_snapshot, snapshots_newest_first
from tests.support.oracle import JavaPaimon

ENTRY_FIELD = {"name": "_TRACE", "type": "long"}
FILE_FIELD = {
    "name": "_ORIGIN",
    "type": [
        "null",
        {"type": "record", "name": "record__FILE__ORIGIN", "fields": [{"name": "_HOST", "type": "string"}]},
    ],
    "default": None,
}
LIST_FIELDS = [
    {"name": "_MIN_BUCKET", "type": ["null", "int"], "default": None},
    {"name": "_TOTAL_BUCKETS", "type": "int"},
    {"name": "_MIN_ROW_ID", "type": ["null", "long"], "default": None},
    {"name": "_EXTRA_FILES", "type": ["null", {"type": "array", "items": "string"}], "default": None},
]
ROWS = pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """One commit, whose manifest and manifest list a later release wrote."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options={"bucket": "1"})
    table.write(ROWS)
    make_later(Path(table.path))
    return table


def records_of(path: Path) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(path.read_bytes())))


def make_later(root: Path) -> None:
    """Writes the newest manifest, and the list that names it, as a later release might."""
    snapshot = parse_snapshot((root / "snapshot/snapshot-1").read_text(encoding="utf-8"), "snapshot-1")
    listing = root / "manifest" / snapshot.delta_manifest_list
    (listed,) = records_of(listing)
    manifest = root / "manifest" / listed["_FILE_NAME"]
    *plain, file = MANIFEST_SCHEMA["fields"]
    later = {**file["type"], "fields": [*file["type"]["fields"], FILE_FIELD]}
    schema = {
        **MANIFEST_SCHEMA,
        "fields": [*plain, {"name": "_FILE", "type": later}, ENTRY_FIELD],
    }
    (entry,) = records_of(manifest)
    entry |= {"_TRACE": 7, "_FILE": {**entry["_FILE"], "_ORIGIN": {"_HOST": "h1"}, "_FIRST_ROW_ID": 40}}
    manifest.write_bytes(write_records(schema, [entry]))
    listed |= {
        "_FILE_SIZE": manifest.stat().st_size,
        "_MIN_BUCKET": 0,
        "_TOTAL_BUCKETS": 3,
        "_MIN_ROW_ID": 40,
        "_EXTRA_FILES": ["x"],
    }
    schema = {**MANIFEST_LIST_SCHEMA, "fields": [*MANIFEST_LIST_SCHEMA["fields"], *LIST_FIELDS]}
    listing.write_bytes(write_records(schema, [listed]))
    say_sizes(root, 1)


def say_sizes(root: Path, number: int) -> None:
    """Makes the delta list of a snapshot, and the snapshot, say how large the files are that they name."""
    path = root / f"snapshot/snapshot-{number}"
    snapshot = json.loads(path.read_text(encoding="utf-8"))
    listing = root / "manifest" / snapshot["deltaManifestList"]
    read = fastavro.reader(io.BytesIO(listing.read_bytes()))
    listed = [{**item, "_FILE_SIZE": (root / "manifest" / item["_FILE_NAME"]).stat().st_size} for item in read]
    listing.write_bytes(write_records(read.writer_schema, listed))
    path.write_text(json.dumps({**snapshot, "deltaManifestListSize": listing.stat().st_size}), encoding="utf-8")


def handle_of(table: Table) -> TableHandle:
    return load_table(table.path, EnvConfig(table.path))


def raw_entries(table: Table) -> list[dict[str, Any]]:
    handle = handle_of(table)
    snapshot = latest_snapshot(handle)
    assert snapshot is not None
    names = [item.name for item in snapshot_manifests(handle, snapshot)]
    return [record for name in names for record in records_of(Path(table.path) / "manifest" / name)]


def test_a_manifest_list_keeps_them_when_it_grows(table: Table):
    table.write(ROWS)

    snapshot = latest_snapshot(handle_of(table))
    assert snapshot is not None
    (listed,) = records_of(Path(table.path) / "manifest" / snapshot.base_manifest_list)
    assert (listed["_MIN_BUCKET"], listed["_TOTAL_BUCKETS"], listed["_EXTRA_FILES"]) == (0, 3, ["x"])
    shown = open_table(f"{table.path}$manifests").to_arrow()
    assert shown["min_row_id"].to_pylist() == [40, None]
    assert shown["max_row_id"].to_pylist() == [None, None]


def test_manifests_keep_them_when_they_are_merged(table: Table, oracle: JavaPaimon):
    table.write(ROWS)

    assert table.compact_manifests().status == "committed"

    later, ours = raw_entries(table)
    assert later["_TRACE"] == 7
    assert later["_FILE"]["_ORIGIN"] == {"_HOST": "h1"}
    assert later["_FILE"]["_FIRST_ROW_ID"] == 40
    assert (ours["_TRACE"], ours["_FILE"]["_ORIGIN"]) == (None, None)
    assert oracle.read(table.path) == [[1, "a"], [2, "b"]]
    oracle.assert_sound(table.path)


def test_a_file_keeps_them_when_it_moves_to_another_level(table: Table):
    table.compact(full=True)

    added = [record for record in raw_entries(table) if record["_KIND"] == 0]
    assert added[-1]["_FILE"]["_LEVEL"] > 0
    assert added[-1]["_FILE"]["_ORIGIN"] == {"_HOST": "h1"}


def test_commit_messages_keep_them_as_json(table: Table):
    (entry,) = live_entries(handle_of(table), latest_snapshot(handle_of(table)))
    message = CommitMessage(entry.partition, entry.bucket, 1, compact_before=(entry.file,))

    assert CommitMessage.from_json(message.to_json()) == message
    assert entry.file.unknown["_ORIGIN"].value == {"_HOST": "h1"}


def test_manifests_that_disagree_on_a_type_are_left_apart(table: Table):
    table.write(ROWS)
    second = parse_snapshot((Path(table.path) / "snapshot/snapshot-2").read_text(encoding="utf-8"), "snapshot-2")
    folder = Path(table.path) / "manifest"
    (listed,) = records_of(folder / second.delta_manifest_list)
    (entry,) = records_of(folder / listed["_FILE_NAME"])
    schema = {**MANIFEST_SCHEMA, "fields": [*MANIFEST_SCHEMA["fields"], {"name": "_TRACE", "type": "string"}]}
    (folder / listed["_FILE_NAME"]).write_bytes(write_records(schema, [{**entry, "_TRACE": "seven"}]))
    say_sizes(Path(table.path), 2)

    assert table.compact_manifests().status == "noop"
    assert [record["_TRACE"] for record in raw_entries(table)] == [7, "seven"]
    assert table.to_arrow().num_rows == 2


def test_a_field_whose_type_is_not_known_is_not_dropped_in_silence(table: Table):
    with pytest.raises(UnsupportedError, match="later releases"):
        table.commit([_with_unknown_type(table)], commit_user="u")


def _with_unknown_type(table: Table) -> CommitMessage:
    (entry,) = live_entries(handle_of(table), latest_snapshot(handle_of(table)))
    message = CommitMessage(entry.partition, 0, 1, new_files=(entry.file,))
    value = json.loads(message.to_json())
    value["newFiles"][0]["$unknown"]["_ORIGIN"][1] = None
    return CommitMessage.from_json(json.dumps(value))


def test_index_manifests_keep_them():
    later = {"name": "_HUE", "type": {"type": "array", "items": "string"}}
    schema = {**INDEX_MANIFEST_SCHEMA, "fields": [*INDEX_MANIFEST_SCHEMA["fields"], later]}
    file = IndexFile(b"\0" * 12, 0, HASH, "index-1", 8, 2)
    stored = write_records(schema, [{**index_file_to_record(file), "_HUE": ["red"]}])

    (read,) = index_files(read_records(stored, "m"), "m", record_fields(stored, "m"))
    ours = write_records(index_manifest_schema([read, file]), [index_file_to_record(item) for item in (read, file)])

    assert [record["_HUE"] for record in read_records(ours, "m")] == [["red"], None]


SCHEMA = """{"version": 3, "id": 0, "fields": [{"id": 0, "name": "k", "type": "INT", "since": 4},
  {"id": 1, "name": "r", "type": {"type": "ROW", "fields": [{"id": 2, "name": "x", "type": "INT", "hue": ["red"]}]}}],
  "highestFieldId": 2, "partitionKeys": [], "primaryKeys": [], "options": {"a.b": "c"}, "timeMillis": 5,
  "owner": {"name": "o"}}"""


def test_a_schema_keeps_them_also_in_its_columns():
    schema = parse_schema(SCHEMA, "schema-0")

    assert json.loads(schema_to_json(schema)) == json.loads(SCHEMA)
    assert json.loads(schema_to_json(schema.with_options({"a.b": "d"})))["owner"] == {"name": "o"}


def test_a_schema_without_comment_has_none():
    text = SCHEMA.replace('"timeMillis"', '"comment": null, "timeMillis"')

    assert "comment" not in json.loads(schema_to_json(parse_schema(text, "schema-0")))


def snapshot_json(table: Table, number: int) -> dict[str, Any]:
    return json.loads((Path(table.path) / f"snapshot/snapshot-{number}").read_text(encoding="utf-8"))


def add_keys(table: Table, number: int, keys: dict[str, Any]) -> None:
    path = Path(table.path) / f"snapshot/snapshot-{number}"
    path.write_text(json.dumps({**snapshot_json(table, number), **keys}), encoding="utf-8")


LATER_KEYS = {
    "uuid": "u-1",
    "writerVersion": "9.9",
    "operation": "WRITE",
    "properties": {"a": "b"},
    "nextRowId": 12,
    "logOffsets": {"0": 33},
    "mood": "good",
}


def test_the_next_snapshot_takes_over_what_applies_to_the_table_and_no_more(table: Table):
    add_keys(table, 1, LATER_KEYS)

    table.write(ROWS)

    after = snapshot_json(table, 2)
    assert {key: after.get(key) for key in LATER_KEYS} == {
        **dict.fromkeys(LATER_KEYS),
        "nextRowId": 12,
        "logOffsets": {"0": 33},
    }


def test_a_snapshot_of_rewritten_manifests_says_what_the_one_before_said(table: Table):
    table.write(ROWS, properties={"a": "b"}, watermark=77)
    add_keys(table, 2, {"nextRowId": 12, "operation": "WRITE"})

    table.compact_manifests()

    before, after = snapshot_json(table, 2), snapshot_json(table, 3)
    same = ("schemaId", "totalRecordCount", "watermark", "properties", "nextRowId", "logOffsets")
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    assert (after["commitKind"], after["deltaRecordCount"], after.get("operation")) == ("COMPACT", 0, None)


def test_a_tag_keeps_all_keys_of_its_snapshot(table: Table):
    add_keys(table, 1, LATER_KEYS)

    table.create_tag("a")

    tag = json.loads((Path(table.path) / "tag/tag-a").read_text(encoding="utf-8"))
    assert {key: tag[key] for key in LATER_KEYS} == LATER_KEYS


def test_keys_of_later_releases_have_their_positions_in_a_snapshot():
    snapshot = parse_snapshot(
        '{"mood": 1, "operation": "WRITE", "uuid": "u", "id": 1, "version": 3, "schemaId": 0, "baseManifestList": "b", '
        '"deltaManifestList": "d", "commitUser": "c", "commitIdentifier": 1, "commitKind": "APPEND", "timeMillis": 1}',
        "snapshot-1",
    )

    keys = list(json.loads(snapshot_to_json(snapshot)))
    assert keys[:3] == ["version", "uuid", "id"]
    assert keys[-2:] == ["operation", "mood"]


def test_watermarks_only_grow_and_properties_are_of_one_commit(table: Table):
    table.write(ROWS, watermark=100, properties={"batch": "7"})
    table.write(ROWS, watermark=50)

    newest, middle, _ = snapshots_newest_first(handle_of(table))
    assert (middle.watermark, middle.extras["properties"]) == (100, {"batch": "7"})
    assert (newest.watermark, "properties" in newest.extras) == (100, False)
    assert table.to_arrow(options={"scan.watermark": "100"}).num_rows == 2
