"""Reads a Parquet or ORC file again and again, each time with other changes in its end: a program, since some ended it.

python -m tests.hostile.flipped_footers FILE bits|bytes

Prints before each case what it is, so that the last line names the one that ended the process, and at the end `done`,
after the errors that are none of the engine's own.
"""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from paimon_engine import col
from paimon_engine.errors import PaimonError
from paimon_engine.format import orc, parquet
from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.parquet_page_sizes import check_page_sizes
from paimon_engine.format.parquet_row_groups import stored_row_groups
from paimon_engine.predicate import Predicate

DONE = "done"
PATH = "t/bucket-0/data-0.parquet"
RANDOM_CASES = 400
ORC_TAIL_BYTES = 600

Looks = list[Callable[[bytes], object]]


def _bits(data: bytes, begin: int) -> Iterator[tuple[str, bytes]]:
    """The file with one bit changed, each bit from `begin` on."""
    for place in range(begin, len(data)):
        for bit in range(8):
            yield f"bit {bit} of byte {place}", data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def _bytes(data: bytes, begin: int) -> Iterator[tuple[str, bytes]]:
    """The file with one to three bytes changed from `begin` on."""
    for seed in range(RANDOM_CASES):
        chance, changed = random.Random(seed), bytearray(data)
        for _ in range(chance.choice([1, 1, 2, 3])):
            place = chance.randrange(begin, len(data))
            changed[place] = chance.choice([chance.randrange(256), changed[place] ^ 1 << chance.randrange(8), 0, 255])
        yield f"seed {seed}", bytes(changed)


def _of_orc(data: bytes) -> tuple[int, Looks]:
    """Where changes begin, and what the engine does with a file."""
    schema = po.ORCFile(io.BytesIO(data)).schema
    where = _condition(schema)
    return max(0, len(data) - ORC_TAIL_BYTES), [
        lambda data: list(orc.read_batches(io.BytesIO(data), schema, path=PATH)),
        lambda data: list(orc.read_matching(io.BytesIO(data), schema, where, path=PATH)),
    ]


def _condition(schema: pa.Schema) -> Predicate:
    return col(next(field.name for field in schema if pa.types.is_integer(field.type))) == 7


def _of_parquet(data: bytes) -> tuple[int, Looks]:
    """As `_of_orc`."""
    file = pq.ParquetFile(io.BytesIO(data))
    schema, rows = file.schema_arrow, file.metadata.num_rows
    where, layout = _condition(schema), parquet.layout_of(schema, WriteOptions())

    def copied(data: bytes) -> object:
        groups = stored_row_groups(io.BytesIO(data), PATH, layout, rows)
        return [group.copy(io.BytesIO(data), bytes, 4) for group in groups if group is not None]

    def checked(data: bytes) -> object:
        footer = parquet.footer(io.BytesIO(data), PATH)
        check_page_sizes(io.BytesIO(data), footer, PATH, trusts_footer=False)
        return footer

    return len(data) - 8 - int.from_bytes(data[-8:-4], "little"), [
        lambda data: list(parquet.read_batches(io.BytesIO(data), schema, path=PATH)),
        lambda data: list(parquet.read_matching(pa.BufferReader(data), schema, where, path=PATH)),
        copied,
        checked,
    ]


def main(name: str, how: str) -> None:
    """Each case is looked at in one of the ways, in turn."""
    data = Path(name).read_bytes()
    begin, looks = (_of_orc if name.endswith(".orc") else _of_parquet)(data)
    wrong = []
    for number, (case, changed) in enumerate({"bits": _bits, "bytes": _bytes}[how](data, begin)):
        # Each bit meets each way, if not in the same byte.
        for look in looks if how == "bytes" else [looks[(number + number // 8) % len(looks)]]:
            print(case, flush=True)
            try:
                look(changed)
            except PaimonError:
                pass
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the find
                wrong.append(f"{case}: {type(error).__name__}: {error}")
    print(*wrong, DONE, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
