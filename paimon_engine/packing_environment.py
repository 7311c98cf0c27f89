"""A Python environment with the engine and all that it needs, as an archive that other machines unpack.

`venv-pack2` makes the archive: it takes the paths of this machine out of the environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.packing import engine_wheel, pinned_requirements

_TAIL_LINES = 15


def pack_environment(out: Path, *, more: Sequence[str] = (), python: str | None = None) -> None:
    """Writes the archive to `out`, in one step. `more` are requirements beside those of the engine.

    Spark is not in it: the cluster has one. Packages come from pip's index, in the versions that are installed here.
    `python` is the interpreter to take.
    Raises: UnsupportedError if venv-pack2 is missing; InvalidArgumentError if pip cannot install something.
    """
    try:
        import venv_pack
    except ImportError as error:
        raise UnsupportedError(
            'packing an environment needs venv-pack2: pip install "airflow-provider-paimon[pack]"'
        ) from error
    with tempfile.TemporaryDirectory(prefix="paimon-pack-") as directory:
        environment = Path(directory, "environment")
        _run([python or sys.executable, "-m", "venv", "--copies", str(environment)])
        wheel = engine_wheel(Path(directory))
        pins = Path(directory, "constraints.txt")
        pins.write_text("\n".join(pinned_requirements()), encoding="utf-8")
        pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--no-input", "--quiet"]
        _run([*pip, "--disable-pip-version-check", "-c", str(pins), str(wheel), *more])
        unfinished = out.with_name(f".partial.{out.name}")
        try:
            venv_pack.pack(prefix=str(environment), output=str(unfinished), format="tar.gz", force=True)
            unfinished.replace(out)
        except venv_pack.VenvPackException as error:
            raise InvalidArgumentError(f"the environment cannot be packed: {error}") from error
        finally:
            unfinished.unlink(missing_ok=True)


def _run(command: Sequence[str]) -> None:
    """Runs a program. Raises: InvalidArgumentError with what it said last."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(  # noqa: S603 - pip and venv of an interpreter that the user names
        command, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        output = "\n".join((done.stdout + done.stderr).splitlines()[-_TAIL_LINES:])
        raise InvalidArgumentError(f"{' '.join(command[:4])} failed:\n{output}")
