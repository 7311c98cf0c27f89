"""The Python and Rust clients of Paimon, in a separate environment: pypaimon cannot be installed with Airflow.

The environment is in `.cache/pypaimon` and is made on first use, with the versions of `pypaimon-pins.txt`.
One process there (`pypaimon_server.py`) answers all requests of a test run.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from tests.support.reference import CACHE

HERE = Path(__file__).parent
PINS = HERE / "pypaimon-pins.txt"
HOME = CACHE / "pypaimon"
REQUIRED = "pypaimon"
OPTIONAL = "pypaimon-rust"
"""Has wheels for the common platforms only."""

LOG = "pypaimon.log"
INSTALL_TIMEOUT_S = 900


class PyPaimonError(RuntimeError):
    """The client answered with an exception."""


@dataclass(frozen=True)
class InCatalog:
    """A table by its name in a catalog, instead of the path of its directory."""

    options: Mapping[str, str]
    name: str


Place = str | Path | InCatalog


class PyPaimon:
    """Reads and writes tables as pypaimon does: in `<warehouse>/<db>.db/<table>`, or by name in a catalog."""

    def __init__(self, python: Path, folder: Path, *, has_rust: bool) -> None:
        """`folder` takes the Arrow files that rows travel in, and a log."""
        self.has_rust = has_rust
        self._folder = folder
        self._numbers = itertools.count()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with (folder / LOG).open("wb") as log:
            self._process = subprocess.Popen(
                # -P: else `import pypaimon` finds this very file.
                [str(python), "-B", "-P", str(HERE / "pypaimon_server.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                env=environment,
                cwd=folder,
            )

    def read(
        self,
        path: Place,
        options: Mapping[str, str] | None = None,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        columns: Sequence[str] | None = None,
        equal: Mapping[str, Any] | None = None,
        client: Literal["python", "rust"] = "python",
    ) -> pa.Table:
        """Rows of the table in that directory, as it is now or was at a snapshot or tag.

        `options` are dynamic options, `equal` values that columns must have. Without rows the Rust client gives columns
        of type null.
        """
        if client == "rust" and not self.has_rust:
            pytest.skip(f"{OPTIONAL} has no wheel for this platform")
        chosen = dict(options or {})
        if snapshot is not None:
            chosen["scan.snapshot-id"] = str(snapshot)
        if tag is not None:
            chosen["scan.tag-name"] = tag
        out = self._file()
        op = "read" if client == "python" else "read_rust"
        self._call(op, path, options=chosen, columns=list(columns or ()), equal=dict(equal or {}), out=str(out))
        with pa.OSFile(str(out), "rb") as source:
            rows = pa.ipc.open_file(source).read_all()
        out.unlink()
        return rows

    def create(
        self,
        path: Place,
        schema: pa.Schema,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """A new, empty table in that directory."""
        self._call(
            "create",
            path,
            schema=self._save(schema.empty_table()),
            primary_keys=list(primary_keys),
            partition_keys=list(partition_keys),
            options=dict(options or {}),
        )

    def append(
        self,
        path: Place,
        *tables: pa.Table,
        overwrite: Mapping[str, Any] | None = None,
        client: Literal["python", "rust"] = "python",
    ) -> None:
        """One commit per Arrow table; `overwrite` names the partition that each replaces, `{}` all of the table."""
        if client == "rust":
            assert overwrite is None
            if not self.has_rust:
                pytest.skip(f"{OPTIONAL} has no wheel for this platform")
            self._call("write_rust", path, data=[self._save(rows) for rows in tables])
            return
        self._call("write", path, data=[self._save(rows) for rows in tables], overwrite=overwrite)

    def append_at_once(self, path: Place, *tables: pa.Table) -> None:
        """One commit per Arrow table, each in a thread; all have seen that no snapshot is there before one makes it."""
        self._call("write_at_once", path, data=[self._save(rows) for rows in tables])

    def write(
        self,
        path: Place,
        tables: Sequence[pa.Table],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Creates the table and commits each Arrow table, one after another."""
        self.create(path, tables[0].schema, primary_keys=primary_keys, partition_keys=partition_keys, options=options)
        self.append(path, *tables)

    def alter(self, location: Place, *changes: tuple[str, list[Any]]) -> None:
        """Changes the schema; each change is its name and arguments, a type as `{"type": …}`."""
        self._call("alter", location, changes=[list(one) for one in changes])

    def ask(self, options: Mapping[str, str], method: str, *arguments: Any) -> Any:
        """What a method of the catalog with these options answers."""
        return self._call("ask", InCatalog(options, ""), method=method, arguments=list(arguments))

    def dlf_headers(self, **request: Any) -> dict[str, str]:
        """What the client adds to a REST request: method, resource, parameters, body, region, keys, now."""
        return dict(self._call("dlf_headers", InCatalog({}, ""), **request))

    def close(self) -> None:
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=30)

    def _call(self, op: str, path: Place, **fields: Any) -> Any:
        if isinstance(path, InCatalog):
            catalog, name = dict(path.options), path.name
        else:
            warehouse, name = split_path(path)
            catalog = {"warehouse": warehouse}
        request = {"op": op, "catalog": catalog, "name": name, **fields}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            log = (self._folder / LOG).read_text(encoding="utf-8")
            raise PyPaimonError(f"the process ended with {self._process.wait()}: {log[-3000:]}")
        answer = json.loads(line)
        if not answer["ok"]:
            raise PyPaimonError(f"{answer['error']}\n{answer['trace']}")
        return answer["result"]

    def _file(self) -> Path:
        return self._folder / f"rows-{next(self._numbers)}.arrow"

    def _save(self, rows: pa.Table) -> str:
        path = str(self._file())
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        return path


def split_path(path: str | Path) -> tuple[str, str]:
    """Warehouse and `db.table` of a table directory `<warehouse>/<db>.db/<table>`."""
    table = Path(path)
    if table.parent.suffix != ".db":
        raise ValueError(f"{table}: pypaimon finds tables as <warehouse>/<db>.db/<table> only")
    return str(table.parent.parent), f"{table.parent.name.removesuffix('.db')}.{table.name}"


def start_pypaimon(folder: Path) -> Iterator[PyPaimon]:
    """The clients, ready for requests; skips where they cannot be installed."""
    python, has_rust = _environment()
    client = PyPaimon(python, folder, has_rust=has_rust)
    yield client
    client.close()


def _environment() -> tuple[Path, bool]:
    """Interpreter of the environment, made on first use, and whether it has the Rust client."""
    python = HOME / "venv" / "bin" / "python"
    stamp = HOME / "installed.json"
    pins = PINS.read_text(encoding="utf-8")
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        # Two test runs may want it at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = json.loads(stamp.read_text()) if stamp.exists() else {}
        if made.get("pins") != pins or made.get("python") != sys.version or not python.exists():
            stamp.unlink(missing_ok=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME / "venv")], check=True)
            if error := _install(python, REQUIRED):
                pytest.skip(f"{REQUIRED} cannot be installed, is a package index in reach? {error}")
            made = {"pins": pins, "python": sys.version, "rust": _install(python, OPTIONAL) is None}
            stamp.write_text(json.dumps(made))
    return python, made["rust"]


def _install(python: Path, package: str) -> str | None:
    """Installs by pip; gives the last line of its complaint if it fails."""
    options = ["-q", "--no-input", "--disable-pip-version-check", "--only-binary", ":all:", "-c", str(PINS)]
    try:
        done = subprocess.run(
            [str(python), "-m", "pip", "install", *options, package],
            capture_output=True,
            text=True,
            check=False,
            timeout=INSTALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        return str(error)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["pip failed"])[-1]
