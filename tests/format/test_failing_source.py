"""Files whose bytes cannot be had are not called damaged: a reset connection is no reason to roll a table back."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa
import pytest

from paimon_engine.errors import InsufficientMemoryError, NotFoundError, PaimonError, StorageError
from paimon_engine.format import parquet
from paimon_engine.format.avro import read_records
from paimon_engine.format.layout import WriteOptions
from paimon_engine.predicate import col
from paimon_engine.table.files.formats import READERS, SKIPPING_READERS, WRITERS

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = pa.record_batch([pa.array(range(8_000)), pa.array([f"name {row}" for row in range(8_000)])], SCHEMA)
FORMATS = ["parquet", "orc", "avro"]
ERRORS = [
    (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), StorageError, "Connection reset by peer"),
    (StorageError("s3://t/data: SlowDown"), StorageError, "SlowDown"),
    (NotFoundError("No such file: s3://t/data"), NotFoundError, "No such file"),
    (
        pa.ArrowMemoryError("malloc of size 64 failed"),
        InsufficientMemoryError,
        "not enough memory to read it: malloc of size 64",
    ),
]


class FailingFile(io.BytesIO):
    """Raises an error at its nth read, and at all that follow."""

    def __init__(self, data: bytes, fails_at: int, error: Exception) -> None:
        super().__init__(data)
        self.reads_left, self.error = fails_at, error

    def read(self, size: int | None = -1) -> bytes:
        if not self.reads_left:
            raise self.error
        self.reads_left -= 1
        return super().read(size)

    def readinto(self, target: Any) -> int:
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)


def whole(source: BinaryIO, form: str) -> Iterator[Any]:
    return READERS[form](source, SCHEMA, path="s3://t/data")


def matching(source: BinaryIO, form: str) -> Iterator[Any]:
    return SKIPPING_READERS[form](source, SCHEMA, col("id") == 7_000, path="s3://t/data")


@pytest.fixture(scope="module")
def stored() -> dict[str, bytes]:
    found = {}
    for form in FORMATS:
        sink = io.BytesIO()
        writer = WRITERS[form](sink, SCHEMA, WriteOptions())
        writer.write(ROWS)
        writer.close()
        found[form] = sink.getvalue()
    return found


@pytest.mark.parametrize(("error", "kind", "message"), ERRORS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize(
    ("read", "form"), [*((whole, form) for form in FORMATS), *((matching, form) for form in FORMATS if form != "avro")]
)
def test_what_a_store_raises_is_what_a_read_raises(
    stored: dict[str, bytes],
    read: Callable[[BinaryIO, str], Iterator[Any]],
    form: str,
    error: Exception,
    kind: type[PaimonError],
    message: str,
):
    for fails_at in range(100):
        source = FailingFile(stored[form], fails_at, error)
        try:
            list(read(source, form))
            break
        except PaimonError as raised:
            assert type(raised) is kind, f"read {fails_at}: {raised!r}"
            assert message in str(raised)
            assert "s3://t/data" in str(raised)
            assert "\n" not in str(raised)
    assert source.reads_left >= 0
    assert fails_at > 2


@pytest.mark.parametrize("form", FORMATS)
def test_what_the_disk_raises_is_what_a_read_raises(stored: dict[str, bytes], tmp_path: Path, form: str):
    (tmp_path / "data").write_bytes(stored[form])

    with pa.OSFile(str(tmp_path / "data")) as source:
        # As for a disk that is gone: the system knows the file no more.
        elsewhere = os.open(tmp_path, os.O_RDONLY)
        os.dup2(elsewhere, source.fileno())
        os.close(elsewhere)
        with pytest.raises(StorageError, match="Is a directory"):
            list(whole(source, form))


def test_footers_are_read_as_rows_are(stored: dict[str, bytes]):
    error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    with pytest.raises(StorageError, match="s3://t/data: .*Connection reset by peer"):
        parquet.footer(FailingFile(stored["parquet"], 0, error), "s3://t/data")


def test_metadata_for_which_there_is_not_enough_memory_is_not_damaged(monkeypatch: pytest.MonkeyPatch):
    sink = io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}, [{"a": 1}])

    def full(*_: Any) -> Any:
        raise MemoryError("no memory is left")

    monkeypatch.setattr(fastavro, "schemaless_reader", full)
    with pytest.raises(InsufficientMemoryError, match="manifest-1: there is not enough memory to read it"):
        read_records(sink.getvalue(), "manifest-1")
