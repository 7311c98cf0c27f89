"""The documentation builds without a warning, its examples run, and it names all that there is."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import warnings
from dataclasses import fields as fields_of
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import paimon_engine
from airflow_provider_paimon.provider_info import get_provider_info
from paimon_engine.action_table import ACTIONS
from paimon_engine.cli import main
from paimon_engine.jobs import job_schema
from paimon_engine.options import TableOptions
from paimon_engine.options.known import KNOWN_OPTIONS
from tests.docs.pages import (
    DIRECTIVE,
    DOCS,
    PROJECT,
    RUN,
    SHOWN,
    WAREHOUSE,
    blocks,
    commands,
    name_of,
    pages,
    run_python,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built with every warning as an error."""
    folder = tmp_path_factory.mktemp("docs")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        str(DOCS),
        str(folder / "html"),
    ]
    environment = os.environ | {"AIRFLOW_HOME": str(folder / "airflow"), "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr[-5000:]
    return folder / "html"


def test_the_schema_of_jobs_is_offered(site: Path):
    (file,) = site.glob("_downloads/*/job.schema.json")

    assert json.loads(file.read_text(encoding="utf-8")) == json.loads(json.dumps(job_schema()))


class _Loaded(HTMLParser):
    """Addresses that a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe"):
            self.found.append(given.get("src") or "")
        elif tag == "link" and "stylesheet" in (given.get("rel") or ""):
            self.found.append(given.get("href") or "")


def test_pages_show_without_a_network(site: Path):
    loaded = _Loaded()
    for page in site.rglob("*.html"):
        loaded.feed(page.read_text(encoding="utf-8"))

    assert loaded.found
    assert [address for address in loaded.found if "//" in address] == []


def test_the_reference_names_every_action_field_and_option(site: Path):
    actions = (site / "reference/actions.html").read_text(encoding="utf-8")
    options = (site / "reference/options.html").read_text(encoding="utf-8")

    assert [name for name in ACTIONS if f"<h2>{name}<" not in actions] == []
    fields = {field.name for info in ACTIONS.values() for field in fields_of(info.spec)}
    assert [field for field in fields if f">{field}<" not in actions] == []
    assert [name for name in sorted(KNOWN_OPTIONS) if f">{name}<" not in options] == []


def test_the_reference_names_everything_public(site: Path):
    page = (site / "reference/python.html").read_text(encoding="utf-8")

    assert [name for name in paimon_engine.__all__ if not re.search(rf">{name}<", page)] == []


def test_a_default_that_is_written_down_means_what_its_absence_means(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(DOCS))
    options = [option for option in import_module("_reference.options").found_options() if option.reader]
    given = {option.key: option.default.partition(";")[0].strip("`") for option in options}

    assert len(given) > 70
    for option in options:
        if given[option.key] != "none":
            stated = TableOptions({option.key: given[option.key]})
            assert getattr(stated, option.reader) == getattr(TableOptions({}), option.reader), option


def test_the_reference_names_every_operator(site: Path):
    page = (site / "reference/operators.html").read_text(encoding="utf-8")

    modules = [name for kind in ("operators", "sensors", "hooks") for name in get_provider_info()[kind]]
    for module in (name for entry in modules for name in entry["python-modules"]):
        classes = set(re.findall(r"^class (Paimon\w+)", _source(module), re.MULTILINE)) - {"PaimonActionOperator"}
        assert [name for name in classes if f"<h3>{name}<" not in page] == []


def test_an_operator_leads_to_its_action(site: Path):
    page = (site / "reference/operators.html").read_text(encoding="utf-8")

    assert 'href="actions.html#compact"' in page
    assert 'href="actions.html#create-tag"' in page


def _source(module: str) -> str:
    return (PROJECT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")


def test_the_reference_names_every_command(site: Path):
    page = (site / "reference/command-line.html").read_text(encoding="utf-8")

    for command in ("compact", "tag create", "alter add-column", "branch merge", "doctor", "verify"):
        assert f"<h2>paimon-engine {command}<" in page


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_is_run_or_says_why_not(page: Path):
    for block in blocks(page):
        known = block.language in (*RUN, *SHOWN) or block.language.startswith(DIRECTIVE)
        assert known, f"{name_of(page)}:{block.line} is of no known language"
        assert block.not_run != "", f"{name_of(page)}:{block.line} does not say why it is not run"


@pytest.mark.parametrize(
    "page", [page for page in pages() if any(b.language in RUN for b in blocks(page))], ids=name_of
)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    # What the command line says of them holds for its own process.
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    lake = str(tmp_path / "lake")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.not_run is not None or block.language not in RUN:
            continue
        if block.language == "python":
            run_python(page, block, lake, names)
            continue
        for words in commands(block.code):
            assert words[0] == "paimon-engine", f"{name_of(page)}:{block.line}: {words[0]} is not run; say why"
            monkeypatch.setattr(sys, "argv", [word.replace(WAREHOUSE, lake) for word in words])
            with pytest.raises(SystemExit) as ended:
                main()
                sys.exit(0)
            assert not ended.value.code, f"{name_of(page)}:{block.line}: {shown(words)}\n{capsys.readouterr().err}"


@pytest.mark.slow
@pytest.mark.spark
def test_the_first_example_of_spark_runs(tmp_path: Path):
    """In a separate process: one process has one Spark, and other tests may have theirs."""
    block = next(blocks(DOCS / "spark.md"))
    program = tmp_path / "example.py"
    program.write_text(block.code.replace(WAREHOUSE, str(tmp_path / "lake")), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}

    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr[-3000:]


def shown(words: list[str]) -> str:
    return " ".join(words)


def test_links_of_the_readme_lead_somewhere():
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]

    assert links
    assert [link for link in links if not (PROJECT / link).exists()] == []


def test_the_readme_is_a_front_door():
    lines = (PROJECT / "README.md").read_text(encoding="utf-8").splitlines()

    assert len(lines) < 120, "one or two screens: what is more belongs into docs/"
