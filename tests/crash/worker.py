"""A process that has everything imported and forks a child for each job, which it kills on request.

`python -m tests.crash.worker` reads requests from its standard input and answers on its standard output, a line of
JSON each. A request names the table's directory, the job, and when the child is to die:

- `at`: it kills itself before its change of that number, counted from 0. A change is a call of the operating system
  that opens a file for writing, links, renames or removes one below the directory, also in the middle of a storage
  call;
- `after_ms`: this process kills it so long after its begin.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
from typing import Any

import pyarrow.parquet as pq

from paimon_engine import open_table
from paimon_engine.errors import PaimonError
from paimon_engine.jobs import Job, run

_CHANGES = {"os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What the child said; `{}` if it was killed before it said anything."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _be_child(request, theirs)
    os.close(theirs)
    try:
        after_ms = request.get("after_ms")
        if after_ms is not None and not select.select([ours], [], [], after_ms / 1000)[0]:
            os.kill(child, signal.SIGKILL)
        with os.fdopen(ours, "rb") as pipe:
            reply = pipe.read()
    finally:
        _, status = os.waitpid(child, 0)
    if not reply and os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        return {"error": "Died", "message": f"the child ended with {os.waitstatus_to_exitcode(status)}"}
    return dict(json.loads(reply)) if reply else {}


def _be_child(request: dict[str, Any], pipe: int) -> None:
    gc.disable()
    changes = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changes
        if event not in _CHANGES and not (event == "open" and arguments[2] and arguments[2] & _WRITING):
            return
        if not str(arguments[0]).startswith(request["root"]):
            return
        if changes == request.get("at"):
            os.kill(os.getpid(), signal.SIGKILL)
        changes += 1

    reply: dict[str, Any]
    sys.addaudithook(count)
    try:
        reply = {"result": _carry_out(request)}
    except PaimonError as error:
        reply = {"error": type(error).__name__, "message": str(error)}
    except BaseException as error:  # noqa: BLE001 - whatever it is, the campaign is to hear of it
        reply = {"error": "Unexpected", "message": repr(error)}
    os.write(pipe, json.dumps({**reply, "changes": changes}, default=str).encode())
    os._exit(0)


def _carry_out(request: dict[str, Any]) -> dict[str, Any]:
    """The job, or a write to a branch, which jobs do not know."""
    if "branch" not in request:
        return run(Job.from_json(request["job"])).to_dict()
    table = open_table(f"{request['root']}$branch_{request['branch']}")
    return table.write(pq.read_table(request["source"]), commit_user=request["user"]).to_dict()


if __name__ == "__main__":
    main()
