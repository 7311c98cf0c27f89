"""Reads a Parquet file again and again, each time with other changes in its footer: a program, since some ended it.

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
import pyarrow.parquet as pq

from paimon_engine import col
from paimon_engine.errors import PaimonError
from paimon_engine.format import parquet
from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.parquet_page_sizes import check_page_sizes
from paimon_engine.format.parquet_row_groups import stored_row_groups

DONE = "done"
PATH = "t/bucket-0/data-0.parquet"
RANDOM_CASES = 400


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


def _looks(schema: pa.Schema, rows: int) -> list[Callable[[bytes], object]]:
    """What the engine does with a file."""
    number = next(field.name for field in schema if pa.types.is_integer(field.type))
    where, layout = col(number) == 7, parquet.layout_of(schema, WriteOptions())

    def copied(data: bytes) -> object:
        groups = stored_row_groups(io.BytesIO(data), PATH, layout, rows)
        return [list(group.chunks(io.BytesIO(data))) for group in groups if group is not None]

    def checked(data: bytes) -> object:
        footer = parquet.footer(io.BytesIO(data), PATH)
        check_page_sizes(io.BytesIO(data), footer, PATH, trusts_footer=False)
        return footer

    return [
        lambda data: list(parquet.read_batches(io.BytesIO(data), schema, path=PATH)),
        lambda data: list(parquet.read_matching(io.BytesIO(data), schema, where, path=PATH)),
        copied,
        checked,
    ]


def main(name: str, how: str) -> None:
    """Each case is looked at in one of the ways, in turn."""
    data = Path(name).read_bytes()
    file = pq.ParquetFile(io.BytesIO(data))
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    looks = _looks(file.schema_arrow, file.metadata.num_rows)
    wrong = []
    for number, (case, changed) in enumerate({"bits": _bits, "bytes": _bytes}[how](data, begin)):
        # The number of ways has no factor in common with the eight bits of a byte, so that each bit meets each way.
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
