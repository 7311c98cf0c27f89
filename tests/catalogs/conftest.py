from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hive import HiveServer, start_metastore
from tests.support.postgres import PostgresServer, start_postgres
from tests.support.s3 import start_s3


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    yield from start_postgres()


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveServer]:
    """A Hive metastore; tests make databases of their own in it."""
    yield from start_metastore(tmp_path_factory.mktemp("metastore"))


@pytest.fixture(scope="session")
def lent_store() -> Iterator[dict[str, str]]:
    """Credentials of an S3 server that a REST server may lend."""
    yield from start_s3()


@pytest.fixture(params=["sqlite", "postgresql"])
def jdbc(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Options of a JDBC catalog of this test alone."""
    if request.param == "sqlite":
        return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}
    server: PostgresServer = request.getfixturevalue("postgres")
    return {"metastore": "jdbc", "catalog-key": tmp_path.name, **server.options}
