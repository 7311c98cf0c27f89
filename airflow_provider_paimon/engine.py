"""The names of the engine that this provider uses, each loaded when it is first used.

Airflow imports operators, sensors and triggers wherever a DAG file is read: in the DAG processor every half minute, at
the start of each task, at each poke. The engine with Arrow and NumPy takes seconds of CPU and a hundred megabytes,
which only a task needs that executes something. So the other modules of this provider import nothing of the engine but
its errors; they say `engine.Job`, which is loaded then.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from paimon_engine import (
        Catalog,
        CommitMessage,
        Finding,
        Progress,
        Table,
        Wait,
        examine_programs,
        open_table,
        read_wait,
    )
    from paimon_engine.job_process import STARTER, as_argument
    from paimon_engine.job_record import JobFailure, JobRecord, forget_abandoned
    from paimon_engine.jobs import (
        ACTIONS,
        Action,
        CatalogRef,
        Job,
        JobResult,
        NewTable,
        Resources,
        SourceRef,
        StorageRef,
        TableRef,
        action_type,
        check_job,
        name_of,
        open_executor,
        planned_bytes,
        run,
        shows_catalog_option,
        shows_storage_option,
        shows_table_option,
        size_text,
        without_last_line,
    )
    from paimon_engine.packing import engine_archive
    from paimon_engine.specs import Edge, PartitionValues, decode, kind_of

__all__ = [
    "ACTIONS",
    "STARTER",
    "Action",
    "Catalog",
    "CatalogRef",
    "CommitMessage",
    "Edge",
    "Finding",
    "Job",
    "JobFailure",
    "JobRecord",
    "JobResult",
    "NewTable",
    "PartitionValues",
    "Progress",
    "Resources",
    "SourceRef",
    "StorageRef",
    "Table",
    "TableRef",
    "Wait",
    "action_type",
    "as_argument",
    "check_job",
    "decode",
    "engine_archive",
    "examine_programs",
    "forget_abandoned",
    "kind_of",
    "name_of",
    "open_executor",
    "open_table",
    "planned_bytes",
    "read_wait",
    "run",
    "shows_catalog_option",
    "shows_storage_option",
    "shows_table_option",
    "size_text",
    "without_last_line",
]

_HOMES: Final = {
    "paimon_engine": (
        *("Catalog", "CommitMessage", "Finding", "Progress", "Table", "Wait"),
        *("examine_programs", "open_table", "read_wait"),
    ),
    "paimon_engine.job_process": ("STARTER", "as_argument"),
    "paimon_engine.job_record": ("JobFailure", "JobRecord", "forget_abandoned"),
    "paimon_engine.packing": ("engine_archive",),
    "paimon_engine.specs": ("Edge", "PartitionValues", "decode", "kind_of"),
}


def __getattr__(name: str) -> Any:
    """The engine's name, from its module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), "paimon_engine.jobs")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
