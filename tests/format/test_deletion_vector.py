"""Deletion vectors: bytes known from the format, every set of positions, and bytes that are none."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from paimon_engine.env import EnvConfig
from paimon_engine.errors import CorruptTableError
from paimon_engine.format.deletion_vector import decode_vector, encode_vectors, kept_rows
from paimon_engine.meta.index_manifest import DELETION_VECTORS, index_files
from paimon_engine.table.handle import load_table
from paimon_engine.table.manifests import read_index_manifest
from paimon_engine.table.snapshots import snapshots_newest_first
from tests.support.corpus import Case, corpus_cases

EXAMPLE = bytes.fromhex("01 0000001c 5e43f2d0 3a300000 01000000 0000 0300 10000000 0000 0100 0500 2700 bdf39a1e")

positions = st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 300), unique=True, max_size=200).map(
    lambda found: np.array(sorted(found), np.int64)
)


def test_the_bytes_of_the_format():
    vector = np.array([0, 1, 5, 39])

    assert decode_vector(EXAMPLE[1:], "f", 1).tolist() == vector.tolist()
    assert encode_vectors({"data": vector}) == (EXAMPLE, {"data": (1, 28)})


@given(st.lists(positions, max_size=4))
def test_what_is_written_is_read(found: list[np.ndarray]):
    data, ranges = encode_vectors({str(number): one for number, one in enumerate(found)})

    assert len(ranges) == len(found)
    for number, one in enumerate(found):
        offset, length = ranges[str(number)]
        assert decode_vector(data[offset : offset + length + 8], "f", offset).tolist() == one.tolist()


@given(st.dictionaries(st.integers(0, 5), positions, max_size=3))
def test_vectors_of_64_bits(bitmaps: dict[int, np.ndarray]):
    body = struct.pack("<iq", 1681511377, len(bitmaps))
    for high, low in sorted(bitmaps.items()):
        body += struct.pack("<i", high) + BitMap(low.astype(np.uint32)).serialize()
    data = struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))

    expected = [int(one) + (high << 32) for high, low in sorted(bitmaps.items()) for one in low]
    assert decode_vector(data, "f", 1).tolist() == expected


@given(st.data())
def test_damage_is_noticed(data: st.DataObject):
    whole = bytearray(EXAMPLE[1:])
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        del whole[place:]
    else:
        whole[place] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(CorruptTableError, match="an index file: deletion vector at offset 17"):
        decode_vector(bytes(whole), "an index file", 17)


@pytest.mark.parametrize(
    "body", [b"", b"\x5e\x43\xf2\xd0", b"\x5e\x43\xf2\xd0:0\0\0\1\0", b"\xd1\xd3\x39\x64\1", b"nope"]
)
def test_a_right_checksum_over_wrong_bytes(body: bytes):
    with pytest.raises(CorruptTableError, match="offset 1"):
        decode_vector(struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body)), "f", 1)


@given(positions, st.integers(0, 400), st.integers(0, 400))
def test_kept_rows(deleted: np.ndarray, first: int, count: int):
    kept = kept_rows(deleted, first, count)

    gone = set(deleted.tolist())
    expected = [row not in gone for row in range(first, first + count)]
    assert (expected if kept is None else kept.tolist()) == expected


@pytest.mark.parametrize("case", corpus_cases("deletion-vectors.enabled"))
def test_vectors_of_java_are_written_the_same(case: Case):
    table = load_table(str(case.table), EnvConfig(str(case.table)))
    names = {snapshot.index_manifest for snapshot in snapshots_newest_first(table)} - {None}
    files = [file for name in names for file in index_files(read_index_manifest(table, name), name)]
    vectors = [file for file in files if file.kind == DELETION_VECTORS]

    assert vectors
    for file in vectors:
        data = table.env.storage.read(table.paths.index(file.name))
        found = {one.data_file: decode_vector(data[one.offset :], file.name, one.offset) for one in file.vectors}
        assert (len(data), len(found)) == (file.size_bytes, file.row_count)
        assert encode_vectors(found) == (data, {one.data_file: (one.offset, one.length) for one in file.vectors})
