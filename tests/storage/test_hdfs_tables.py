"""Tables on a real HDFS cluster: its NameNode decides races, so commits need no lock."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, NotFoundError, OutcomeUnknownError, StorageError, open_table
from paimon_engine.secrecy import shows_storage_option
from paimon_engine.storage import storage_for
from tests.support.hdfs import java_writer

hdfs_native = pytest.importorskip("hdfs_native")

pytestmark = pytest.mark.java

WRITER = """
import sys
import pyarrow as pa
from paimon_engine import open_table
path, begin, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
table = open_table(path)
print("ready", flush=True)
sys.stdin.readline()
for number in range(begin, begin + count):
    table.write(pa.table({"id": pa.array([number], pa.int64()), "v": ["x" * 1000]}), commit_user=f"w-{number}")
"""


@pytest.fixture
def lake(hdfs: str) -> str:
    return f"{hdfs}/{uuid.uuid4()}"


def make_table(lake: str, **options: str):
    catalog = Catalog(lake)
    catalog.create_database("db")
    return catalog.create_table(
        "db.t", schema={"id": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["id"], options={"bucket": "1", **options}
    )


def rows(*keys: int, text: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(keys, pa.int64()), "v": [text] * len(keys)})


def keys_of(table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def race(commands: Sequence[Sequence[str]]) -> None:
    """Runs the writers side by side, from the moment on at which all are ready."""
    pipe = subprocess.PIPE
    with ExitStack() as logs:
        writers = []
        for command in commands:
            log = logs.enter_context(tempfile.TemporaryFile("w+"))
            writers.append((subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True), log))
        for writer, log in writers:
            assert writer.stdout is not None
            assert "ready\n" in iter(writer.stdout.readline, ""), log.seek(0) or log.read()[-3000:]
        for writer, _ in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer, log in writers:
            writer.communicate(timeout=200)
            assert writer.returncode == 0, log.seek(0) or log.read()[-3000:]


def test_a_table_is_written_compacted_altered_and_renamed(lake: str):
    table = make_table(lake)
    for number in range(4):
        table.write(rows(number, 100, text=f"v{number}"))
    table.compact(full=True)
    table.alter([{"change": "add_column", "name": "w", "type": "INT"}])
    catalog = Catalog(lake)
    assert keys_of(catalog.table("db.t")) == [0, 1, 2, 3, 100]
    assert catalog.table("db.t").to_arrow(where="id = 100")["v"].to_pylist() == ["v3"]
    assert catalog.table("db.t").verify().status == "sound"
    catalog.rename_table("db.t", "db.u")
    assert (catalog.list_databases(), catalog.list_tables("db")) == (["db"], ["u"])
    assert keys_of(open_table(f"{lake}/db.db/u")) == [0, 1, 2, 3, 100]
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []


def test_processes_that_race_for_each_snapshot_lose_nothing(lake: str):
    table = make_table(lake, **{"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"})
    command = [sys.executable, "-c", WRITER, table.path]
    race([[*command, str(begin), "5"] for begin in (0, 100)])
    assert keys_of(table) == [base + number for base in (0, 100) for number in range(5)]
    assert [row["snapshot_id"] for row in table.snapshots().to_pylist()] == list(range(1, 11))
    names = [info.path.rsplit("/", 1)[1] for info in storage_for(table.path, {}).walk(table.path)]
    assert [name for name in names if name.endswith(".tmp")] == []


@pytest.mark.long
def test_java_and_this_engine_race_for_each_snapshot_and_lose_nothing(lake: str):
    table = make_table(
        lake, **{"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000", "write-only": "true"}
    )
    begins = (0, 100, 200, 300)
    commands = [
        *([sys.executable, "-c", WRITER, table.path, str(begin), "6"] for begin in begins[:2]),
        *(java_writer(table.path, begin, 6) for begin in begins[2:]),
    ]
    race(commands)

    assert keys_of(table) == [begin + number for begin in begins for number in range(6)]
    snapshots = table.snapshots().to_pylist()
    assert [row["snapshot_id"] for row in snapshots] == list(range(1, 25))
    assert len({row["commit_user"] for row in snapshots}) == 24
    assert table.verify("rows").status == "sound"
    table.compact(full=True)
    assert len(keys_of(table)) == 24


def test_one_snapshot_has_one_winner(lake: str):
    storage, path = storage_for(lake, {}), f"{lake}/snapshot/snapshot-1"
    start, won, failed = threading.Barrier(6), [], []

    def create(number: int) -> None:
        mine = storage_for(lake, {})
        start.wait()
        try:
            if mine.create(path, b"%d" % number):
                won.append(number)
        except StorageError as error:
            # On a busy machine a request may time out; such a writer knows that it may or may not have won.
            failed.append(error)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 or (won == [] and any(isinstance(error, OutcomeUnknownError) for error in failed)), failed
    assert storage.read(path) in [b"%d" % number for number in won or range(6)]


def test_versions_expire_and_orphans_go_but_tags_stay(lake: str, hdfs: str):
    table = make_table(lake)
    for number in range(4):
        table.write(rows(number))
        if number == 1:
            table.create_tag("second")
    table.compact(full=True)
    storage = storage_for(lake, {})
    orphan = f"{table.path}/bucket-0/data-{uuid.uuid4()}-0.parquet"
    storage.create(orphan, b"of a writer that died")

    two_days_ago = int((time.time() - 2 * 86_400) * 1000)
    hdfs_native.Client(hdfs).set_times(orphan.removeprefix(hdfs), two_days_ago, two_days_ago)

    expired = table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    assert expired.expired_snapshots == (1, 2, 3, 4)
    assert keys_of(open_table(table.path, options={"scan.tag-name": "second"})) == [0, 1]
    removed = table.remove_orphan_files()
    assert [file.path for file in removed.deleted] == [orphan], removed
    assert not storage.exists(orphan)
    assert keys_of(table) == [0, 1, 2, 3]
    assert keys_of(open_table(table.path, options={"scan.tag-name": "second"})) == [0, 1]
    assert table.verify().status == "sound"


@pytest.mark.parametrize("by", ["folder", "variable", "options"])
def test_a_nameservice_with_two_name_nodes(by: str, hdfs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings = {
        "dfs.nameservices": "lake",
        "dfs.ha.namenodes.lake": "gone,active",
        "dfs.namenode.rpc-address.lake.gone": "127.0.0.1:1",
        "dfs.namenode.rpc-address.lake.active": hdfs.removeprefix("hdfs://"),
        "dfs.client.failover.proxy.provider.lake": "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
    }
    text = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{text}</configuration>")
    (tmp_path / "core-site.xml").write_text("<configuration></configuration>")
    if by == "variable":
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    given = {"folder": {"hadoop-conf-dir": str(tmp_path)}, "variable": {}}.get(by, settings)
    # Clients are kept by their options, and the variable is none of them.
    name = f"{by}-{uuid.uuid4()}"
    catalog = Catalog(f"hdfs://lake/{name}", storage_options={**given, "dfs.client.test": name})
    catalog.create_database("db")
    catalog.create_table("db.t", schema={"id": "BIGINT"}).write(pa.table({"id": [1]}))
    assert Catalog(f"{hdfs}/{name}").table("db.t").to_arrow().num_rows == 1


def test_jobs_show_the_settings_of_a_cluster():
    assert shows_storage_option("dfs.namenode.rpc-address.lake.a", "host:8020")
    assert shows_storage_option("hadoop-conf-dir", "/etc/hadoop")
    assert not shows_storage_option("fs.s3a.secret.key", "x")


def test_what_is_wrong_is_said(hdfs: str):
    with pytest.raises(InvalidArgumentError, match="Unknown storage option s3.endpoint for HDFS"):
        storage_for(hdfs, {"s3.endpoint": "x"})
    with pytest.raises(InvalidArgumentError, match="needs 'security.kerberos.login.principal'"):
        storage_for(hdfs, {"security.kerberos.login.keytab": "/k"})
    with pytest.raises(InvalidArgumentError, match="HADOOP_CONF_DIR or the storage option 'hadoop-conf-dir'"):
        storage_for("hdfs://unknown", {}).exists("hdfs://unknown/a")
    with pytest.raises(StorageError, match="refused"):
        storage_for("hdfs://127.0.0.1:1", {"dfs.client.failover.max.attempts": "1"}).exists("hdfs://127.0.0.1:1/a")
    storage = storage_for(hdfs, {})
    with pytest.raises(StorageError, match="the root of a file system is not deleted"):
        storage.delete_tree(f"{hdfs}/")
    with pytest.raises(NotFoundError):
        open_table(f"{hdfs}/no/such")


def test_a_name_that_is_a_directory_is_not_replaced(lake: str):
    storage = storage_for(lake, {})
    storage.make_dir(f"{lake}/d/inner")
    with pytest.raises(StorageError):
        storage.create(f"{lake}/d", b"1")
    with pytest.raises(StorageError, match="it is a directory"):
        storage.delete([f"{lake}/d"])
    storage.delete_dir(f"{lake}/d")
    assert [info.path for info in storage.list(lake)] == [f"{lake}/d"]


def test_a_connection_of_airflow(lake: str, hdfs: str, monkeypatch: pytest.MonkeyPatch):
    from airflow_provider_paimon.hooks.paimon import PaimonHook

    def connect(address: str) -> PaimonHook:
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "paimon", "host": address}))
        return PaimonHook("lake")

    make_table(lake)
    assert connect(lake).test_connection() == (True, f"{lake}: databases db")
    good, message = connect("hdfs://127.0.0.1:1/lake").test_connection()
    assert (good, "The NameNode hdfs://127.0.0.1:1 does not answer" in message) == (False, True)
