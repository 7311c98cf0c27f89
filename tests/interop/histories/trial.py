"""The programs of seeds, run in a process that has a Java of its own."""

from __future__ import annotations

import atexit
import os
import tempfile
from pathlib import Path

from tests.interop.histories.draw import draw_program
from tests.interop.histories.program import to_json
from tests.interop.histories.shrink import failure, shrunk
from tests.support.oracle import JavaPaimon, start_oracle

_JAVA: list[JavaPaimon] = []


def trial(seed: int) -> str | None:
    """How the program of the seed differs; None: not at all."""
    return failure(draw_program(seed), java())


def small_trial(seed: int, folder: Path) -> str | None:
    """As `trial`; a program that differs is made smaller and left in the folder."""
    program = draw_program(seed)
    told = failure(program, java())
    if told is None:
        return None
    small, told = shrunk(program, told, java())
    path = folder / f"seed-{seed}.json"
    path.write_text(to_json(small), encoding="utf-8")
    return f"{told}\n{to_json(small)}python -m tests.interop.histories --again {path}\n"


def java() -> JavaPaimon:
    """The Java of this process; begun at the first call, ended with the process."""
    if not _JAVA:
        os.environ.setdefault("PAIMON_ORACLE_HEAP", "512m")
        # Programs are short: compiling well costs more than it gives.
        os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        log = Path(tempfile.gettempdir()) / f"histories-java-{os.getpid()}.log"
        _JAVA.append(next(start_oracle(log)))
        atexit.register(log.unlink, missing_ok=True)
        atexit.register(_JAVA[0].close)
    return _JAVA[0]
