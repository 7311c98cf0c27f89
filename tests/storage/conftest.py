"""One root directory per kind of storage, so that each contract test runs on all of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from paimon_engine.storage import Storage, storage_for


@dataclass(frozen=True)
class Place:
    """A storage and a fresh directory in it."""

    storage: Storage
    root: str
    has_directories: bool

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"


@pytest.fixture(params=["path", "file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path) -> Iterator[Place]:
    roots = {"path": str(tmp_path), "file": f"file://{tmp_path}", "memory": f"memory://{uuid.uuid4()}/lake"}
    root = roots[request.param]
    yield Place(storage_for(root, {}), root, has_directories=request.param != "memory")
