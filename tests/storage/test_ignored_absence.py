"""A store, or a proxy before it, that ignores create-if-absent: no commit may be acknowledged there."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.errors import UnsupportedError
from paimon_engine.storage import storage_for
from paimon_engine.storage.fsspec_storage import FsspecStorage
from tests.support.file_system import file_system_of

pytestmark = pytest.mark.s3

SCHEMA = pa.schema([pa.field("k", pa.int64())])


class Proxy:
    """S3's language over HTTP, without the header that makes a request conditional while it `drops` that."""

    def __init__(self, url: str) -> None:
        self.drops = True
        self.puts: list[str] = []
        self.options = {
            "s3.endpoint": url,
            "s3.access-key": "key",
            "s3.secret-key": "secret",
            "s3.region": "eu-central-1",
            "s3.path.style.access": "true",
        }


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.moto_server.werkzeug_app")
    from werkzeug.serving import make_server

    inner = moto.DomainDispatcherApplication(moto.create_backend_app)
    found: list[Proxy] = []

    def application(environ: Any, start_response: Any) -> Any:
        if found[0].drops:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if environ["REQUEST_METHOD"] == "PUT":
            found[0].puts.append(environ["PATH_INFO"])
        return inner(environ, start_response)

    server = make_server("127.0.0.1", 0, application, threaded=False)
    found.append(Proxy(f"http://127.0.0.1:{server.server_port}"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    storage: Any = storage_for("s3://careless", found[0].options)
    file_system_of(storage).mkdir("careless")
    yield found[0]
    server.shutdown()
    thread.join()


def fresh(proxy: Proxy) -> dict[str, str]:
    """Options of a client that has sent no request yet."""
    proxy.puts.clear()
    return {**proxy.options, "s3.access-key": uuid.uuid4().hex}


def test_no_commit_is_acknowledged(proxy: Proxy) -> None:
    location = f"s3://careless/{uuid.uuid4()}"
    proxy.drops = False
    Catalog(location, storage_options=fresh(proxy)).create_table("d.t", schema=SCHEMA)
    proxy.drops = True

    def write(number: int) -> str:
        table = Catalog(location, storage_options=fresh(proxy)).table("d.t")
        with pytest.raises(UnsupportedError, match=r"s3://careless ignores create-if-absent.*JDBC catalog"):
            table.write(pa.table({"k": [number]}))
        return "refused"

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write, range(4))) == ["refused"] * 4
    storage = storage_for(location, proxy.options)
    table = Catalog(location, storage_options=proxy.options).table("d.t")
    assert table.to_arrow().num_rows == 0
    left = {info.path.rpartition("/")[2] for info in storage.walk(location)}
    assert left == {"schema-0"}


def test_no_table_is_created_there(proxy: Proxy) -> None:
    proxy.drops = True
    location = f"s3://careless/{uuid.uuid4()}"

    with pytest.raises(UnsupportedError, match="ignores create-if-absent"):
        Catalog(location, storage_options=fresh(proxy)).create_table("d.t", schema=SCHEMA)

    assert list(storage_for(location, proxy.options).walk(location)) == []


def test_the_doctor_and_the_connection_test_show_it(proxy: Proxy) -> None:
    def found(drops: bool) -> dict[str, bool]:
        proxy.drops = drops
        lake = Catalog(f"s3://careless/{uuid.uuid4()}", storage_options=fresh(proxy))
        return {item.what: item.is_ok for item in lake.examine()}

    assert found(drops=True) == {"store": True, "create-if-absent": False}
    assert found(drops=False) == {"store": True, "create-if-absent": True, "clock": True}


def test_a_store_that_honours_it_is_tested_once_by_all_threads(proxy: Proxy) -> None:
    proxy.drops = False
    storage = storage_for("s3://careless", fresh(proxy))
    location = f"s3://careless/{uuid.uuid4()}"

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda number: storage.create(f"{location}/{number}", b"x"), range(8)))

    assert made == [True] * 8
    probes = [path for path in proxy.puts if "create-if-absent" in path]
    assert len(probes) == 2
    assert {info.path.rpartition("/")[2] for info in storage.walk(location)} == {str(number) for number in range(8)}


def test_a_lock_or_a_server_makes_the_question_needless(proxy: Proxy) -> None:
    proxy.drops = True
    storage = storage_for("s3://careless", fresh(proxy))
    assert isinstance(storage, FsspecStorage)

    for other in (storage.under_lock(), storage.beside_server()):
        assert other.create(f"s3://careless/{uuid.uuid4()}", b"x")
    assert not [path for path in proxy.puts if "create-if-absent" in path]
