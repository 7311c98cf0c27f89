"""Makes a program smaller as long as its three tables still differ in the same way."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.interop.histories.program import Program, Step
from tests.interop.histories.run import Difference, check_program
from tests.support.oracle import JavaPaimon

TRIALS_MAX = 250
DECIDING = ("num-sorted-run.compaction-trigger", "compaction.size-ratio", "num-levels")
"""Options because of which sizes do not count for what a compaction takes."""
MEMORY = Path("/dev/shm")
"""Where writing through to the disk costs nothing."""


def failure(program: Program, oracle: JavaPaimon) -> str | None:
    """How the tables of the program differ, or which side broke; None: they are one."""
    folder = Path(tempfile.mkdtemp(prefix="history-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        check_program(program, oracle, folder)
    except Difference as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a crash is a find like any other
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def shrunk(program: Program, problem: str, oracle: JavaPaimon) -> tuple[Program, str]:
    """A smaller program that fails alike, and how it does."""
    trials, grows = 0, True
    while grows and trials < TRIALS_MAX:
        grows = False
        for smaller in _smaller(program):
            trials += 1
            found = failure(smaller, oracle)
            if found is not None and _alike(found) == _alike(problem):
                program, problem, grows = smaller, found, True
                break
            if trials >= TRIALS_MAX:
                break
    return program, problem


def _alike(problem: str) -> str:
    """What must stay of a failure: its words without numbers, values and rows."""
    head = problem.split("\n", maxsplit=1)[0]
    return re.sub(r"step \d+ \(.*?\)|\{.*|\d+|\[.*", "", head)[:60]


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with something less, the largest parts first."""
    steps = program.steps
    for index in reversed(range(len(steps))):
        yield replace(program, steps=[*steps[:index], *steps[index + 1 :]])
    for index, step in enumerate(steps):
        for less in _less_of(step):
            yield replace(program, steps=[*steps[:index], less, *steps[index + 1 :]])
    for key in program.options:
        if key != "bucket" and not (program.picks_are_certain and key in DECIDING):
            yield replace(program, options={name: value for name, value in program.options.items() if name != key})
    yield from _without_columns(program)


def _less_of(step: Step) -> Iterator[Step]:
    for key in ("limits", "overwrite"):
        if key in step:
            yield {name: value for name, value in step.items() if name != key}
    rows = step.get("rows", [])
    half = len(rows) // 2
    if half:
        yield {**step, "rows": rows[:half]}
        yield {**step, "rows": rows[half:]}
    if 1 < len(rows) <= 6:
        for index in range(len(rows)):
            yield {**step, "rows": [*rows[:index], *rows[index + 1 :]]}
    changes = step.get("changes", [])
    if len(changes) > 1:
        for index in range(len(changes)):
            yield {**step, "changes": [*changes[:index], *changes[index + 1 :]]}


def _without_columns(program: Program) -> Iterator[Program]:
    if any(step["op"] == "alter" for step in program.steps):
        return
    named = {*program.primary_keys, *program.partition_keys}
    texts = [*program.options, *program.options.values()]
    for index, (name, _) in enumerate(program.fields):
        if name in named or any(name in re.split(r"[.,;:]", text) for text in texts):
            continue
        steps = [
            {**step, "rows": [[*row[: index + 1], *row[index + 2 :]] for row in step["rows"]]}
            if "rows" in step
            else step
            for step in program.steps
        ]
        fields = [*program.fields[:index], *program.fields[index + 1 :]]
        yield replace(program, steps=steps, fields=fields)
