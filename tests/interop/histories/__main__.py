"""Runs random programs in Java and here, and shrinks those on which the engines differ.

    PAIMON_REFERENCE=<folder with oracle/> python -m tests.interop.histories --programs 5000 --seed 0
    python -m tests.interop.histories --again <file.json>

A program on which the tables differ is made smaller as long as they still do, and left as JSON in
`.cache/histories`; `--again` runs such a file. What was repaired goes to `tests/interop/histories/kept`,
where the tests run it from then on. Ends with status 1 if anything differed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.interop.histories.program import from_json
from tests.interop.histories.shrink import failure
from tests.interop.histories.trial import RELEASES, java, small_trial, trial
from tests.support.reference import CACHE

FOUND = CACHE / "histories"


def main() -> int:
    """The status of the process."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop.histories", description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--workers", type=int, default=1, help="processes, each with a Java of its own")
    parser.add_argument("--again", type=Path, help="a program that was found earlier")
    parser.add_argument("--release", choices=list(RELEASES), default="0.9", help="of Java Paimon")
    parser.add_argument("--null-keys", action="store_true", help="with nulls in primary keys, which only release 2 has")
    parser.add_argument("--no-shrink", action="store_true", help="only print which seeds differ, and how")
    parser.add_argument("--most", type=int, default=20, help="differences after which it ends")
    asked = parser.parse_args()
    FOUND.mkdir(parents=True, exist_ok=True)
    if asked.again is not None:
        problem = failure(from_json(asked.again.read_text("utf-8")), java(asked.release))
        print(problem or "no difference")
        return int(problem is not None)
    return int(_many(range(asked.seed, asked.seed + asked.programs), asked) > 0)


def _many(seeds: range, asked: argparse.Namespace) -> int:
    begin, found, done = time.monotonic(), 0, 0
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("spawn")) as pool:
        trials = {
            (
                pool.submit(trial, seed, asked.release, null_keys=asked.null_keys)
                if asked.no_shrink
                else pool.submit(small_trial, seed, FOUND, asked.release, null_keys=asked.null_keys)
            ): seed
            for seed in seeds
        }
        for ended in as_completed(trials):
            done += 1
            problem = ended.result()
            if problem is not None:
                found += 1
                print(f"seed {trials[ended]}: {problem}", flush=True)
            if done % 20 == 0:
                print(f"{done} programs, {found} with differences, {time.monotonic() - begin:.0f} s", flush=True)
            if found >= asked.most:
                pool.shutdown(cancel_futures=True)
                break
    print(f"{done} programs, {found} with differences, {time.monotonic() - begin:.0f} s")
    return found


if __name__ == "__main__":
    sys.exit(main())
