"""Which options may be shown: those that are known to be harmless, and no others.

A list of secret names is never complete, so this is a list of harmless ones: an option is shown, and written into a
job, if its name is on the list and its value does not look like a secret. All others are hidden:
jobs carry the name of an environment variable instead, and messages show `***` instead of their values.

Addresses must not contain a password at all: they are in every message, in jobs and in logs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from paimon_engine.errors import MASK, InvalidArgumentError
from paimon_engine.options.known import is_known_option

_STORAGE: Final = frozenset(
    {
        *("s3.endpoint", "s3.region", "s3.path.style.access", "endpoint_url", "region_name", "region", "api_version"),
        *("anon", "anonymous", "profile", "requester_pays", "use_ssl", "verify", "version_aware", "addressing_style"),
        *("account_name", "project", "location", "default_location", "consistency", "requests_timeout", "bucket"),
        *("host", "port", "timeout", "connect_timeout", "read_timeout", "retries", "max_attempts", "mode"),
        *("max_concurrency", "max_pool_connections", "default_block_size", "blocksize", "default_cache_type"),
        *("default_fill_cache", "use_listings_cache", "skip_instance_cache", "signature_version", "s3", "replication"),
        *("hadoop-conf-dir", "security.kerberos.login.principal", "security.kerberos.login.keytab"),
        *("endpoint", "fs.oss.endpoint", "fs.obs.endpoint", "fs.cosn.bucket.region", "fs.cosn.bucket.endpoint_suffix"),
        *("external-paths.allowed", "external-paths.deletable", "report-urls.allowed", "request-timeout"),
    }
)
_HDFS: Final = ("dfs.", "hadoop.dfs.")
"""Settings of HDFS: names of hosts, sizes and times; its secrets are in files and tickets."""
_NESTED: Final = frozenset({"client_kwargs", "config_kwargs"})
"""Options that are JSON objects; harmless if all their members are."""

_CATALOG: Final = frozenset(
    {
        *("metastore", "uri", "warehouse", "case-sensitive", "catalog-key", "prefix", "sync-all-properties"),
        *("lock.enabled", "lock.type", "lock-check-max-sleep", "lock-acquire-timeout", "lock-key-max-length"),
        *("token.provider", "data-token.enabled", "dlf.region", "dlf.token-path", "dlf.signing-algorithm"),
        *("cache-enabled", "client-pool-size", "format-table.enabled"),
        *("table.type", "location-in-properties", "alter-table-cascade"),
        *("hive.skip-update-stats", "hive.metastore.client.socket.timeout"),
        *("jdbc.sslmode", "jdbc.sslrootcert", "jdbc.connect_timeout", "jdbc.user", "jdbc.currentSchema"),
    }
)
_TABLE_DEFAULT: Final = "table-default."
_TABLE_HIDDEN: Final = frozenset({"partition.mark-done-action.http.url", "partition.mark-done-action.http.params"})
"""Known options of tables that may nevertheless contain a token."""

_PARAMETERS: Final = frozenset(
    {"sslmode", "sslrootcert", "connect_timeout", "application_name", "currentschema", "user", "username", "options"}
)
"""Parameters of an address that are shown."""

_PASSWORD: Final = re.compile(
    r"(?P<begin>https?://)(?P<user>[^/\s@]*@)+|(?P<other>://)[^/@\s:]*:(?P<password>[^/\s]*)@", re.IGNORECASE
)
"""Addresses such as `abfs://container@account…` have a user only; in `https://` that may be a token."""

_PARAMETER: Final = re.compile(r"[?&;](?P<name>[^=&;\s]+)=(?P<value>[^&;\s]+)")


def shows_storage_option(name: str, text: str) -> bool:
    """Whether an option of a store may be seen by all."""
    if name in _NESTED:
        return _all_harmless(text)
    return (name in _STORAGE or name.startswith(_HDFS)) and _is_plain(text)


def shows_catalog_option(name: str, text: str) -> bool:
    """Whether an option of a catalog may be seen by all."""
    if name.startswith(_TABLE_DEFAULT):
        return shows_table_option(name.removeprefix(_TABLE_DEFAULT), text)
    if name.startswith("s3."):
        return shows_storage_option(name, text)
    return name in _CATALOG and _is_plain(text)


def shows_table_option(name: str, text: str) -> bool:
    """Whether an option of a table may be seen by all."""
    return is_known_option(name) and name not in _TABLE_HIDDEN and without_secrets(text) == text


def hidden_values(options: Mapping[str, str], shows: Callable[[str, str], bool]) -> tuple[str, ...]:
    """The values that messages must not contain, with the members of JSON objects and the secrets in addresses."""
    return tuple({text for name, value in options.items() if not shows(name, value) for text in _texts_in(value)})


def without_secrets(text: str) -> str:
    """The text with `***` for passwords in addresses and for parameters that are not known to be harmless."""
    text = _PASSWORD.sub(lambda found: f"{found['begin'] or found['other']}{MASK}@", text)
    return _PARAMETER.sub(_parameter, text)


def check_address(address: str, what: str) -> None:
    """Raises InvalidArgumentError for an address that contains a password; `what` names the owner of the address."""
    if isinstance(address, str) and _PASSWORD.search(address):
        raise InvalidArgumentError(
            f"the address of {what} ({without_secrets(address)}) contains a password, which everyone who sees the "
            "address could read: remove it, and give user and password as options of the store"
        )


def check_shown(of: str, options: Mapping[str, str], shows: Callable[[str, str], bool]) -> None:
    """Raises InvalidArgumentError for an option that must not be written down."""
    for name, text in options.items():
        if not shows(name, text):
            raise InvalidArgumentError(
                f"the job would show the option {name!r} of the {of} to everyone who sees it, and it is not known to "
                "be harmless: put the value into an environment variable, and the variable's name into `secrets` "
                "(`table_secrets` for options of the table)"
            )


def _is_plain(text: str) -> bool:
    return text[:1] not in ("{", "[") and without_secrets(text) == text


def _all_harmless(text: str) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and all(
        _all_harmless(json.dumps(item)) if isinstance(item, dict) else name in _STORAGE and _is_plain(str(item))
        for name, item in value.items()
    )


def _parameter(found: re.Match[str]) -> str:
    if found["name"].lower() in _PARAMETERS:
        return found[0]
    return f"{found[0][0]}{found['name']}={MASK}"


def _texts_in(value: Any) -> list[str]:
    """The value as a text, and the texts in it where it is an object."""
    text = value if isinstance(value, str) else str(value)
    try:
        inner = json.loads(text) if text[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        inner = None
    found, left = [text], [inner]
    found += [match["password"] for match in _PASSWORD.finditer(text) if match["password"]]
    found += [match["value"] for match in _PARAMETER.finditer(text) if match["name"].lower() not in _PARAMETERS]
    while left:
        item = left.pop()
        if isinstance(item, Mapping):
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
        elif isinstance(item, str):
            # Libraries show texts of several lines, such as keys, in one.
            found += [item, repr(item)[1:-1], *item.splitlines()]
    return found
