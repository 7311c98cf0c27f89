"""The URL of a JDBC catalog's database, in Java's form or in that of SQLAlchemy.

These pairs are equal (the second form is SQLAlchemy's):

    jdbc:sqlite:/lake/catalog.db                       sqlite:////lake/catalog.db
    jdbc:postgresql://host:5432/lake?user=u            postgresql+psycopg://u@host:5432/lake

User and password come from the options `jdbc.user` and `jdbc.password`, or from the URL, where they are less safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.metastores.config import JDBC_PREFIX, URI, with_prefix

_JDBC: Final = "jdbc:"
_SQLITE: Final = "jdbc:sqlite:"
_DRIVERS: Final[Mapping[str, str]] = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
_USER_NAMES: Final = ("user", "username")
_CONNECTION_PROPERTIES: Final[Mapping[str, frozenset[str]]] = {
    "sqlite": frozenset(),
    "postgresql": frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "application_name"}),
}
"""Connection properties whose name and meaning the drivers share."""


def url_of(options: Mapping[str, str]) -> URL:
    """URL of a catalog's options, with their `jdbc.*` as connection properties. Raises: as `parse_uri`."""
    return parse_uri(options[URI], with_prefix(options, JDBC_PREFIX))


def parse_uri(uri: str, properties: Mapping[str, str]) -> URL:
    """URL of a catalog's `uri`; connection `properties` override those in it.

    Raises: InvalidArgumentError, UnsupportedError. No message contains a password.
    """
    # `from None`: the library's message repeats the URL with its password.
    try:
        url = _from_jdbc(uri) if uri.startswith(_JDBC) else make_url(uri)
    except (ArgumentError, ValueError):
        raise InvalidArgumentError(
            "the catalog's 'uri' is not a database URL; write jdbc:sqlite:/path, "
            "jdbc:postgresql://host/database, or SQLAlchemy's form of them"
        ) from None
    backend = url.get_backend_name()
    if backend not in _DRIVERS:
        raise UnsupportedError(
            f"a JDBC catalog in {backend} is not supported; supported databases: {', '.join(_DRIVERS)}"
        )
    if url.drivername == backend:
        url = url.set(drivername=_DRIVERS[backend])
    return _with_properties(url, backend, {**_single(url.query), **properties})


def _from_jdbc(uri: str) -> URL:
    if uri.startswith(_SQLITE):
        path = uri.removeprefix(_SQLITE)
        if path in ("", ":memory:") or path.startswith("file:"):
            raise UnsupportedError(
                f"{uri.partition('?')[0]!r}: give the path of a SQLite file, which all processes can share"
            )
        path, _, query = path.partition("?")
        if query:
            names = ", ".join(part.partition("=")[0] for part in query.split("&"))
            raise UnsupportedError(f"parameters after the path of a SQLite catalog are not supported: {names}")
        return URL.create("sqlite", database=path)
    return make_url(uri.removeprefix(_JDBC))


def _single(query: Mapping[str, str | tuple[str, ...]]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else value[-1] for key, value in query.items()}


def _with_properties(url: URL, backend: str, properties: Mapping[str, str]) -> URL:
    """The URL with Java's connection properties in the form of SQLAlchemy and the database's Python driver.

    Raises: UnsupportedError for a property that has no counterpart there: leaving it out could weaken the connection.
    """
    left = dict(properties)
    users = [left.pop(name) for name in _USER_NAMES if name in left]
    password = left.pop("password", None)
    schema = left.pop("currentSchema", None) if backend == "postgresql" else None
    unknown = sorted(left.keys() - _CONNECTION_PROPERTIES[backend])
    if unknown:
        raise UnsupportedError(
            f"connection property {unknown[0]!r} of the JDBC catalog is not supported; supported: "
            f"{', '.join(sorted({'user', 'password', *_CONNECTION_PROPERTIES[backend]}))}"
        )
    if schema is not None:
        left["options"] = f"-csearch_path={schema}"
    url = url.set(query=left)
    if users:
        url = url.set(username=users[0])
    return url if password is None else url.set(password=password)
