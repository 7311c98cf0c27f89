"""Manifests that are merged by copying bytes hold what they hold when they are merged entry by entry."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.env import EnvConfig
from paimon_engine.errors import CorruptTableError
from paimon_engine.format.avro_blocks import container
from paimon_engine.format.avro_copies import Piece, write_pieces
from paimon_engine.format.binary_row import encode_row
from paimon_engine.meta.manifest import (
    MANIFEST_SCHEMA,
    FileKind,
    ManifestEntry,
    ManifestFile,
    counts,
)
from paimon_engine.meta.stats import EMPTY_STATS
from paimon_engine.table.commit import manifest_merge
from paimon_engine.table.commit.manifest_merge import compact_manifests, merge_manifests
from paimon_engine.table.state import live_columns
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import read_manifest
from paimon_engine.table.state.metadata_writer import MetadataWriter
from tests.support.random_manifests import random_entries, stored, with_field, without_fields

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("p", pa.int32())])
NOT_BY_COPY = 1 << 40
Merge = Callable[[TableHandle, Sequence[ManifestFile], MetadataWriter], list[ManifestFile]]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., TableHandle]:
    def made(**options: str) -> TableHandle:
        given = {"bucket": "-1", **options}
        table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, partition_keys=["p"], options=given)
        return load_table(table.path, EnvConfig(table.path))

    return made


def put(table: TableHandle, name: str, entries: Sequence[ManifestEntry], data: bytes | None = None) -> ManifestFile:
    """Stores a manifest, with nothing said of its partitions."""
    data = stored(entries) if data is None else data
    table.env.storage.overwrite(table.paths.manifest(name), data)
    return ManifestFile(name, len(data), *counts(entries), EMPTY_STATS, 0)


def in_partition(table: TableHandle, entry: ManifestEntry, number: int | None) -> ManifestEntry:
    types = [field.type for field in table.schema.partition_type]
    return replace(entry, partition=encode_row(types, [number], reserve_null=False))


def commits(table: TableHandle, rng: random.Random, count: int, most: int) -> list[list[ManifestEntry]]:
    """Entries of commits that add files, remove some, and move some to other levels."""
    live: list[ManifestEntry] = []
    found = []
    for number in range(count):
        added = [
            in_partition(table, replace(entry, kind=FileKind.ADD), rng.choice([None, 1, number]))
            for entry in random_entries(rng, rng.randrange(1, most))
        ]
        # Names that are in several entries although their files are others.
        added += [replace(entry, bucket=entry.bucket + 1) for entry in added if rng.random() < 0.05]
        removed = []
        for _ in range(rng.choice([0, 0, most // 3])):
            if live:
                removed.append(replace(live.pop(rng.randrange(len(live))), kind=FileKind.DELETE))
        moved = [
            replace(entry, kind=FileKind.ADD, file=entry.file.upgraded(entry.file.level + 1))
            for entry in removed
            if rng.random() < 0.3
        ]
        live += [*added, *moved]
        found.append([*added, *removed, *moved])
    return found


def entries_of(table: TableHandle, manifests: Sequence[ManifestFile]) -> list[ManifestEntry]:
    return [entry for item in manifests for entry in read_manifest(table, item.name, item)]


def outcomes(
    monkeypatch: pytest.MonkeyPatch, table: TableHandle, manifests: Sequence[ManifestFile], merge: Merge
) -> list[Any]:
    """Of a merge by copying, and of one entry by entry: its manifests, or what it says is wrong."""
    found: list[Any] = []
    monkeypatch.setattr(live_columns, "WIDTH_MIN", 0)
    for least in (0, NOT_BY_COPY):
        monkeypatch.setattr(manifest_merge, "ENTRIES_MIN", least)
        try:
            found.append(merge(table, manifests, MetadataWriter(table)))
        except CorruptTableError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("merge", [merge_manifests, compact_manifests])
@pytest.mark.parametrize("seed", range(20))
def test_what_stays_is_what_stays_entry_by_entry(
    make: Callable[..., TableHandle], monkeypatch: pytest.MonkeyPatch, seed: int, merge: Merge
) -> None:
    rng = random.Random(seed)
    table = make(
        **{
            "manifest.target-file-size": rng.choice(["1 kb", "30 kb", "8 mb"]),
            "manifest.full-compaction-threshold-size": rng.choice(["1 b", "16 mb"]),
            "manifest.merge-min-count": "2",
            "manifest.compression": rng.choice(["zstd", "zstd", "snappy", "none", "deflate", "bzip2"]),
        }
    )
    others = [without_fields("_WRITE_COLS"), {**MANIFEST_SCHEMA, "fields": MANIFEST_SCHEMA["fields"][::-1]}]
    schemas = [MANIFEST_SCHEMA, *rng.choice([[], others])]
    manifests = [
        put(table, f"manifest-{n}", entries, stored(entries, rng.choice(schemas), rng.choice(["zstd", "zstd", "none"])))
        for n, entries in enumerate(commits(table, rng, rng.randrange(2, 9), rng.choice([3, 300])))
    ]

    copied, plain = outcomes(monkeypatch, table, manifests, merge)

    kept, expected = entries_of(table, copied), entries_of(table, plain)
    assert kept == expected
    assert sum(item.deleted_count for item in copied) == sum(item.deleted_count for item in plain)
    if len(copied) == len(plain) == 1:
        assert replace(copied[0], name="", size_bytes=0) == replace(plain[0], name="", size_bytes=0)


def test_unknown_fields_are_kept(make: Callable[..., TableHandle], monkeypatch: pytest.MonkeyPatch) -> None:
    table, rng = make(), random.Random(1)
    schema = with_field("_NEW", ["null", "long"])
    manifests = []
    for number in range(3):
        entries = [replace(entry, kind=FileKind.ADD) for entry in random_entries(rng, 40)]
        entries = [in_partition(table, entry, number) for entry in entries]
        manifests.append(
            put(table, f"manifest-{number}", entries, stored(entries, schema if number == 1 else MANIFEST_SCHEMA))
        )

    copied, plain = outcomes(monkeypatch, table, manifests, compact_manifests)

    assert entries_of(table, copied) == entries_of(table, plain) == entries_of(table, manifests)


def many(table: TableHandle, rng: random.Random, count: int, partition: int) -> list[ManifestEntry]:
    return [in_partition(table, replace(one, kind=FileKind.ADD), partition) for one in random_entries(rng, count)]


def test_blocks_without_removed_files_are_copied(make: Callable[..., TableHandle]) -> None:
    table, rng = make(), random.Random(3)
    first, second = many(table, rng, 1_500, 1), many(table, rng, 1_500, 2)
    removed = [replace(first[700], kind=FileKind.DELETE)]
    manifests = [put(table, "manifest-a", first), put(table, "manifest-b", second), put(table, "manifest-c", removed)]

    [merged] = compact_manifests(table, manifests, MetadataWriter(table))

    live = [*first[:700], *first[701:], *second]
    assert read_manifest(table, merged.name, merged) == live
    blocks = [
        packed
        for name in ("manifest-a", "manifest-b")
        for packed in container(table.env.storage.read(table.paths.manifest(name))).packed
    ]
    there = set(container(table.env.storage.read(table.paths.manifest(merged.name))).packed)
    # Neither the block of the removed file, nor the last ones if they are small.
    assert len(blocks) - 3 <= len(there & set(blocks)) < len(blocks)


def test_small_blocks_are_joined(make: Callable[..., TableHandle]) -> None:
    table, rng = make(), random.Random(4)
    every = [many(table, rng, 10, 1) for _ in range(150)]
    manifests = [put(table, f"manifest-{number}", entries) for number, entries in enumerate(every)]

    [merged] = compact_manifests(table, manifests, MetadataWriter(table))

    assert read_manifest(table, merged.name, merged) == [entry for entries in every for entry in entries]
    blocks = container(table.env.storage.read(table.paths.manifest(merged.name))).blocks
    assert all(len(block) >= 16_000 for _, block in blocks[:-1])


def test_manifests_end_when_they_have_their_size(make: Callable[..., TableHandle]) -> None:
    table, rng = make(**{"manifest.target-file-size": "200 kb"}), random.Random(5)
    every = [many(table, rng, 500, number) for number in range(6)]
    manifests = [put(table, f"manifest-{number}", entries) for number, entries in enumerate(every)]

    merged = compact_manifests(table, manifests, MetadataWriter(table))

    assert entries_of(table, merged) == [entry for entries in every for entry in entries]
    *full, _ = [item.size_bytes for item in merged]
    assert len(full) >= 2
    assert all(200 << 10 <= size < 240 << 10 for size in full)
    for item in merged:
        entries = read_manifest(table, item.name, item)
        assert counts(entries) == (item.added_count, item.deleted_count)
        assert item.schema_id == max(entry.file.schema_id for entry in entries)


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_found_as_it_is_entry_by_entry(
    make: Callable[..., TableHandle], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    table, rng = make(), random.Random(seed)
    found = set()
    for _ in range(12):
        manifests = []
        damaged = rng.randrange(3)
        for number in range(3):
            entries = many(table, rng, 30, number)
            data = bytearray(stored(entries, codec=rng.choice(["none", "zstd"])))
            for _ in range(rng.choice([1, 2, 5]) if number == damaged else 0):
                data[rng.randrange(len(data))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            manifests.append(put(table, f"manifest-{number}", entries, bytes(data)))

        copied, plain = outcomes(monkeypatch, table, manifests, compact_manifests)

        found.add(isinstance(plain, str))
        if isinstance(plain, str):
            assert copied == plain
        else:
            assert entries_of(table, copied) == entries_of(table, plain)
    assert True in found


def test_a_file_that_is_added_twice_is_found(make: Callable[..., TableHandle], monkeypatch: pytest.MonkeyPatch) -> None:
    table, rng = make(**{"manifest.merge-min-count": "2"}), random.Random(6)
    first, second = many(table, rng, 50, 1), many(table, rng, 50, 2)
    manifests = [put(table, "manifest-a", first), put(table, "manifest-b", [*second, first[7]])]

    copied, plain = outcomes(monkeypatch, table, manifests, merge_manifests)

    assert copied == plain
    assert f"file {first[7].file.name} of bucket {first[7].bucket} is added twice" in copied


def test_numbers_of_entries_are_compared_with_the_list(
    make: Callable[..., TableHandle], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, rng = make(), random.Random(7)
    manifests = [put(table, f"manifest-{number}", many(table, rng, 50, number)) for number in range(2)]
    manifests[1] = replace(manifests[1], added_count=49, deleted_count=1)

    copied, plain = outcomes(monkeypatch, table, manifests, compact_manifests)

    assert copied == plain
    assert "it adds 50 files and removes 0, its manifest list says 49 and 1" in copied


def test_a_block_that_claims_no_records_is_not_copied(make: Callable[..., TableHandle]) -> None:
    table, rng = make(), random.Random(8)
    entries = many(table, rng, 1_200, 1)
    [block, *more] = container(stored(entries, codec="none")).blocks
    pieces = [Piece(0, b"\x05nothing that was checked", is_packed=True), Piece(*block), *(Piece(*one) for one in more)]
    [(data, _)] = write_pieces(MANIFEST_SCHEMA, pieces, "none", target_bytes=1 << 30)
    manifests = [put(table, "manifest-a", entries, data), put(table, "manifest-b", many(table, rng, 10, 2))]

    [merged] = compact_manifests(table, manifests, MetadataWriter(table))

    found = table.env.storage.read(table.paths.manifest(merged.name))
    assert read_manifest(table, merged.name, merged)[:1_200] == entries
    assert all(count for count, _ in container(found).blocks)


def test_removals_of_large_manifests_are_carried_out(
    make: Callable[..., TableHandle], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"manifest.target-file-size": "20 kb", "manifest.full-compaction-threshold-size": "1 b"}
    table, rng = make(**options), random.Random(9)
    large = [many(table, rng, 400, number) for number in range(3)]
    gone = [replace(one, kind=FileKind.DELETE) for one in [*large[0][:350], large[1][9]]]
    manifests = [put(table, f"manifest-{number}", entries) for number, entries in enumerate([*large, gone])]

    copied, plain = outcomes(monkeypatch, table, manifests, merge_manifests)

    assert copied[0].name == plain[0].name == "manifest-2"
    assert entries_of(table, copied) == entries_of(table, plain)
    assert entries_of(table, copied)[400:] == [*large[0][350:], *large[1][:9], *large[1][10:]]
