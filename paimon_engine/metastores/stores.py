"""Storage of the tables of JDBC, Hive and REST catalogs, as plain values that can be sent to workers.

Workers only read and write data files. They never create the file that decides between two commits, so they need no
client of a database or metastore for the lock; credentials that a REST server provides they fetch themselves.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from paimon_engine.env import now_ms
from paimon_engine.metastores.config import CatalogConfig
from paimon_engine.storage import Storage, storage_for
from paimon_engine.storage.leased import Lease, LeasedStorage
from paimon_engine.storage.locked import Lock, LockedStorage

_KEPT: Final = re.compile(r"/(snapshot/snapshot|schema/schema)-\d+$")

_STORE_NAMES: Final[Mapping[str, str]] = {
    "fs.s3a.access.key": "s3.access-key",
    "fs.s3a.secret.key": "s3.secret-key",
    "fs.s3a.session.token": "s3.session-token",
    "fs.s3a.endpoint": "s3.endpoint",
    "fs.s3a.endpoint.region": "s3.region",
    "s3.access.key": "s3.access-key",
    "s3.secret.key": "s3.secret-key",
}
"""Names that servers use for S3 credentials, and the engine's storage options for them."""
_OSS_NAMES: Final = frozenset(
    {"fs.oss.endpoint", "fs.oss.accessKeyId", "fs.oss.accessKeySecret", "fs.oss.securityToken"}
)
"""Names of credentials for OSS, which DLF lends; they are storage options, too."""


@dataclass(frozen=True)
class LockedStorageSource:
    """`StorageSource` whose files are created under the commit lock of a JDBC or Hive catalog."""

    config: CatalogConfig
    lock_id: str

    def storage(self, address: str, options: Mapping[str, str]) -> Storage:
        def lock() -> Lock:
            module = importlib.import_module(f"paimon_engine.metastores.{self.config.kind}_lock")
            return cast("Lock", module.lock_of(self.config, self.lock_id))

        inner = storage_for(address, options)
        under_lock = getattr(inner, "under_lock", None)
        return LockedStorage(inner if under_lock is None else under_lock(), lock)


@dataclass(frozen=True)
class RestStorageSource:
    """`StorageSource` of a table that a REST server keeps.

    With `has_data_token` the server also provides temporary credentials, which are renewed when they expire. The
    server keeps snapshots and schemas, so their files are never created here.
    """

    config: CatalogConfig
    database: str
    object_name: str
    has_data_token: bool

    def storage(self, address: str, options: Mapping[str, str]) -> Storage:
        def renew() -> Lease:
            if not self.has_data_token:
                return Lease(_beside_server(storage_for(address, options)))
            from paimon_engine.metastores.rest_client import client_of, part, texts

            client = client_of(self.config)
            answer = client.get("databases", self.database, "tables", self.object_name, "token")
            where = f"{client}: token of {self.database}.{self.object_name}"
            # The specification says `expiresAt`, Java's server and clients say `expiresAtMillis`.
            key = "expiresAtMillis" if "expiresAtMillis" in answer else "expiresAt"
            text = answer.get(key)
            expires_ms = int(text) if isinstance(text, str) and text.isdecimal() else part(answer, key, int, where)
            given = {_STORE_NAMES.get(key, key): value for key, value in texts(answer, "token", where).items()}
            is_oss = address.startswith("oss://")
            known = {key: value for key, value in given.items() if (key in _OSS_NAMES if is_oss else key[:3] == "s3.")}
            storage = _beside_server(storage_for(address, {**options, **known}))
            return Lease(storage, expires_ms)

        return LeasedStorage(renew, now_ms, lambda path: _KEPT.search(path) is not None)


def _beside_server(storage: Storage) -> Storage:
    """The storage without its own check of atomic creation: the server decides which of two commits comes first."""
    beside = getattr(storage, "beside_server", None)
    return storage if beside is None else cast("Storage", beside())
