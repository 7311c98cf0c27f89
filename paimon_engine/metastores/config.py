"""Options of a catalog, with the names that Paimon gives them.

An option that a kind of catalog does not support is refused: a lock that is configured but never taken would silently
lose commits.

Source: `CatalogOptions`, `JdbcCatalogOptions`, `HiveCatalogOptions`, `RESTCatalogOptions` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paimon_engine.env import EnvConfig, secret_values
from paimon_engine.errors import InvalidArgumentError, UnsupportedError, hide
from paimon_engine.secrecy import check_address, hidden_values, shows_catalog_option, without_secrets

METASTORE: Final = "metastore"
URI: Final = "uri"
WAREHOUSE: Final = "warehouse"
LOCK_ENABLED: Final = "lock.enabled"
TABLE_DEFAULT_PREFIX: Final = "table-default."
JDBC_PREFIX: Final = "jdbc."
HEADER_PREFIX: Final = "header."

_CASE: Final = "case-sensitive"
_ALL_KINDS: Final = frozenset({METASTORE, WAREHOUSE, _CASE})
_OF_KIND: Final[Mapping[str, frozenset[str]]] = {
    "filesystem": frozenset({LOCK_ENABLED}),
    "jdbc": frozenset(
        {
            URI,
            "catalog-key",
            LOCK_ENABLED,
            "lock.type",
            "lock-check-max-sleep",
            "lock-acquire-timeout",
            "lock-key-max-length",
            "sync-all-properties",
        }
    ),
    "hive": frozenset(
        {
            URI,
            LOCK_ENABLED,
            "lock.type",
            "lock-check-max-sleep",
            "lock-acquire-timeout",
            "table.type",
            "sync-all-properties",
            "location-in-properties",
            "alter-table-cascade",
            "hive.skip-update-stats",
            "hive.metastore.client.socket.timeout",
        }
    ),
    "rest": frozenset(
        {
            URI,
            "prefix",
            "token",
            "token.provider",
            "data-token.enabled",
            "dlf.region",
            "dlf.access-key-id",
            "dlf.access-key-secret",
            "dlf.security-token",
            "dlf.token-path",
            "dlf.signing-algorithm",
        }
    ),
}
_PREFIXES_OF_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    "filesystem": (TABLE_DEFAULT_PREFIX,),
    "jdbc": (TABLE_DEFAULT_PREFIX, JDBC_PREFIX),
    "hive": (TABLE_DEFAULT_PREFIX,),
    "rest": (TABLE_DEFAULT_PREFIX, HEADER_PREFIX),
}
_NO_EFFECT: Final = ("cache-enabled", "cache.", "client-pool-size", "client-pool.", "format-table.enabled")
"""Prefixes of options that are accepted and have no effect: they concern speed, or features outside this engine."""

_STORAGE_PREFIX: Final = "s3."
"""Storage options that Paimon accepts among the catalog's options."""


@dataclass(frozen=True)
class CatalogConfig:
    """A catalog's configuration. `secrets` maps options to the environment variables that hold their values.

    `storage` configures the warehouse's storage; its address is the warehouse itself.
    """

    warehouse: str
    storage: EnvConfig
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        warehouse: str | None,
        options: Mapping[str, str] | None = None,
        *,
        secrets: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        storage_secrets: Mapping[str, str] | None = None,
    ) -> CatalogConfig:
        """The configuration, with storage options separated from those of the catalog.

        Raises: InvalidArgumentError without a warehouse, or with two; UnsupportedError for an unknown option.
        """
        given = {key: _text(value) for key, value in (options or {}).items()}
        address = _address(warehouse, given.pop(WAREHOUSE, None))
        check_address(address, "the warehouse")
        hidden = dict(secrets or {})
        if METASTORE in hidden or WAREHOUSE in hidden:
            raise InvalidArgumentError(f"'{METASTORE}' and '{WAREHOUSE}' cannot be secrets; give them as options")
        _check(given.get(METASTORE, "filesystem").lower(), [*given, *hidden])
        # Names in a Hive metastore have no case; such a catalog refuses capital letters in them, whatever is said here.
        if not is_true(given, _CASE, default=True) and given.get(METASTORE, "").lower() != "hive":
            raise UnsupportedError(f"'{_CASE}' = 'false' is not supported: names are case sensitive; leave it out")
        storage = {key: given.pop(key) for key in list(given) if key.startswith(_STORAGE_PREFIX)}
        storage_hidden = {key: hidden.pop(key) for key in list(hidden) if key.startswith(_STORAGE_PREFIX)}
        env = EnvConfig(address, {**storage, **(storage_options or {})}, {**storage_hidden, **(storage_secrets or {})})
        return cls(address, env, given, hidden)

    @property
    def kind(self) -> str:
        """The kind of catalog, in lower case."""
        return self.options.get(METASTORE, "filesystem").lower()

    @property
    def table_defaults(self) -> dict[str, str]:
        """Options that new tables get unless they set them themselves."""
        return with_prefix(self.values(), TABLE_DEFAULT_PREFIX)

    def values(self) -> dict[str, str]:
        """The options with the values of secrets, to connect with; errors mask these values from now on.

        Raises: InvalidArgumentError if an environment variable is not set.
        """
        values = {**self.options, **secret_values(self.secrets)}
        hide(hidden_values(values, shows_catalog_option))
        return values

    def __hash__(self) -> int:
        return hash((self.warehouse, tuple(sorted(self.options.items())), tuple(sorted(self.secrets.items()))))


def with_prefix(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The options that start with a prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}


def is_true(options: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    """The option's value, `true` or `false`.

    Raises: InvalidArgumentError for any other value.
    """
    text = options.get(key, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise InvalidArgumentError(f"catalog option '{key}' = {text!r}; write true or false")
    return text == "true"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _address(given: str | None, option: str | None) -> str:
    if given is not None and option is not None and given.rstrip("/") != option.rstrip("/"):
        raise InvalidArgumentError(
            f"two warehouses are given: {without_secrets(given)!r}, and {without_secrets(option)!r} as an option"
        )
    address = given if given is not None else option
    if not address:
        raise InvalidArgumentError("a catalog needs 'warehouse': a path or URL, or its name on a REST server")
    return address.rstrip("/") or "/"


def _check(kind: str, keys: list[str]) -> None:
    known = _ALL_KINDS | _OF_KIND.get(kind, frozenset())
    prefixes = (*_PREFIXES_OF_KIND.get(kind, ()), _STORAGE_PREFIX, *_NO_EFFECT)
    unknown = sorted(key for key in keys if key not in known and not key.startswith(prefixes))
    # For an unknown kind, `open_metastore` reports the kind itself.
    if unknown and kind in _OF_KIND:
        names = ", ".join(sorted(known | {f"{prefix}*" for prefix in _PREFIXES_OF_KIND[kind]}))
        raise UnsupportedError(
            f"catalog option '{unknown[0]}' is not supported with 'metastore' = '{kind}'; supported: {names}. "
            "Give options of the file system as storage_options"
        )
