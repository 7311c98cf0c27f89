"""The fsspec file system below a storage, for what the engine itself never does, such as making a bucket."""

from __future__ import annotations

from typing import Any

from paimon_engine.storage import Storage


def file_system_of(storage: Storage) -> Any:
    """The only code of the tests that knows where `FsspecStorage` keeps it."""
    return storage._fs  # type: ignore[attr-defined]
