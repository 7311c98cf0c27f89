"""File formats: what reads and writes files of each. A format's modules are imported when its first file is opened.

A process that reads Parquet alone should not wait for the modules of ORC and Avro.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, BinaryIO, Final, Protocol

import pyarrow as pa

from paimon_engine.format.layout import WriteOptions


class FileWriter(Protocol):
    """Writes batches of one schema to one file."""

    @property
    def stored_bounds(self) -> Mapping[str, tuple[Any, Any]] | None:
        """Smallest and largest value of columns of texts, numbers, days (as integers) and decimals of up to 18 digits.

        They are known after `close`, but for columns with a NaN. None: others find them.
        """

    @property
    def bytes_written(self) -> int:
        """About how large the file is already."""

    @property
    def bytes_pending(self) -> int:
        """Arrow bytes that wait in memory, and are not part of `bytes_written`."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""

    def close_row_group(self) -> None:
        """Encodes the rows that wait."""

    def close(self) -> None:
        """Writes what is left; the caller closes the sink."""


Positioned = Iterator[tuple[int, pa.RecordBatch]]
"""Batches, each with the position of its first row in the file."""

BeginFile = Callable[[BinaryIO, pa.Schema, WriteOptions], FileWriter]


def _imported(module: str, name: str) -> Callable[..., Any]:
    """The function or class `name` of `paimon_engine.format.<module>`, imported by its first call."""

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(import_module(f"paimon_engine.format.{module}"), name)(*arguments, **named)

    return call


SKIPPING_READERS: Final[Mapping[str, Callable[..., Positioned]]] = {
    "parquet": _imported("parquet", "read_matching"),
    "orc": _imported("orc", "read_matching"),
}
"""File format → function that leaves out parts of a file of which its statistics say that no row matches."""

READERS: Final[Mapping[str, Callable[..., Iterator[pa.RecordBatch]]]] = {
    "parquet": _imported("parquet", "read_batches"),
    "orc": _imported("orc", "read_batches"),
    "avro": _imported("avro_rows", "read_batches"),
}
"""File format → function that streams batches of some columns."""

WRITERS: Final[Mapping[str, BeginFile]] = {
    "parquet": _imported("parquet", "ParquetWriter"),
    "orc": _imported("orc", "OrcWriter"),
    "avro": _imported("avro_rows", "AvroWriter"),
}
"""File format → what writes batches of one schema to one file."""
