"""A read from request to rows: plan the request, then stream its rows in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from paimon_engine.errors import CorruptTableError, InvalidArgumentError, NotFoundError
from paimon_engine.table.read.read_plan import plan_read
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.identity import check_not_recreated


def open_read(table: TableHandle, request: ReadRequest) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Schema and rows of a read. Everything that is wrong with the request itself is said before the first row.

    Raises: NotFoundError, InvalidArgumentError, UnsupportedError, CorruptTableError; ConflictError if the table was
    dropped and created again since it was opened, so that its files cannot be read with the schema known here.
    """
    check_limit(request.limit)
    with _known_table(table):
        plan = plan_read(table, request)
    return plan.schema, limited(_of_known_table(table, plan.batches()), request.limit)


@contextmanager
def _known_table(table: TableHandle) -> Iterator[None]:
    """What is damaged to all appearance may be another table. Nothing must be restored or rolled back then."""
    try:
        yield
    except (CorruptTableError, NotFoundError):
        check_not_recreated(table)
        raise


def _of_known_table(table: TableHandle, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with _known_table(table):
        yield from batches


def check_limit(limit: int | None) -> None:
    """Raises InvalidArgumentError if a limit is negative."""
    if limit is not None and limit < 0:
        raise InvalidArgumentError(f"limit={limit}; a limit is 0 or more")


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The batches of the first `limit` rows; nothing is read beyond them."""
    if limit is None:
        yield from batches
        return
    left = limit
    while left > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows
