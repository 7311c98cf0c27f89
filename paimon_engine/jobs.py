"""A job: an action on a table, as a plain value with a versioned JSON form; `run` carries it out anywhere.

Python, the command line, a subprocess with its own Spark session and an Airflow task all call the same `run`.
A job never holds a secret: it names the environment variables that hold them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import date
from decimal import Decimal
from typing import Any, Final

from paimon_engine.actions.alter_table import AlterTable, alter_table
from paimon_engine.actions.analyze import Analyze, analyze
from paimon_engine.actions.branches import (
    CreateBranch,
    DeleteBranch,
    FastForward,
    RenameBranch,
    create_branch,
    delete_branch,
    fast_forward,
    rename_branch,
)
from paimon_engine.actions.compact import Compact, compact
from paimon_engine.actions.compact_manifests import CompactManifests, compact_manifests
from paimon_engine.actions.consumers import (
    ClearConsumers,
    ExpireConsumers,
    ResetConsumer,
    clear_consumers,
    expire_consumers,
    reset_consumer,
)
from paimon_engine.actions.create_due_tags import CreateDueTags, create_due_tags
from paimon_engine.actions.delete_rows import DeleteRows, delete_rows
from paimon_engine.actions.drop_partition import (
    DropPartition,
    ExpirePartitions,
    drop_partition,
    expire_partitions,
)
from paimon_engine.actions.expire_snapshots import ExpireSnapshots, expire_snapshots
from paimon_engine.actions.expire_tags import ExpireTags, expire_tags
from paimon_engine.actions.mark_partition_done import MarkPartitionDone, mark_partition_done
from paimon_engine.actions.remove_orphan_files import (
    RemoveOrphanFiles,
    RestoreOrphanFiles,
    remove_orphan_files,
    restore_orphan_files,
)
from paimon_engine.actions.rescale import Rescale, rescale
from paimon_engine.actions.rewrite_file_index import RewriteFileIndex, rewrite_file_index
from paimon_engine.actions.rollback import Rollback, rollback
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest, rollback_to_as_latest
from paimon_engine.actions.tags import CreateTag, DeleteTag, RenameTag, create_tag, delete_tag, rename_tag
from paimon_engine.actions.verify import Verify, verify
from paimon_engine.actions.write import CommitName, Write, source_schema, write
from paimon_engine.catalogs import CatalogConfig, open_metastore
from paimon_engine.catalogs.base import TableName
from paimon_engine.env import EnvConfig
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.executor import Executor, LocalExecutor
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.progress import OnProgress
from paimon_engine.table.catalog import TableDraft, create_table, table_path
from paimon_engine.table.handle import TableHandle, load_table

JOB_VERSION: Final = 1

Action = (
    Write
    | Compact
    | Rescale
    | RewriteFileIndex
    | CompactManifests
    | Analyze
    | CreateTag
    | DeleteTag
    | ExpireSnapshots
    | Rollback
    | AlterTable
    | RemoveOrphanFiles
    | RestoreOrphanFiles
    | Verify
    | DropPartition
    | ExpirePartitions
    | MarkPartitionDone
    | RenameTag
    | CreateDueTags
    | ExpireTags
    | RollbackToAsLatest
    | CreateBranch
    | DeleteBranch
    | RenameBranch
    | FastForward
    | ResetConsumer
    | ClearConsumers
    | ExpireConsumers
)


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table: a warehouse and `database.table`, or the path of its directory."""

    warehouse: str | None = None
    name: str | None = None
    path: str | None = None

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
class StorageRef:
    """Options of the store; `secrets` maps an option to the environment variable that holds its value."""

    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CatalogRef:
    """Options of the catalog that knows the table's name, as in `Catalog(options=…)`; secrets as in `StorageRef`.

    Without any the warehouse is a directory.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateTable:
    """How to create the table of a write if it is not there; the columns are those of the first source file."""

    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """An action on a table. `commit_user` is the same for every attempt of one job: a repeated one commits once."""

    table: TableRef
    action: Action
    commit_user: str
    storage: StorageRef = field(default_factory=StorageRef)
    table_options: Mapping[str, str] = field(default_factory=dict)
    create: CreateTable | None = None
    catalog: CatalogRef = field(default_factory=CatalogRef)
    version: int = JOB_VERSION

    def to_json(self) -> str:
        """Versioned JSON text."""
        value = asdict(self)
        value["action"] = {"name": name_of(self.action), **value["action"]}
        return json.dumps(value, default=_json_text)

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Job of its JSON text.

        Raises: InvalidArgumentError naming what is wrong.
        """
        try:
            value = json.loads(text)
            if value.get("version") != JOB_VERSION:
                raise InvalidArgumentError(f"job of version {value.get('version')}, expected {JOB_VERSION}")
            spec = dict(value["action"])
            create = value.get("create")
            return cls(
                table=TableRef(**value["table"]),
                action=action_type(spec.pop("name"))(**spec),
                commit_user=value["commit_user"],
                storage=StorageRef(**value.get("storage", {})),
                table_options=value.get("table_options", {}),
                create=None if create is None else CreateTable(**create),
                catalog=CatalogRef(**value.get("catalog", {})),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidArgumentError(f"no valid job: {error!r}") from error


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job did.

    `details` is the action's own result, as plain JSON values. `seconds` is the time of the action itself,
    `startup_seconds` the time before it until Spark was ready.
    """

    status: str
    action: str
    table: str
    snapshot_id: int | None
    seconds: float
    details: Mapping[str, Any]
    startup_seconds: float = 0.0
    version: int = JOB_VERSION

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
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidArgumentError(f"no valid job result: {error!r}") from error


@dataclass(frozen=True, slots=True)
class _Context:
    table: TableHandle
    executor: Executor
    commit_user: str
    on_progress: OnProgress | None


@dataclass(frozen=True, slots=True)
class ActionInfo:
    """One line of the table of what exists; `on_tasks` says whether the work runs as tasks, worth a cluster."""

    spec: type
    run: Callable[[_Context, Any], Any]
    summary: str
    on_tasks: bool = False


def _write(context: _Context, spec: Write) -> Any:
    name = CommitName(context.commit_user, watermark=spec.watermark, properties=spec.properties)
    return write(context.table, spec, context.executor, name=name, on_progress=context.on_progress)


def _compact(context: _Context, spec: Compact) -> Any:
    user = context.commit_user
    return compact(context.table, spec, context.executor, commit_user=user, on_progress=context.on_progress)


def _delete_rows(context: _Context, spec: DeleteRows) -> Any:
    user = context.commit_user
    return delete_rows(context.table, spec, context.executor, commit_user=user, on_progress=context.on_progress)


def _rescale(context: _Context, spec: Rescale) -> Any:
    user = context.commit_user
    return rescale(context.table, spec, context.executor, commit_user=user, on_progress=context.on_progress)


def _rewrite_file_index(context: _Context, spec: RewriteFileIndex) -> Any:
    user = context.commit_user
    return rewrite_file_index(context.table, spec, context.executor, commit_user=user, on_progress=context.on_progress)


def _analyze(context: _Context, spec: Analyze) -> Any:
    user = context.commit_user
    return analyze(context.table, spec, context.executor, commit_user=user, on_progress=context.on_progress)


ACTIONS: Final[Mapping[str, ActionInfo]] = {
    "write": ActionInfo(Write, _write, "append, upsert or overwrite rows from files", on_tasks=True),
    "compact": ActionInfo(Compact, _compact, "merge small files and sorted runs", on_tasks=True),
    "delete_rows": ActionInfo(DeleteRows, _delete_rows, "delete rows that match, by deletion vectors", on_tasks=True),
    "rescale": ActionInfo(Rescale, _rescale, "bring partitions to the table's number of buckets", on_tasks=True),
    "rewrite_file_index": ActionInfo(
        RewriteFileIndex, _rewrite_file_index, "give data files the indexes that options ask for", on_tasks=True
    ),
    "compact_manifests": ActionInfo(
        CompactManifests,
        lambda c, s: compact_manifests(c.table, s, commit_user=c.commit_user),
        "rewrite the lists of files to few large ones",
    ),
    "analyze": ActionInfo(Analyze, _analyze, "compute statistics of rows and columns", on_tasks=True),
    "create_tag": ActionInfo(CreateTag, lambda c, s: create_tag(c.table, s, c.executor), "name a snapshot and keep it"),
    "delete_tag": ActionInfo(DeleteTag, lambda c, s: delete_tag(c.table, s, c.executor), "delete a tag and its files"),
    "expire_snapshots": ActionInfo(
        ExpireSnapshots, lambda c, s: expire_snapshots(c.table, s, c.executor), "delete old snapshots and their files"
    ),
    "rollback": ActionInfo(
        Rollback, lambda c, s: rollback(c.table, s, c.executor), "make an earlier snapshot or tag the latest"
    ),
    "alter_table": ActionInfo(
        AlterTable, lambda c, s: alter_table(c.table, s, may_repeat=True), "change columns, options or comments"
    ),
    "remove_orphan_files": ActionInfo(
        RemoveOrphanFiles,
        lambda c, s: remove_orphan_files(c.table, s, c.executor),
        "delete old files that nothing names",
    ),
    "restore_orphan_files": ActionInfo(
        RestoreOrphanFiles, lambda c, s: restore_orphan_files(c.table, s), "bring back what was moved aside"
    ),
    "verify": ActionInfo(
        Verify,
        lambda c, s: verify(c.table, s, c.executor, on_progress=c.on_progress),
        "check that a table is whole",
        on_tasks=True,
    ),
    "drop_partition": ActionInfo(
        DropPartition, lambda c, s: drop_partition(c.table, s, commit_user=c.commit_user), "drop named partitions"
    ),
    "expire_partitions": ActionInfo(
        ExpirePartitions,
        lambda c, s: expire_partitions(c.table, s, commit_user=c.commit_user),
        "drop partitions that are too old",
    ),
    "mark_partition_done": ActionInfo(
        MarkPartitionDone, lambda c, s: mark_partition_done(c.table, s), "tell that partitions are complete"
    ),
    "rename_tag": ActionInfo(RenameTag, lambda c, s: rename_tag(c.table, s), "give a tag another name"),
    "create_due_tags": ActionInfo(
        CreateDueTags, lambda c, s: create_due_tags(c.table, s, c.executor), "make the tags that the options ask for"
    ),
    "expire_tags": ActionInfo(
        ExpireTags, lambda c, s: expire_tags(c.table, s, c.executor), "delete tags whose time is over"
    ),
    "rollback_to_as_latest": ActionInfo(
        RollbackToAsLatest,
        lambda c, s: rollback_to_as_latest(c.table, s, commit_user=c.commit_user),
        "make a new snapshot of an earlier one",
    ),
    "create_branch": ActionInfo(CreateBranch, lambda c, s: create_branch(c.table, s), "make a branch"),
    "delete_branch": ActionInfo(
        DeleteBranch, lambda c, s: delete_branch(c.table, s, c.executor), "delete a branch and its files"
    ),
    "rename_branch": ActionInfo(RenameBranch, lambda c, s: rename_branch(c.table, s), "give a branch another name"),
    "fast_forward": ActionInfo(
        FastForward, lambda c, s: fast_forward(c.table, s, c.executor), "make main what a branch is"
    ),
    "reset_consumer": ActionInfo(ResetConsumer, lambda c, s: reset_consumer(c.table, s), "move or forget a consumer"),
    "clear_consumers": ActionInfo(
        ClearConsumers, lambda c, s: clear_consumers(c.table, s), "forget consumers by their names"
    ),
    "expire_consumers": ActionInfo(
        ExpireConsumers, lambda c, s: expire_consumers(c.table, s), "forget consumers by their age"
    ),
}
"""Everything that a job can do, by name."""


def _json_text(value: object) -> str:
    """Text of a date, time or decimal, such as a partition value to overwrite.

    Raises: InvalidArgumentError.
    """
    if isinstance(value, date | Decimal):
        return str(value)
    raise InvalidArgumentError(f"a job cannot hold {value!r} of type {type(value).__name__}; it has no JSON form")


def action_type(name: str) -> type:
    """Spec type of an action.

    Raises: InvalidArgumentError naming the actions that exist.
    """
    if name not in ACTIONS:
        raise InvalidArgumentError(f"no action {name!r}; there are {', '.join(ACTIONS)}")
    return ACTIONS[name].spec


def name_of(action: Action) -> str:
    """Name of an action's spec."""
    return next(name for name, info in ACTIONS.items() if isinstance(action, info.spec))


@contextmanager
def open_executor(spark: str | None = None) -> Iterator[Executor]:
    """Where tasks run, for the length of a `with` block: threads of this process, or Spark.

    `spark` is `local[*]` or `local[N]` for an embedded session, `sc://host:port/;…` for Spark Connect; None is threads.

    Raises: InvalidArgumentError for another address; UnsupportedError if Java or Spark is missing or does not fit.
    """
    if spark is None:
        yield LocalExecutor()
        return
    # Spark takes a second to import; most jobs do without.
    from paimon_engine.spark.executor import SparkExecutor
    from paimon_engine.spark.session import connect_session, local_session

    if spark.startswith("sc://"):
        session = connect_session(spark)
        try:
            yield SparkExecutor(session)
        finally:
            session.stop()
        return
    with local_session(cores=_cores(spark), quick_start=True) as session:
        yield SparkExecutor(session)


def _cores(master: str) -> int | None:
    """Cores of `local[4]`; None for `local[*]`.

    Raises: InvalidArgumentError.
    """
    if master == "local":
        return 1
    match = re.fullmatch(r"local\[(\*|[1-9]\d*)\]", master)
    if match is None:
        raise InvalidArgumentError(f"Spark address {master!r}; use local[*], local[N], or sc://host:port for Connect")
    return None if match[1] == "*" else int(match[1])


def run(job: Job, executor: Executor | None = None, on_progress: OnProgress | None = None) -> JobResult:
    """Carries out the job, with tasks on `executor` (threads of this process by default).

    Safe to repeat with the same `commit_user`.

    Raises: PaimonError of all kinds.
    """
    begun = time.monotonic()
    info = ACTIONS[name_of(job.action)]
    table = _open_named(job) if job.catalog.options else _open(job)
    context = _Context(table, executor or LocalExecutor(), job.commit_user, on_progress)
    details = info.run(context, job.action).to_dict()
    return JobResult(
        status=details["status"],
        action=name_of(job.action),
        table=job.table.name or table.paths.root,
        snapshot_id=details.get("snapshot_id"),
        seconds=time.monotonic() - begun,
        details=details,
    )


def _open(job: Job) -> TableHandle:
    """The table by its directory, made if the job asks for it."""
    location = job.table.location()
    config = EnvConfig(location, job.storage.options, job.storage.secrets)
    if job.create is not None and isinstance(job.action, Write):
        create_table(
            config.build(),
            config,
            location,
            schema=source_schema(job.action, config),
            primary_keys=tuple(job.create.primary_keys),
            partition_keys=tuple(job.create.partition_keys),
            options=job.create.options,
            comment=job.create.comment,
            if_not_exists=True,
        )
    return load_table(location, config, options=job.table_options)


def _open_named(job: Job) -> TableHandle:
    """The table by its name in the job's catalog, made if the job asks for it."""
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
    if job.create is not None and isinstance(job.action, Write):
        columns = source_schema(job.action, config.storage)
        keys, partitions = tuple(job.create.primary_keys), tuple(job.create.partition_keys)
        draft = TableDraft(columns, keys, partitions, job.create.options, job.create.comment)
        metastore.create_table(name, draft, if_not_exists=True)
    return metastore.load_table(name, branch=MAIN_BRANCH, options=job.table_options)
