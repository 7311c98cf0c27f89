"""Jobs that are submitted to a Spark cluster (standalone, YARN, Kubernetes) by the Spark provider's own hook.

In client mode the driver runs on the task's machine, and ends with the task in any case: it watches a lock of the task.
In cluster mode it runs on the cluster; its record is in a store that both reach, by which a next attempt finds
it again. Results, progress and errors come by the record, never from a log.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon import engine
from airflow_provider_paimon.job_folder import job_folder, kept_folder
from airflow_provider_paimon.launchers.base import exception_of
from airflow_provider_paimon.launchers.own_process import GRACE_S, start_detached
from airflow_provider_paimon.launchers.watching import Watch, forget, running_of

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

_KUBERNETES: Final = "k8s://"
_MASTER: Final = re.compile(r"yarn|local(\[.+\])?|spark://[^\s/:]+:\d+(,[^\s/:]+:\d+)*|k8s://\S+")
_MODES: Final = ("client", "cluster")
_UPLOAD: Final = "spark.kubernetes.file.upload.path"
_WORKERS_PYTHON: Final = "spark.pyspark.python"
_DRIVERS_PYTHON: Final = "spark.pyspark.driver.python"
_DRIVER_ENVIRONMENT: Final = {"yarn": "spark.yarn.appMasterEnv.", _KUBERNETES: "spark.kubernetes.driverEnv."}
_PROGRAM: Final = "import sys\n\nfrom paimon_engine.submitted import main\n\nsys.exit(main())\n"
_FOREIGN: Final = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""With either of these pyspark takes every session for a connection."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SubmitSettings:
    """How jobs are submitted.

    `archives` are unpacked on the workers, as `FILE#NAME`; one with a Python environment is named `environment`.
    `result_uri` is a folder in a store that driver and Airflow reach. `store_options` are options of that store, with
    secrets in clear.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    archives: str | None = None
    python: str | None = None
    result_uri: str | None = None
    store_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass
class SparkSubmit:
    """Runs jobs by `spark-submit`, on the cluster of a connection of type `spark`."""

    conn_id: str
    settings: SubmitSettings = field(default_factory=SubmitSettings)
    _record: engine.JobRecord | None = field(default=None, init=False, repr=False)
    _hook: SparkSubmitHook | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises: AirflowFailException for a connection that cannot be used."""
        self.master, self.is_cluster_mode = _target(self._made_hook({}), self.conn_id)
        if self.is_cluster_mode and self.master.startswith(_KUBERNETES) and _UPLOAD not in self.settings.conf:
            raise AirflowFailException(
                f"The connection {self.conn_id} runs drivers on Kubernetes, which get the job's program from a "
                f"store: name it by spark_conf={{'{_UPLOAD}': 's3a://…'}}, or use deploy-mode client"
            )

    def launch(self, job: engine.Job, secrets: Mapping[str, str]) -> engine.JobResult:
        """Carries out the job; in cluster mode, one of an earlier attempt that runs still is waited for."""
        with job_folder() as directory:
            if not self.is_cluster_mode:
                return self._launch_here(job, secrets, directory)
            record = self._new_record(job)
            found = running_of(record)
            if found is not None:
                logger.info("Found the job of an earlier attempt, which continues: %s", found.folder)
                self._record = found
                return _ended(found, Watch(found).wait)
            self._record = record
            arguments = ["--job", engine.as_argument(job.to_json()), "--record", record.folder]
            return _ended(record, lambda: self._submit(job, secrets, directory, record, arguments))

    def _launch_here(self, job: engine.Job, secrets: Mapping[str, str], directory: Path) -> engine.JobResult:
        record = self._record = engine.JobRecord.at(str(directory / "record"))
        file = directory / "job.json"
        file.write_text(job.to_json(), encoding="utf-8")
        arguments = ["--job", str(file), "--record", record.folder, "--lock", str(directory / "lock")]
        return self._submit(job, secrets, directory, record, arguments)

    def _submit(
        self,
        job: engine.Job,
        secrets: Mapping[str, str],
        directory: Path,
        record: engine.JobRecord,
        arguments: list[str],
    ) -> engine.JobResult:
        """Submits a job, waits for it, and gives its result; `directory` takes the files that Spark is given."""
        hook, program = self._prepared(job, secrets, directory, arguments)
        self._hook = hook
        failed: AirflowException | None = None
        watch = Watch(record)
        with _telling(watch):
            try:
                # In a separate session, so that signals for the task do not reach it before it is requested to stop.
                environment = self._environment(secrets)
                hook.submit(str(program), env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
            except (AirflowException, RuntimeError, OSError) as error:
                failed = error if isinstance(error, AirflowException) else AirflowException(f"spark-submit: {error}")
        self._hook = None
        if hook._submit_sp is not None and hook._submit_sp.stdout is not None:  # noqa: SLF001 - it leaves it open
            hook._submit_sp.stdout.close()  # noqa: SLF001
        outcome = record.outcome()
        if isinstance(outcome, engine.JobFailure):
            raise exception_of(outcome) from failed
        if outcome is not None:
            return outcome
        if failed is not None:
            raise failed
        return watch.wait()

    def detach(self, job: engine.Job, secrets: Mapping[str, str], record: engine.JobRecord) -> None:
        """Starts the job in processes that continue when the task ends.

        Raises: AirflowFailException if it cannot be started.
        """
        folder = kept_folder()
        text = engine.as_argument(job.to_json())
        hook, program = self._prepared(job, secrets, folder, ["--job", text, "--record", record.folder])
        # The hook itself can only submit and wait.
        command = hook._build_spark_submit_command(str(program))  # noqa: SLF001
        python = self.settings.python or sys.executable
        start_detached(python, text, record, command, self._environment(secrets), folder=folder)

    def kill(self) -> None:
        """Asks the driver to stop, waits, then kills what is left."""
        record, hook = self._record, self._hook
        self._record = None
        if record is None:
            return
        with contextlib.suppress(Exception):
            record.ask_to_stop()
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline and not _has_ended(record, hook):
            time.sleep(0.2)
        if hook is not None:
            hook.on_kill()

    def _new_record(self, job: engine.Job) -> engine.JobRecord:
        assert self.settings.result_uri is not None, "cluster mode comes with a folder for results"
        return new_record(self.settings.result_uri, job.commit_user, self.settings.store_options)

    # ── what the hook is given ──────────────────────────────────────────────────────────────────

    def _prepared(
        self, job: engine.Job, secrets: Mapping[str, str], directory: Path, arguments: list[str]
    ) -> tuple[SparkSubmitHook, Path]:
        """The hook that submits a job, and the program that it submits; files of both are in the directory."""
        program = directory / "paimon_job.py"
        program.write_text(_PROGRAM, encoding="utf-8")
        given: dict[str, Any] = {
            "application_args": arguments,
            "py_files": str(engine.engine_archive(directory)),
            "name": f"paimon {engine.name_of(job.action)}",
        }
        if self.settings.conf or (self.is_cluster_mode and secrets):
            given["properties_file"] = str(self._properties(secrets, directory))
        return self._made_hook(given), program

    def _made_hook(self, given: Mapping[str, Any]) -> SparkSubmitHook:
        """The Spark provider's hook for the connection. Raises: AirflowFailException if it cannot be used."""
        # It loads requests and more, which only a task on a cluster needs.
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

        settings = self.settings
        try:
            hook = SparkSubmitHook(conn_id=self.conn_id, archives=settings.archives, conf={}, **given)
        except NameError as error:
            # The hook looks for a client of Kubernetes in a module that it could not import.
            raise AirflowFailException(
                f"The connection {self.conn_id} needs a client of Kubernetes: "
                "pip install apache-airflow-providers-cncf-kubernetes"
            ) from error
        except (ValueError, RuntimeError) as error:
            raise AirflowFailException(f"The connection {self.conn_id}: {error}") from error
        if given:
            hook._conf.update(self._conf())  # noqa: SLF001 - it depends on what the hook makes of the connection
        return hook

    def _conf(self) -> dict[str, str]:
        """Our settings of Spark, without those that the operator gives."""
        # Else Spark fills the task's log with a dozen lines for each round of tasks.
        own = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}
        python = self._workers_python()
        if python is not None:
            own[_WORKERS_PYTHON] = python
        if not self.is_cluster_mode:
            own[_DRIVERS_PYTHON] = self.settings.python or sys.executable
        return {name: value for name, value in own.items() if name not in self.settings.conf}

    def _workers_python(self) -> str | None:
        """The Python of the workers: that of a packed environment, else the one that runs the engine here.

        None leaves it to the cluster, where the driver runs, too.
        """
        for archive in (self.settings.archives or "").split(","):
            name = archive.rpartition("#")[2] if "#" in archive else ""
            if name:
                return f"./{name}/bin/python"
        if self.settings.python or self.is_cluster_mode:
            return self.settings.python
        return os.environ.get("PYSPARK_PYTHON") or sys.executable

    def _environment(self, secrets: Mapping[str, str]) -> dict[str, str]:
        """Of the process that submits, which is the driver's in client mode."""
        own = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        python = self.settings.python or sys.executable
        # Where no Spark is installed otherwise, `spark-submit` of this interpreter's package is found.
        path = os.pathsep.join([own.get("PATH", os.defpath), os.path.dirname(sys.executable)])
        own |= {"PATH": path, "PYTHONUNBUFFERED": "1", "PYSPARK_DRIVER_PYTHON": python}
        return own if self.is_cluster_mode else {**own, **secrets}

    def _properties(self, secrets: Mapping[str, str], directory: Path) -> Path:
        """A file of settings that only we can read: they may contain secrets, and other users can see arguments.

        Spark reads it instead of its `spark-defaults.conf`, whose content therefore comes first.
        """
        path = directory / "spark.conf"
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_spark_defaults())
            for name, value in self.settings.conf.items():
                file.write(f"{_escaped(name)}={_escaped(value)}\n")
            if self.is_cluster_mode:
                prefix = _DRIVER_ENVIRONMENT["yarn" if self.master == "yarn" else _KUBERNETES]
                for name, value in secrets.items():
                    file.write(f"{prefix}{name}={_escaped(value)}\n")
        return path


def new_record(root: str, commit_user: str, options: Mapping[str, str]) -> engine.JobRecord:
    """A new record, in the folder of those of earlier attempts at the same work."""
    return engine.JobRecord.at(f"{root.rstrip('/')}/{commit_user}/{uuid.uuid4()}", options)


def _target(hook: SparkSubmitHook, conn_id: str) -> tuple[str, bool]:
    """The master that the hook will use, and whether drivers run on the cluster.

    Raises: AirflowFailException: the hook itself uses `yarn` for a master that it cannot parse.
    """
    resolved = hook._connection  # noqa: SLF001 - what it makes of host, port and type
    master, mode = str(resolved["master"]), resolved["deploy_mode"] or "client"
    if not _MASTER.fullmatch(master):
        raise AirflowFailException(
            f"The connection {conn_id} names the Spark master {master!r}; its host must be yarn, spark://host "
            "(with a port), k8s://https://host or local[N]"
        )
    if mode not in _MODES:
        raise AirflowFailException(f"The connection {conn_id}: deploy-mode {mode!r}; choose client or cluster")
    if mode == "cluster" and not master.startswith(("yarn", _KUBERNETES)):
        raise AirflowFailException(
            f"The connection {conn_id}: a Spark master {master} runs no Python driver itself; set its deploy-mode to "
            "client"
        )
    return master, mode == "cluster"


@contextlib.contextmanager
def _telling(watch: Watch) -> Iterator[None]:
    """Logs how far a job is, from a thread, as the caller is blocked."""
    ended = threading.Event()

    def tell() -> None:
        is_last = False
        while not is_last:
            is_last = ended.wait(1.0)
            watch.tell()

    thread = threading.Thread(target=tell, name="paimon-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=GRACE_S)


def _ended(record: engine.JobRecord, wait: Any) -> engine.JobResult:
    """What `wait` gives; then the record has served, unless the job may run still."""
    try:
        result: engine.JobResult = wait()
    except AirflowException:
        with contextlib.suppress(Exception):
            if record.outcome() is not None:
                forget(record)
        raise
    forget(record)
    return result


def _has_ended(record: engine.JobRecord, hook: SparkSubmitHook | None) -> bool:
    try:
        process = None if hook is None else hook._submit_sp  # noqa: SLF001 - it has no public state
        if process is not None:
            return process.poll() is not None
        return record.outcome() is not None
    except Exception:  # noqa: BLE001 - an unknown state is not waited for
        return False


def _spark_defaults() -> str:
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")
    path = Path(folder, "spark-defaults.conf")
    return path.read_text(encoding="utf-8").rstrip() + "\n" if path.is_absolute() and path.exists() else ""


def _escaped(value: str) -> str:
    """A value as Java reads it in a file of properties."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return f"\\{escaped}" if escaped.startswith((" ", "=", ":", "#", "!")) else escaped
