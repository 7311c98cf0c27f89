"""The command lines of `spark-submit` for clusters that are not available, as the Spark provider's hook builds them."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from airflow.providers.apache.spark.hooks import spark_submit

from airflow_provider_paimon.launchers import SparkSubmit, SubmitSettings
from paimon_engine.jobs import Job, TableRef, action_type
from paimon_engine.packing import engine_digest

SECRETS = {"PAIMON_LAKE_S3_SECRET_KEY": " a=\\b"}


@pytest.fixture(autouse=True)
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook asks whether a client of Kubernetes is installed, and builds the command without it."""
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)


class Submitted:
    """What a launcher would run: the command as text, with short names for what differs; and the settings in files."""

    def __init__(self, monkeypatch, folder: Path, connection: dict, conf: dict, **settings) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark", **connection}))
        launcher = SparkSubmit("cluster", SubmitSettings(conf=conf, result_uri="s3://lake/_paimon_jobs", **settings))
        job = Job(TableRef("/lake", "db.t"), action_type("compact")(), "user")
        hook, program = launcher._prepared(job, SECRETS, folder, ["--job", "JOB", "--record", "RECORD"])
        command: Sequence[str] = hook._build_spark_submit_command(str(program))
        text = " ".join(command).replace(str(folder), "DIR").replace(sys.executable, "PYTHON")
        self.command = text.replace(engine_digest(), "DIGEST")
        self.environment = launcher._environment(SECRETS)
        self.file = folder / "spark.conf"

    @property
    def settings(self) -> list[str]:
        return self.file.read_text().splitlines()


OURS = "--conf spark.log.level=WARN --conf spark.ui.showConsoleProgress=false"
ENDING = "--py-files DIR/paimon_engine-DIGEST.zip --name paimon compact"
PROGRAM = "DIR/paimon_job.py --job JOB --record RECORD"


def test_standalone(monkeypatch, tmp_path):
    found = Submitted(monkeypatch, tmp_path, {"host": "spark://one", "port": 7077}, {})

    python = "--conf spark.pyspark.python=PYTHON --conf spark.pyspark.driver.python=PYTHON"
    assert found.command == f"spark-submit --master spark://one:7077 {OURS} {python} {ENDING} {PROGRAM}"
    assert found.environment["PAIMON_LAKE_S3_SECRET_KEY"] == SECRETS["PAIMON_LAKE_S3_SECRET_KEY"]
    assert not found.file.exists()


def test_standalone_with_a_packed_environment(monkeypatch, tmp_path):
    archives = "/packs/env.tar.gz#environment"
    found = Submitted(monkeypatch, tmp_path, {"host": "spark://one", "port": 7077}, {}, archives=archives)

    python = "--conf spark.pyspark.python=./environment/bin/python --conf spark.pyspark.driver.python=PYTHON"
    ending = ENDING.replace(" --name", f" --archives {archives} --name")
    assert found.command == f"spark-submit --master spark://one:7077 {OURS} {python} {ending} {PROGRAM}"


def test_yarn_in_client_mode(monkeypatch, tmp_path):
    extra = {"queue": "nightly", "deploy-mode": "client"}
    found = Submitted(monkeypatch, tmp_path, {"host": "yarn", "extra": extra}, {"spark.executor.memory": "4g"})

    python = "--conf spark.pyspark.python=PYTHON --conf spark.pyspark.driver.python=PYTHON"
    file = "--properties-file DIR/spark.conf"
    end = "--queue nightly --deploy-mode client"
    assert found.command == f"spark-submit --master yarn {OURS} {python} {file} {ENDING} {end} {PROGRAM}"
    assert found.settings == ["spark.executor.memory=4g"]


def test_yarn_in_cluster_mode(monkeypatch, tmp_path):
    extra = {"deploy-mode": "cluster"}
    archives = "hdfs:///packs/env.tar.gz#environment"
    found = Submitted(monkeypatch, tmp_path, {"host": "yarn", "extra": extra}, {"spark.a": "b"}, archives=archives)

    python = "--conf spark.pyspark.python=./environment/bin/python"
    file = "--properties-file DIR/spark.conf"
    ending = ENDING.replace(" --name", f" --archives {archives} --name")
    end = "--deploy-mode cluster"
    assert found.command == f"spark-submit --master yarn {OURS} {python} {file} {ending} {end} {PROGRAM}"
    assert found.settings == ["spark.a=b", r"spark.yarn.appMasterEnv.PAIMON_LAKE_S3_SECRET_KEY=\ a=\\b"]
    assert stat.S_IMODE(found.file.stat().st_mode) == 0o600
    assert "PAIMON_LAKE_S3_SECRET_KEY" not in found.environment


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_kubernetes(monkeypatch, tmp_path, mode):
    extra = {"deploy-mode": mode, "namespace": "spark"}
    upload = {"spark.kubernetes.file.upload.path": "s3a://lake/uploads", "spark.kubernetes.container.image": "ours:1"}
    found = Submitted(monkeypatch, tmp_path, {"host": "k8s://https://h", "port": 6443, "extra": extra}, upload)

    python = {"client": " --conf spark.pyspark.python=PYTHON --conf spark.pyspark.driver.python=PYTHON", "cluster": ""}
    start = f"spark-submit --master k8s://https://h:6443 {OURS}{python[mode]}"
    middle = "--conf spark.kubernetes.namespace=spark --properties-file DIR/spark.conf"
    assert found.command == f"{start} {middle} {ENDING} --deploy-mode {mode} {PROGRAM}"
    secret = ["spark.kubernetes.driverEnv.PAIMON_LAKE_S3_SECRET_KEY=\\ a=\\\\b"] if mode == "cluster" else []
    assert found.settings == [*(f"{name}={value}" for name, value in upload.items()), *secret]


def test_no_command_shows_a_secret(monkeypatch, tmp_path):
    extra = {"deploy-mode": "cluster"}
    found = Submitted(monkeypatch, tmp_path, {"host": "yarn", "extra": extra}, {"spark.hadoop.password": "hush hush"})

    assert "hush" not in found.command
    assert SECRETS["PAIMON_LAKE_S3_SECRET_KEY"] not in found.command


def test_kubernetes_in_cluster_mode_needs_a_place_for_the_program(monkeypatch, tmp_path):
    extra = {"deploy-mode": "cluster"}

    with pytest.raises(Exception, match="spark.kubernetes.file.upload.path"):
        Submitted(monkeypatch, tmp_path, {"host": "k8s://https://h", "port": 6443, "extra": extra}, {})


def test_settings_of_the_installation_are_kept(monkeypatch, tmp_path):
    """With a file of ours, Spark does not read its own."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/spark-defaults.conf").write_text("spark.eventLog.enabled true\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))

    found = Submitted(monkeypatch, tmp_path, {"host": "yarn"}, {"spark.a": "b"})

    assert found.settings == ["spark.eventLog.enabled true", "spark.a=b"]
