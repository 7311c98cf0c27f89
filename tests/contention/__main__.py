"""The longer run: `python -m tests.contention --roles nine --seconds 600`, on local disk; `--s3` on an S3 server.

`--keyed` gives the table a primary key, on which the roles `eight` and `starving` work. What was done, and how often
others were in the way, is printed at the end; the exit code is 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from paimon_engine import open_table
from paimon_engine.errors import PaimonError
from tests.contention.fleet import new_table, settle
from tests.contention.launch import launch
from tests.contention.roles import FLEETS
from tests.support.s3 import BUCKET, start_s3

_TOLD_EVERY_S: Final = 30.0


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
        try:
            with notifying(path, storage):
                reports = launch(path, given.seconds, storage, FLEETS[given.roles])
            account = settle(path, reports, storage)
        except Exception as error:
            print(f"FAILED: {error!r:.4000}")
            raise SystemExit(1) from error
        print(", ".join(f"{count} {what}" for what, count in account.items()))
        print(f"{given.roles} roles, {given.seconds:.0f} s: nothing lost, nothing twice, the table is valid")
    next(server, None)


@contextmanager
def notifying(path: str, storage: Mapping[str, str]) -> Iterator[None]:
    """Prints every half minute how far the table is."""
    begun, is_over = time.monotonic(), threading.Event()

    def tell() -> None:
        while not is_over.wait(_TOLD_EVERY_S):
            with suppress(PaimonError):
                newest = open_table(path, storage_options=storage).latest_snapshot_id()
                print(f"{time.monotonic() - begun:.0f} s: snapshot {newest}", flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


if __name__ == "__main__":
    main()
