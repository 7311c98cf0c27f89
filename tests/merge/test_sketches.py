"""Bitmaps and sketches: unions give the bytes that Java gives, for every form of their parts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from paimon_engine import Catalog, open_table
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.roaring import union_32, union_64
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon

FUNCTIONS = {"rbm32": "rbm32", "rbm64": "rbm64", "hll": "hll_sketch", "theta": "theta_sketch"}


def dense(random: Random) -> list[int]:
    """Numbers of one or few containers, whose size and runs are at the limits between their forms."""
    first = random.choice([0, 65_536, 60_000, 2**31 - 70_000])
    match random.randrange(6):
        case 0:
            return random.sample(range(first, first + 65_536), random.choice([1, 5, 2_047, 2_100]))
        case 1:
            return list(range(first, first + random.choice([1, 2, 3, 4, 5, 4_096, 65_536])))
        case 2:
            count = random.choice([1, 2, 3, 2_040, 2_047, 2_048])
            return [first + 3 * index + more for index in range(count) for more in (0, 1)]
        case 3:
            return [
                first + 4 * index + more for index in range(random.choice([1, 4, 2_047, 2_048])) for more in range(3)
            ]
        case 4:
            return list(range(first + 1, first + 65_536, 2))[: random.choice([4_096, 4_097, 32_768])]
        case _:
            return [random.randrange(10) * 65_536 + random.randrange(9) for _ in range(20)]


def scattered(random: Random) -> list[int]:
    """64-bit numbers whose upper bytes make nodes of every size, with and without common beginnings."""
    if random.random() < 0.3:
        base = random.choice([0, 5 << 32, 2**63 - 2**20])
        return [base + one for one in dense(random)]
    shift = random.choice([16, 24, 32, 40, 48, 55])
    fan = random.choice([2, 5, 17, 60, 127])
    numbers = [
        (random.randrange(fan) << shift) + (random.randrange(fan) << 16) for _ in range(random.choice([3, 20, 150]))
    ]
    return [one + random.randrange(3) for one in numbers]


def members(random: Random, name: str) -> list[int]:
    if name == "rbm32":
        return dense(random)
    if name == "rbm64":
        return scattered(random)
    return random.sample(range(1_000_000), random.choice([0, 1, 2, 7, 8, 30, 400, 1_500, 6_000, 20_000]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_unions_have_the_bytes_of_java(tmp_path: Path, oracle: JavaPaimon, name: str):
    random = Random(name)
    path = tmp_path / "t"
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": FUNCTIONS[name]}
    fields = [["k", "INT NOT NULL"], ["v", "BYTES"]]
    oracle.run(path, [{"op": "create_table", "fields": fields, "primary_keys": ["k"], "options": options}])
    for _ in range(4):
        rows: list[Any] = [[key, {f"${name}": members(random, name)}] for key in range(40) if random.random() < 0.8]
        oracle.run(path, [{"op": "write", "rows": [*rows, [50, None]]}])

        assert_same_rows(rows_of(open_table(str(path)).to_arrow()), oracle.read(path))

    open_table(str(path)).compact(full=True)
    assert_same_rows(rows_of(open_table(str(path)).to_arrow()), oracle.read(path))


@pytest.mark.parametrize("function", FUNCTIONS.values())
def test_bytes_that_are_no_sketch_name_their_column(tmp_path: Path, function: str):
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": function}
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.binary())])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)

    # A value that is merged with no other one is not read.
    table.write(pa.table({"k": pa.array([1], pa.int32()), "v": [b"no sketch"]}, schema))
    assert table.to_arrow()["v"].to_pylist() == [b"no sketch"]

    for bad in (b"", b"no sketch", bytes(40)):
        with pytest.raises(InvalidArgumentError, match="column 'v': a value is not a sketch"):
            table.write(pa.table({"k": pa.array([2, 2], pa.int32()), "v": [bad, b"x"]}, schema))


def test_a_value_that_is_no_bitmap_names_itself():
    good = BitMap([1]).serialize()

    for bad in (b"", b"abc", good[:-1], b"\1" * 40):
        with pytest.raises(InvalidArgumentError, match="not a 32 bit RoaringBitmap"):
            union_32(good, bad)
        with pytest.raises(InvalidArgumentError, match="not a Roaring64Bitmap"):
            union_64(b"\0", bad)
