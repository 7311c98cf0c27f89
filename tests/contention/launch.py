"""Starts the fleet in a separate process: one with threads and connections must not be forked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def launch(path: str, seconds: float, storage: Mapping[str, str], roles: Sequence[str]) -> list[dict[str, Any]]:
    """What each process of the fleet says."""
    given = json.dumps({"path": path, "seconds": seconds, "storage": dict(storage), "roles": list(roles)})
    command = [sys.executable, "-m", "tests.contention.fleet"]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return list(json.loads(done.stdout))
