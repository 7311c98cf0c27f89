"""Calls of a Hive metastore over Thrift.

Each block of calls has a connection of its own: they are few, a server may close an idle connection at any time, and
connections must not be shared by threads and forked processes.

Source: `hive_metastore.thrift`, `HiveMetaStoreClient` of Hive; `HiveCatalog` of the Java library.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paimon_engine.errors import (
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    PaimonError,
    StorageError,
    UnsupportedError,
)
from paimon_engine.units import parse_duration_ms

TIMEOUT: Final = "hive.metastore.client.socket.timeout"
_TIMEOUT_DEFAULT: Final = "600 s"
_CONNECT_TIMEOUT_MS: Final = 10_000
_PORT: Final = 9083
_ADDRESS: Final = re.compile(r"thrift://(?P<host>\[[0-9a-fA-F:.]+\]|[^/:\s@]+)(:(?P<port>\d{1,5}))?/?")


@dataclass(frozen=True, slots=True)
class HiveServers:
    """The metastores of a catalog, which share one database, in the order in which they are tried."""

    addresses: tuple[tuple[str, int], ...]
    timeout_ms: int

    @classmethod
    def of(cls, values: Mapping[str, str]) -> HiveServers:
        """Those of a catalog's options. Raises: InvalidArgumentError."""
        given = [text.strip() for text in values.get("uri", "").split(",") if text.strip()]
        if not given:
            raise InvalidArgumentError("a Hive catalog needs 'uri', for example thrift://metastore:9083")
        timeout_ms = parse_duration_ms(values.get(TIMEOUT, _TIMEOUT_DEFAULT))
        return cls(tuple(_address(text) for text in given), timeout_ms)

    def __str__(self) -> str:
        return ", ".join(f"thrift://{host}:{port}" for host, port in self.addresses)

    @contextlib.contextmanager
    def session(self) -> Iterator[HiveSession]:
        """A connection for the block's calls.

        Raises: UnsupportedError if the client library is not installed; StorageError if no server answers.
        """
        thrift = _library()
        transport, client = self._connect(thrift)
        try:
            session = HiveSession(self, thrift, client)
            # Directories that the server makes, and the entries' rights, belong to this user, as with Java's client.
            session.read("set_ugi", user_name(), [])
            yield session
        finally:
            transport.close()

    def _connect(self, thrift: _Thrift) -> tuple[Any, Any]:
        problems = []
        for host, port in self.addresses:
            socket = thrift.socket(host.strip("[]"), port)
            socket.setTimeout(min(_CONNECT_TIMEOUT_MS, self.timeout_ms))
            transport = thrift.transport(socket)
            try:
                transport.open()
            except (thrift.error, OSError) as error:
                problems.append(f"thrift://{host}:{port}: {_text(error)}")
                continue
            socket.setTimeout(self.timeout_ms)
            return transport, thrift.client(thrift.protocol(transport))
        raise StorageError(f"no Hive metastore answers: {'; '.join(problems)}")


class HiveSession:
    """Calls over one connection."""

    def __init__(self, servers: HiveServers, thrift: _Thrift, client: Any) -> None:
        self._servers = servers
        self._thrift = thrift
        self._client = client

    @property
    def types(self) -> Any:
        """The module with the structures of the protocol."""
        return self._thrift.types

    def read(self, method: str, *arguments: Any) -> Any:
        """The answer to a call that changes nothing. Raises: NotFoundError, InvalidArgumentError, StorageError."""
        return self._call(method, arguments, StorageError)

    def change(self, method: str, *arguments: Any) -> Any:
        """The answer to a call that changes something; it is sent once.

        Raises: as `read`; ConflictError if it exists already; OutcomeUnknownError if the answer was lost.
        """
        return self._call(method, arguments, OutcomeUnknownError)

    def _call(self, method: str, arguments: Sequence[Any], lost: type[StorageError]) -> Any:
        """The server's answer; its errors become ours, and `lost` if there is no answer."""
        types, where = self._thrift.types, f"Hive metastore at {self._servers}: {method}"
        try:
            return getattr(self._client, method)(*arguments)
        except (types.NoSuchObjectException, types.UnknownDBException, types.UnknownTableException) as error:
            raise NotFoundError(f"{where}: {_text(error)}") from error
        except (types.NoSuchLockException, types.NoSuchTxnException, types.TxnAbortedException) as error:
            raise NotFoundError(f"{where}: {_text(error)}") from error
        except types.AlreadyExistsException as error:
            raise ConflictError(f"{where}: {_text(error)}") from error
        except (types.InvalidObjectException, types.InvalidOperationException, types.InvalidInputException) as error:
            raise InvalidArgumentError(f"{where}: {_text(error)}") from error
        except types.MetaException as error:
            raise StorageError(f"{where}: {_text(error)}") from error
        except self._thrift.no_method as error:
            raise UnsupportedError(f"{where}: the server does not serve this call: {_text(error)}") from error
        except PaimonError:
            raise
        except (self._thrift.error, OSError, EOFError, UnicodeDecodeError, ValueError) as error:
            raise lost(
                f"{where}: {_text(error)}; if the metastore requires Kerberos (SASL) or TLS, this client does not "
                "reach it"
            ) from error


@dataclass(frozen=True, slots=True)
class _Thrift:
    """What is used of the client library."""

    types: Any
    client: Any
    socket: Any
    transport: Any
    protocol: Any
    error: type[Exception]
    no_method: type[Exception]


def _library() -> _Thrift:
    """The classes of Thrift and of the metastore's interface, imported at the first use of a Hive catalog.

    Raises: UnsupportedError if the package is not installed.
    """
    try:
        from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
        from thrift.Thrift import TApplicationException, TException
        from thrift.transport.TSocket import TSocket
        from thrift.transport.TTransport import TBufferedTransport
    except ImportError as error:
        raise UnsupportedError(
            f"a Hive catalog needs the package pymetastore ({error}): pip install 'airflow-provider-paimon[hive]'"
        ) from error
    return _Thrift(
        ttypes, ThriftHiveMetastore.Client, TSocket, TBufferedTransport, TBinaryProtocol, TException,
        TApplicationException,
    )  # fmt: skip


def check_client() -> None:
    """Raises UnsupportedError if the client library is not installed."""
    _library()


def user_name() -> str:
    """The user for whom the metastore acts, chosen as Hadoop does without Kerberos."""
    given = os.environ.get("HADOOP_USER_NAME", "").strip()
    try:
        return given or getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        return str(os.getuid())


def _address(text: str) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"] or _PORT) > 65535:
        raise InvalidArgumentError(
            f"'uri' of a Hive catalog: {text!r} is not the address of a metastore; write thrift://host:{_PORT}, or "
            "several of one database with commas between them"
        )
    return found["host"], int(found["port"] or _PORT)


def _text(error: BaseException) -> str:
    """What the server or the library says, on one line."""
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    return " ".join(str(message).split())
