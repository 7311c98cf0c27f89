"""What Python processes of workers answer when they are asked what they have, and what is wrong with it, in words.

Answers come from other processes, as from workers; `provider/test_places` asks those of a cluster and of a server.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import paimon_engine
from paimon_engine.packing import engine_digest
from paimon_engine.spark.workers import NEEDED, _problems

ASK = "from paimon_engine.spark.workers import NEEDED, _asks; print(_asks(dict(NEEDED))(0))"


def answer_of(*first_on_the_path: Path) -> dict[str, Any]:
    """What a process answers that finds modules in these folders first."""
    path = os.pathsep.join(map(str, [*first_on_the_path, Path(paimon_engine.__file__).parents[1]]))
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
        env=os.environ | {"PYTHONPATH": path},
        cwd=first_on_the_path[0] if first_on_the_path else None,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_worker_like_this_process_has_all():
    answer = answer_of()

    assert set(answer["found"]) == set(NEEDED)
    assert _problems(answer) == []


def test_packages_that_are_too_old_are_named_with_the_way_out(tmp_path: Path):
    described = tmp_path / "fastavro-1.2.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: fastavro\nVersion: 1.2\n")

    (problem,) = _problems(answer_of(tmp_path))

    assert "are too old (fastavro 1.2)" in problem
    assert f'pip install "fastavro>={NEEDED["fastavro"]}" there' in problem


def test_an_engine_with_other_code_is_named(tmp_path: Path):
    """Also of the same version: what two engines write together must be by one code."""
    package = Path(paimon_engine.__file__).parent
    shutil.copytree(package, tmp_path / "paimon_engine", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "paimon_engine" / "units.py").open("a") as changed:
        changed.write("# another line\n")

    answer = answer_of(tmp_path)
    (problem,) = _problems(answer)

    assert answer["engine"][1] != engine_digest()
    assert "has another engine" in problem
    assert engine_digest() in problem
