"""OSS, COS and OBS: what is asked of them, as their manuals say, and tables on them."""

from __future__ import annotations

import sys
import threading
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.errors import (
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    UnsupportedError,
)
from paimon_engine.secrecy import shows_storage_option
from paimon_engine.storage import Storage, storage_for
from tests.support.cloud_stores import CloudServer

RACERS = 8
FORBID = {"oss": "X_OSS_FORBID_OVERWRITE", "cosn": "X_COS_FORBID_OVERWRITE"}
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
PART_BYTES = 8 << 20

pytestmark = pytest.mark.filterwarnings("default")


def place(server: CloudServer, scheme: str, bucket: str = "lake") -> tuple[Storage, str]:
    root = f"{scheme}://{bucket}/{uuid.uuid4()}"
    return storage_for(root, server.options[scheme]), root


@pytest.mark.parametrize("scheme", ["oss", "cosn"])
def test_the_request_creates_only_what_is_absent(scheme: str, cloud_server: CloudServer):
    storage, root = place(cloud_server, scheme)
    key = f"/{root.rpartition('/')[2]}/snapshot-1"

    assert storage.create(f"{root}/snapshot-1", b"first")
    storage.overwrite(f"{root}/snapshot-1", b"second")

    asked = [one for one in cloud_server.requests if one[0] == "PUT" and one[2] == key]
    assert asked == [["PUT", "lake", key, "", FORBID[scheme]], ["PUT", "lake", key, ""]]


@pytest.mark.parametrize("scheme", ["oss", "cosn"])
def test_of_many_at_the_same_time_one_succeeds(scheme: str, cloud_server: CloudServer):
    storage, root = place(cloud_server, scheme)
    ready, made = threading.Barrier(RACERS), []

    def race(number: int) -> None:
        ready.wait()
        if storage.create(f"{root}/snapshot-1", b"of %d" % number):
            made.append(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(RACERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 1
    assert storage.read(f"{root}/snapshot-1") == b"of %d" % made[0]


@pytest.mark.parametrize("scheme", ["oss", "cosn"])
def test_a_table_is_created_written_and_read_there(scheme: str, cloud_server: CloudServer):
    catalog = Catalog(place(cloud_server, scheme)[1], storage_options=cloud_server.options[scheme])
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1"})

    for number in range(3):
        table.write(pa.table({"k": [1, number + 2], "v": [f"v{number}", "x"]}, SCHEMA))
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.create_tag("kept")
    table.remove_orphan_files(confirm_latest_snapshot=table.latest_snapshot_id())

    assert table.to_arrow().sort_by("k").to_pydict() == {"k": [1, 2, 3, 4], "v": ["v2", "x", "x", "x"]}
    assert table.verify("rows").problems == ()
    assert catalog.list_tables("db") == ["t"]


def test_a_bucket_that_keeps_versions_is_refused_before_anything_is_written(cloud_server: CloudServer):
    storage, root = place(cloud_server, "oss", "versions")

    with pytest.raises(UnsupportedError, match="use a bucket that keeps no versions"):
        storage.create(f"{root}/snapshot-1", b"first")

    assert list(storage.walk(root)) == []


@pytest.mark.parametrize("scheme", ["oss", "cosn"])
def test_a_listing_that_has_files_twice_is_taken_for_what_it_is(scheme: str, cloud_server: CloudServer):
    storage, root = place(cloud_server, scheme, "twice")
    for name in ("a", "b/c"):
        storage.overwrite(f"{root}/{name}", b"x")

    assert [info.path for info in storage.list(root)] == [f"{root}/a", f"{root}/b"]
    assert sorted(info.path for info in storage.walk(root)) == [f"{root}/a", f"{root}/b/c"]


def test_obs_is_read_and_written_under_a_lock_only(cloud_server: CloudServer, tmp_path: Path):
    storage, root = place(cloud_server, "obs")
    for act in (storage.create, storage.overwrite):
        with pytest.raises(UnsupportedError, match=r"'lock.enabled' = 'true'"):
            act(f"{root}/x", b"")
    with pytest.raises(UnsupportedError, match=r"'lock.enabled' = 'true'"):
        storage.writer(f"{root}/x")
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "lock.enabled": "true"}
    catalog = Catalog(root, options=options, storage_options=cloud_server.options["obs"])
    catalog.create_database("db")
    table = catalog.create_table("db.t", schema=SCHEMA, options={"bucket": "-1"})

    table.write(pa.table({"k": [1], "v": ["a"]}, SCHEMA))
    table.write(pa.table({"k": [2], "v": ["b"]}, SCHEMA))
    table.compact(full=True)

    assert table.to_arrow().sort_by("k").to_pydict() == {"k": [1, 2], "v": ["a", "b"]}
    assert storage.read(f"{table.path}/snapshot/LATEST") == b"3"


@pytest.mark.parametrize("scheme", ["oss", "cosn"])
def test_large_files_are_sent_in_parts_and_a_failed_one_leaves_no_object(scheme: str, cloud_server: CloudServer):
    storage, root = place(cloud_server, scheme)
    data = bytes(range(256)) * (3 * PART_BYTES // 256)
    with storage.writer(f"{root}/large") as sink:
        for begin in range(0, len(data), PART_BYTES // 3):
            sink.write(data[begin : begin + PART_BYTES // 3])
    with pytest.raises(ZeroDivisionError), storage.writer(f"{root}/failed") as sink:
        sink.write(data)
        sink.write(data)
        raise ZeroDivisionError

    before = len(cloud_server.requests)
    with storage.open(f"{root}/large") as source:
        assert source.read() == data
        source.seek(-300, 2)
        assert source.read() == data[-300:]
    assert [info.path for info in storage.list(root)] == [f"{root}/large"]
    parts = [one for one in cloud_server.requests if one[2].endswith("/large") and "partNumber" in one[3]]
    assert len(parts) >= 3
    reads = [one for one in cloud_server.requests[before:] if one[0] == "GET" and one[2].endswith("/large")]
    assert len(reads) <= 3, "whole files are read in few requests"


def test_what_the_store_refuses_is_said_without_keys(cloud_server: CloudServer):
    storage, root = place(cloud_server, "oss", "absent")

    with pytest.raises(StorageError, match="NoSuchBucket") as caught:
        storage.create(f"{root}/x", b"")

    assert not isinstance(caught.value, OutcomeUnknownError)
    assert "secret" not in str(caught.value) and "Signature" not in str(caught.value)
    with pytest.raises(NotFoundError):
        storage.read(f"{root}/x")


@pytest.mark.parametrize(
    ("scheme", "options", "words"),
    [
        ("oss", {"fs.oss.acceskeyid": "x"}, "Unknown storage option fs.oss.acceskeyid for oss://; known are fs.oss.e"),
        ("oss", {"fs.oss.accessKeyId": "x"}, "oss://lake.*give the storage options fs.oss.endpoint"),
        ("cosn", {"fs.oss.endpoint": "x"}, "fs.cosn.bucket.region"),
        ("obs", {"bucket": "x"}, "Unknown storage option bucket"),
    ],
)
def test_options_that_are_wrong_or_missing_are_named(scheme: str, options: dict[str, str], words: str):
    pytest.importorskip("opendal")
    with pytest.raises(InvalidArgumentError, match=words):
        storage_for(f"{scheme}://lake/x", options).exists(f"{scheme}://lake/x")


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "opendal", None)

    with pytest.raises(UnsupportedError, match=r"pip install 'airflow-provider-paimon\[cos\]'"):
        storage_for("cosn://lake/x", {})


def test_addresses_of_stores_are_shown_and_keys_are_not():
    shown = ["fs.oss.endpoint", "fs.cosn.bucket.region", "fs.cosn.bucket.endpoint_suffix", "fs.obs.endpoint"]
    hidden = ["fs.oss.accessKeyId", "fs.oss.accessKeySecret", "fs.oss.securityToken", "fs.cosn.userinfo.secretKey"]

    assert all(shows_storage_option(name, "cos.ap-beijing.example.com") for name in shown)
    assert not any(shows_storage_option(name, "text") for name in hidden)
