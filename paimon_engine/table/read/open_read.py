"""A read from request to rows: plan the request, then stream its rows in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.table.read.read_plan import plan_read
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.state.handle import TableHandle


def open_read(table: TableHandle, request: ReadRequest) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Schema and rows of a read. Everything that is wrong with the request itself is said before the first row.

    Raises: NotFoundError, InvalidArgumentError, UnsupportedError, CorruptTableError.
    """
    check_limit(request.limit)
    plan = plan_read(table, request)
    return plan.schema, limited(plan.batches(), request.limit)


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
