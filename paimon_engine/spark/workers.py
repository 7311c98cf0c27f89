"""Whether the workers of a cluster have what tasks need, found out by one cheap job before work begins.

The job checks with a plain Python function, which needs no package on the workers, not even the engine: what is missing
is named. A cluster that grows later may add a worker that lacks something; its tasks then fail.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql.functions import udf

from paimon_engine.errors import PaimonError, SparkError, UnsupportedError
from paimon_engine.packing import engine_digest, engine_version
from paimon_engine.spark.executor import SparkExecutor
from paimon_engine.spark.failures import spark_calls

NEEDED: Final[Mapping[str, str]] = {
    "cramjam": "2.8",
    "fastavro": "1.12",
    "isal": "1.7",
    "numpy": "2.0",
    "pandas": "2.2",
    "pyarrow": "19",
    "pyroaring": "1.0",
    "sqlglot": "26",
    "tenacity": "9",
}
"""Packages that all tasks import, with the oldest version; others are imported by tables that need them."""

_ASKED_MAX: Final = 64
_HOST: Final = re.compile(r"Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \(([^\s)]+)")
_NO_MODULE: Final = re.compile(r"No module named '([\w.]+)'")
_OTHER_PYTHON: Final = re.compile(r"\[PYTHON_VERSION_MISMATCH\][^\n]*")
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"]+)"')
_WAY_OUT: Final = (
    "`paimon-engine pack environment.tar.gz` makes an archive with all that workers need, for "
    'archives="environment.tar.gz#environment" of the operator or --archives of spark-submit'
)


def check_workers(executor: SparkExecutor) -> None:
    """Checks Python, engine and packages where tasks will run.

    Raises: UnsupportedError that names what a worker lacks, its host and what to do; SparkError if Spark fails.
    """
    session = executor.session
    count = min(executor.parallelism, _ASKED_MAX)
    ask = udf(_asks(dict(NEEDED)), "string", useArrow=False)
    try:
        with spark_calls("The packages of the workers could not be determined"):
            frame = session.range(0, count, 1, count)
            answers = {row[0] for row in frame.select(ask(frame["id"])).collect()}
    except SparkError as error:
        raise _reason(error) from error
    problems = [problem for answer in sorted(answers) for problem in _problems(json.loads(answer))]
    if problems:
        raise UnsupportedError("; ".join([*dict.fromkeys(problems), _WAY_OUT]))


def _asks(needed: dict[str, str]) -> Callable[[Any], str]:
    """The function that workers run. It is sent as code, since they may not have the engine."""

    def ask(_number: Any) -> str:
        """Tries to import each needed package: JSON of host, Python, versions, missing packages and engine."""
        import importlib
        import importlib.metadata
        import json
        import socket
        import sys

        found: dict[str, str] = {}
        missing: list[list[str]] = []
        for name in needed:
            try:
                importlib.import_module(name)
                found[name] = importlib.metadata.version(name)
            except ImportError as error:
                missing.append([name, str(error)])
        answer: dict[str, Any] = {
            "host": socket.gethostname(),
            "python": sys.executable,
            "found": found,
            "missing": missing,
        }
        try:
            packing = importlib.import_module("paimon_engine.packing")
            answer["engine"] = [packing.engine_version(), packing.engine_digest()]
        except ImportError:
            answer["engine"] = None
        return json.dumps(answer, sort_keys=True)

    return ask


def _problems(answer: Mapping[str, Any]) -> list[str]:
    """What is wrong on a worker, in words."""
    where = f"on {answer['host']} ({answer['python']})"
    lacking = [f'"{name}>={NEEDED[name]}"' for name, _ in answer["missing"]]
    found = [f"{name}: {error}" for name, error in answer["missing"]]
    problems = []
    if lacking:
        problems.append(f"the worker {where} lacks packages ({', '.join(found)}): pip install {' '.join(lacking)}")
    old = {name: has for name, has in answer["found"].items() if _numbers(has) < _numbers(NEEDED[name])}
    if old:
        wanted = " ".join(f'"{name}>={NEEDED[name]}"' for name in old)
        problems.append(
            f"packages of the worker {where} are too old ({', '.join(f'{name} {has}' for name, has in old.items())}): "
            f"pip install {wanted} there"
        )
    if answer["engine"] is None:
        problems.append(f"the worker {where} lacks the engine: ship it (--py-files), or install it there")
    elif answer["engine"][1] != engine_digest():
        theirs, ours = " ".join(answer["engine"]), f"{engine_version()} {engine_digest()}"
        problems.append(f"the worker {where} has another engine ({theirs}) than this process ({ours})")
    return problems


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _reason(error: SparkError) -> PaimonError:
    """What kept the workers from answering, where a retry cannot help; else the error itself."""
    text = f"{error} {error.__cause__}"
    host = _HOST.search(text)
    where = f"on {host[1]}" if host else "of Spark"
    ours = ".".join(map(str, sys.version_info[:2]))
    if mismatch := _OTHER_PYTHON.search(text):
        return UnsupportedError(
            f"the worker {where} has another Python than this process ({ours}): {mismatch[0]} Set "
            f"spark.pyspark.python to a Python {ours} there, or engine_python to one like theirs here; {_WAY_OUT}"
        )
    if program := _NO_PROGRAM.search(text):
        return UnsupportedError(
            f"the worker {where} has no Python at {program[1]}: set spark.pyspark.python to one there; {_WAY_OUT}"
        )
    if module := _NO_MODULE.search(text):
        return UnsupportedError(f"the worker {where} lacks {module[1]}; {_WAY_OUT}")
    return error
