"""What workers of a cluster need, packed: the engine alone, or with Python packages; never Airflow.

The engine is an archive of its sources with the description of a distribution in it. As `.zip` it is passed by
`--py-files`; as `.whl`, with the same content, pip installs it with the packages that it needs. The same code always
gives the same bytes.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import importlib.resources
import io
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

_PROJECT: Final = "airflow-provider-paimon"
_NAME: Final = "paimon_engine"
_NOT_NEEDED: Final = ("apache-airflow", "pyspark")
"""Beginnings of the names of distributions that workers do without: a cluster brings its own Spark."""
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that an archive can store; with the files' own times the same code would give other bytes."""


def engine_version() -> str:
    """The version of the engine, as of the project; `0` where it was only unpacked."""
    for name in (_PROJECT, _NAME):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "0"


def engine_requirements() -> list[str]:
    """The distributions that the engine needs on a cluster, with their versions, as pip reads them; without extras."""
    for name in (_PROJECT, _NAME):
        try:
            found = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        return sorted(item for item in found if "extra ==" not in item and not item.startswith(_NOT_NEEDED))
    return []


@cache
def _sources() -> dict[str, bytes]:
    """The engine's files by their paths in an archive; also where the engine itself comes from an archive."""
    found: dict[str, bytes] = {}
    folders = [(_NAME, importlib.resources.files(_NAME))]
    while folders:
        path, folder = folders.pop()
        for item in folder.iterdir():
            name = f"{path}/{item.name}"
            if item.is_dir():
                folders.append((name, item))
            elif name.endswith((".py", "/py.typed")):
                found[name] = item.read_bytes()
    return dict(sorted(found.items()))


@cache
def engine_digest() -> str:
    """Tells versions of the engine's code apart: 12 characters that follow from its sources."""
    digest = hashlib.sha256()
    for path, data in _sources().items():
        digest.update(path.encode() + b"\0" + data + b"\0")
    return digest.hexdigest()[:12]


def engine_archive(folder: Path) -> Path:
    """An archive of the engine in that folder, for `--py-files`; its name differs for each version of the code."""
    path = folder / f"{_NAME}-{engine_digest()}.zip"
    if not path.exists():
        write_archive(path)
    return path


def engine_wheel(folder: Path) -> Path:
    """The engine as a wheel in that folder, for `pip install`."""
    path = folder / f"{_NAME}-{engine_version()}-py3-none-any.whl"
    write_archive(path)
    return path


def write_archive(path: Path) -> None:
    """Writes the archive of the engine to a path, in one step."""
    unfinished = path.with_name(f".{path.name}.partial")
    info = f"{_NAME}-{engine_version()}.dist-info"
    files = {**_sources(), f"{info}/METADATA": _metadata().encode(), f"{info}/WHEEL": _WHEEL}
    files[f"{info}/entry_points.txt"] = f"[console_scripts]\npaimon-engine = {_NAME}.__main__:main\n".encode()
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            file.writestr(entry, data)
    unfinished.replace(path)


_WHEEL: Final = b"Wheel-Version: 1.0\nGenerator: paimon-engine\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def _metadata() -> str:
    head = ["Metadata-Version: 2.1", f"Name: {_NAME}", f"Version: {engine_version()}", "Requires-Python: >=3.11"]
    summary = "Summary: Apache Paimon tables in Python: the engine of airflow-provider-paimon, without Airflow"
    return "\n".join([*head, summary, *(f"Requires-Dist: {item}" for item in engine_requirements()), ""])


def _record(files: dict[str, bytes], own: str) -> bytes:
    """The list of the files of a wheel, with their digests."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(data)])
    rows.writerow([own, "", ""])
    return text.getvalue().encode()


def pinned_requirements() -> list[str]:
    """The engine's requirements at the versions that are installed here, for an environment like this one."""
    found = []
    for item in engine_requirements():
        requirement, _, marker = item.partition(";")
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            # One that its marker leaves out here.
            continue
        found.append(f"{name}=={version}" + (f"; {marker.strip()}" if marker else ""))
    return found
