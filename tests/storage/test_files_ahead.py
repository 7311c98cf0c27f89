"""Files of a table on an object store are opened side by side before they are read, small ones with all their bytes."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa
import pytest

from paimon_engine import Catalog, NotFoundError, SetOption, Table
from paimon_engine.storage import fsspec_storage
from paimon_engine.storage.fsspec_storage import FsspecStorage
from paimon_engine.storage.requests import REQUESTS_AT_ONCE
from paimon_engine.table.files import files_ahead

pytestmark = pytest.mark.s3

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
FILES = 12


class Reads:
    """Which data files were read as a whole, and how many at the same time at most."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.most = self._now = 0
        self._lock = threading.Lock()

    @contextmanager
    def of(self, path: str) -> Iterator[None]:
        with self._lock:
            self.paths.append(path.rsplit("/", 1)[-1])
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.02)
        yield
        with self._lock:
            self._now -= 1


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    found, read = Reads(), FsspecStorage.read

    def noted(self: FsspecStorage, path: str) -> bytes:
        if "/data-" not in path:
            return read(self, path)
        with found.of(path):
            return read(self, path)

    monkeypatch.setattr(FsspecStorage, "read", noted)
    return found


def table_of(
    s3_options: dict[str, str], *, keyed: bool, between: tuple[str, str] | None = None, **options: str
) -> Table:
    """A table of `FILES` files with a value of its own in each, and others that hide it from statistics."""
    catalog = Catalog(f"s3://lake/{uuid.uuid4()}", storage_options=s3_options)
    given = {"bucket": "1" if keyed else "-1", "num-sorted-run.compaction-trigger": "99", **options}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"] if keyed else [], options=given)
    for number in range(FILES):
        values = [f"v{number}", f"v{number}"] if between is None else [between[0], f"v{number}", between[1]]
        table.write(pa.table({"k": [number, 100, 101][: len(values)], "v": values}, SCHEMA))
    return table


@pytest.fixture
def manifests(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Notes which manifests are read."""
    found, read = Reads(), FsspecStorage.read

    def noted(self: FsspecStorage, path: str) -> bytes:
        if "/manifest/manifest-" not in path or "-list-" in path:
            return read(self, path)
        with found.of(path):
            return read(self, path)

    monkeypatch.setattr(FsspecStorage, "read", noted)
    return found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Notes which data files are opened, where all of them are so large that they are read in ranges."""
    monkeypatch.setattr(files_ahead, "READ_AHEAD_BYTES", 0)
    monkeypatch.setattr(fsspec_storage, "READ_AHEAD_BYTES", 0)
    found, open_ = Reads(), FsspecStorage.open

    def noted(self: FsspecStorage, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        if "/data-" not in path:
            return open_(self, path, size_bytes=size_bytes)
        with found.of(path):
            return open_(self, path, size_bytes=size_bytes)

    monkeypatch.setattr(FsspecStorage, "open", noted)
    return found


@pytest.mark.parametrize("keyed", [True, False])
def test_a_read_waits_for_several_files_at_once(s3_options: dict[str, str], reads: Reads, *, keyed: bool):
    table = table_of(s3_options, keyed=keyed)
    rows = table.to_arrow()

    assert rows.num_rows == (FILES + 1 if keyed else 2 * FILES)
    assert len(reads.paths) == len({*reads.paths}) == FILES
    assert 4 <= reads.most <= REQUESTS_AT_ONCE


@pytest.mark.parametrize("options", [{}, {"changelog-producer": "lookup"}], ids=["plain", "with a changelog"])
def test_a_compaction_does_so_too(s3_options: dict[str, str], reads: Reads, options: dict[str, str]):
    table = table_of(s3_options, keyed=True, **options)

    table.compact(full=True)

    assert reads.most >= 4
    assert {*reads.paths[:FILES]} == {*reads.paths}
    assert table.to_arrow().num_rows == FILES + 1


def test_a_compaction_of_an_append_table_does_so_too(s3_options: dict[str, str], reads: Reads):
    table = table_of(s3_options, keyed=False)

    table.compact(full=True)

    assert reads.most >= 4
    assert table.to_arrow().num_rows == 2 * FILES


@pytest.mark.parametrize("keyed", [True, False])
def test_large_files_are_opened_side_by_side(s3_options: dict[str, str], opened: Reads, *, keyed: bool):
    table = table_of(s3_options, keyed=keyed)
    rows = table.to_arrow()

    assert rows.num_rows == (FILES + 1 if keyed else 2 * FILES)
    assert len(opened.paths) == len({*opened.paths}) == FILES
    assert 4 <= opened.most <= REQUESTS_AT_ONCE


@pytest.mark.parametrize("act", ["changes", "rescale", "cluster", "clustered keys"])
def test_other_work_does_so_too(s3_options: dict[str, str], opened: Reads, act: str):
    keyed = act != "cluster"
    options = {"pk-clustering-override": "true", "clustering.columns": "v", "deletion-vectors.enabled": "true"}
    table = table_of(s3_options, keyed=keyed, **(options if act == "clustered keys" else {}))

    match act:
        case "changes":
            assert table.to_arrow(incremental=(0, FILES)).num_rows == FILES + 1
        case "rescale":
            table.alter([SetOption("bucket", "2")])
            table.rescale()
        case "cluster":
            table.cluster(columns=["k"])
        case _:
            table.compact(full=True)

    assert opened.most >= 4
    assert table.to_arrow().num_rows == (FILES + 1 if keyed else 2 * FILES)


def test_files_that_an_index_may_exclude_are_not_fetched(s3_options: dict[str, str], reads: Reads):
    options = {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}
    table = table_of(s3_options, keyed=False, between=("a", "z"), **options)

    assert table.to_arrow(where="v IN ('v0', 'v2', 'v4', 'v6', 'v8', 'v10')").num_rows == 6

    # A bloom filter has few false positives.
    assert 6 <= len(reads.paths) <= 9


def test_who_stops_early_has_caused_few_requests(s3_options: dict[str, str], reads: Reads):
    table = table_of(s3_options, keyed=False)

    assert table.to_arrow(limit=1).num_rows == 1

    assert len(reads.paths) <= 3


def test_few_entries_in_many_manifests_are_waited_for_once(s3_options: dict[str, str], manifests: Reads):
    table = table_of(s3_options, keyed=True)
    manifests.paths.clear()
    manifests.most = 0

    assert table.to_arrow().num_rows == FILES + 1

    assert len(manifests.paths) == len({*manifests.paths}) == FILES
    assert manifests.most >= 4


def test_a_file_that_is_gone_says_so(s3_options: dict[str, str]):
    table = table_of(s3_options, keyed=False)
    path = table.files()["file_path"].to_pylist()[7]
    table._handle.env.storage.delete([path])

    with pytest.raises(NotFoundError, match=r"data-.* is missing"):
        table.to_arrow()
