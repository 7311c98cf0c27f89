"""Index manifests: records of Java and back, records that are none, and the list of the next snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paimon_engine import open_table
from paimon_engine.env import EnvConfig
from paimon_engine.errors import CorruptTableError, InvalidArgumentError
from paimon_engine.format.avro import read_records, write_records
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.index_manifest import (
    DELETION_VECTORS,
    HASH,
    INDEX_MANIFEST_SCHEMA,
    IndexFile,
    VectorRange,
    index_file_to_record,
    index_files,
    next_index_files,
)
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.canonical import assert_same_rows
from tests.support.corpus import Case, case, corpus_cases
from tests.support.oracle import JavaPaimon

HAVE_INDEXES = [
    *corpus_cases("deletion-vectors.enabled"),
    *corpus_cases("deletion vectors on an append table"),
    *(item for item in corpus_cases() if item.id in {"dynamic_bucket_deletes", "dynamic_bucket_partitioned"}),
]


def file(name: str, *data_files: str, bucket: int = 0, kind: str = DELETION_VECTORS) -> IndexFile:
    vectors = tuple(VectorRange(data_file, 1 + 30 * number, 22) for number, data_file in enumerate(data_files))
    return IndexFile(EMPTY_ROW, bucket, kind, name, 1 + 30 * len(vectors), len(vectors), vectors)


def record(**changes: Any) -> dict[str, Any]:
    return {**index_file_to_record(file("index-1", "data-1")), **changes}


# ── records ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("one", HAVE_INDEXES)
def test_records_of_java_survive_both_ways(one: Case):
    paths = sorted((one.table / "manifest").glob("index-manifest-*"))

    assert paths
    for path in paths:
        records = read_records(path.read_bytes(), str(path))
        files = index_files(records, str(path))
        written = write_records(INDEX_MANIFEST_SCHEMA, [index_file_to_record(item) for item in files])
        again = read_records(written, "ours")
        assert index_files(again, "ours") == files
        # What 0.9 has is all there, under the same names; what it lacks is null.
        for ours, theirs in zip(again, records, strict=True):
            assert {name: _without_cardinality(ours[name]) for name in theirs} == theirs
            assert all(ours[name] is None for name in ours.keys() - theirs.keys())


def _without_cardinality(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [{name: part for name, part in item.items() if name != "_CARDINALITY"} for item in value]


def test_java_reads_an_index_manifest_of_ours(oracle: JavaPaimon, tmp_path: Path):
    path = case("dv_parquet").copy_to(tmp_path)
    table = load_table(str(path), EnvConfig(str(path)))
    snapshot = latest_snapshot(table)
    assert snapshot is not None
    assert snapshot.index_manifest is not None
    location = table.paths.manifest(snapshot.index_manifest)
    files = index_files(read_records(table.env.storage.read(location), location), location)

    table.env.storage.overwrite(
        location, write_records(INDEX_MANIFEST_SCHEMA, [index_file_to_record(item) for item in files])
    )

    oracle.assert_sound(path)
    expected = case("dv_parquet").read()
    assert sorted(map(str, oracle.read(path))) == sorted(map(str, expected.rows))
    assert_same_rows(open_table(str(path)).to_arrow(), expected.rows)


def test_fields_of_later_releases_are_read():
    ranges = [{"f0": "data-1", "f1": 1, "f2": 22, "_CARDINALITY": 3}]

    (found,) = index_files([record(_DELETIONS_VECTORS_RANGES=ranges, _EXTERNAL_PATH="oss://b/x", _NEW=1)], "m")

    assert (found.vectors, found.external_path) == ((VectorRange("data-1", 1, 22, 3),), "oss://b/x")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another version": ({"_VERSION": 2}, "version 2, expected 1"),
    "a removal": ({"_KIND": 1}, "every file of an index manifest is live"),
    "no partition": ({"_PARTITION": None}, "m: a record is not an index file"),
    "a name that leads elsewhere": ({"_FILE_NAME": "../snapshot/snapshot-1"}, "is not a file name"),
    "a name with a zero": ({"_FILE_NAME": "index\0"}, "is not a file name"),
    "an empty name": ({"_FILE_NAME": ""}, "is not a file name"),
    "no size": ({"_FILE_SIZE": None}, "m: a record is not an index file"),
    "no range": ({"_DELETIONS_VECTORS_RANGES": [None]}, "m: a record is not an index file"),
    "half a range": ({"_DELETIONS_VECTORS_RANGES": [{"f0": "data-1", "f1": 1}]}, "m: a record is not an index file"),
    "an offset before the file": (
        {"_DELETIONS_VECTORS_RANGES": [{"f0": "data-1", "f1": -1, "f2": 22}]},
        "f1 is -1, expected an integer from 0",
    ),
    "a negative length": (
        {"_DELETIONS_VECTORS_RANGES": [{"f0": "data-1", "f1": 1, "f2": -22}]},
        "f2 is -22, expected an integer from 0",
    ),
}


@pytest.mark.parametrize(("changes", "what"), WRONG.values(), ids=WRONG.keys())
def test_records_that_are_none(changes: dict[str, Any], what: str):
    with pytest.raises(CorruptTableError, match=what):
        index_files([record(**changes)], "m")


def test_a_record_without_a_name_is_none():
    with pytest.raises(CorruptTableError, match="_FILE_NAME"):
        index_files([{name: value for name, value in record().items() if name != "_FILE_NAME"}], "m")


def test_two_vectors_of_a_data_file_are_an_error():
    with pytest.raises(CorruptTableError, match="m: data file data-1 has two deletion vectors"):
        index_files([record(), record(_FILE_NAME="index-2")], "m")


def test_files_of_global_indexes_are_written_as_they_were_read():
    (found,) = index_files([record(_INDEX_TYPE="btree", _DELETIONS_VECTORS_RANGES=None)], "m")

    assert (found.kind, found.is_global) == ("btree", True)
    assert index_files([index_file_to_record(found)], "m") == [found]


def test_a_bucket_has_any_number_of_files_of_global_indexes():
    one, two = index_files(
        [record(_INDEX_TYPE="btree", _DELETIONS_VECTORS_RANGES=None, _FILE_NAME=name) for name in ("i-1", "i-2")], "m"
    )

    assert next_index_files([one, two], added=[], removed=[], bucketed=True) == [one, two]


# ── from one snapshot to the next ───────────────────────────────────────────────────────────────


def names(files: Sequence[IndexFile]) -> set[str]:
    return {item.name for item in files}


def test_an_added_file_replaces_the_old_one_of_the_bucket():
    live = [file("a", "x"), file("b", "y", bucket=1), file("h", kind=HASH)]

    after = next_index_files(live, added=[file("c", "x", "z")], removed=[], bucketed=True)

    assert names(after) == {"c", "b", "h"}


def test_a_removed_file_of_a_bucket_may_be_missing():
    assert next_index_files([], added=[], removed=[file("a", "x")], bucketed=True) == []


def test_without_buckets_files_are_distinguished_by_name():
    live = [file("a", "x"), file("b", "y")]

    after = next_index_files(live, added=[file("c", "x", "z")], removed=[file("a", "x")], bucketed=False)

    assert names(after) == {"b", "c"}


def test_hash_indexes_are_one_a_bucket_everywhere():
    live = [file("a", kind=HASH), file("b", kind=HASH, bucket=1)]

    assert names(next_index_files(live, added=[file("c", kind=HASH)], removed=[], bucketed=False)) == {"b", "c"}


@pytest.mark.parametrize(
    ("added", "removed", "what"),
    [
        ([], [file("b", "y")], "index file b must be removed, but is not live"),
        ([file("a", "x")], [], "index file a must be added, but is live already"),
        ([file("b", "x")], [], "data file x would have two deletion vectors"),
    ],
)
def test_changes_without_buckets_that_do_not_fit(added: list[IndexFile], removed: list[IndexFile], what: str):
    with pytest.raises(InvalidArgumentError, match=what):
        next_index_files([file("a", "x")], added=added, removed=removed, bucketed=False)
