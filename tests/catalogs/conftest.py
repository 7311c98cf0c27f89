from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.conftest import s3_options
from tests.support.postgres import PostgresServer, start_postgres

__all__ = ["s3_options"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    yield from start_postgres()


@pytest.fixture(params=["sqlite", "postgresql"])
def jdbc(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Options of a JDBC catalog that nobody else uses."""
    if request.param == "sqlite":
        return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}
    server: PostgresServer = request.getfixturevalue("postgres")
    return {"metastore": "jdbc", "catalog-key": tmp_path.name, **server.options}
