"""What a `spark-submit` runs: a job, whose tasks run on the Spark that it was submitted to.

spark-submit … paimon_job.py --job FILE|base64:… --record FOLDER [--lock FILE]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from paimon_engine import guard
from paimon_engine.arrow_memory import choose_for_process
from paimon_engine.errors import PaimonError
from paimon_engine.job_process import job_text, run_recorded
from paimon_engine.job_record import JobRecord
from paimon_engine.jobs import SUBMITTED, Job

PROGRAM: Final = "import sys\n\nfrom paimon_engine.submitted import main\n\nsys.exit(main())\n"
"""The file that Spark is given; the engine itself comes by `--py-files` or is installed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Carries out the job; 0 once it is done, 1 if it failed."""
    parser = argparse.ArgumentParser(prog="paimon_job.py", description=__doc__)
    parser.add_argument("--job", required=True, help="a file with the job's JSON, or base64: and that, packed")
    parser.add_argument("--record", required=True, help="folder for progress and outcome")
    parser.add_argument("--lock", help="end when no process has the lock on this file any more")
    given = parser.parse_args(arguments)
    choose_for_process()
    if given.lock:
        guard.exit_when_free(given.lock)
    else:
        guard.exit_when_asked()
    try:
        job = Job.from_json(job_text(given.job))
        run_recorded(job, JobRecord(given.record, job.store_at(given.record)), SUBMITTED)
    except (PaimonError, KeyboardInterrupt) as error:
        sys.stderr.write(f"error: {error or 'stopped'}\n")
        return 1
    return 0
