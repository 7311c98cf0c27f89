"""Where bytes are stored: the `Storage` protocol, and `storage_for`, which picks an implementation by address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_engine.storage.base import FileInfo, Opener, Storage
from paimon_engine.storage.local import LocalStorage
from paimon_engine.storage.memory import MemoryStorage

__all__ = [
    "ENGINE_OPTIONS",
    "EXTERNAL_ALLOWED",
    "EXTERNAL_DELETABLE",
    "REPORTS_ALLOWED",
    "FileInfo",
    "LocalStorage",
    "MemoryStorage",
    "Opener",
    "Storage",
    "storage_for",
]

EXTERNAL_ALLOWED: Final = "external-paths.allowed"
EXTERNAL_DELETABLE: Final = "external-paths.deletable"
REPORTS_ALLOWED: Final = "report-urls.allowed"
ENGINE_OPTIONS: Final = (EXTERNAL_ALLOWED, EXTERNAL_DELETABLE, REPORTS_ALLOWED)
"""Storage options that are for the engine, not for the file system: what may be read or deleted outside of tables."""


def storage_for(address: str, options: Mapping[str, str]) -> Storage:
    """The storage of an address: local disk for a bare path or `file:`, else that of its scheme.

    fsspec has those that this package has not. Raises: UnsupportedError if no installed package knows the scheme.
    """
    scheme, separator, rest = address.partition("://")
    if not separator or scheme == "file":
        return LocalStorage()
    if scheme == "memory":
        return MemoryStorage.named(rest.partition("/")[0])
    given = {key: text for key, text in options.items() if key not in ENGINE_OPTIONS}
    # Local tables must not pay for importing fsspec and a cloud client.
    if scheme in ("hdfs", "viewfs"):
        from paimon_engine.storage.hdfs import HdfsStorage

        return HdfsStorage(scheme, given)
    if scheme in ("oss", "cosn", "cos", "obs"):
        from paimon_engine.storage.opendal_storage import OpenDalStorage

        return OpenDalStorage(scheme, given)
    from paimon_engine.storage.fsspec_storage import FsspecStorage

    return FsspecStorage.for_scheme(scheme, given)
