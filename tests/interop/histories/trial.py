"""The programs of seeds, run in a process that has a Java of its own."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.interop.histories.draw import draw_program
from tests.interop.histories.null_keys import with_null_keys
from tests.interop.histories.program import Program, Step, to_json
from tests.interop.histories.shrink import failure, shrunk
from tests.interop.histories.values import BITS
from tests.support.oracle import JavaPaimon, start_oracle
from tests.support.paimon2 import start_paimon2

RELEASES = {"0.9": start_oracle, "2": start_paimon2}
NOT_ALIKE = ("record-level.expire-time", "record-level.time-field")
"""Java 2 hides expired records from all readers, Java 0.9 those that a compaction or a merge has met."""
_JAVA: dict[str, JavaPaimon] = {}


def program_for(seed: int, release: str, *, null_keys: bool = False) -> Program:
    """The program of a seed, without what releases of Java do in different ways."""
    program = draw_program(seed)
    program = program if release == "0.9" else _for_java_2(program)
    return with_null_keys(program, seed) if null_keys else program


def _for_java_2(program: Program) -> Program:
    options = {key: value for key, value in program.options.items() if key not in NOT_ALIKE}
    # Java 2 gives the files of an overwrite the highest level otherwise, which a compaction then leaves alone.
    options["overwrite-upgrade"] = "false"
    instead: dict[Any, Any] = {}
    if options.get("merge-engine") == "partial-update":
        # Java 2 refuses functions of columns that are in no sequence group, and lets retracts set columns of none.
        grouped = {
            name for key, value in options.items() if key.endswith(".sequence-group") for name in value.split(",")
        }
        options = {key: value for key, value in options.items() if not _is_of_other_column(key, grouped)}
        instead = {"-U": "+U", "-D": "+I"}
    if "listagg" in options.values():
        # Java 2 leaves empty texts out of lists.
        instead[""] = "-"
    if _has_function(program, "product"):
        # Java 2 leaves a product that has no value without one when a factor is retracted; Java 0.9 takes the factor.
        instead |= {"-U": "+U", "-D": "+I"}
    if _has_function(program, "sum"):
        # Java 2 refuses a sum that leaves its type, which Java 0.9 lets begin again.
        instead |= {end: 1 for bits in BITS.values() for end in (-(1 << bits - 1), (1 << bits - 1) - 1)}
    # Java 2 lets the columns that order versions change once there are rows.
    unlike = {"sequence.field"}
    if any(key.endswith((".sequence-group", ".distinct")) for key in options):
        # Java 2 rewrites a file for the format of its new level where it looks for older rows: a row that is alone goes
        # through the merge then, which takes the values of a group that has no order, and repeated elements of lists.
        unlike |= {"file.format", "file.format.per.level"}
        options.pop("file.format.per.level", None)
    steps = [
        {
            **step,
            "rows": [
                [instead.get(one, one) if type(one) in (str, int) else one for one in row] for row in step["rows"]
            ],
        }
        if "rows" in step
        else step
        for step in (_without_changes_of(unlike, step) for step in program.steps)
        if step.get("changes") != []
    ]
    return replace(program, options=options, steps=steps)


def _without_changes_of(names: Collection[str], step: Step) -> Step:
    """The step; its changes of columns stay, since later rows have them."""
    if "changes" not in step:
        return step
    return {**step, "changes": [change for change in step["changes"] if change.get("name") not in names]}


def _has_function(program: Program, name: str) -> bool:
    """Whether a column is aggregated by this function, at the beginning or after a change."""
    changed = (change.get("value") for step in program.steps for change in step.get("changes", []))
    return name in (*program.options.values(), *changed)


def _is_of_other_column(option: str, columns: Collection[str]) -> bool:
    parts = option.split(".")
    about = ("aggregate-function", "ignore-retract", "distinct", "list-agg-delimiter", "nested-key")
    return option == "fields.default-aggregate-function" or (
        len(parts) == 3 and parts[0] == "fields" and parts[2] in about and parts[1] not in columns
    )


def trial(seed: int, release: str = "0.9", *, null_keys: bool = False) -> str | None:
    """How the program of the seed differs; None: not at all."""
    return failure(program_for(seed, release, null_keys=null_keys), java(release))


def small_trial(seed: int, folder: Path, release: str = "0.9", *, null_keys: bool = False) -> str | None:
    """As `trial`; a program that differs is made smaller and left in the folder."""
    program = program_for(seed, release, null_keys=null_keys)
    problem = failure(program, java(release))
    if problem is None:
        return None
    small, problem = shrunk(program, problem, java(release))
    path = folder / f"seed-{seed}-{release}.json"
    path.write_text(to_json(small), encoding="utf-8")
    return f"{problem}\n{to_json(small)}python -m tests.interop.histories --again {path} --release {release}\n"


def java(release: str = "0.9") -> JavaPaimon:
    """The Java of this process; begun at the first call, ended with the process."""
    if release not in _JAVA:
        os.environ.setdefault("PAIMON_ORACLE_HEAP", "512m")
        log = Path(tempfile.gettempdir()) / f"histories-java-{os.getpid()}-{release}.log"
        _JAVA[release] = next(RELEASES[release](log))
        atexit.register(log.unlink, missing_ok=True)
        atexit.register(_JAVA[release].close)
    return _JAVA[release]
