"""Create-if-absent: how a complete file gets its final name without replacing another.

On object stores it is one conditional request, see `CONDITIONAL_PUT`.

On local disks the bytes go to a temporary file in the same directory and are flushed to the disk; then the name is
given. Giving the name is one atomic step that fails if the name is taken:

1. `os.link`: a hard link never replaces. Works on every usual local file system and on NFS.
2. Without hard links (exFAT, some FUSE and network mounts): a rename that refuses to replace. Linux has it as
   `renameat2(RENAME_NOREPLACE)`, Windows as its normal `os.rename`.
3. With neither, the store cannot decide a race and says so. Creating the final name with `O_EXCL` and filling it
   afterwards would decide the race too, but shows an incomplete file to readers and leaves it there after a crash.

The Java engine renames over the name after a check, protected by a lock inside its own process only. So a Java writer
in another process can still replace a file made here; use an object store or a catalog lock for such a mix.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable

from paimon_engine.errors import UnsupportedError

CONDITIONAL_PUT = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
"""Schemes whose fsspec file system turns `pipe_file(…, mode="create")` into one conditional request.

What each store promises, and by what; "refused" means UnsupportedError from `create`, `overwrite` and `writer`:

| store | scheme | a name is given once by | taken | tested against |
|---|---|---|---|---|
| local disk, NFS | path, `file:` | `link`, else `renameat2(RENAME_NOREPLACE)` | `EEXIST` | real disks |
| memory | `memory:` | a lock of this process | the name | itself |
| S3 | `s3`, `s3a` | `If-None-Match: *` (s3fs) | status 412; 409 is tried again | moto's server |
| Google | `gs`, `gcs` | `ifGenerationMatch=0` (gcsfs) | status 412 | fake-gcs-server |
| Azure | `abfs`, `abfss`, `az` | `If-None-Match: *` (adlfs) | status 409 | Azurite |
| OSS | `oss` | `x-oss-forbid-overwrite` (OpenDAL) | status 409 | moto's server, translated |
| COS | `cosn`, `cos` | `x-cos-forbid-overwrite` (OpenDAL) | status 409 | the same |
| OBS | `obs` | the lock of a JDBC catalog, or a REST catalog | | the same |
| HDFS | `hdfs`, `viewfs` | a rename that does not overwrite | `FileExistsError` | Hadoop's MiniDFSCluster |
| SFTP, FTP, … | others | the lock of a JDBC catalog, `lock.enabled` | | fsspec's plain local files |
| without that option | others | refused; reading works | | the same |

Of requests at the same time the store lets one win and answers the others that the name is taken, so commits need no
lock. Stores that only implement S3's protocol must support that header too; one that ignores it would let two commits
overwrite each other, so the first `create` in a bucket finds out (`storage.absence`): use a JDBC catalog with the lock
there.

fsspec's fallback for all other schemes looks first and writes then, which decides no race.
"""

Publish = Callable[[str, str], bool]
"""Gives the complete file `temporary` the name `final`: False if that is taken. The temporary name may remain."""

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EMLINK})


def publish(temporary: str, final: str) -> bool:
    """Name a file by hard link, or by exclusive rename where the file system has no hard links."""
    try:
        return publish_by_link(temporary, final)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
    return publish_by_rename(temporary, final)


def publish_by_link(temporary: str, final: str) -> bool:
    """Name a file by hard link. Raises: OSError if the file system has none."""
    try:
        os.link(temporary, final)
    except FileExistsError:
        return False
    return True


def publish_by_rename(temporary: str, final: str) -> bool:
    """Name a file by a rename that never replaces. Raises: UnsupportedError if the system has none."""
    if sys.platform == "win32":
        try:
            os.rename(temporary, final)
        except FileExistsError:
            return False
        return True
    code = _rename_noreplace(temporary, final)
    if code == errno.EEXIST:
        return False
    if code in _NO_HARD_LINKS:
        raise UnsupportedError(
            f"Cannot create {final} safely: its file system has neither hard links nor exclusive rename; "
            "keep the table on another file system or in an object store"
        )
    if code:
        raise OSError(code, os.strerror(code), final)
    return True


def _rename_noreplace(temporary: str, final: str) -> int:
    """Linux renameat2 with RENAME_NOREPLACE: 0 or the error number; ENOSYS where the C library lacks it."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return errno.ENOSYS
    done = rename(_AT_FDCWD, os.fsencode(temporary), _AT_FDCWD, os.fsencode(final), _RENAME_NOREPLACE)
    return ctypes.get_errno() if done else 0
