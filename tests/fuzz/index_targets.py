"""The decoders of file indexes, as fuzz targets: one per type of index, and the container around them.

Bytes for an index have two in front: which type its column has, and how many rows the file has.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from paimon_engine.format.file_index.container import encode_container
from paimon_engine.format.file_index.lookup import FileIndexes
from paimon_engine.predicate import Compare, In, IsNull, Not, Predicate, bind
from paimon_engine.types import AtomicType, parse_atomic, to_arrow

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "file_indexes.json"
_SEED_BYTES_MAX: Final = 4_000
_ASKED: Final[dict[str, Any]] = {
    "INT": 7,
    "BIGINT": 2,
    "TINYINT": 2,
    "STRING": "w3",
    "CHAR(3)": "a",
    "BYTES": b"a",
    "DATE": "1970-01-01",
    "TIME(3)": "00:00:00.001",
    "TIMESTAMP(3)": "1970-01-01 00:00:00.001",
    "TIMESTAMP(6)": "1970-01-01 00:00:00.000001",
    "DOUBLE": 1.5,
    "FLOAT": -0.0,
    "BOOLEAN": True,
    "DECIMAL(5,2)": "1.50",
}
"""Types of columns, and a value that is looked for."""

TYPES: Final[tuple[AtomicType, ...]] = tuple(map(parse_atomic, _ASKED))
_NAMES: Final = tuple(_ASKED)


def _questions(number: int) -> list[Predicate]:
    value = list(_ASKED.values())[number]
    schema = pa.schema([("c", to_arrow(TYPES[number]))])
    equal = In("c", (value, value))
    asked: list[Predicate] = [Compare(operator, "c", value) for operator in ("=", "!=", "<", ">=")]  # type: ignore[arg-type]
    return [bind(one, schema) for one in (*asked, equal, Not(equal), IsNull("c"), IsNull("c", negated=True))]


_QUESTIONS: Final = [_questions(number) for number in range(len(TYPES))]


def index_decoder(kind: str) -> Callable[[bytes], None]:
    """A function that runs all lookups of an index of that type."""

    def decode(data: bytes) -> None:
        if len(data) < 2:
            return
        number, row_count = data[0] % len(TYPES), data[1]
        container = encode_container({"c": {kind: data[2:]}})
        for question in _QUESTIONS[number]:
            _ask(container, number, row_count, question)

    return decode


def _ask(container: bytes, number: int, row_count: int, question: Predicate) -> None:
    columns = {"c": ("c", TYPES[number])}
    rows = FileIndexes(io.BytesIO(container), "fuzz", row_count=row_count, columns=columns).rows(question)
    assert rows is None or not len(rows) or rows.max() < row_count, "rows that the file does not have"


def ask_container(data: bytes) -> None:
    """Runs all lookups of a container of indexes of an INT column and of a text."""
    for name, number in (("id", 0), ("s", 3)):
        columns = {"c": (name, TYPES[number])}
        for question in _QUESTIONS[number]:
            FileIndexes(io.BytesIO(data), "fuzz", row_count=15, columns=columns).rows(question)


def index_seeds(kind: str) -> Callable[[], Iterator[bytes]]:
    """Indexes that Java wrote."""

    def seeds() -> Iterator[bytes]:
        for index in json.loads(GOLDEN.read_text(encoding="utf-8"))["indexes"]:
            values = index["values"]
            if index["kind"] != kind or index["type"] not in _NAMES or "bytes" not in index or len(values) > 255:
                continue
            head = bytes([_NAMES.index(index["type"]), len(values)])
            yield (head + bytes.fromhex(index["bytes"]))[:_SEED_BYTES_MAX]

    return seeds


def container_seeds() -> Iterator[bytes]:
    """Containers that Java wrote, and one of real indexes."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for container in golden["containers"]:
        if "bytes" in container:
            yield bytes.fromhex(container["bytes"])
    for name, wanted in (("id", "INT"), ("s", "STRING")):
        found = {
            index["kind"]: bytes.fromhex(index["bytes"])
            for index in golden["indexes"]
            if index["type"] == wanted and len(index["values"]) == 15 and "bytes" in index
        }
        if found:
            yield encode_container({name: found})
