"""Runs random programs in Java and here, and shrinks those on which the engines differ.

    PAIMON_REFERENCE=<folder with oracle/> python -m tests.interop.histories --programs 5000 --seed 0
    python -m tests.interop.histories --again <file.json>

A program on which the tables differ is made smaller as long as they still do, and left as JSON in
`.cache/histories`; `--again` runs such a file. What was mended goes to `tests/interop/histories/kept`,
where the tests run it for ever. Ends with status 1 if anything differed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.interop.histories.draw import draw_program
from tests.interop.histories.program import from_json, to_json
from tests.interop.histories.shrink import failure, shrunk
from tests.support.oracle import JavaPaimon, start_oracle
from tests.support.reference import CACHE

FOUND = CACHE / "histories"
_JAVA: list[JavaPaimon] = []


def main() -> int:
    """The status of the process."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop.histories", description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--workers", type=int, default=1, help="processes, each with a Java of its own")
    parser.add_argument("--again", type=Path, help="a program that was found earlier")
    parser.add_argument("--no-shrink", action="store_true", help="only tell which seeds differ, and how")
    parser.add_argument("--most", type=int, default=20, help="differences after which it ends")
    asked = parser.parse_args()
    FOUND.mkdir(parents=True, exist_ok=True)
    if asked.again is not None:
        told = failure(from_json(asked.again.read_text("utf-8")), _java())
        print(told or "no difference")
        return int(told is not None)
    return int(_many(range(asked.seed, asked.seed + asked.programs), asked) > 0)


def _many(seeds: range, asked: argparse.Namespace) -> int:
    begin, found, done = time.monotonic(), 0, 0
    with ProcessPoolExecutor(asked.workers) as pool:
        trials = [pool.submit(_trial, seed, shrinks=not asked.no_shrink) for seed in seeds]
        for trial in as_completed(trials):
            done += 1
            told = trial.result()
            if told is not None:
                found += 1
                print(told, flush=True)
            if done % 100 == 0:
                print(f"{done} programs, {found} with differences, {time.monotonic() - begin:.0f} s", flush=True)
            if found >= asked.most:
                pool.shutdown(cancel_futures=True)
                break
    print(f"{done} programs, {found} with differences, {time.monotonic() - begin:.0f} s")
    return found


def _trial(seed: int, *, shrinks: bool) -> str | None:
    program = draw_program(seed)
    told = failure(program, _java())
    if told is None:
        return None
    if not shrinks:
        return f"seed {seed}: {told}"
    small, told = shrunk(program, told, _java())
    path = FOUND / f"seed-{seed}.json"
    path.write_text(to_json(small), encoding="utf-8")
    return f"seed {seed}: {told}\n{to_json(small)}python -m tests.interop.histories --again {path}\n"


def _java() -> JavaPaimon:
    """The Java of this process."""
    if not _JAVA:
        os.environ.setdefault("PAIMON_ORACLE_HEAP", "512m")
        # Programs are short: compiling well costs more than it gives.
        os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        _JAVA.append(next(start_oracle(FOUND / f"java-{os.getpid()}.log")))
    return _JAVA[0]


if __name__ == "__main__":
    sys.exit(main())
