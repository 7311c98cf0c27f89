"""Deletion vectors: bytes known from the format, every set of positions, and bytes that are none."""

from __future__ import annotations

import struct
import zlib
from functools import reduce
from operator import or_
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from paimon_engine.env import EnvConfig
from paimon_engine.errors import CorruptTableError, InvalidArgumentError
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.deletion_vector import decode_index_file, decode_vector, encode_index_file
from paimon_engine.meta.index_manifest import DELETION_VECTORS
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import live_index_files
from paimon_engine.table.state.snapshots import snapshots_newest_first
from tests.support.corpus import Case, corpus_cases
from tests.support.row_bitmaps import rows_of

Positions = npt.NDArray[np.int64]

EXAMPLE = bytes.fromhex("01 0000001c 5e43f2d0 3a300000 01000000 0000 0300 10000000 0000 0100 0500 2700 bdf39a1e")
MAGIC_32 = bytes.fromhex("5e43f2d0")
MAGIC_64 = bytes.fromhex("d1d33964")


def _positions(highest: int) -> st.SearchStrategy[Positions]:
    """Scattered rows, dense ones, and runs that cross the 65 536 values of a container."""
    scattered = st.lists(st.integers(0, highest) | st.integers(0, 300), max_size=100)
    runs = st.lists(
        st.tuples(st.integers(0, min(highest, 200_000)), st.integers(1, 6000), st.integers(1, 3)).map(
            lambda run: range(run[0], min(run[0] + run[1] * run[2], highest), run[2])
        ),
        max_size=3,
    )
    return st.tuples(scattered, runs).map(
        lambda found: np.array(sorted({*found[0], *(row for run in found[1] for row in run)}), np.int64)
    )


positions = _positions(2**31 - 1)
positions_64 = _positions(2**62)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def bitmap(*values: int) -> bytes:
    return bytes(BitMap(values).serialize())


def keyed(*bitmaps: tuple[int, bytes]) -> bytes:
    """A 64-bit vector of those bitmaps, in that order."""
    return MAGIC_64 + struct.pack("<q", len(bitmaps)) + b"".join(struct.pack("<i", key) + low for key, low in bitmaps)


def test_the_bytes_of_the_format():
    vector = np.array([0, 1, 5, 39])

    assert rows_of(decode_vector(EXAMPLE[1:], "f", 1, 28)) == vector.tolist()
    assert encode_index_file({"data": RowBitmap.of(vector)}) == (EXAMPLE, {"data": (1, 28)})


def test_runs_of_rows_are_stored_as_runs():
    data, ranges = encode_index_file({"data": RowBitmap.of(np.arange(10, 20))})

    assert (len(data), ranges) == (28, {"data": (1, 19)})


@pytest.mark.parametrize("bits", [32, 64])
@given(data=st.data())
def test_what_is_written_is_read(data: st.DataObject, bits: Literal[32, 64]):
    vectors = data.draw(st.dictionaries(st.text("abc", max_size=4), positions if bits == 32 else positions_64))

    file, ranges = encode_index_file({name: RowBitmap.of(found) for name, found in vectors.items()}, bits=bits)

    assert {name: rows_of(found) for name, found in decode_index_file(file, ranges, "f").items()} == {
        name: found.tolist() for name, found in vectors.items()
    }
    for name, (offset, length) in ranges.items():
        assert rows_of(decode_vector(file[offset:], "f", offset, length)) == vectors[name].tolist()


@given(st.dictionaries(st.integers(0, 5), positions, max_size=3))
def test_vectors_of_64_bits_may_have_empty_bitmaps(bitmaps: dict[int, Positions]):
    body = keyed(*((key, bitmap(*low.tolist())) for key, low in sorted(bitmaps.items())))

    expected = [int(one) + (high << 32) for high, low in sorted(bitmaps.items()) for one in low]
    assert rows_of(decode_vector(framed(body), "f", 1, len(body) + 8)) == expected


@pytest.mark.parametrize("row", [2**31, 2**40], ids=["2^31", "2^40"])
def test_rows_that_a_vector_cannot_contain_are_refused(row: int):
    with pytest.raises(InvalidArgumentError, match=rf"data file part-7\.parquet: .* not {row}"):
        encode_index_file({"part-7.parquet": RowBitmap.of(np.array([4, row]))})


def test_rows_below_0_are_refused():
    with pytest.raises(InvalidArgumentError, match="there is no row -3"):
        RowBitmap.of(np.array([4, -3]))


# ── bytes that are none ─────────────────────────────────────────────────────────────────────────


@given(st.data())
def test_damage_is_noticed(data: st.DataObject):
    whole = bytearray(EXAMPLE[1:])
    position = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        del whole[position:]
    else:
        whole[position] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(CorruptTableError, match="an index file: deletion vector at offset 17"):
        decode_vector(bytes(whole), "an index file", 17, 28)


WRONG: dict[str, bytes] = {
    "nothing": b"",
    "another magic number": b"nope",
    "a magic number alone": MAGIC_32,
    "a bitmap that is cut": MAGIC_32 + b":0\0\0\1\0",
    "bytes after the bitmap": MAGIC_32 + bitmap(1, 2) + b"\0",
    "values out of order": MAGIC_32 + bitmap(1, 2)[:-4] + b"\2\0\1\0",
    "bits without a number": MAGIC_32 + struct.pack("<IIHHI", 12346, 1, 0, 4999, 16) + bytes(8192),
    "runs out of order": MAGIC_32 + struct.pack("<IBHHHHHHH", 12347, 1, 0, 3, 2, 7, 1, 3, 1),
    "runs that go too far": MAGIC_32 + struct.pack("<IBHHHHH", 12347, 1, 0, 3, 1, 65535, 1),
    "containers out of order": MAGIC_32 + struct.pack("<IIHHHHIIHH", 12346, 2, 1, 0, 0, 0, 24, 26, 5, 5),
    "a 64-bit magic number alone": MAGIC_64,
    "half a count of bitmaps": MAGIC_64 + b"\1",
    "fewer than no bitmaps": MAGIC_64 + struct.pack("<q", -1),
    "fewer bitmaps than said": MAGIC_64 + struct.pack("<q", 2**62) + struct.pack("<i", 0) + bitmap(1),
    "bytes after the bitmaps": keyed((0, bitmap(1))) + b"\0",
    "keys out of order": keyed((5, bitmap(1)), (0, bitmap(1))),
    "a key twice": keyed((5, bitmap(1)), (5, bitmap(2))),
    "a negative key": keyed((-5, bitmap(1))),
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
def test_wrong_bytes_with_a_right_checksum(body: bytes):
    with pytest.raises(CorruptTableError, match="an index file: deletion vector at offset 3: "):
        decode_vector(framed(body), "an index file", 3, len(body) + (8 if body.startswith(MAGIC_64) else 0))


@given(st.binary(max_size=80), st.sampled_from([MAGIC_32, MAGIC_64, MAGIC_32 + b":0\0\0", MAGIC_32 + b";0\0\0"]))
def test_any_bytes_are_a_vector_or_a_named_error(body: bytes, begin: bytes):
    body = begin + body
    try:
        found = decode_vector(framed(body), "f", 1, len(body) + (8 if begin == MAGIC_64 else 0))
    except CorruptTableError as error:
        assert "f: deletion vector at offset 1" in str(error)
    else:
        assert rows_of(found) == sorted(set(rows_of(found)))


@pytest.mark.parametrize("length", [0, 27, 29, 36])
def test_a_length_other_than_the_manifests_is_an_error(length: int):
    with pytest.raises(CorruptTableError, match=f"its length is 28, the index manifest says {length}"):
        decode_vector(EXAMPLE[1:], "f", 1, length)


FILES: dict[str, tuple[bytes, Any, str]] = {
    "an empty file": (b"", {}, "found no byte"),
    "another version": (b"\2" + EXAMPLE[1:], {"data": (1, 28)}, "version 1 expected at offset 0, found 02"),
    "a gap before a vector": (b"\1\0" + EXAMPLE[1:], {"data": (2, 28)}, "ends at 1, the next one begins at 2"),
    "bytes at the end": (EXAMPLE + b"\0", {"data": (1, 28)}, "end at 37, the file has 38 bytes"),
    "a vector nobody names": (EXAMPLE, {}, "end at 1, the file has 37 bytes"),
    "a vector beyond the end": (EXAMPLE, {"data": (1, 28), "more": (37, 28)}, "offset 37: the file ends before it"),
}


@pytest.mark.parametrize(("data", "ranges", "what"), FILES.values(), ids=FILES.keys())
def test_index_files_that_are_none(data: bytes, ranges: Any, what: str):
    with pytest.raises(CorruptTableError, match=what):
        decode_index_file(data, ranges, "f")


# ── applying ────────────────────────────────────────────────────────────────────────────────────


@given(st.data(), st.lists(positions, min_size=1, max_size=3), st.integers(0, 150_000))
def test_rows_that_are_in_a_vector(data: st.DataObject, parts: list[Positions], count: int):
    """Also of vectors that were joined, and from rows in any order."""
    everything = np.concatenate(parts)
    rows = sorted(set(everything.tolist()))
    found = reduce(or_, [RowBitmap.of(part) for part in parts])
    first = data.draw(st.integers(0, 300_000) | st.integers(max(0, found.last - count), found.last + 1))

    gone = set(rows)
    expected = [row in gone for row in range(first, first + count)]
    assert found.present(first, count).to_pylist() == expected
    kept = found.absent(first, count)
    assert (None if kept is None else kept.to_pylist()) == ([not one for one in expected] if any(expected) else None)
    assert (len(found), found.last) == (len(rows), max(rows, default=-1))
    shuffled = RowBitmap.of(np.concatenate([everything[1::2], everything[::2]]))
    assert encode_index_file({"f": found}) == encode_index_file({"f": shuffled})
    in_java_form = BitMap(rows)
    assert encode_index_file({"f": found})[0][9:-4] == in_java_form.serialize()


@pytest.mark.parametrize(
    "case", [*corpus_cases("deletion-vectors.enabled"), *corpus_cases("deletion vectors on an append table")]
)
def test_vectors_of_java_are_written_the_same(case: Case):
    table = load_table(str(case.table), EnvConfig(str(case.table)))
    files = {
        file.name: file for snapshot in snapshots_newest_first(table) for file in live_index_files(table, snapshot)
    }
    vectors = [file for file in files.values() if file.kind == DELETION_VECTORS]

    assert vectors
    for file in vectors:
        data = table.env.storage.read(table.paths.index(file.name))
        ranges = {one.data_file: (one.offset, one.length) for one in file.vectors}
        found = decode_index_file(data, ranges, file.name)
        assert (len(data), len(found)) == (file.size_bytes, file.row_count)
        assert encode_index_file(found) == (data, ranges)
