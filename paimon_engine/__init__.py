"""Apache Paimon tables in Python: read, write, compact, tag, expire, roll back; no Paimon, Flink or Hadoop jar.

Public names are imported when they are first used: a DAG file or `--help` should not wait for Arrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from paimon_engine.api import Table
    from paimon_engine.catalog import Catalog, open_table
    from paimon_engine.env import EnvConfig
    from paimon_engine.errors import (
        CallbackError,
        ConflictError,
        CorruptTableError,
        InvalidArgumentError,
        NotFoundError,
        OutcomeUnknownError,
        PaimonError,
        SparkError,
        StorageError,
        UnsupportedError,
    )
    from paimon_engine.executor import Executor, LocalExecutor
    from paimon_engine.meta.schema_change import (
        AddColumn,
        DropColumn,
        MoveColumn,
        RemoveOption,
        RenameColumn,
        SetOption,
        UpdateColumnComment,
        UpdateColumnDefault,
        UpdateColumnNullability,
        UpdateColumnType,
        UpdateComment,
    )
    from paimon_engine.predicate import col
    from paimon_engine.progress import Progress
    from paimon_engine.storage import MemoryStorage
    from paimon_engine.table.branches_tags.tag_callbacks import TagCallback, TagEvent
    from paimon_engine.table.files.commit_message import CommitMessage

__all__ = [
    "AddColumn",
    "CallbackError",
    "Catalog",
    "CommitMessage",
    "ConflictError",
    "CorruptTableError",
    "DropColumn",
    "EnvConfig",
    "Executor",
    "InvalidArgumentError",
    "LocalExecutor",
    "MemoryStorage",
    "MoveColumn",
    "NotFoundError",
    "OutcomeUnknownError",
    "PaimonError",
    "Progress",
    "RemoveOption",
    "RenameColumn",
    "SetOption",
    "SparkError",
    "StorageError",
    "Table",
    "TagCallback",
    "TagEvent",
    "UnsupportedError",
    "UpdateColumnComment",
    "UpdateColumnDefault",
    "UpdateColumnNullability",
    "UpdateColumnType",
    "UpdateComment",
    "col",
    "open_table",
]

_MODULES: Final = {
    "api": ("Table",),
    "catalog": ("Catalog", "open_table"),
    "env": ("EnvConfig",),
    "executor": ("Executor", "LocalExecutor"),
    "meta.schema_change": (
        "AddColumn",
        "DropColumn",
        "MoveColumn",
        "RemoveOption",
        "RenameColumn",
        "SetOption",
        "UpdateColumnComment",
        "UpdateColumnDefault",
        "UpdateColumnNullability",
        "UpdateColumnType",
        "UpdateComment",
    ),
    "predicate": ("col",),
    "progress": ("Progress",),
    "storage": ("MemoryStorage",),
    "table.files.commit_message": ("CommitMessage",),
    "table.branches_tags.tag_callbacks": ("TagCallback", "TagEvent"),
}
_HOMES: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """The public name, from its module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
