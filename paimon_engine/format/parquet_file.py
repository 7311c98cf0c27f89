"""Opens Parquet files with the settings of every read."""

from __future__ import annotations

from typing import Any, BinaryIO, Final

import pyarrow.parquet as pq

SCHEMA_DEPTH_MAX: Final = 500
"""Levels of nested columns; Arrow's own limit is 100. Java takes VARIANT values apart to 50 objects or arrays within
each other, of up to three levels each. Arrow calls itself for each level, so that there has to be a limit."""

_DEPTH: Final[dict[str, Any]] = (
    {"schema_depth_limit": SCHEMA_DEPTH_MAX}
    if "schema_depth_limit" in pq.ParquetFile.__init__.__code__.co_varnames  # since pyarrow 26
    else {}
)


def parquet_file(source: BinaryIO, **settings: Any) -> pq.ParquetFile:
    """The file. Raises: pyarrow.ArrowException, OSError, UnicodeDecodeError if it is damaged."""
    return pq.ParquetFile(source, **settings, **_DEPTH)


def parquet_metadata(source: BinaryIO) -> pq.FileMetaData:
    """The file's footer. Raises: as `parquet_file`."""
    return parquet_file(source).metadata
