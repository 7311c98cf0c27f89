"""The longer run: `python -m tests.contention --roles nine --seconds 600`, on local disk; `--s3` on an S3 server.

`--keyed` gives the table a primary key, on which the roles `eight` and `starving` work. What was done, and how often
others were in the way, is told in the end.
"""

from __future__ import annotations

import argparse
import tempfile

from tests.contention.fleet import new_table, settle
from tests.contention.launch import launch
from tests.contention.roles import FLEETS
from tests.support.s3 import BUCKET, start_s3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.contention", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--roles", choices=[*FLEETS], default="nine")
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--keyed", action="store_true")
    given = parser.parse_args()
    if given.keyed and given.roles == "nine":
        parser.error("rows are deleted by condition, which is for tables without a primary key")
    server = start_s3(one_at_a_time=True) if given.s3 else iter([{}])
    storage = next(server)
    with tempfile.TemporaryDirectory(prefix="paimon-contention-") as directory:
        warehouse = f"s3://{BUCKET}/lake" if given.s3 else directory
        path = new_table(warehouse, keyed=given.keyed, storage=storage).path
        account = settle(path, launch(path, given.seconds, storage, FLEETS[given.roles]), storage)
        print(", ".join(f"{count} {what}" for what, count in account.items()))
    next(server, None)


if __name__ == "__main__":
    main()
