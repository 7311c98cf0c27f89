"""Is everything here that the engine needs: programs, the store, and what the store must promise?

Each look makes and removes small objects under names that nothing else uses. Nothing of a table is touched.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from paimon_engine.env import Env
from paimon_engine.errors import PaimonError, StorageError

_JAVA_TIMEOUT_S: Final = 30
_JAVA_MIN: Final = 17
_SKEW_MAX_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: what was `found`, whether that `is_ok`, and if not the `remedy`."""

    what: str
    is_ok: bool
    found: str
    remedy: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def examine_programs() -> list[Finding]:
    """Versions of Python, PySpark and Java."""
    return [Finding("python", is_ok=True, found=platform.python_version()), _spark(), _java()]


def _spark() -> Finding:
    """Whether the parts of Spark fit together: `pyspark` and `pyspark-client` install over each other's files."""
    parts = _spark_parts()
    if not parts:
        return Finding("pyspark", is_ok=False, found="not installed", remedy="pip install pyspark")
    found = ", ".join(f"{part} {number}" for part, number in parts.items())
    minors = {".".join(number.split(".")[:2]) for number in parts.values()}
    if len(minors) == 1 and "spark-core jar" in parts:
        return Finding("pyspark", is_ok=True, found=found)
    minor = ".".join(parts.get("pyspark", parts.get("spark-core jar", next(iter(parts.values())))).split(".")[:2])
    remedy = f'pip install --force-reinstall --no-deps "pyspark=={minor}.*" "pyspark-client=={minor}.*"'
    return Finding("pyspark", is_ok=False, found=found, remedy=remedy)


def _spark_parts() -> dict[str, str]:
    """Versions of the installed parts of Spark, without importing any, which takes a second."""
    from importlib.metadata import PackageNotFoundError, version

    parts = {}
    for name in ("pyspark", "pyspark-client"):
        with suppress(PackageNotFoundError):
            parts[name] = version(name)
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return parts
    folder = Path(spec.origin).parent
    with suppress(OSError):
        written = re.search(r'__version__[^"\']*["\']([^"\']+)', (folder / "version.py").read_text(encoding="utf-8"))
        parts |= {} if written is None else {"module": written[1]}
    for jar in Path(os.environ.get("SPARK_HOME") or folder, "jars").glob("spark-core_*.jar"):
        parts["spark-core jar"] = jar.stem.rpartition("-")[2]
    return parts


def _java() -> Finding:
    """Whether the `java` of the search path starts, and is of a version that Spark can use."""
    remedy = f"install a Java runtime of version {_JAVA_MIN} or newer; only work on Spark needs it"
    program = shutil.which("java")
    if program is None:
        return Finding("java", is_ok=False, found="not found", remedy=remedy)
    try:
        done = subprocess.run(  # noqa: S603 - the program that the path names
            [program, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("java", is_ok=False, found=str(error), remedy=remedy)
    known = re.search(r'version "(\d+)[^"]*"', done.stderr + done.stdout)
    if known is None:
        return Finding("java", is_ok=False, found="does not say its version", remedy=remedy)
    good = int(known[1]) >= _JAVA_MIN
    return Finding("java", is_ok=good, found=known[0], remedy=None if good else remedy)


def examine_store(
    warehouse: str, env: Env, list_databases: Callable[[], list[str]], *, decided_by: str | None = None
) -> list[Finding]:
    """Whether the catalog answers, the store can decide the requests of a commit, and its clock agrees with ours.

    `decided_by` names what decides races instead of the store, if anything does.
    """
    try:
        names = list_databases()
    except (PaimonError, OSError) as error:
        remedy = "check the address, the options and the rights of the connection"
        return [Finding("store", is_ok=False, found=str(error), remedy=remedy)]
    reached = Finding("store", is_ok=True, found=f"{warehouse}: {len(names)} databases")
    if decided_by is not None:
        return [reached, Finding("create-if-absent", is_ok=True, found=f"not needed: {decided_by} decides")]
    # Named like an incomplete file, so that it is not taken for a database.
    path = f"{warehouse.rstrip('/')}/.doctor.{uuid.uuid4()}.tmp"
    try:
        return [reached, *_decides(env, path)]
    except PaimonError as error:
        remedy = "where only tables may be read that is not a problem; else see what the message says"
        return [reached, Finding("create-if-absent", is_ok=False, found=str(error), remedy=remedy)]
    finally:
        with suppress(StorageError):
            env.storage.delete([path])


def _decides(env: Env, path: str) -> list[Finding]:
    """Whether the store honours create-if-absent at that path, and how far its clock is off."""
    made = env.storage.create(path, b"first")
    written_ms = env.clock()
    is_refused = not env.storage.create(path, b"second") and env.storage.read(path) == b"first"
    decides = Finding(
        "create-if-absent",
        is_ok=made and is_refused,
        found="honoured" if made and is_refused else "ignored",
        remedy=None
        if made and is_refused
        else "use a JDBC catalog with 'lock.enabled' = 'true', a REST catalog, or a store that honours If-None-Match",
    )
    modified_ms = env.storage.stat(path).modified_ms
    if modified_ms <= 0:
        return [decides, Finding("clock", is_ok=True, found="the store does not say when files were made")]
    skew_ms = modified_ms - written_ms
    good = abs(skew_ms) <= _SKEW_MAX_MS
    clock = Finding(
        "clock",
        is_ok=good,
        found=f"the store's clock is {abs(skew_ms) / 1000:.1f} s {'ahead' if skew_ms > 0 else 'behind'}",
        remedy=None if good else "set both clocks by a time server: clean-ups and expiry go by age",
    )
    return [decides, clock]
