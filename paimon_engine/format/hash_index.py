"""Hash index files of dynamic buckets: the key hashes of one bucket, and nothing else.

| offset | content |
| --- | --- |
| 4·i | hash i, int32 big endian |

The hashes differ from each other and are in no particular order. A file holds each hash that its bucket has ever
seen: deleting a key leaves its hash, so that the key returns to the same bucket.

Source: `HashIndexFile`, `IntFileUtils` of the Java library.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from paimon_engine.errors import damaged

Hashes = npt.NDArray[np.int32]
"""Key hashes, in native byte order."""

HASH_BYTES: Final = 4


def decode_hashes(data: bytes, path: str) -> Hashes:
    """The hashes of a file, ascending.

    Raises: CorruptTableError naming `path` if the length is not a multiple of 4, or a hash occurs twice.
    """
    if len(data) % HASH_BYTES:
        raise damaged(path, f"{len(data)} bytes are not a hash index: its length is a multiple of 4")
    hashes = np.sort(np.frombuffer(data, dtype=">i4").astype(np.int32))
    if len(hashes) > 1 and bool((hashes[1:] == hashes[:-1]).any()):
        twice = int(hashes[1:][hashes[1:] == hashes[:-1]][0])
        raise damaged(path, f"the hash {twice} occurs more than once in the hash index")
    return hashes


def encode_hashes(hashes: Hashes) -> bytes:
    """The bytes of a file with these hashes, which differ from each other."""
    return hashes.astype(">i4").tobytes()
