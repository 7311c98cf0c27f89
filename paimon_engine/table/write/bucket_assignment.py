"""Which bucket a new key gets where buckets are dynamic. Pure: counts and hashes in, bucket numbers out.

1. A hash that a bucket has seen stays there.
2. Others fill the buckets that have room, lowest number first, up to `dynamic-bucket.target-row-num` each.
3. Then come new buckets, the lowest unused numbers.
4. At `dynamic-bucket.max-buckets` the rest is spread evenly over the buckets that there are.

Several assigners may work on one partition concurrently: each adds keys only to buckets that it owns, those whose
number modulo the number of assigners is its own number.

Source: `HashBucketAssigner`, `PartitionIndex`, `cross-partition BucketAssigner` of the Java library. Difference: at
the limit Java draws a bucket at random for each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.hash_index import Hashes

Buckets = npt.NDArray[np.int32]

BUCKETS_MAX: Final = 32_767
"""Buckets of a partition: the Java library keeps their numbers in 15 bits, and never gives out the last one."""


@dataclass(frozen=True, slots=True)
class BucketRule:
    """How large buckets are to become, and which of them an assigner owns; `buckets_max` None means no limit."""

    target_rows: int
    buckets_max: int | None = None
    assigners: int = 1
    assigner: int = 0

    def owns(self, bucket: int) -> bool:
        """Whether the assigner may add keys to the bucket."""
        return bucket % self.assigners == self.assigner


def fill_buckets(row_counts: dict[int, int], new: int, rule: BucketRule) -> Buckets:
    """Buckets of `new` keys, in order: int32 [new]. `row_counts`, keys by bucket, is updated.

    Raises: InvalidArgumentError if a partition would need more buckets than the format allows.
    """
    parts: list[Buckets] = []
    left = new

    def take(bucket: int, count: int) -> None:
        nonlocal left
        parts.append(np.full(count, bucket, dtype=np.int32))
        row_counts[bucket] = row_counts.get(bucket, 0) + count
        left -= count

    own = sorted(bucket for bucket in row_counts if rule.owns(bucket))
    for bucket in own:
        room = rule.target_rows - row_counts[bucket]
        if left and room > 0:
            take(bucket, min(room, left))
    limit = BUCKETS_MAX if rule.buckets_max is None else min(rule.buckets_max, BUCKETS_MAX)
    unused = (bucket for bucket in range(rule.assigner, limit, rule.assigners) if bucket not in row_counts)
    for bucket in unused:
        if not left:
            break
        take(bucket, min(rule.target_rows, left))
        own.append(bucket)
    if left and rule.buckets_max is None:
        raise InvalidArgumentError(
            f"a partition needs more than {BUCKETS_MAX} buckets; raise 'dynamic-bucket.target-row-num'"
        )
    if left:
        shares = np.array_split(np.arange(left), len(own))
        for bucket, share in zip(own, shares, strict=True):
            take(bucket, len(share))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)


class HashBuckets:
    """The hashes of one partition, each in one bucket, and which of them are new."""

    def __init__(self, known: Mapping[int, Hashes], rule: BucketRule) -> None:
        """`known` has the hashes of each bucket, none of them in two."""
        self._rule = rule
        self._row_counts = {bucket: len(hashes) for bucket, hashes in known.items()}
        self._known = _sorted_pairs(*_joined(known))
        self._new = _sorted_pairs(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32))

    def assign(self, hashes: Hashes) -> Buckets:
        """The bucket of each hash: int32 [n].

        Raises: InvalidArgumentError if there would be too many buckets.
        """
        found = np.full(len(hashes), -1, dtype=np.int32)
        for pairs in (self._known, self._new):
            _look_up(pairs, hashes, found)
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            distinct, first, inverse = np.unique(hashes[unknown], return_index=True, return_inverse=True)
            # Keys that come together go together: buckets are filled in the order of arrival.
            arrival = np.argsort(first, kind="stable")
            buckets = np.empty(len(distinct), dtype=np.int32)
            buckets[arrival] = fill_buckets(self._row_counts, len(distinct), self._rule)
            found[unknown] = buckets[inverse.reshape(-1)]
            self._new = _sorted_pairs(np.concatenate([self._new[0], distinct]), np.concatenate([self._new[1], buckets]))
        return found

    def changed(self) -> dict[int, Hashes]:
        """All hashes of the buckets that have got new ones since the beginning."""
        return {
            int(number): np.concatenate([hashes[buckets == number] for hashes, buckets in (self._known, self._new)])
            for number in np.unique(self._new[1])
        }


_Pairs = tuple[Hashes, Buckets]
"""Hashes in ascending order, and the bucket of each."""


def _joined(known: Mapping[int, Hashes]) -> _Pairs:
    if not known:
        return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    buckets = [np.full(len(hashes), bucket, dtype=np.int32) for bucket, hashes in known.items()]
    return np.concatenate(list(known.values())), np.concatenate(buckets)


def _sorted_pairs(hashes: Hashes, buckets: Buckets) -> _Pairs:
    order = np.argsort(hashes, kind="stable")
    return hashes[order], buckets[order]


def _look_up(pairs: _Pairs, wanted: Hashes, found: Buckets) -> None:
    """Writes the bucket of each wanted hash that exists into `found`."""
    hashes, buckets = pairs
    if len(hashes):
        indices = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
        there = hashes[indices] == wanted
        found[there] = buckets[indices[there]]
