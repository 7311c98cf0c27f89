"""The longer run: `python -m tests.contention --seconds 180`, on local disk; `--s3` on an S3 server of its own.

`--keyed` gives the table a primary key. Commits, compactions, expired snapshots and conflicts are told in the end.
"""

from __future__ import annotations

import argparse
import tempfile

from tests.contention.fleet import new_table, settle
from tests.contention.launch import launch
from tests.support.s3 import BUCKET, start_s3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.contention", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--keyed", action="store_true")
    given = parser.parse_args()
    server = start_s3(one_at_a_time=True) if given.s3 else iter([{}])
    storage = next(server)
    with tempfile.TemporaryDirectory(prefix="paimon-contention-") as directory:
        warehouse = f"s3://{BUCKET}/lake" if given.s3 else directory
        path = new_table(warehouse, keyed=given.keyed, storage=storage).path
        print(settle(path, launch(path, given.seconds, storage), storage))
    next(server, None)


if __name__ == "__main__":
    main()
