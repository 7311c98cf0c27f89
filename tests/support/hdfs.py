"""A real HDFS on the loopback interface: a NameNode and a DataNode of Hadoop's own small cluster for tests.

Its jar comes from Maven, the rest of Hadoop with pyspark; tests are skipped where Maven or a JDK is missing.
"""

from __future__ import annotations

import getpass
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.java_jars import (
    HADOOP,
    QUICK_START,
    classpath,
    compiled,
    jar,
    java_server,
    pyspark_jars,
    require_compiler,
)
from tests.support.paimon2 import ARTIFACT

SOURCE = Path(__file__).parent / "java" / "MiniHdfs.java"
WRITER = Path(__file__).parent / "java" / "HdfsWriter.java"


def start_hdfs(folder: Path) -> Iterator[str]:
    """The address of a cluster, `hdfs://127.0.0.1:<port>`, whose blocks are below that folder."""
    pytest.importorskip("hdfs_native", reason="hdfs-native is not installed: pip install hdfs-native")
    require_compiler()
    jars = pyspark_jars(*HADOOP, "jcl-over-slf4j-*.jar")
    version = re.search(r"hadoop-client-api-([\d.]+)\.jar", jars)
    assert version is not None, jars
    jars = f"{jar(f'org.apache.hadoop:hadoop-client-minicluster:{version[1]}')}:{jars}"
    classes = compiled((SOURCE,), jars)
    command = [
        "java",
        *QUICK_START,
        "-Xmx512m",
        f"-DHADOOP_USER_NAME={getpass.getuser()}",
        "-cp",
        f"{classes}:{jars}",
        "MiniHdfs",
    ]
    with _blocks(folder) as blocks, java_server([*command, str(blocks)], folder) as port:
        yield f"hdfs://127.0.0.1:{port}"


def java_writer(table: str, begin: int, count: int) -> list[str]:
    """A command by which Java Paimon 2.0 commits so many rows to a table, with keys from `begin` on."""
    jars = classpath(ARTIFACT)
    classes = compiled((WRITER,), jars)
    user = f"-DHADOOP_USER_NAME={getpass.getuser()}"
    return [
        "java",
        *QUICK_START,
        "-Xmx256m",
        user,
        "-cp",
        f"{classes}:{jars}",
        "HdfsWriter",
        table,
        str(begin),
        str(count),
    ]


@contextmanager
def _blocks(folder: Path) -> Iterator[Path]:
    """Where the cluster keeps its blocks: below the folder, but a DataNode cannot start below a path with a space."""
    if " " not in str(folder):
        yield folder / "blocks"
        return
    with tempfile.TemporaryDirectory(prefix="hdfs-") as elsewhere:
        yield Path(elsewhere)
