"""Where bytes live: the `Storage` protocol, and `storage_for`, which picks an implementation by address."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_engine.storage.base import FileInfo, Storage
from paimon_engine.storage.local import LocalStorage
from paimon_engine.storage.memory import MemoryStorage

__all__ = ["FileInfo", "LocalStorage", "MemoryStorage", "Storage", "storage_for"]


def storage_for(address: str, options: Mapping[str, str]) -> Storage:
    """The storage of an address: local disk for a bare path or `file:`, memory, else the fsspec file system.

    Raises: UnsupportedError if no installed package knows the scheme.
    """
    scheme, separator, rest = address.partition("://")
    if not separator or scheme == "file":
        return LocalStorage()
    if scheme == "memory":
        return MemoryStorage.named(rest.partition("/")[0])
    # Local tables must not pay for importing fsspec and a cloud client.
    from paimon_engine.storage.fsspec_storage import FsspecStorage

    return FsspecStorage.for_scheme(scheme, options)
