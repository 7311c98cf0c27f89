"""Entries of manifests that are written again without an object for each: as the bytes that they have.

Manifests are decoded in columns, so that everything in them has been checked. Of entries that stay, whole blocks are
copied as they are packed; where some entries of a block go, the bytes of the others make new blocks, and so do small
blocks, as those of single commits. Manifests whose records have other fields than ours are written entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paimon_engine.format.avro_blocks import Container, unpacked
from paimon_engine.format.avro_columns import NotPlain
from paimon_engine.format.avro_copies import BLOCK_BYTES, Piece, encoded
from paimon_engine.format.codecs import manifest_codec
from paimon_engine.meta.manifest import (
    MANIFEST_SCHEMA,
    ManifestEntry,
    ManifestFile,
    entry_to_record,
    manifest_schema,
)
from paimon_engine.meta.manifest_columns import ManifestColumns, has_our_layout, hashes_of_names
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.live_columns import GROUP_BYTES, SideBySide, decoded, places_of
from paimon_engine.table.state.manifests import bytes_of_manifests, entries_of_manifest

Ints = NDArray[np.int64]
Kept = NDArray[np.bool_]
"""Which of the entries of a manifest stay."""

_COPIED_BYTES_MIN: Final = BLOCK_BYTES // 2
"""Packed bytes that unpack to less are joined with others: a codec packs small blocks badly."""


@dataclass(frozen=True, slots=True)
class _StoredBlocks:
    """The records of a manifest as they are stored, in blocks; blocks without records are left out."""

    schema: bytes
    codec: str
    packed: Sequence[bytes]
    counts: Ints
    sizes: Ints
    """Unpacked bytes of each block."""
    ends: Ints
    """Where each record ends in the unpacked bytes of all blocks."""


@dataclass(frozen=True, slots=True)
class StoredEntries:
    """Entries of a manifest: numbers of each, and either its blocks or the entries themselves."""

    manifest: ManifestFile
    kinds: Ints
    schema_ids: Ints
    names: NDArray[np.uint64]
    partitions: Sequence[bytes]
    blocks: _StoredBlocks | None
    made: Sequence[ManifestEntry] = ()

    def __len__(self) -> int:
        return len(self.kinds)

    def partitions_of_removals(self) -> set[bytes]:
        """Partitions in which entries remove files."""
        return set(compress(self.partitions, self.kinds.tolist()))

    def pieces(self, kept: Kept, compression: str) -> Iterator[Piece]:
        """What a file with that codec takes of the entries that stay."""
        if self.blocks is None:
            return encoded(MANIFEST_SCHEMA, map(entry_to_record, compress(self.made, kept.tolist())))
        return _pieces(self.blocks, kept, manifest_codec(compression))


def _pieces(blocks: _StoredBlocks, kept: Kept, codec: str) -> Iterator[Piece]:
    """Blocks that stay as they are, and the records of those that do not."""
    if not len(blocks.counts):
        return
    record_begins = np.cumsum(blocks.counts) - blocks.counts
    staying = np.add.reduceat(kept.astype(np.int64), record_begins).tolist()
    begins = (np.cumsum(blocks.sizes) - blocks.sizes).tolist()
    rows = zip(
        blocks.packed,
        blocks.counts.tolist(),
        blocks.sizes.tolist(),
        begins,
        record_begins.tolist(),
        staying,
        strict=True,
    )
    for packed, count, size, begin, first, stays in rows:
        if not stays:
            continue
        if stays == count and size >= _COPIED_BYTES_MIN and codec == blocks.codec:
            yield Piece(count, packed, is_packed=True)
            continue
        data = unpacked(blocks.codec, packed)
        if stays < count:
            data = _cut(data, blocks.ends[first : first + count] - begin, kept[first : first + count])
        yield Piece(stays, data)


def _cut(data: bytes, ends: Ints, kept: Kept) -> bytes:
    """The bytes of the records that stay."""
    begins = np.concatenate([[0], ends[:-1]])
    return b"".join(data[begin:end] for begin, end in zip(begins[kept].tolist(), ends[kept].tolist(), strict=True))


def read_as_stored(table: TableHandle, manifests: Sequence[ManifestFile]) -> list[StoredEntries] | None:
    """The entries of each manifest as they are stored, checked; None where they cannot be copied to others.

    Entries with unknown fields cannot, since these need a schema of their own.

    Raises: NotFoundError, CorruptTableError.
    """
    if table.options.manifest_format != "avro":
        return None
    data, entries_of = bytes_of_manifests(table, manifests), partial(entries_of_manifest, table)
    found = list(decoded(manifests, data, entries_of, _of_columns, _of_entries))
    if any(one.blocks is None and manifest_schema(one.made) is not MANIFEST_SCHEMA for one in found):
        return None
    return found


def _of_columns(group: SideBySide, found: ManifestColumns) -> list[StoredEntries]:
    """The entries of each manifest of a group."""
    is_ours = has_our_layout(group[0][1].schema)
    parts = []
    size_bytes = 0
    for (manifest, begin, end), (_, one) in zip(places_of(group), group, strict=True):
        blocks = _blocks(one, found.record_ends[begin:end] - size_bytes) if is_ours else None
        size_bytes += sum(len(block) for _, block in one.blocks)
        parts.append(
            StoredEntries(
                manifest,
                found.kinds[begin:end],
                found.schema_ids[begin:end],
                found.names[begin:end],
                found.partitions[begin:end],
                blocks,
                () if is_ours else found.entries(np.arange(begin, end)),
            )
        )
    return parts


def _blocks(one: Container, ends: Ints) -> _StoredBlocks:
    """Raises: NotPlain for blocks without records, of which nothing has been checked."""
    counts = np.array([count for count, _ in one.blocks], np.int64)
    if not counts.all():
        raise NotPlain("a block without records")
    sizes = np.array([len(block) for _, block in one.blocks], np.int64)
    return _StoredBlocks(one.schema, one.codec, one.packed, counts, sizes, ends)


def _of_entries(manifest: ManifestFile, entries: list[ManifestEntry]) -> StoredEntries:
    def numbers(values: Any) -> Ints:
        return np.fromiter(values, np.int64, len(entries))

    return StoredEntries(
        manifest,
        numbers(int(entry.kind) for entry in entries),
        numbers(entry.file.schema_id for entry in entries),
        hashes_of_names([entry.file.name.encode(errors="surrogatepass") for entry in entries]),
        [entry.partition for entry in entries],
        None,
        entries,
    )


def of_all(parts: Sequence[StoredEntries], kept: Sequence[Kept]) -> tuple[Ints, Ints, list[bytes]]:
    """Kinds, ids of schemas, and partitions of the entries of all manifests that stay, in order."""
    both = list(zip(parts, kept, strict=True))
    kinds = np.concatenate([part.kinds[staying] for part, staying in both])
    schema_ids = np.concatenate([part.schema_ids[staying] for part, staying in both])
    partitions = [one for part, staying in both for one in compress(part.partitions, staying.tolist())]
    return kinds, schema_ids, partitions


# ── entries at some places ──────────────────────────────────────────────────────────────────────


def entries_at(stored: Sequence[StoredEntries], places: Sequence[Ints]) -> list[ManifestEntry]:
    """The entries of each manifest at its places, which ascend; in order. Only their blocks are decoded again."""
    found: list[ManifestEntry] = []
    group: list[_Chosen] = []
    size_bytes = 0

    def decode() -> None:
        nonlocal group, size_bytes
        found.extend(_decoded_again(group))
        group, size_bytes = [], 0

    for one, where in zip(stored, places, strict=True):
        if one.blocks is None or (group and one.blocks.schema != group[0].schema):
            decode()
        if one.blocks is None:
            found += map(one.made.__getitem__, where.tolist())
        elif len(where):
            group.append(_chosen(one.blocks, where))
            size_bytes += sum(len(block) for _, block in group[-1].blocks)
            if size_bytes >= GROUP_BYTES:
                decode()
    decode()
    return found


class _Chosen(NamedTuple):
    """Blocks of a manifest that have the entries at some places, and their places among the records of these."""

    schema: bytes
    blocks: list[tuple[int, bytes]]
    places: Ints


def _chosen(blocks: _StoredBlocks, where: Ints) -> _Chosen:
    behind = np.cumsum(blocks.counts)
    block_of = np.searchsorted(behind, where, side="right")
    needed, number = np.unique(block_of, return_inverse=True)
    counts = blocks.counts[needed]
    shift = (np.cumsum(counts) - counts) - (behind[needed] - counts)
    data = [unpacked(blocks.codec, blocks.packed[index]) for index in needed.tolist()]
    return _Chosen(blocks.schema, list(zip(counts.tolist(), data, strict=True)), where + shift[number])


def _decoded_again(group: Sequence[_Chosen]) -> list[ManifestEntry]:
    if not group:
        return []
    found = ManifestColumns(group[0].schema, [block for one in group for block in one.blocks])
    places = []
    begin = 0
    for one in group:
        places.append(one.places + begin)
        begin += sum(count for count, _ in one.blocks)
    return found.entries(np.concatenate(places))
