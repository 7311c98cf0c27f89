"""The test behind the button of Airflow's connection form: fast, and with a reason that a person can act on.

1. A local directory must exist: the first table would create it, also at a mistyped path.
2. A server that the options name, of S3 or of a REST catalog, must answer a bare request, a Hive metastore and a
   NameNode of HDFS must accept a connection. Clients of stores try again for a minute where nothing answers.
3. Then the warehouse is listed and its store examined, for which there are some seconds.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from paimon_engine.errors import PaimonError, masked

if TYPE_CHECKING:
    from airflow_provider_paimon.hooks.paimon import PaimonHook

PROBE_S: Final = 1.2
"""For a server to answer anything at all."""
EXAMINE_S: Final = 15.0
"""For all the rest, which needs several requests, and the loading of a store's client."""
_METASTORE_PORT: Final = 9083
_S3: Final = ("s3://", "s3a://")
_QUICKLY: Final = {"connect_timeout": 2, "read_timeout": 4, "retries": {"max_attempts": 1}}
"""botocore's settings: less patience than a job has."""
_RANDOM: Final = re.compile(r"[^\s/'\"]*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[^\s/'\":]*")


def examine_connection(hook: PaimonHook) -> tuple[bool, str]:
    """Whether the warehouse can be listed, and its store decides commits; and what was found, without secrets."""
    try:
        missing = missing_directory(hook)
        if missing is not None:
            return False, missing
        for what, address in _servers(hook):
            silent = _in_time(lambda url=address: _no_answer(url), PROBE_S + 0.3)  # type: ignore[misc]
            if silent is not None:
                return False, masked(f"{what} {address} does not answer: {silent}")
        return _in_time(lambda: _examined(hook), EXAMINE_S) or (False, "not examined")
    except TimeoutError as error:
        return False, f"{hook.warehouse} does not answer: {error}"
    except (PaimonError, OSError) as error:
        return False, _plain(str(error))


def missing_directory(hook: PaimonHook) -> str | None:
    """What is wrong with a warehouse on the local disk; None for others, and for one that exists."""
    address = hook.warehouse
    if hook.catalog_options.get("metastore") == "rest" or ("://" in address and not address.startswith("file:")):
        return None
    path = address.removeprefix("file:")
    path = path.removeprefix("//") if path.startswith("//") else path
    where = f"the directory {path} on {socket.gethostname()}"
    if not os.path.isabs(path):
        return f"{where}: give a path that begins with /, as each process has its own working directory"
    if os.path.isdir(path):
        return None
    if os.path.exists(path):
        return f"{where} is a file"
    return f"{where} does not exist: correct the address, or create it (mkdir -p) for a new warehouse"


def _servers(hook: PaimonHook) -> list[tuple[str, str]]:
    """Servers that the options name by their addresses, with what each is."""
    found = []
    options = hook.storage_options
    if hook.warehouse.startswith(_S3):
        more = _object(options.get("client_kwargs"))
        endpoint = options.get("s3.endpoint") or options.get("endpoint_url") or more.get("endpoint_url")
        if endpoint:
            found.append(("The S3 endpoint", endpoint))
    if hook.warehouse.startswith("hdfs://") and urlsplit(hook.warehouse).port:
        # A name without a port is that of a nameservice, which only the configuration knows.
        found.append(("The NameNode", "/".join(hook.warehouse.split("/", 3)[:3])))
    if hook.catalog_options.get("metastore") == "rest" and hook.catalog_options.get("uri"):
        found.append(("The REST catalog", hook.catalog_options["uri"]))
    if hook.catalog_options.get("metastore") == "hive" and "," not in hook.catalog_options.get("uri", ","):
        # Of several metastores one is enough; the catalog tries all.
        found.append(("The Hive metastore", hook.catalog_options["uri"]))
    return [(what, address) for what, address in found if not _by_proxy(address)]


def _object(text: str | None) -> Mapping[str, Any]:
    with contextlib.suppress(ValueError):
        value = json.loads(text or "{}")
        if isinstance(value, dict):
            return value
    return {}


def _by_proxy(address: str) -> bool:
    """Whether requests take a way that a bare one from here does not."""
    parts = urlsplit(address)
    return parts.scheme in getproxies() and not proxy_bypass(parts.hostname or "")


def _no_answer(address: str) -> str | None:
    """Why a server does not answer a plain request without secrets; None if it does, whatever the answer is."""
    parts = urlsplit(address)
    if parts.scheme in ("thrift", "hdfs") and parts.hostname:
        try:
            socket.create_connection((parts.hostname, parts.port or _METASTORE_PORT), PROBE_S).close()
        except OSError as error:
            return str(error)
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "give an address that begins with http:// or https://"
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        # Only whether it answers: the client that sends secrets checks the certificate, by its own options.
        unchecked = ssl._create_unverified_context()  # noqa: S323, SLF001 - there is no public name
        connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=PROBE_S, context=unchecked)
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PROBE_S)
    try:
        connection.request("HEAD", "/")
        connection.getresponse()
    except http.client.HTTPException as error:
        return f"it is not an HTTP server ({error})"
    except OSError as error:
        return str(error)
    finally:
        connection.close()
    return None


def _examined(hook: PaimonHook) -> tuple[bool, str]:
    catalog = hook.catalog(_quick_options(hook))
    databases = catalog.list_databases()
    problems = [item for item in catalog.examine() if not item.is_ok]
    if problems:
        return False, _plain("; ".join(f"{item.what}: {item.found}; {item.remedy}" for item in problems))
    names = ", ".join(databases[:5]) + (", …" if len(databases) > 5 else "")
    return True, f"{hook.warehouse}: databases {names}" if databases else f"{hook.warehouse}: no database yet"


def _quick_options(hook: PaimonHook) -> dict[str, str]:
    """Options of the store with less patience, for the test only."""
    options = dict(hook.storage_options)
    if hook.warehouse.startswith(_S3):
        options["config_kwargs"] = json.dumps({**_QUICKLY, **_object(options.get("config_kwargs"))})
    return options


def _plain(message: str) -> str:
    """The message without names that were made up for the test."""
    return masked(_RANDOM.sub("(new file)", message))


def _in_time(act: Callable[[], Any], seconds: float) -> Any:
    """What `act` gives. Raises: TimeoutError if it takes longer: it continues in a thread without a waiter."""
    outcome: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(act())
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="paimon-connection-test", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not outcome:
        raise TimeoutError(f"nothing came within {seconds:.0f} s")
    return outcome[0]
