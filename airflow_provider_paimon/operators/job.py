"""The operator that runs any action on a table; the others only name the action's arguments."""

from __future__ import annotations

import inspect
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar, Final

from airflow.sdk import Asset, conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon import engine
from airflow_provider_paimon.asset_events import describe_outlets, outlets_of
from airflow_provider_paimon.assets import PaimonTable, added_options, as_table, is_from_mapped
from airflow_provider_paimon.attempts import begin_attempt, commit_user_of, note_success
from airflow_provider_paimon.deferral import leave_to_itself, taken_over
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.launchers import HOPELESS, Launcher, SubmitSettings, choose_launcher
from airflow_provider_paimon.launchers.base import Detaching
from airflow_provider_paimon.links.table import PaimonTableLink
from airflow_provider_paimon.placement import OPTIONS, place, wanted_resources, with_task_memory
from airflow_provider_paimon.rendered import FileTemplates, flag, no_value, renderers, structure, templates, text
from airflow_provider_paimon.summary import log_line
from paimon_engine.errors import InvalidArgumentError, PaimonError

logger = logging.getLogger(__name__)

__all__ = ["PaimonActionOperator", "PaimonDeletingOperator", "PaimonJobOperator", "commit_user_of", "xcom_of"]

_XCOM_ITEMS_MAX: Final = 100
_OF_THE_RUN: Final = frozenset({"properties", "watermark", "dry_run"})
"""Arguments that do not say what is done, and differ from run to run."""
_NEEDS_VALUE: Final[Mapping[str, Sequence[str]]] = {
    "write": ("overwrite",),
    "create_branch": ("tag", "snapshot"),
    "reset_consumer": ("next_snapshot",),
    "empty_quarantine": ("quarantine",),
}
"""Fields of an action, of which one is enough, without which it does something else: where templates of those that are
given leave nothing, the task is refused."""
_RECORDS: Final = "_paimon_jobs"
_RECORD_TIME: Final = "commit-record.time-retained"
_RECORD_TIME_OF_KEYS: Final = "400 d"
"""Backfills and repeated runs happen as long as a year later."""


class PaimonJobOperator(FileTemplates):
    """Runs an action of the engine on a table and returns what it did, as plain JSON values.

    A retry finds what an earlier attempt committed, also after its snapshot has expired, and then returns the status
    `already_done` without doing it again. A task that is cleared after it had succeeded does its work again; where
    that cannot replace what it did before, such as rows appended to a table without a primary key, the result has
    `warnings`. See docs/retry-clear-backfill.md.

    Args:
        table: `database.table`, or the path of a table's directory; or a `paimon_table`, which gives the connection
            and its options, and whose asset reports what has changed, unless `outlets` say otherwise.
        action: name of the action, as in `paimon_engine.jobs.ACTIONS`.
        arguments: fields of the action's spec, or the name of a `.yaml` file that has them. Texts that templates leave,
            such as `False`, `5`, `50 gb` or `30 days`, are read by the kind of the field, and `None` or nothing means
            a field that is not given.
        paimon_conn_id: connection to the warehouse; `paimon_default` if neither this nor `warehouse` is given.
        warehouse: address of the warehouse, instead of the connection's.
        storage_options: options of the file system, over those of the connection.
        table_options: Paimon options for this run, over those stored with the table.
        spark_conn_id: connection of type `spark_connect`, or of type `spark` for `spark-submit`; without it, Spark is
            embedded.
        idempotency_key: attempts of this task with the same key commit once, cleared or not; the run's id by default.
            `{{ partition_key }}` makes another run for the same partition, such as a backfill, find the work done.
            The table knows a key for `commit-record.time-retained` after its commit: 30 days, or what `table_options`
            say; 400 days where a key is given and they say nothing.
        on_clear: `rerun` lets a cleared task do its work again, `once` does not; `once` by default where there is an
            `idempotency_key`, else `rerun`.
        force_rerun: do the work again, even if an earlier attempt or another run with the same key has done it; retries
            of this attempt still do it once.
        launcher: where to run: `auto`, `in_process`, `subprocess`, `spark_submit` or `spark_connect`. `auto` plans work
            on rows first, and does it in this process if it reads fewer bytes than `in_process_limit`.
        in_process_limit: such as `256 mb`; 0 keeps all work on rows on Spark. This and the next three come from the
            connection's extra, then from the section `[paimon]` of the configuration, where they are not given.
        local_cores: threads in this process, or cores of an embedded Spark; all by default.
        memory: such as `2 gb`: the heap of an embedded Spark's JVM, or of the driver that is submitted, and what a task
            of a compaction may take where `task_memory_bytes` is not given; by default 1 GiB, and no limit.
        spark_conf: settings of Spark by their names; they are added to those of an embedded or a submitted one.
        engine_python: another Python interpreter for the engine's process; it needs the engine's packages, not Airflow.
        archives: for `spark-submit`: archives that workers unpack, such as `/path/environment.tar.gz#environment`; they
            then take the Python in it. `paimon-engine pack` makes one.
        result_uri: folder for progress and result of jobs whose driver runs elsewhere, in a store that it and Airflow
            reach; by default below the warehouse. What is written there is deleted afterwards.
        deferrable: wait in the triggerer, without a worker, for a job that runs in a separate process.
        poll_interval: seconds between two checks of the triggerer.
    """

    template_fields: Sequence[str] = (
        "table",
        "action",
        "arguments",
        "paimon_conn_id",
        "warehouse",
        "storage_options",
        "table_options",
        "spark_conn_id",
        "idempotency_key",
        "on_clear",
        "force_rerun",
        "launcher",
        "deferrable",
        "engine_python",
        "archives",
        "result_uri",
        *OPTIONS,
    )
    template_ext: Sequence[str] = (".sql", ".yaml", ".yml")
    template_fields_renderers: Mapping[str, str] = renderers(template_fields)
    operator_extra_links = (PaimonTableLink(),)
    ui_color = "#d6ecff"

    def __init__(
        self,
        *,
        table: str | Asset,
        action: str = "",
        arguments: Mapping[str, Any] | str | None = None,
        paimon_conn_id: str | None = None,
        warehouse: str | None = None,
        storage_options: Mapping[str, Any] | str | None = None,
        table_options: Mapping[str, Any] | str | None = None,
        spark_conn_id: str | None = None,
        idempotency_key: str | None = None,
        on_clear: str | None = None,
        force_rerun: bool | str = False,
        launcher: str = "auto",
        in_process_limit: int | str | None = None,
        local_cores: int | str | None = None,
        memory: int | str | None = None,
        spark_conf: Mapping[str, Any] | str | None = None,
        engine_python: str | None = None,
        archives: str | None = None,
        result_uri: str | None = None,
        deferrable: bool | str = conf.getboolean("operators", "default_deferrable", fallback=False),
        poll_interval: float = 5.0,
        **kwargs: Any,
    ) -> None:
        """A `PaimonTable` gives connection, options and outlets too; arguments given here take precedence."""
        table = as_table(table)
        if isinstance(table, PaimonTable):
            table.check_alone(paimon_conn_id, warehouse)
            paimon_conn_id, warehouse = table.conn_id, table.warehouse
            storage_options = added_options("storage_options", table.storage_options, storage_options)
            table_options = added_options("table_options", table.table_options, table_options)
            spark_conn_id = spark_conn_id or table.spark_conn_id
            if not is_from_mapped(self):
                # Outlets of a mapped task are known to Airflow only where `partial` has them.
                kwargs.setdefault("outlets", outlets_of(table, action))
        super().__init__(**kwargs)
        self.table = table.table if isinstance(table, PaimonTable) else table
        self.action = action
        self.arguments = arguments
        self._given = _not_none(arguments) if isinstance(arguments, Mapping) else frozenset()
        self.paimon_conn_id = paimon_conn_id
        self.warehouse = warehouse
        self.storage_options = storage_options
        self.table_options = table_options
        self.spark_conn_id = spark_conn_id
        self.idempotency_key = idempotency_key
        self.on_clear = on_clear
        self.force_rerun = force_rerun
        self.launcher = launcher
        self.in_process_limit = in_process_limit
        self.local_cores = local_cores
        self.memory = memory
        self.spark_conf = spark_conf
        self.engine_python = engine_python
        self.archives = archives
        self.result_uri = result_uri
        self.deferrable = deferrable
        self.poll_interval = poll_interval
        self._running: Launcher | None = None
        self._is_reported = False
        self._result: engine.JobResult | None = None
        # Airflow calls it once it knows of the success; a retry comes only after attempts without that.
        self.on_success_callback = [*self.on_success_callback, note_success]  # type: ignore[has-type]

    # ── for subclasses ──────────────────────────────────────────────────────────────────────────

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002 - for subclasses
        """Fields of the action's spec, after templates were rendered.

        Raises: InvalidArgumentError.
        """
        return self._with_values(structure("arguments", self.arguments, dict) or {})

    def _with_values(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments. Raises: InvalidArgumentError where a template has left nothing of what the action needs."""
        needed = [name for name in _NEEDS_VALUE.get(self.action, ()) if name in arguments]
        # A text of a template file, or of one template for all arguments, was not known before.
        given = [name for name in needed if name in self._given or isinstance(arguments[name], str)]
        if given and all(text(arguments[name]) is None for name in given):
            raise no_value(self.action, given)
        return arguments

    def work(self) -> Mapping[str, Any]:
        """What the task does, by which one of several mapped tasks with an `idempotency_key` is recognised."""
        given = structure("arguments", self.arguments, dict) or {}
        return {"action": self.action, **{name: value for name, value in given.items() if name not in _OF_THE_RUN}}

    def create_table(self) -> engine.NewTable | None:
        """How to create the table if it is not there; only writes do."""
        return None

    def source_hook(self) -> PaimonHook | None:
        """The warehouse of another table that the action reads; only writes have one."""
        return None

    def target_hook(self) -> PaimonHook | None:
        """The connection to another store that the action writes files to; only exports have one."""
        return None

    def hook(self) -> PaimonHook:
        """The warehouse, after templates were rendered."""
        return PaimonHook(self.paimon_conn_id, self.warehouse, self.storage_options)

    @property
    def last_snapshot_id(self) -> int | None:
        """The snapshot that this task has made or found, once it has ended."""
        return None if self._result is None else self._result.snapshot_id

    # ── Airflow ─────────────────────────────────────────────────────────────────────────────────

    def execute(self, context: Any) -> dict[str, Any]:
        """Runs the job."""
        try:
            hook = self.hook()
            is_deferrable = flag("deferrable", self.deferrable)
            job = self.job(hook, context)
            secrets = self._secrets(hook)
        except (*HOPELESS, TypeError) as error:
            raise AirflowFailException(f"{self.task_id}: {error}") from error
        job, self._running = self._placed(hook, job, secrets)
        if is_deferrable and isinstance(self._running, Detaching):
            self._defer(hook, job, secrets, self._running)
        return self._finished(context, self._running.launch(job, secrets))

    def _secrets(self, hook: PaimonHook) -> dict[str, str]:
        """What the job needs of the environment. Raises: InvalidArgumentError for one name with two values."""
        secrets = hook.secrets(self._table_options())
        for what, other in (("source", self.source_hook()), ("target", self.target_hook())):
            more = {} if other is None else other.secrets()
            if any(secrets.get(name, value) != value for name, value in more.items()):
                raise InvalidArgumentError(
                    f"storage_options of the table and of its {what} have different secrets; move those of one of them "
                    "into a connection"
                )
            secrets |= more
        return secrets

    def _defer(self, hook: PaimonHook, job: engine.Job, secrets: Mapping[str, str], launcher: Detaching) -> None:
        """Leaves the job to itself, and the task to the triggerer. Raises: TaskDeferred; AirflowFailException."""
        from airflow_provider_paimon.triggers.job import PaimonJobTrigger

        if hook.has_given_secrets():
            raise AirflowFailException(
                "Airflow stores the arguments of a deferred task, so they must contain no secret: move the secrets "
                "among storage_options into a connection, or use deferrable=False"
            )
        options = hook.storage_options
        record = leave_to_itself(launcher, job, secrets, root=self._records(hook), store_options=options)
        limit = self.execution_timeout
        trigger = PaimonJobTrigger(
            folder=record.folder,
            paimon_conn_id=text(self.paimon_conn_id),
            warehouse=text(self.warehouse),
            storage_options=structure("storage_options", self.storage_options, dict),
            poll_interval=self.poll_interval,
            end_at=None if limit is None else time.time() + limit.total_seconds(),
        )
        self.defer(trigger=trigger, method_name="execute_complete", kwargs={"is_reported": self._is_reported})

    def execute_complete(self, context: Any, event: Mapping[str, Any], is_reported: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - Airflow gives it by name
        """Takes over from the trigger."""
        self._is_reported = is_reported
        return self._finished(context, taken_over(event, self.hook().storage_options))

    def _finished(self, context: Any, result: engine.JobResult) -> dict[str, Any]:
        """What the task returns, after it has said what the job did."""
        self._result = result
        returned = xcom_of(result)
        logger.info("%s", log_line(returned))
        for warning in result.details.get("warnings", ()):
            self.log.warning("%s", warning)
        described = describe_outlets(self.outlets, context, result, is_reported=self._is_reported)  # type: ignore[has-type]
        self.outlets = described
        return returned

    def get_openlineage_facets_on_start(self) -> Any:
        """What the task is going to read and write, for OpenLineage."""
        return self._lineage()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002 - as OpenLineage calls it
        """What the task read and wrote, how much, and which version of the table came out."""
        return self._lineage()

    def lineage_sources(self) -> Sequence[str]:
        """Addresses of files that the task reads, besides the table."""
        return ()

    def _lineage(self) -> Any:
        from airflow_provider_paimon.openlineage import lineage

        is_overwrite = getattr(self, "overwrite", None) is not None
        source, name = self.source_hook(), getattr(self, "source_table", None)
        return lineage(
            self.hook(),
            self.table,
            self.action,
            sources=self.lineage_sources(),
            source_table=None if source is None or name is None else (source, name),
            is_overwrite=is_overwrite,
            result=self._result,
        )

    def on_kill(self) -> None:
        """Stops the job."""
        if self._running is not None:
            self._running.kill()

    def _placed(self, hook: PaimonHook, job: engine.Job, secrets: Mapping[str, str]) -> tuple[engine.Job, Launcher]:
        """The job with the limits that it is to keep, and its launcher.

        Raises: AirflowFailException if trying again is useless; AirflowException for all other failures.
        """
        conn_id = text(self.spark_conn_id)
        try:
            wanted = wanted_resources({name: getattr(self, name) for name in OPTIONS}, hook.extra)
            job = replace(job, action=replace(job.action, **with_task_memory(job.action, wanted)))  # type: ignore[type-var]
            placement = place(job, secrets, wanted, self.launcher, conn_id)
        except HOPELESS as error:
            raise AirflowFailException(f"{self.task_id}: {error}") from error
        except PaimonError as error:
            raise AirflowException(f"{self.task_id}: {error}") from error
        submit = SubmitSettings(
            archives=text(self.archives),
            python=text(self.engine_python),
            result_uri=self._records(hook),
            store_options=hook.storage_options,
        )
        return job, choose_launcher(placement, wanted.resources, conn_id, submit)

    def _records(self, hook: PaimonHook) -> str | None:
        """Folder for the records of jobs; None where it must be given."""
        given = text(self.result_uri)
        if given is not None:
            return given
        above = self.table.rstrip("/").rpartition("/")[0] if "/" in self.table else hook.warehouse
        return f"{above.rstrip('/')}/{_RECORDS}" if "/" in above else None

    def job(self, hook: PaimonHook, context: Mapping[str, Any]) -> engine.Job:
        """The job of this task; contains no secret.

        Raises: InvalidArgumentError, TypeError.
        """
        key = text(self.idempotency_key)
        forced = flag("force_rerun", self.force_rerun)
        attempt = begin_attempt(context, key, text(self.on_clear), force_rerun=forced, work=self.work())
        self._is_reported = attempt.had_succeeded
        options, table_secrets = hook.table_refs(self._table_options())
        source, target = self.source_hook(), self.target_hook()
        return engine.Job(
            table=hook.table_ref(self.table),
            # Templates make texts of flags and numbers: 'False' must not be a flag that is set.
            action=engine.decode(
                engine.action_type(self.action), self.action_arguments(context), name=self.action, edge=templates()
            ),
            commit_user=attempt.commit_user,
            earlier_user=attempt.earlier_user,
            storage=hook.storage_ref(),
            table_options=options,
            table_secrets=table_secrets,
            create=self.create_table(),
            catalog=hook.catalog_ref(),
            source=None if source is None else source.source_ref(),
            target=None if target is None else target.storage_ref(),
        )

    def _table_options(self) -> dict[str, str]:
        given = structure("table_options", self.table_options, dict) or {}
        options = {name: str(value) for name, value in given.items()}
        if text(self.idempotency_key) is not None:
            options.setdefault(_RECORD_TIME, _RECORD_TIME_OF_KEYS)
        return options


class PaimonActionOperator(PaimonJobOperator):
    """What operators of one action have in common.

    The arguments of its constructor are the fields of the action's spec, and templates. After rendering, their texts
    are converted by the kinds of these fields, as in a job or on the command line. They are written out, not read from
    the spec, because that would load the engine wherever a DAG is read.

    Args:
        fields: the values of the fields by name, among others: `locals()` of the operator's constructor.
    """

    # Arguments of one action are no structures in files, but conditions; and data files are named by some.
    template_ext: Sequence[str] = (".sql",)
    action_name: ClassVar[str]
    more_templates: ClassVar[Sequence[str]] = ()
    """Arguments that are templates without being fields of the action."""
    action_fields: ClassVar[Sequence[str]] = ()
    """Names of the action's fields; found by the constructors of the operator and of those that it builds on."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A subclass of an operator may have arguments that are not fields of the action.
        if "action_name" in vars(cls) or not hasattr(cls, "action_name"):
            named = inspect.signature(cls.__init__).parameters.values()
            own = [item.name for item in named if item.kind is item.KEYWORD_ONLY and item.name != "fields"]
            both = dict.fromkeys([*own, *cls.action_fields])
            cls.action_fields = tuple(name for name in both if name not in cls.more_templates)
        cls.template_fields = (*PaimonJobOperator.template_fields, *cls.action_fields, *cls.more_templates)
        cls.template_fields_renderers = {
            **renderers(cls.template_fields),
            **vars(cls).get("template_fields_renderers", {}),
        }

    def __init__(self, *, fields: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(action=self.action_name, **kwargs)
        for name in self.action_fields:
            setattr(self, name, fields[name])
        self._given = _not_none(fields)

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002 - for subclasses
        """Fields of the action's spec, after templates were rendered.

        Raises: InvalidArgumentError.
        """
        return self._with_values({name: getattr(self, name) for name in self.action_fields})

    def work(self) -> Mapping[str, Any]:
        """The arguments, without those that tell about the run."""
        return {name: getattr(self, name) for name in self.action_fields if name not in _OF_THE_RUN}


class PaimonDeletingOperator(PaimonActionOperator):
    """What operators have in common whose actions delete files.

    Args:
        fields: as for `PaimonActionOperator`, without those that follow.
        quarantine: move the files aside instead; `PaimonRestoreOperator` can restore them.
        files_per_second: delete at most this many files per second.
        parallelism: delete with at most this many workers.
    """

    def __init__(
        self,
        *,
        fields: Mapping[str, Any],
        quarantine: bool | str = False,
        files_per_second: float | str | None = None,
        parallelism: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        how = {"quarantine": quarantine, "files_per_second": files_per_second, "parallelism": parallelism}
        super().__init__(fields={**fields, **how}, **kwargs)


def _not_none(given: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(name for name, value in given.items() if value is not None)


def xcom_of(result: engine.JobResult) -> dict[str, Any]:
    """The result for XCom, which is stored in Airflow's database.

    Long lists and maps are cut, `omitted` says by how much.
    """
    value: dict[str, Any] = json.loads(result.to_json())
    details = value["details"]
    omitted = {}
    for name, items in list(details.items()):
        if isinstance(items, list | dict) and len(items) > _XCOM_ITEMS_MAX:
            kept = islice(items.items() if isinstance(items, dict) else items, _XCOM_ITEMS_MAX)
            details[name] = type(items)(kept)
            omitted[name] = len(items) - _XCOM_ITEMS_MAX
    if omitted:
        details["omitted"] = omitted
    return value
