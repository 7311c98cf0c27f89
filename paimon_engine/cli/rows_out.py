"""Rows to standard output or a file: CSV, JSON lines, Parquet; batch by batch, so any table fits."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from paimon_engine.cli.arguments import Output
from paimon_engine.cli.terminal import row_counter, shown, shown_json
from paimon_engine.format.text_rows import flat, flat_schema, json_lines

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What begins a formula in a spreadsheet."""


def first_rows(reader: pa.RecordBatchReader, limit: int | None) -> Iterator[pa.RecordBatch]:
    """The batches of the first `limit` rows; stops reading there."""
    left = sys.maxsize if limit is None else limit
    while left > 0:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows


def store_rows(
    reader: pa.RecordBatchReader, limit: int | None, output: Output, to: Path | None, *, escape_formulas: bool = False
) -> int:
    """Writes the rows to a file, or to standard output; gives their number.

    A file appears only when it is complete; a link to one stays, and pipes and devices get the rows as they come.
    Control characters are escaped in text for a terminal.
    """
    style = _Style(output, is_terminal=to is None and sys.stdout.isatty(), escape_formulas=escape_formulas)
    if to is None:
        return _store(reader, limit, style, sys.stdout.buffer, "reading")
    what = f"writing {to.name}:"
    if to.exists() and not to.is_file():
        with to.open("wb") as sink:
            return _store(reader, limit, style, sink, what)
    target = Path(os.path.realpath(to))
    partial = target.with_name(f".{target.name}.partial")
    try:
        with partial.open("wb") as sink:
            rows = _store(reader, limit, style, sink, what)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return rows


def _store(reader: pa.RecordBatchReader, limit: int | None, style: _Style, sink: BinaryIO, what: str) -> int:
    total = 0
    with ExitStack() as stack:
        counter = stack.enter_context(row_counter(what))
        write = _writer(reader.schema, style, sink, stack)
        for batch in first_rows(reader, limit):
            write(batch)
            total += batch.num_rows
            counter(batch.num_rows)
    sink.flush()
    return total


def _writer(schema: pa.Schema, style: _Style, sink: BinaryIO, stack: ExitStack) -> Callable[[pa.RecordBatch], object]:
    if style.output is Output.PARQUET:
        parquet = stack.enter_context(pq.ParquetWriter(sink, schema, compression="zstd"))
        write: Callable[[pa.RecordBatch], object] = parquet.write_batch
        return write
    if style.output is Output.JSON:
        return lambda batch: sink.write(_json_lines(batch, style))
    named = pa.schema([field.with_name(style.of_csv(field.name)) for field in flat_schema(schema)])
    csv = stack.enter_context(pcsv.CSVWriter(sink, named))
    return lambda batch: csv.write_batch(
        pa.record_batch([style.of_column(flat(column)) for column in batch.columns], schema=named)
    )


@dataclass(frozen=True)
class _Style:
    """How texts are written: unchanged, or so that a terminal or a spreadsheet only shows them."""

    output: Output
    is_terminal: bool
    escape_formulas: bool

    def of_csv(self, text: str) -> str:
        if self.escape_formulas and text[:1] in _FORMULA:
            text = f"'{text}"
        return shown(text) if self.is_terminal else text

    def of_column(self, column: pa.Array) -> pa.Array:
        if not (self.is_terminal or self.escape_formulas) or not _is_text(column.type):
            return column
        return pa.array([None if text is None else self.of_csv(text) for text in column.to_pylist()], column.type)


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _json_lines(batch: pa.RecordBatch, style: _Style) -> bytes:
    lines = json_lines(batch)
    if style.is_terminal:
        lines = [shown_json(line) for line in lines]
    return "".join(line + "\n" for line in lines).encode()
