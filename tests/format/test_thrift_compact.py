"""Bytes that are not a structure of Thrift's compact protocol raise an error, with assertions switched off too."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paimon_engine.format.thrift_compact import (
    DECODE_ERRORS,
    I32,
    NotAStructureError,
    fields_of,
    integer,
    number_in,
    structure,
    value_of,
)

ONE_FIELD = structure([(3, I32, integer(7))])


def test_fields_are_found_by_number() -> None:
    assert fields_of(ONE_FIELD) == [(3, I32, integer(7))]
    assert (number_in(ONE_FIELD, 3), number_in(ONE_FIELD, 4, 9)) == (7, 9)
    assert value_of(ONE_FIELD, 3) == integer(7)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x15", b"\x1d\0", b"\x18\x7f", b"\x1c" * 5000, ONE_FIELD[:-1]],
    ids=["nothing", "a field without a value", "no such type", "a text that is cut", "too deep", "no end"],
)
def test_what_is_no_structure_is_an_error(data: bytes) -> None:
    with pytest.raises(DECODE_ERRORS):
        fields_of(data)


def test_a_missing_field_is_an_error_with_all_switches_of_python() -> None:
    for ask in (number_in, value_of):
        with pytest.raises(NotAStructureError, match="field 4 is missing"):
            ask(ONE_FIELD, 4)
    with pytest.raises(NotAStructureError, match="field 3 after field 3"):
        structure([(3, I32, integer(1)), (3, I32, integer(2))])
    script = f"from paimon_engine.format.thrift_compact import number_in; number_in({ONE_FIELD!r}, 4)"
    run = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=False)
    assert "NotAStructureError" in run.stderr
