"""Headers of Parquet pages that are not what the format says."""

from __future__ import annotations

import pytest

from paimon_engine.format.parquet_page_sizes import PageHead, page_head
from paimon_engine.format.thrift_compact import BINARY, DECODE_ERRORS, I32, STRUCT, integer, structure, text

SIZES = [(1, I32, integer(0)), (2, I32, integer(800)), (3, I32, integer(90))]
"""Type (a data page), size unpacked and stored."""
DETAILS = [(1, I32, integer(100)), (2, I32, integer(8)), (3, I32, integer(3)), (4, I32, integer(3))]
STATISTICS = (5, STRUCT, structure([(1, BINARY, text("zz")), (3, I32, integer(7)), (6, BINARY, text("aa"))]))


def header(details: list[tuple[int, int, bytes]]) -> bytes:
    """A data page's header with these details."""
    return structure([*SIZES, (5, STRUCT, structure(details))])


def test_sizes_values_and_encoding_are_taken_and_the_rest_is_passed_over() -> None:
    stored = header([*DETAILS, STATISTICS])
    assert page_head(b"before" + stored + b"page", 6) == (PageHead(800, 90, 100, 8, False), 6 + len(stored))


@pytest.mark.parametrize(
    "stored",
    [
        structure([*SIZES, (5, I32, integer(1))]),
        structure(SIZES),
        structure([*SIZES[:2], (5, STRUCT, structure(DETAILS))]),
        structure([(1, I32, integer(0)), (2, BINARY, text("800")), *SIZES[2:], (5, STRUCT, structure(DETAILS))]),
        header(DETAILS[1:]),
        header([(1, STRUCT, structure([])), *DETAILS[1:]]),
        structure([*SIZES[:2], (3, I32, b"\x01"), (5, STRUCT, structure(DETAILS))]),
    ],
    ids=["details-integer", "no-details", "no-size", "size-text", "no-values", "values-structure", "negative-size"],
)
def test_what_is_missing_or_of_another_type_is_a_decoding_error(stored: bytes) -> None:
    with pytest.raises(DECODE_ERRORS) as caught:
        page_head(stored)
    assert not isinstance(caught.value, IndexError)


def test_a_header_that_is_cut_anywhere_needs_more_bytes() -> None:
    stored = header([*DETAILS, STATISTICS])
    for length in range(len(stored)):
        with pytest.raises(IndexError):
            page_head(stored[:length])
