"""Golden tables: an archive of tables that Java wrote, with what it reads back; `tests/golden/make.py` makes it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from tests.support.reference import CACHE, PROJECT

ARCHIVE = PROJECT / "tests" / "golden" / "tables.tar.xz"


def golden_folder() -> Path | None:
    """The unpacked archive; None where there is no archive."""
    if not ARCHIVE.is_file():
        return None
    folder = CACHE / f"golden-{hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()[:16]}"
    if not folder.is_dir():
        CACHE.mkdir(exist_ok=True)
        unpacked = Path(tempfile.mkdtemp(dir=CACHE))
        with tarfile.open(ARCHIVE) as archive:
            # The first releases of Python 3.11 have no filters.
            archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            archive.extractall(unpacked)
        try:
            # Two test runs may unpack at once; the first one to finish is used.
            os.rename(unpacked, folder)
        except OSError:
            shutil.rmtree(unpacked)
    return folder
