"""What importing all of the provider costs a DAG file: `python -m tests.bench.dag_imports`.

CPU seconds and megabytes in a fresh interpreter, over a bare `from airflow.sdk import DAG`; the least of some tries,
since other work on the machine only adds. The aim is 0.3 s.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

TRIES: Final = 5
PROGRAM: Final = """
import importlib, json, resource, sys
def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
from airflow.sdk import DAG
bare = used()
from airflow_provider_paimon.provider_info import get_provider_info
info = get_provider_info()
for kind in ("operators", "sensors", "hooks", "triggers"):
    for entry in info[kind]:
        for module in entry["python-modules"]:
            importlib.import_module(module)
provider = used()
import airflow_provider_paimon.timetables
timetable = used()
import airflow_provider_paimon.engine as engine
engine.run
print(json.dumps([bare, provider, timetable, used()]))
"""
STEPS: Final = ("from airflow.sdk import DAG", "+ the provider", "+ its timetable", "+ the engine, as a task loads it")


def main() -> None:
    """Prints one line for each step."""
    done = [
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        for _ in range(TRIES)
    ]
    tries = [json.loads(one.stdout.splitlines()[-1]) for one in done]
    for number, step in enumerate(STEPS):
        before = [one[number - 1] if number else (0.0, 0.0) for one in tries]
        seconds = min(one[number][0] - earlier[0] for one, earlier in zip(tries, before, strict=True))
        megabytes = min(one[number][1] - earlier[1] for one, earlier in zip(tries, before, strict=True))
        print(f"{step:<35} {seconds:6.2f} s of CPU {megabytes:6.0f} MB")


if __name__ == "__main__":
    main()
