"""Catalogs named by jobs and on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, InvalidArgumentError
from paimon_engine.actions.compact import Compact
from paimon_engine.actions.tags import CreateTag
from paimon_engine.actions.write import Write
from paimon_engine.cli import main
from paimon_engine.jobs import CatalogRef, Job, JobResult, NewTable, TableRef, run
from tests.support.rest import rest_server

TOKEN = "geheimes-wort"


def done(job: Job) -> JobResult:
    """Through JSON, as a scheduler does."""
    text = job.to_json()
    assert TOKEN not in text
    result = run(Job.from_json(text))
    assert TOKEN not in result.to_json()
    return result


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = str(tmp_path / "new.parquet")
    pq.write_table(pa.table({"id": [1, 2]}), path)
    return path


def test_a_job_works_on_a_table_of_a_rest_catalog(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAKE_TOKEN", TOKEN)
    with rest_server(tmp_path / "lake", token=TOKEN) as server:
        options = {**server.options, "token.provider": "bear"}
        Catalog(options=options, secrets={"token": "LAKE_TOKEN"}).create_database("db")
        catalog = CatalogRef(options, {"token": "LAKE_TOKEN"})
        create, ref = NewTable(("id",), options={"bucket": "1"}), TableRef(name="db.t")
        for user in ("one", "two", "two"):
            written = done(Job(ref, Write(source), user, create=create, catalog=catalog))
        compacted = done(Job(ref, Compact(full=True), "three", catalog=catalog))
        tagged = done(Job(ref, CreateTag("t"), "four", catalog=catalog))

        assert (written.status, written.snapshot_id) == ("already_done", 2)
        assert (compacted.table, compacted.snapshot_id, tagged.status) == ("db.t", 3, "created")
        assert [commit["table"] for commit in server.commits] == ["db.t"] * 3


def test_a_job_works_on_a_table_of_a_jdbc_catalog(
    tmp_path: Path, source: str, jdbc: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    lake = str(tmp_path / "lake")
    options = {**jdbc, "lock.enabled": "true"}
    Catalog(lake, options=options).create_database("db")
    shown = {key: value for key, value in options.items() if key != "jdbc.password"}
    secrets = {}
    if "jdbc.password" in options:
        monkeypatch.setenv("LAKE_PASSWORD", options["jdbc.password"])
        secrets = {"jdbc.password": "LAKE_PASSWORD"}
    catalog = CatalogRef(shown, secrets)
    job = Job(TableRef(lake, "db.t"), Write(source), "one", create=NewTable(), catalog=catalog)

    assert done(job).status == "committed"
    assert Catalog(lake, options=options).list_tables("db") == ["t"]


def test_a_table_of_a_catalog_is_not_named_by_its_path(tmp_path: Path):
    job = Job(TableRef(path="/lake/db.db/t"), Compact(), "one", catalog=CatalogRef({"metastore": "filesystem"}))

    with pytest.raises(InvalidArgumentError, match="named by database.table, not by its path"):
        run(job)


@pytest.fixture
def paimon(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a successful command prints."""

    def call(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["paimon-engine", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
            sys.exit(0)
        out, err = capsys.readouterr()
        assert not ended.value.code, err
        assert TOKEN not in out + err
        return out

    return call


def test_commands_find_tables_in_a_catalog(tmp_path: Path, paimon, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAKE_TOKEN", TOKEN)
    with rest_server(tmp_path / "lake", token=TOKEN) as server:
        options = {**server.options, "token.provider": "bear", "token": TOKEN}
        catalog = Catalog(options=options)
        catalog.create_database("db")
        table = catalog.create_table("db.t", schema=pa.schema({"id": pa.int64()}))
        table.write(pa.table({"id": [1]}))
        given = {**options, "token": "env:LAKE_TOKEN"}
        named = [part for key, value in given.items() for part in ("--catalog", f"{key}={value}")]

        assert [json.loads(line)["table"] for line in [paimon("tables", *named, "--json").strip("[]\n")]] == ["db.t"]
        assert paimon("read", "db.t", *named, "-o", "csv").split() == ['"id"', "1"]
        paimon("tag", "create", "db.t", "first", *named)
        assert catalog.table("db.t").tags()["tag_name"].to_pylist() == ["first"]
        paimon("compact", "db.t", "--full", *named, "--json")
