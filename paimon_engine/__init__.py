"""Apache Paimon tables in Python: read, write, compact, tag, expire, roll back; no Paimon, Flink or Hadoop jar."""

from paimon_engine.api import Catalog, Table, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.errors import (
    ConflictError,
    CorruptTableError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    PaimonError,
    StorageError,
    UnsupportedError,
)
from paimon_engine.executor import Executor, LocalExecutor
from paimon_engine.progress import Progress
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.commit_message import CommitMessage

__all__ = [
    "Catalog",
    "CommitMessage",
    "ConflictError",
    "CorruptTableError",
    "EnvConfig",
    "Executor",
    "InvalidArgumentError",
    "LocalExecutor",
    "MemoryStorage",
    "NotFoundError",
    "OutcomeUnknownError",
    "PaimonError",
    "Progress",
    "StorageError",
    "Table",
    "UnsupportedError",
    "open_table",
]
