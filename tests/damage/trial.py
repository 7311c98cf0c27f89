"""Tries damages in a separate process, which may be killed by what it reads.

    python -m tests.damage.trial < damages

reads damages as JSON lines and writes for each a line with its outcomes. Memory is limited, and a damage that takes
too long ends the process. `tried` starts such processes, a new one where one died, and tells what killed it.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Final

from paimon_engine.inspect.system_tables import SYSTEM_TABLES
from tests.damage.damages import EVERYTHING, Damage, damaged
from tests.damage.subjects import subject
from tests.damage.uses import Known, Outcome, known_of, uses
from tests.support.reference import PROJECT

MEMORY_BYTES: Final = 4 << 30
"""Address space; Python and Arrow alone reserve less than half of it."""
SECONDS_MAX: Final = 20


def tried(damages: Sequence[Damage]) -> list[tuple[Damage, list[Outcome]]]:
    """Outcomes of each damage; a process that died has the outcome `died`."""
    found: list[tuple[Damage, list[Outcome]]] = []
    while len(found) < len(damages):
        rest = damages[len(found) :]
        lines, code, message = _run(rest)
        found += list(zip(rest, lines, strict=False))
        if len(lines) < len(rest):
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            found.append((rest[len(lines)], [Outcome("?", "died", f"{how}: {message[-600:]}")]))
    return found


def _run(damages: Sequence[Damage]) -> tuple[list[list[Outcome]], int, str]:
    # Files instead of pipes: a process that dies leaves what it has written.
    with tempfile.TemporaryFile("w+") as todo, tempfile.TemporaryFile("w+") as done:
        todo.writelines(json.dumps(asdict(damage)) + "\n" for damage in damages)
        todo.seek(0)
        run = subprocess.run(
            [sys.executable, "-m", "tests.damage.trial"],
            cwd=PROJECT,
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"},
            stdin=todo,
            stdout=done,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        done.seek(0)
        lines = [[Outcome(**one) for one in json.loads(line)] for line in done if line.endswith("\n")]
    return lines, run.returncode, run.stderr


@cache
def _known(name: str) -> Known:
    return known_of(subject(name))


def main() -> None:
    """Outcomes for the damages of standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        damage = Damage(**json.loads(line))
        # The signal is not handled: even a loop inside a library ends. Seconds of the processor, not of a busy machine.
        signal.setitimer(signal.ITIMER_PROF, SECONDS_MAX)
        files = subject(damage.subject)
        changed = files if damage.how == "not at all" else damaged(damage, files)
        tables = SYSTEM_TABLES if EVERYTHING else random.Random(line).sample(SYSTEM_TABLES, 4)
        if damage.how == "not at all":
            tables = SYSTEM_TABLES
        outcomes = list(uses(changed, _known(damage.subject), tables))
        sys.stdout.write(json.dumps([asdict(outcome) for outcome in outcomes]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
