"""A job: an action on a table, as a plain value with a versioned JSON form; `run` carries it out anywhere.

Python, the command line, a subprocess with its own Spark session and an Airflow task all call the same `run`.
A job never holds a secret: it names the environment variables that hold them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, date
from decimal import Decimal
from typing import Annotated, Any, Final

from paimon_engine.action import Context
from paimon_engine.action_table import ACTIONS, Action, action_type, name_of
from paimon_engine.actions.create_table import CreateTable, draft_of
from paimon_engine.actions.write import Write, write_is_done
from paimon_engine.env import Env, EnvConfig, secret_values
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError, hide
from paimon_engine.executor import Executor, LocalExecutor, arrow_threads
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.metastores import CatalogConfig, open_metastore
from paimon_engine.metastores.base import TableName
from paimon_engine.options.names import check_names
from paimon_engine.progress import OnProgress
from paimon_engine.resources import Resources
from paimon_engine.secrecy import (
    check_address,
    check_shown,
    hidden_values,
    shows_catalog_option,
    shows_storage_option,
    shows_table_option,
)
from paimon_engine.specs import Edge, Spec, Texts, check_fields, decode
from paimon_engine.specs.schema import schema_of
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.warehouse import TableDraft, check_engine_can, create_table, table_path
from paimon_engine.table.write.source_files import check_first_rows, source_bytes, source_schema
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
    "shows_storage_option",
    "shows_table_option",
    "size_text",
]

JOB_VERSION: Final = 1
SUBMITTED: Final = "submitted"
"""The Spark of the `spark-submit` that started this process."""
_JOBS: Final = Edge(zone=UTC)


@dataclass(frozen=True, slots=True)
class TableRef(Spec):
    """A table: a warehouse and `database.table`, or the path of its directory."""

    warehouse: str | None = None
    name: str | None = None
    path: str | None = None

    def __post_init__(self) -> None:
        """Raises: InvalidArgumentError for what is not a text, or an address that holds a password."""
        check_fields(self)
        for address in (self.warehouse, self.path):
            check_address(address or "", "the table")

    def location(self) -> str:
        """Path of the table's directory, where its place follows from its name.

        Raises: InvalidArgumentError if it is named in no way, or in both.
        """
        if self.path is not None and self.name is None:
            return self.path.rstrip("/")
        if self.path is None and self.name is not None and self.warehouse:
            return table_path(self.warehouse, self.name)
        raise InvalidArgumentError("name a table either by warehouse and database.table, or by its path")


@dataclass(frozen=True, slots=True)
class StorageRef(Spec):
    """Options of the store; `secrets` maps an option to the environment variable that holds its value."""

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CatalogRef(Spec):
    """Options of the catalog that knows the table's name, as in `Catalog(options=…)`; secrets as in `StorageRef`.

    Without any the warehouse is a directory.
    """

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewTable(Spec):
    """How to create the table of a write if it is not there.

    `columns` maps names to Paimon's types; without them the columns are those of the first source file, if that has
    types.
    """

    primary_keys: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    columns: Annotated[Texts | None, "columns with their types"] = None


@dataclass(frozen=True, slots=True)
class Job(Spec):
    """An action on a table. `commit_user` is the same for every attempt of one job: a repeated one commits once.

    `table_secrets` maps options of the table to the environment variables that hold their values.
    `earlier_user` is the commit user of an earlier job whose work is done again on purpose: the result warns of what
    stays of that.
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

    def secret_variables(self) -> list[str]:
        """Names of the environment variables that hold this job's secrets."""
        return [*self.storage.secrets.values(), *self.catalog.secrets.values(), *self.table_secrets.values()]

    def store_at(self, address: str) -> EnvConfig:
        """The job's store, for files at another address in it."""
        return EnvConfig(address, self.storage.options, self.storage.secrets)

    def to_json(self) -> str:
        """Versioned JSON text.

        Raises: InvalidArgumentError if an option is not known to be harmless: the text is kept in files, which are for
        more eyes.
        """
        check_shown("store", self.storage.options, shows_storage_option)
        check_shown("catalog", self.catalog.options, shows_catalog_option)
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
            name, create = spec.pop("name"), value.get("create")
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


def job_schema() -> dict[str, Any]:
    """The JSON schema of jobs, with every action that there is and each of its fields."""
    parts = {"table": TableRef, "storage": StorageRef, "catalog": CatalogRef}
    texts = {"type": ["object", "null"], "additionalProperties": {"type": "string"}}
    actions = [schema_of(info.spec, name=name) for name, info in ACTIONS.items()]
    properties = {
        "version": {"const": JOB_VERSION},
        **{name: schema_of(spec) for name, spec in parts.items()},
        "action": {"oneOf": actions},
        "commit_user": {"type": "string", "minLength": 1},
        "create": {"anyOf": [{"type": "null"}, schema_of(NewTable)]},
        "table_options": texts,
        "table_secrets": texts,
        "earlier_user": {"type": ["string", "null"]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A job of paimon-engine",
        "type": "object",
        "properties": properties,
        "required": ["version", "table", "action", "commit_user"],
        "additionalProperties": False,
    }


def _reason(error: Exception) -> str:
    return "lists or objects are nested too deep" if isinstance(error, RecursionError) else repr(error)


def _json_text(value: object) -> str:
    """Text of a date, time or decimal, such as a partition value to overwrite.

    Raises: InvalidArgumentError.
    """
    if isinstance(value, date | Decimal):
        return str(value)
    raise InvalidArgumentError(f"a job cannot hold {value!r} of type {type(value).__name__}; it has no JSON form")


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

    Safe to repeat with the same `commit_user`. With `is_kept` false nobody keeps the job in order to repeat it: its
    commits have names that nobody chose, so that none is looked for and none leaves a record.

    Raises: PaimonError of all kinds.
    """
    begun = time.monotonic()
    if not job.commit_user:
        raise InvalidArgumentError("a job needs a commit_user, by which a repeated job is known")
    info = ACTIONS[name_of(job.action)]
    table, is_new = _open_table(job)
    user = job.commit_user if is_kept else None
    context = Context(table, executor or LocalExecutor(), user, on_progress, job.earlier_user, is_new=is_new)
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
    try:
        table, _ = _open_table(replace(job, create=None))
    except NotFoundError:
        if job.create is None or not isinstance(job.action, Write):
            raise
    else:
        if isinstance(job.action, Write) and write_is_done(table, job.action, job.commit_user):
            return 0  # its files may be gone by now
        return info.planned_bytes(table, job.action)
    return source_bytes(job.action.source, EnvConfig("", job.storage.options, job.storage.secrets))


def check_job(job: Job) -> None:
    """Looks for what would make the job fail before anything is started for it; reads little and writes nothing.

    Of a write: that its source is there, that a table which is missing can be created, and that the first file fits.

    Raises: PaimonError of all kinds, as `run` before it works.
    """
    write = job.action
    if not isinstance(write, Write):
        return
    store = EnvConfig("", job.storage.options, job.storage.secrets)
    try:
        table, _ = _open_table(replace(job, create=None))
        if write_is_done(table, write, job.commit_user):
            return  # its files may be gone by now
        schema = table.schema
    except NotFoundError:
        if job.create is None:
            raise
        schema = _draft_of_source(job.create, write, store).first_schema(Env(MemoryStorage()))
        check_engine_can(schema)
    check_first_rows(schema, write.source, write.format, write.row_kind_column, store)


def _open_table(job: Job) -> tuple[TableHandle, bool]:
    """The table of a job, made if the job asks for it; and whether it was."""
    if isinstance(job.action, Write) and job.create is not None:
        # Who finds the table needs no source, and that of an earlier attempt may be gone.
        with suppress(NotFoundError):
            return _open_table(replace(job, create=None))
    return _open_named(job) if job.catalog.options else _open(job)


def _open(job: Job) -> tuple[TableHandle, bool]:
    """The table by its directory, made if the job asks for it; and whether it was."""
    location = job.table.location()
    config = EnvConfig(location, job.storage.options, job.storage.secrets)

    def create(draft: TableDraft) -> None:
        create_table(
            config.build(),
            config,
            location,
            schema=draft.columns,
            primary_keys=draft.primary_keys,
            partition_keys=draft.partition_keys,
            options=draft.options,
            comment=draft.comment,
        )

    is_new = _create(job, config, create)
    return load_table(location, config, options=_table_options(job)), is_new


def _create(job: Job, config: EnvConfig, create: Callable[[TableDraft], object]) -> bool:
    """Whether the job made its table now; a table that is there is left as it is."""
    if isinstance(job.action, CreateTable):
        draft = draft_of(job.action, job.table.name)
    elif job.create is not None and isinstance(job.action, Write):
        draft = _draft_of_source(job.create, job.action, config)
    else:
        return False
    try:
        create(draft)
    except ConflictError:
        return False
    return True


def _draft_of_source(new: NewTable, write: Write, config: EnvConfig) -> TableDraft:
    columns = new.columns if new.columns is not None else source_schema(write.source, write.format, config)
    return TableDraft(columns, tuple(new.primary_keys), tuple(new.partition_keys), new.options, new.comment)


def _table_options(job: Job) -> dict[str, str]:
    options = {**job.table_options, **secret_values(job.table_secrets)}
    hide(hidden_values(options, shows_table_option))
    check_names(options)
    return options


def _open_named(job: Job) -> tuple[TableHandle, bool]:
    """The table by its name in the job's catalog, made if the job asks for it; and whether it was."""
    if job.table.name is None or job.table.path is not None:
        raise InvalidArgumentError("a table of a catalog is named by database.table, not by its path")
    config = CatalogConfig.of(
        job.table.warehouse,
        job.catalog.options,
        secrets=job.catalog.secrets,
        storage_options=job.storage.options,
        storage_secrets=job.storage.secrets,
    )
    metastore, name = open_metastore(config), TableName.parse(job.table.name)
    is_new = _create(job, config.storage, lambda draft: metastore.create_table(name, draft, if_not_exists=False))
    return metastore.load_table(name, branch=MAIN_BRANCH, options=_table_options(job)), is_new
