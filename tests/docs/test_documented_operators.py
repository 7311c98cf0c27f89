"""Guides name every operator, sensor, trigger, hook, transfer, decorator and notifier, and what they show works."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from inspect import isabstract, isclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.provider_info import get_provider_info
from airflow_provider_paimon.transfers.table_transfer import PaimonTableTransfer
from tests.docs.pages import DOCS, blocks, name_of, run_python

GUIDES = DOCS / "how-to"
BASES = {
    "PaimonActionOperator",
    "PaimonDeletingOperator",
    "PaimonTableSensor",
}
"""Classes that others build on, and that no DAG names."""
EXECUTED = {
    GUIDES / f"{name}.md": least
    for name, least in {
        "chain-tables": 1,
        "maintain-tables": 9,
        "versions-in-airflow": 9,
        "recover-in-airflow": 9,
    }.items()
}
"""Pages, and how many operators each has at least."""
DAY = "2013-01-05"
FAILED = ("stopped", "damaged")
IDLE = {"expire_tags", "unused", "orphans", "empty", "lost_manifests", "lost_files", "gap"}
"""Examples that find nothing to do: what they delete must be old, or the table damaged."""


def _modules() -> Iterator[str]:
    info = get_provider_info()
    for kind in ("operators", "sensors", "hooks", "triggers"):
        for entry in info[kind]:
            yield from entry["python-modules"]
    yield from (entry["python-module"] for entry in info["transfers"])
    yield from (name.rpartition(".")[0] for name in info["notifications"])


def _classes() -> dict[str, type]:
    """What a DAG can name, by name."""
    members = [(name, member) for name in _modules() for member in vars(import_module(name)).values()]
    return {
        member.__name__: member
        for module, member in members
        if isclass(member) and member.__module__ == module and "Paimon" in member.__name__ and not isabstract(member)
    }


def _code() -> str:
    return "\n".join(block.code for page in sorted(GUIDES.glob("*.md")) for block in blocks(page))


def _unnamed(code: str) -> list[str]:
    """Names that are called nowhere in it: an import alone is no example."""
    names = sorted(_classes().keys() - BASES)
    decorators = [f"@task.{entry['name']}" for entry in get_provider_info()["task-decorators"]]
    calls = {name: rf"\b{name}(\.partial)?\(" for name in names} | {
        name: rf"{re.escape(name)}\(" for name in decorators
    }
    return [name for name, call in calls.items() if not re.search(call, code)]


def test_guides_have_an_example_of_everything():
    assert len(_classes()) > 50
    assert _unnamed(_code()) == []


def test_an_import_is_no_example():
    assert "PaimonRescaleOperator" in _unnamed(_code().replace("= PaimonRescaleOperator(", "= print("))


def test_what_needs_no_example_is_built_on():
    classes = _classes()

    assert [name for name in BASES if not classes[name].__subclasses__()] == []


class Instance(SimpleNamespace):
    """A task's try, with what the tasks before it returned."""

    results: dict[str, Any]

    def xcom_pull(self, task_ids: str | Sequence[str]) -> Any:
        if isinstance(task_ids, str):
            return self.results[task_ids]
        return [self.results.get(name) for name in task_ids]


def operators_in(names: Mapping[str, Any]) -> list[PaimonJobOperator | PaimonTableTransfer]:
    """Tasks among these values, also those that a decorated function has made."""
    found = [getattr(value, "operator", value) for value in names.values()]
    return [value for value in found if isinstance(value, PaimonJobOperator | PaimonTableTransfer)]


def executed(operator: PaimonJobOperator | PaimonTableTransfer, results: dict[str, Any]) -> Mapping[str, Any]:
    """What the operator returns in a run of that day; its templates are rendered as Airflow does it."""
    instance = Instance(
        dag_id="dag", task_id=operator.task_id, run_id=f"scheduled__{DAY}", map_index=-1, try_number=1, results=results
    )
    run = SimpleNamespace(partition_key=DAY, logical_date=None, data_interval_start=None, run_id=instance.run_id)
    context: Any = {"ti": instance, "dag_run": run, "partition_key": DAY}
    operator.render_template_fields(context)
    return operator.execute(context)


@pytest.mark.parametrize("page", EXECUTED, ids=name_of)
def test_operators_of_guides_do_what_they_show(page: Path, tmp_path: Path):
    names: dict[str, Any] = {"__name__": "__main__"}
    results: dict[str, Any] = {}
    for block in blocks(page):
        if block.language != "python":
            continue
        before = set(names)
        run_python(page, block, str(tmp_path / "lake"), names)
        for operator in operators_in({name: value for name, value in names.items() if name not in before}):
            results[operator.task_id] = executed(operator, results)

    statuses = {task: result["status"] for task, result in results.items()}
    assert len(statuses) >= EXECUTED[page]
    assert {task: status for task, status in statuses.items() if status in FAILED} == {}
    assert {task for task, status in statuses.items() if status in ("noop", "already_done")} <= IDLE
    _is_described(page, names, results)


def _is_described(page: Path, names: Mapping[str, Any], results: Mapping[str, Any]) -> None:
    """The row of an operator names the status that it gave, and only details that its result has."""
    rows = {
        cells[1].strip(" `"): cells[4]
        for line in page.read_text(encoding="utf-8").splitlines()
        if len(cells := line.split("|")) == 7 and cells[1].strip().startswith("`Paimon")
    }
    for operator in (value for value in names.values() if isinstance(value, PaimonJobOperator)):
        result, (statuses, _, details) = results[operator.task_id], rows[type(operator).__name__].partition(";")
        named = re.findall(r"`(\w+)`", details)
        assert [name for name in named if name not in {*result, *result["details"]}] == [], type(operator)
        if "above" not in statuses and "same" not in statuses and result["status"] != "dry_run":
            assert f"`{result['status']}`" in statuses, (type(operator), result["status"])
