"""Rows of bitmaps, one by one."""

from __future__ import annotations

from paimon_engine.format.bitmaps import RowBitmap


def rows_of(bitmap: RowBitmap) -> list[int]:
    """The rows, ascending."""
    return [(high << 32) + low for high, rows in bitmap.bitmaps.items() for low in rows]
