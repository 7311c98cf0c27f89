"""Hash index files: the bytes that Java writes, and what is none of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.hash_index import decode_hashes, encode_hashes
from tests.support.corpus import Case, corpus_cases

INT32 = st.integers(-(2**31), 2**31 - 1)


def test_hashes_are_big_endian():
    assert encode_hashes(np.array([1, -2], dtype=np.int32)) == b"\0\0\0\1\xff\xff\xff\xfe"


@given(st.sets(INT32))
def test_what_is_encoded_is_decoded_in_ascending_order(hashes: set[int]):
    data = encode_hashes(np.array(list(hashes), dtype=np.int32))

    assert decode_hashes(data, "index-1").tolist() == sorted(hashes)


@pytest.mark.parametrize("case", corpus_cases("dynamic bucket"))
def test_the_hashes_of_javas_files_are_those_that_java_reads(case: Case):
    if "index" not in case.expected:
        pytest.skip("the tables that travel with the tests do not say what their index files hold")
    files = [file for file in case.expected["index"] if file["type"] == "HASH"]
    for file in files:
        data = (case.table / "index" / file["file"]).read_bytes()

        assert decode_hashes(data, file["file"]).tolist() == sorted(file["hashes"])
        assert encode_hashes(np.array(file["hashes"], dtype=np.int32)) == data
    assert files


@pytest.mark.parametrize("data", [b"\0", b"\0\0\0\1\0", b"\0\0\0\1\0\0\0\1", b"\0\0\0\1\0\0\0\2\0\0\0\1"])
def test_other_bytes_are_refused_by_name(data: bytes):
    with pytest.raises(CorruptTableError, match="index-1"):
        decode_hashes(data, "index-1")
