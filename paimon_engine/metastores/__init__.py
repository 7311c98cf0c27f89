"""Catalogs: where the names of databases and tables are kept, and what makes commits atomic (file, lock or server).

`open_metastore` picks the kind by the option `metastore`: `filesystem`, `jdbc`, `hive` or `rest`.
"""

from __future__ import annotations

import importlib
from typing import Final

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.metastores.base import Metastore
from paimon_engine.metastores.config import CatalogConfig

__all__ = ["CatalogConfig", "Metastore", "open_metastore"]

# Clients of servers and databases are imported when a catalog needs them.
_KINDS: Final = {
    "filesystem": "paimon_engine.metastores.filesystem",
    "jdbc": "paimon_engine.metastores.jdbc",
    "hive": "paimon_engine.metastores.hive",
    "rest": "paimon_engine.metastores.rest",
}
_REFUSED: Final = ("dlf", "dlf-rest", "dlf-paimon", "glue", "alluxio")


def open_metastore(config: CatalogConfig) -> Metastore:
    """The catalog of that configuration.

    Raises: InvalidArgumentError for missing or unknown options; UnsupportedError for a kind that the engine lacks.
    """
    kind = config.kind
    if kind in _REFUSED:
        raise UnsupportedError(
            f"'metastore' = '{kind}' is not supported: the engine has no client for it. Open a table by its directory "
            "with open_table(path), or the warehouse with 'metastore' = 'filesystem' if its tables are stored in "
            f"<warehouse>/<database>.db/<table>; supported kinds: {', '.join(_KINDS)}"
        )
    if kind not in _KINDS:
        raise InvalidArgumentError(f"'metastore' = '{kind}' is unknown; choose one of {', '.join(_KINDS)}")
    metastore: Metastore = importlib.import_module(_KINDS[kind]).open_metastore(config)
    return metastore
