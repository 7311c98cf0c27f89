"""Does an object store honour *create if absent*? Tested once per process and bucket, before anything is created there.

Older servers, proxies and gateways that implement S3's protocol ignore the header `If-None-Match`: they accept every
object, and of commits made at the same time all would be acknowledged and the last one kept. So the first `create` in a
bucket makes a small object twice, with different bytes, under a name that nothing else uses: the second time must be
refused, and the first bytes must still be there. Both are made like a snapshot, by the same client.

The object is beside the file to be created, where the writer may certainly write, and is called as files are
that are incomplete: no reader uses it, and the removal of orphan files knows such names.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Final

from paimon_engine.errors import OutcomeUnknownError, StorageError, UnsupportedError

_NAME: Final = "create-if-absent"
_TRIES: Final = 3


class AbsenceProbe:
    """Results of the checks of the buckets of one store; safe to use from many threads."""

    def __init__(self, try_create: Callable[[str, bytes], bool], read: Callable[[str], bytes]) -> None:
        """`try_create` sends one conditional request: True if the object was created, False if the name was taken."""
        self._try_create = try_create
        self._read = read
        self._honours: dict[str, bool] = {}
        self._lock = threading.Lock()

    def check(self, path: str, delete: Callable[[str], None]) -> None:
        """Tests the store of `path`, unless that was done; `delete` removes a file, as far as that is possible.

        Raises: UnsupportedError if the store ignores the condition; StorageError if it does not answer.
        """
        bucket = "/".join(path.split("/", 3)[:3])
        with self._lock:
            if bucket not in self._honours:
                self._honours[bucket] = self._answer(path.rpartition("/")[0], delete)
        if not self._honours[bucket]:
            raise UnsupportedError(
                f"{bucket} ignores create-if-absent: it accepted a second object under a name that was taken, so that "
                "commits made at the same time would replace each other, and all but one would be lost. Nothing was "
                "created. Update the server or the proxy before it to one that honours the header If-None-Match, in "
                "OSS and COS use a bucket that keeps no versions, or use a JDBC catalog with 'lock.enabled' = 'true', "
                "or a REST catalog, whose server decides"
            )

    def _answer(self, directory: str, delete: Callable[[str], None]) -> bool:
        problem: StorageError | None = None
        for _ in range(_TRIES):
            try:
                return self._ask(f"{directory}/.{_NAME}.{uuid.uuid4()}.tmp", delete)
            except OutcomeUnknownError as error:
                problem = error
        # Certainly nothing was created.
        raise StorageError(f"{directory}: the store did not answer whether it honours create-if-absent") from problem

    def _ask(self, path: str, delete: Callable[[str], None]) -> bool:
        first, second = b"first", b"second"
        try:
            self._try_create(path, first)
            return not self._try_create(path, second) and self._read(path) == first
        finally:
            delete(path)
