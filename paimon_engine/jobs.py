"""A job: an action on a table, as a plain value with a versioned JSON form; `run` carries it out anywhere.

Python, the command line, a subprocess with its own Spark session and an Airflow task all call the same `run`.
A job never contains a secret: it names the environment variables with their values.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, date
from decimal import Decimal
from typing import Any, Final

from paimon_engine.action import Context, without_last_line
from paimon_engine.action_table import ACTIONS, Action, action_type, name_of
from paimon_engine.actions.create_table import CreateTable, draft_of
from paimon_engine.actions.export_files import ExportFiles
from paimon_engine.actions.write import TABLE, Write, write_is_done
from paimon_engine.actions.write import planned_bytes as write_bytes
from paimon_engine.env import Env, EnvConfig, secret_values
from paimon_engine.errors import InvalidArgumentError, NotFoundError
from paimon_engine.executor import Executor, LocalExecutor, arrow_threads
from paimon_engine.job_table import (
    CatalogRef,
    NewTable,
    SourceRef,
    StorageRef,
    TableRef,
    open_or_make,
    open_table,
)
from paimon_engine.progress import OnProgress
from paimon_engine.resources import Resources
from paimon_engine.secrecy import check_shown, shows_catalog_option, shows_storage_option, shows_table_option
from paimon_engine.specs import Edge, Spec, decode
from paimon_engine.specs.schema import schema_of
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.warehouse import Columns, TableDraft, check_engine_can
from paimon_engine.table.write.source_files import check_first_rows, source_bytes, source_schema
from paimon_engine.table.write.source_table import SourceTable, check_table_rows, source_table
from paimon_engine.units import MIB, size_text

__all__ = [
    "ACTIONS",
    "JOB_VERSION",
    "Action",
    "CatalogRef",
    "Edge",
    "Job",
    "JobResult",
    "NewTable",
    "Resources",
    "SourceRef",
    "StorageRef",
    "TableRef",
    "action_type",
    "check_job",
    "decode",
    "job_schema",
    "name_of",
    "open_executor",
    "planned_bytes",
    "run",
    "shows_catalog_option",
    "shows_storage_option",
    "shows_table_option",
    "size_text",
    "without_last_line",
]

JOB_VERSION: Final = 1
SUBMITTED: Final = "submitted"
"""The Spark of the `spark-submit` that started this process."""
_JOBS: Final = Edge(zone=UTC)


@dataclass(frozen=True, slots=True)
class Job(Spec):
    """An action on a table. `commit_user` is the same for every attempt of one job: a repeated one commits once.

    `table_secrets` maps options of the table to the environment variables that hold their values.
    `earlier_user` is the commit user of an earlier job whose work is done again on purpose: the result warns of what
    stays of that. `source` says where the table is that a write reads, if not in the same warehouse; `target` is the
    store of the files that an export writes, if not the same.
    """

    table: TableRef
    action: Action
    commit_user: str
    storage: StorageRef = field(default_factory=StorageRef)
    table_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    create: NewTable | None = None
    catalog: CatalogRef = field(default_factory=CatalogRef)
    version: int = JOB_VERSION
    table_secrets: Mapping[str, str] = field(default_factory=dict)
    earlier_user: str | None = None
    source: SourceRef | None = None
    target: StorageRef | None = None

    def secret_variables(self) -> list[str]:
        """Names of the environment variables that hold this job's secrets."""
        own = [*self.storage.secrets.values(), *self.catalog.secrets.values(), *self.table_secrets.values()]
        if self.target is not None:
            own += self.target.secrets.values()
        if self.source is None:
            return own
        return [*own, *self.source.storage.secrets.values(), *self.source.catalog.secrets.values()]

    def store_at(self, address: str) -> EnvConfig:
        """The job's store, for files at another address in it."""
        return EnvConfig(address, self.storage.options, self.storage.secrets)

    def target_at(self, address: str) -> EnvConfig:
        """The store of the files that an export writes."""
        store = self.target or self.storage
        return EnvConfig(address, store.options, store.secrets)

    def to_json(self) -> str:
        """Versioned JSON text.

        Raises: InvalidArgumentError if an option is not known to contain no secret: the text is kept in files, which
        are for more eyes.
        """
        for location in (self, self.source):
            if location is not None:
                check_shown("store", location.storage.options, shows_storage_option)
                check_shown("catalog", location.catalog.options, shows_catalog_option)
        if self.target is not None:
            check_shown("store", self.target.options, shows_storage_option)
        check_shown("table", self.table_options, shows_table_option)
        value = asdict(self)
        value["action"] = {"name": name_of(self.action), **value["action"]}
        return json.dumps(value, default=_json_text)

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Job of its JSON text. Values may be texts as people write them: `"full": "true"`, `"max_bytes": "50gb"`.

        A time without a zone is UTC, since a job goes from one machine to another.

        Raises: InvalidArgumentError naming what is wrong.
        """
        try:
            value = json.loads(text)
            if value.get("version") != JOB_VERSION:
                raise InvalidArgumentError(f"job of version {value.get('version')}, expected {JOB_VERSION}")
            spec = dict(value["action"])
            name, create, target = spec.pop("name"), value.get("create"), value.get("target")
            return cls(
                table=decode(TableRef, value["table"], name="table"),
                action=decode(action_type(name), spec, name=name, edge=_JOBS),
                commit_user=value["commit_user"],
                storage=decode(StorageRef, value.get("storage", {}), name="storage"),
                table_options=value.get("table_options", {}),
                table_secrets=value.get("table_secrets", {}),
                create=None if create is None else decode(NewTable, create, name="create"),
                catalog=decode(CatalogRef, value.get("catalog", {}), name="catalog"),
                earlier_user=value.get("earlier_user"),
                source=_source_ref(value.get("source")),
                target=None if target is None else decode(StorageRef, target, name="target"),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidArgumentError(f"no valid job: {_reason(error)}") from error


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job did.

    `details` is the action's own result, as plain JSON values. `seconds` is the time of the action itself,
    `startup_seconds` the time before it until Spark was ready; `phases` says which of its parts took how many seconds.
    """

    status: str
    action: str
    table: str
    snapshot_id: int | None
    seconds: float
    details: Mapping[str, Any]
    startup_seconds: float = 0.0
    version: int = JOB_VERSION
    phases: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> JobResult:
        """Result of its JSON text.

        Raises: InvalidArgumentError.
        """
        try:
            value = json.loads(text)
            return cls(**{item.name: value[item.name] for item in fields(cls) if item.name in value})
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidArgumentError(f"no valid job result: {_reason(error)}") from error


def _source_ref(value: Any) -> SourceRef | None:
    if value is None:
        return None
    storage = decode(StorageRef, value.get("storage", {}), name="storage")
    return SourceRef(value.get("warehouse"), storage, decode(CatalogRef, value.get("catalog", {}), name="catalog"))


def job_schema() -> dict[str, Any]:
    """The JSON schema of jobs, with every action that there is and each of its fields."""
    locations = {"storage": schema_of(StorageRef), "catalog": schema_of(CatalogRef)}
    texts = {"type": ["object", "null"], "additionalProperties": {"type": "string"}}
    actions = [schema_of(info.spec, name=name) for name, info in ACTIONS.items()]
    properties = {
        "version": {"const": JOB_VERSION},
        "table": schema_of(TableRef),
        **locations,
        "action": {"oneOf": actions},
        "commit_user": {"type": "string", "minLength": 1},
        "create": {"anyOf": [{"type": "null"}, schema_of(NewTable)]},
        "table_options": texts,
        "table_secrets": texts,
        "earlier_user": {"type": ["string", "null"]},
        "source": {"anyOf": [{"type": "null"}, _object({"warehouse": {"type": ["string", "null"]}, **locations})]},
        "target": {"anyOf": [{"type": "null"}, locations["storage"]]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A job of paimon-engine",
        "type": "object",
        "properties": properties,
        "required": ["version", "table", "action", "commit_user"],
        "additionalProperties": False,
    }


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _reason(error: Exception) -> str:
    return "lists or objects are nested too deep" if isinstance(error, RecursionError) else repr(error)


def _json_text(value: object) -> str:
    """Text of a date, time or decimal, such as a partition value to overwrite.

    Raises: InvalidArgumentError.
    """
    if isinstance(value, date | Decimal):
        return str(value)
    raise InvalidArgumentError(f"a job cannot contain {value!r} of type {type(value).__name__}; it has no JSON form")


@contextmanager
def open_executor(
    spark: str | None = None, resources: Resources | None = None, *, environment: Sequence[str] = ()
) -> Iterator[Executor]:
    """Where tasks run, for the length of a `with` block: threads of this process, or Spark.

    `spark` is `local[*]` or `local[N]` for an embedded session, `sc://host:port/;…` for Spark Connect, `submitted` for
    the Spark of the `spark-submit` that started this process; None is threads. Of the `resources`, threads take their
    number, an embedded session its memory and settings, and Spark Connect the settings of a session. `environment`
    names variables of this process that the workers of a submitted Spark need.

    Raises: InvalidArgumentError for another address, resources that do not go with it, or a setting that the server
    refuses; UnsupportedError if Java or Spark is missing or does not fit, or if workers lack what they need.
    """
    wanted = resources or Resources()
    if spark is None:
        if wanted.spark_conf:
            raise InvalidArgumentError("spark_conf is for work on Spark; this runs without")
        with arrow_threads(wanted.local_cores):
            yield LocalExecutor(wanted.local_cores)
        return
    # Spark takes a second to import; most jobs do without.
    from paimon_engine.spark.executor import SparkExecutor
    from paimon_engine.spark.session import connect_session, local_session, submitted_session
    from paimon_engine.spark.workers import check_workers

    if wanted.local_cores is not None:
        raise InvalidArgumentError(f"local_cores are those of this machine; for Spark give local[N], not {spark[:20]}")
    if spark.startswith("sc://") or spark == SUBMITTED:
        if spark == SUBMITTED:
            session = submitted_session(environment, config=wanted.spark_conf)
        else:
            session = connect_session(spark, config=wanted.spark_conf)
        try:
            executor = SparkExecutor(session)
            check_workers(executor)
            yield executor
        finally:
            session.stop()
        return
    memory = {} if wanted.memory is None else {"memory": f"{wanted.memory // MIB}m"}
    with local_session(cores=_cores(spark), quick_start=True, config=wanted.spark_conf, **memory) as session:
        yield SparkExecutor(session)


def _cores(master: str) -> int | None:
    """Cores of `local[4]`; None for `local[*]`.

    Raises: InvalidArgumentError.
    """
    if master == "local":
        return 1
    match = re.fullmatch(r"local\[(\*|[1-9]\d*)\]", master)
    if match is None:
        raise InvalidArgumentError(
            f"Spark address {master!r}; use local[*], local[N], sc://host:port for Connect, or {SUBMITTED}"
        )
    return None if match[1] == "*" else int(match[1])


def run(
    job: Job, executor: Executor | None = None, on_progress: OnProgress | None = None, *, is_kept: bool = True
) -> JobResult:
    """Carries out the job, with tasks on `executor` (threads of this process by default).

    Safe to repeat with the same `commit_user`. With `is_kept` false the job is not kept in order to be repeated: its
    commits have generated names, so none is searched for and none leaves a record.

    Raises: PaimonError of all kinds.
    """
    begun = time.monotonic()
    if not job.commit_user:
        raise InvalidArgumentError("a job needs a commit_user, which identifies a repeated job")
    info = ACTIONS[name_of(job.action)]
    if job.target is not None and not isinstance(job.action, ExportFiles):
        raise InvalidArgumentError(f"the job has a target, which {name_of(job.action)} does not write to; leave it out")
    table, is_new = _open_table(job)
    user = job.commit_user if is_kept else None
    context = Context(
        *(table, executor or LocalExecutor(), user, on_progress, job.earlier_user),
        is_new=is_new,
        open_other=lambda name: _open_other(job, name),
        open_store=lambda address: job.target_at(address).build(),
    )
    details = info.run(context, job.action).to_dict()
    return JobResult(
        status=details["status"],
        action=name_of(job.action),
        table=job.table.name or table.paths.root,
        snapshot_id=details.get("snapshot_id"),
        seconds=time.monotonic() - begun,
        details=details,
        phases={name: round(seconds, 3) for name, seconds in context.phases.seconds.items()},
    )


def planned_bytes(job: Job) -> int | None:
    """Bytes of the files that the job would read now, from metadata alone; 0 where it works on no rows.

    Nothing is written, not even the table of a write that makes one. None where it cannot be planned: there is no limit
    to what such a job may read.

    Raises: PaimonError of all kinds, as `run` before it works.
    """
    info = ACTIONS[name_of(job.action)]
    if not info.on_tasks or getattr(job.action, "dry_run", False):
        return 0
    if info.planned_bytes is None:
        return None
    source: SourceTable | None = None
    try:
        table, _ = _open_table(replace(job, create=None))
    except NotFoundError:
        if job.create is None or not isinstance(job.action, Write):
            raise
        if job.action.format == TABLE:
            return _source_of(job, job.action).size_bytes
        return source_bytes(job.action.source, job.store_at(""))
    if not isinstance(job.action, Write):
        return info.planned_bytes(table, job.action)
    if write_is_done(table, job.action, job.commit_user):
        return 0  # its sources may be gone by now
    if job.action.format == TABLE:
        source = _source_of(job, job.action)
    return write_bytes(table, job.action, source)


def check_job(job: Job) -> None:
    """Checks what would make the job fail, before anything is started for it; reads little and writes nothing.

    Of a write: that its source is there, that a table which is missing can be created, and that the first file, or the
    columns of a source table, fit.

    Raises: PaimonError of all kinds, as `run` before it works.
    """
    write = job.action
    if not isinstance(write, Write):
        return
    try:
        table, _ = _open_table(replace(job, create=None))
        if write_is_done(table, write, job.commit_user):
            return  # its sources may be gone by now
        schema = table.schema
    except NotFoundError:
        if job.create is None:
            raise
        schema = _draft_of_source(job, job.create, write).first_schema(Env(MemoryStorage()))
        check_engine_can(schema)
    if write.format == TABLE:
        check_table_rows(schema, _source_of(job, write), write.row_kind_column)
    else:
        check_first_rows(schema, write.source, write.format, write.row_kind_column, job.store_at(""))


def _open_table(job: Job) -> tuple[TableHandle, bool]:
    """The table of a job, created if the job requires it; and whether it was."""
    options = {**job.table_options, **secret_values(job.table_secrets)}
    if isinstance(job.action, CreateTable):
        draft = draft_of(job.action, job.table.name)
        return open_or_make(job.table, job.storage, job.catalog, options, lambda: draft)
    with suppress(NotFoundError):
        # If the table exists no source is needed, and that of an earlier attempt may have been deleted.
        return open_table(job.table, job.storage, job.catalog, options), False
    if job.create is None or not isinstance(job.action, Write):
        return open_table(job.table, job.storage, job.catalog, options), False
    new, write = job.create, job.action
    return open_or_make(job.table, job.storage, job.catalog, options, lambda: _draft_of_source(job, new, write))


def _draft_of_source(job: Job, new: NewTable, write: Write) -> TableDraft:
    columns: Columns
    if new.columns is not None:
        columns = new.columns
    elif write.format == TABLE:
        columns = _source_of(job, write).row_type
    else:
        columns = source_schema(write.source, write.format, job.store_at(""))
    return TableDraft(columns, tuple(new.primary_keys), tuple(new.partition_keys), new.options, new.comment)


def _source_of(job: Job, write: Write) -> SourceTable:
    """What a write reads of another table. Raises: PaimonError of all kinds."""
    return source_table(_open_other(job, write.source_name), write.read_of_source())


def _open_other(job: Job, name: str) -> TableHandle:
    """Another table, by its name in the warehouse that the job reads from, or by its path."""
    location = job.source or SourceRef(job.table.warehouse, job.storage, job.catalog)
    if "/" in name:
        return open_table(TableRef(path=name), location.storage, CatalogRef(), {})
    if location.warehouse is None:
        raise InvalidArgumentError(
            f"source {name!r}: the job names its own table by a path, so that there is no warehouse to look for this "
            "one; give the path of its directory"
        )
    return open_table(TableRef(location.warehouse, name), location.storage, location.catalog, {})
