"""An S3 store behind a line on which requests fail: what users see, and what becomes of the table."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, OutcomeUnknownError, StorageError, Table, open_table
from paimon_engine.storage import storage_for
from tests.storage.conftest import S3Server
from tests.support.failing_s3 import HANG, FailingLine, Fault, Request, failing_line

pytestmark = pytest.mark.s3

PART_BYTES = 5 << 20

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@dataclass(frozen=True)
class Lake:
    line: FailingLine
    direct: dict[str, str]

    @property
    def options(self) -> dict[str, str]:
        """Those of the line, of a client that waits a short time for an answer and a few seconds for all of them."""
        return {
            **self.direct,
            "s3.endpoint": f"http://127.0.0.1:{self.line.port}",
            "config_kwargs": '{"read_timeout": 0.3}',
            "request-timeout": "2 s",
        }

    def table(self) -> Table:
        """A table with three rows, whose requests go through the line."""
        catalog = Catalog(f"s3://lake/{uuid.uuid4()}", storage_options=self.direct)
        table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1})
        table.write(rows(1, 2, 3))
        return open_table(table.path, storage_options=self.options)

    def ids(self, table: Table) -> list[int]:
        """What is in it, read past the line."""
        found = open_table(table.path, storage_options=self.direct).to_arrow()["id"]
        return sorted(found.to_pylist())


@pytest.fixture
def lake(s3_server: S3Server) -> Iterator[Lake]:
    port = int(s3_server.options["s3.endpoint"].rpartition(":")[2])
    with failing_line(port) as line:
        yield Lake(line, s3_server.options)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [str(number) for number in ids]}, SCHEMA)


def reads_of(name: str) -> Callable[[Request], bool]:
    return lambda request: request.verb == "GET" and f"/{name}" in request.target and not request.is_listing


@pytest.mark.parametrize("name", ["snapshot-1", "schema-0", "manifest-list", "data-"])
def test_a_read_that_is_never_answered_ends_with_an_error_that_names_the_file(lake: Lake, name: str):
    table, is_hanging = lake.table(), reads_of(name)
    lake.line.rule = lambda request: HANG if is_hanging(request) else None

    with pytest.raises(StorageError, match=rf"s3://lake/.*/{name}.*'request-timeout'"):
        open_table(table.path, storage_options=lake.options).to_arrow()


def test_a_creation_that_is_never_answered_is_an_unknown_outcome(lake: Lake):
    path = f"{lake.table().path}/snapshot/snapshot-2"
    lake.line.rule = lambda request: HANG if request.verb == "PUT" and "/snapshot-2" in request.target else None

    with pytest.raises(OutcomeUnknownError, match=r"snapshot-2.*'request-timeout'"):
        storage_for(path, lake.options).create(path, b"{}")


def test_a_commit_that_the_store_never_takes_says_what_it_answers(lake: Lake):
    table = lake.table()
    refusal = Fault(answer=("507 Insufficient Storage", "QuotaExceeded"))
    lake.line.rule = lambda request: refusal if request.verb == "PUT" and "/snapshot-2" in request.target else None

    with pytest.raises(OutcomeUnknownError, match=r"never confirmed .*snapshot-2.* QuotaExceeded"):
        table.write(rows(4))

    assert lake.ids(table) == [1, 2, 3]


def test_a_deletion_that_is_never_answered_names_the_file(lake: Lake):
    path = f"{lake.table().path}/snapshot/snapshot-1"
    lake.line.rule = lambda request: HANG if request.verb == "DELETE" else None

    with pytest.raises(StorageError, match=r"snapshot-1.*'request-timeout'"):
        storage_for(path, lake.options).delete([path])


def test_a_listing_that_has_files_twice_is_taken_for_what_it_is(lake: Lake):
    table = lake.table()
    table.write(rows(4))
    lake.line.rule = lambda request: Fault(is_done=True, change=_each_twice) if request.is_listing else None

    result = table.expire_snapshots(retain_max=1, retain_min=1)

    assert list(result.expired_snapshots) == [1]
    assert len(result.deleted) == len({file.path for file in result.deleted}) == result.files_deleted
    assert table.remove_orphan_files(older_than="0 s").status == "noop"
    assert lake.ids(table) == [1, 2, 3, 4]


def _each_twice(answer: bytes) -> bytes:
    """The answer to a listing, with each object twice."""
    head, _, body = answer.partition(b"\r\n\r\n")
    twice = re.sub(rb"(<Contents>.*?</Contents>)", rb"\1\1", body, flags=re.DOTALL)
    head = re.sub(rb"(?i)content-length: \d+", b"Content-Length: %d" % len(twice), head)
    return head + b"\r\n\r\n" + twice


@pytest.mark.parametrize("verb", ["PUT", "POST"], ids=["a part", "its completion"])
def test_an_upload_that_fails_leaves_no_parts_in_the_store(lake: Lake, verb: str):
    path = f"s3://lake/{uuid.uuid4()}"
    storage = storage_for(path, {**lake.options, "default_block_size": str(PART_BYTES)})
    refusal = Fault(answer=("403 Forbidden", "AccessDenied"))
    lake.line.rule = lambda request: refusal if request.verb == verb and "uploadId=" in request.target else None

    with pytest.raises(StorageError, match=f"{path}.*AccessDenied"), storage.writer(path) as file:
        file.write(bytes(PART_BYTES - 1))
        file.write(bytes(2))

    begun = [request for request in lake.line.requests if request.target.endswith("?uploads")]
    ended = [request for request in lake.line.requests if request.verb == "DELETE" and "uploadId=" in request.target]
    assert len(begun) == len(ended) == 1
    assert not storage.exists(path)


@pytest.mark.parametrize("name", ["max_concurrency", "default_block_size"])
def test_an_option_that_is_a_number_is_one(lake: Lake, name: str):
    path = f"s3://lake/{uuid.uuid4()}"
    storage = storage_for(path, {**lake.direct, name: str(PART_BYTES)})

    with storage.writer(path) as file:
        file.write(bytes(PART_BYTES + 1))
    assert storage.stat(path).size_bytes == PART_BYTES + 1
    with pytest.raises(InvalidArgumentError, match=f"{name}: 'many' is not a number"):
        storage_for(path, {**lake.direct, name: "many"})


@pytest.mark.parametrize("text", ["0 s", "soon"])
def test_a_time_to_wait_that_is_none_is_refused(lake: Lake, text: str):
    with pytest.raises(InvalidArgumentError, match="request-timeout"):
        storage_for("s3://lake", {**lake.direct, "request-timeout": text})
