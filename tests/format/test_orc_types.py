"""Types in the footers of ORC files: those that can be pass, and those that cannot are named."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.orc as po
import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.orc_types import check_types


def written(**columns: pa.Array) -> io.BytesIO:
    sink = io.BytesIO()
    po.write_table(pa.table(columns), sink, compression="uncompressed")
    return sink


def test_types_of_all_kinds_pass():
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    nested = pa.array([[{"a": [("k", 1)]}], None], pa.list_(pa.struct([("a", pa.map_(pa.string(), pa.int32()))])))
    decimals = pa.array([1, None], pa.int64()).cast(pa.decimal128(38, 2))

    check_types(written(u=union, n=nested, d=decimals), "t/data.orc")


def test_a_decimal_of_too_many_digits_is_named():
    data = written(d=pa.array([1], pa.int64()).cast(pa.decimal128(37, 2))).getvalue()
    # Field 5 of a type, its precision, with the field of its scale behind it.
    changed = data.replace(b"\x28\x25\x30\x02", b"\x28\x7f\x30\x02")

    assert changed != data
    with pytest.raises(CorruptTableError, match=r"t/data.orc.*type 1 is a decimal of 127 digits, 2 after the point"):
        check_types(io.BytesIO(changed), "t/data.orc")


@pytest.mark.parametrize("data", [b"", b"ORC", b"ORC\xff"], ids=repr)
def test_what_is_too_short_is_no_orc_file(data: bytes):
    with pytest.raises(CorruptTableError, match="it ends before its postscript"):
        check_types(io.BytesIO(data), "t/data.orc")
