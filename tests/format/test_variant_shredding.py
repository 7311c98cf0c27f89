"""VARIANT values taken apart into columns and put together again: random values, every type, and broken bytes."""

from __future__ import annotations

import io
import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.variant_utils import VariantUtils

from paimon_engine import InvalidArgumentError
from paimon_engine.arrow_variant import ARROW_VARIANT
from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.parquet import ParquetWriter, read_batches
from paimon_engine.format.variant_columns import InferenceLimits

SCHEMA = pa.schema([pa.field("v", ARROW_VARIANT)])
ROW = pa.struct(
    [("a", pa.int64()), ("b", pa.struct([("c", pa.string()), ("d", ARROW_VARIANT)])), ("e", pa.list_(pa.float64()))]
)
TYPES: dict[str, Any] = {
    "objects": {"v": ROW},
    "lists": {"v": pa.list_(ROW)},
    "numbers": {"v": pa.struct([("a", pa.decimal128(9, 2)), ("b", pa.int8()), ("e", pa.decimal128(38, 10))])},
    "a text": {"v": pa.string()},
    "inferred": InferenceLimits(share=0.01),
    "inferred from few rows": InferenceLimits(rows=1),
    "inferred within narrow limits": InferenceLimits(width=5, depth=2, share=0.01),
}


def variant(text: str) -> dict[str, bytes]:
    value, metadata = VariantUtils.parse_json(text)
    return {"value": value, "metadata": metadata}


def random_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(10 if depth < 4 else 7)
    if kind < 7:
        numbers = [chance.randrange(-3, 3), chance.randrange(-(2**63), 2**63), chance.uniform(-9, 9), 1e300, 0.25, 2.0]
        return chance.choice([None, True, False, "", "é" * chance.randrange(100), *numbers])
    if kind == 7:
        return [random_value(chance, depth + 1) for _ in range(chance.randrange(5))]
    names = [*"abcde", "x" * 300, "ü"]
    return {name: random_value(chance, depth + 1) for name in chance.sample(names, chance.randrange(len(names)))}


def written(rows: list[Any], variants: Any, batch_rows: int = 50) -> bytes:
    sink = io.BytesIO()
    writer = ParquetWriter(sink, SCHEMA, WriteOptions(variants=variants))
    for begin in range(0, len(rows), batch_rows):
        batch = pa.RecordBatch.from_arrays([pa.array(rows[begin : begin + batch_rows], ARROW_VARIANT)], schema=SCHEMA)
        writer.write(batch)
    writer.close()
    return sink.getvalue()


def meaning(row: dict[str, bytes] | None) -> Any:
    if row is None:
        return None
    text = VariantUtils.to_json(row["value"], row["metadata"], "UTC")
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


@pytest.mark.parametrize("variants", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("seed", range(4))
def test_values_are_the_same_when_they_are_put_together_again(variants: Any, seed: int):
    chance = random.Random(seed)
    rows = [None if chance.random() < 0.1 else variant(json.dumps(random_value(chance))) for _ in range(300)]
    file = written(rows, variants)
    found = [
        row for batch in read_batches(io.BytesIO(file), SCHEMA, path="f.parquet") for row in batch["v"].to_pylist()
    ]
    assert [meaning(row) for row in found] == [meaning(row) for row in rows]


def test_most_values_are_in_columns_of_their_type():
    rows = [variant(f'{{"a":{key},"b":"x{key}","other":[{key}]}}') for key in range(1_000)]
    file = pq.ParquetFile(io.BytesIO(written(rows, {"v": pa.struct([("a", pa.int32()), ("b", pa.string())])})))
    column = file.read().combine_chunks()["v"].combine_chunks()
    typed = column.field("typed_value")
    assert typed.field("a").field("typed_value").to_pylist() == list(range(1_000))
    assert typed.field("b").field("value").null_count == 1_000
    assert column.field("value").null_count == 0


def test_a_file_without_rows_has_the_columns():
    sink = io.BytesIO()
    writer = ParquetWriter(sink, SCHEMA, WriteOptions(variants={"v": pa.int64()}))
    writer.close(without_rows=True)
    assert "typed_value" in str(pq.ParquetFile(io.BytesIO(sink.getvalue())).schema)


GOOD = variant('{"a":1}')
BROKEN = {
    "a value that ends early": {"value": GOOD["value"][:-1], "metadata": GOOD["metadata"]},
    "no bytes": {"value": b"", "metadata": GOOD["metadata"]},
    "a name that is not there": {"value": GOOD["value"], "metadata": b"\x01\x00\x00"},
    "a field twice": {"value": b"\x02\x02\x00\x00\x00\x01\x02\x00\x00", "metadata": GOOD["metadata"]},
    "a decimal of 99 digits": {"value": b"\x20\x63" + bytes(4), "metadata": GOOD["metadata"]},
    "a text that is no UTF-8": {"value": b"\x05\xff", "metadata": GOOD["metadata"]},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_broken_bytes_are_refused_by_the_column(broken: dict[str, bytes]):
    kinds = {b"\x05\xff": pa.string(), b"\x20\x63" + bytes(4): pa.int64()}
    kind = kinds.get(broken["value"], pa.struct([("b", pa.int64())]))
    with pytest.raises(InvalidArgumentError, match=r"column 'v' of type VARIANT.*variant\.shreddingSchema"):
        written([GOOD, broken], {"v": kind})


def test_random_damage_gives_a_file_or_an_error():
    chance = random.Random(3)
    good = variant('{"a":{"b":[1,{"c":"text"}],"d":1.25},"e":"y"}')
    for trial in range(300):
        value, metadata = bytearray(good["value"]), bytearray(good["metadata"])
        for _ in range(chance.randint(1, 3)):
            value[chance.randrange(len(value))] = chance.randrange(256)
        metadata[chance.randrange(len(metadata))] = chance.randrange(256)
        kinds: list[Any] = [{"v": ROW}, {"v": pa.struct([("a", ROW)])}, InferenceLimits()]
        try:
            written([{"value": bytes(value), "metadata": bytes(metadata)}], kinds[trial % 3])
        except InvalidArgumentError:
            continue
