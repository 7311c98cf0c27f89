"""Feeds a decoder with bytes that change depending on the code that they reach.

    pip install -e '.[fuzz]'
    python -m tests.fuzz manifest --seconds 60
    python -m tests.fuzz all --seconds 60

begins with the files of the golden tables, keeps what it learns in `.cache/fuzz/<decoder>`, and on the first input
that a decoder does not hold against leaves that input in `.cache/fuzz/crash-…` and ends with an error. Such an input
is added to tests/fuzz/test_finds.py.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

import atheris

from tests.support.reference import CACHE

with atheris.instrument_imports(include=["paimon_engine", "fastavro", "sqlglot"], enable_loader_override=False):
    from tests.fuzz.targets import TARGETS, hold

INPUT_BYTES_MAX = 20_000
INPUT_SECONDS_MAX = 20
MEMORY_MB_MAX = 3_000


def main() -> None:
    """One decoder in this process, or each in one of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("decoder", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=int, default=60)
    asked = parser.parse_args()
    if asked.decoder == "all":
        for name in TARGETS:
            command = [sys.executable, "-m", "tests.fuzz", name, "--seconds", str(asked.seconds)]
            subprocess.run(command, check=True)
        return
    _fuzz(asked.decoder, asked.seconds)


def _fuzz(name: str, seconds: int) -> None:
    learnt, seeds = CACHE / "fuzz" / name, CACHE / "fuzz" / f"{name}-seeds"
    learnt.mkdir(parents=True, exist_ok=True)
    _write_seeds(name, seeds)
    limits = [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={INPUT_SECONDS_MAX}",
        f"-rss_limit_mb={MEMORY_MB_MAX}",
        f"-artifact_prefix={CACHE}/fuzz/crash-{name}-",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup(["fuzz", *limits, str(learnt), str(seeds)], lambda data: hold(name, data))
    atheris.Fuzz()


def _write_seeds(name: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed in TARGETS[name].seeds():
        (folder / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)


if __name__ == "__main__":
    main()
