"""Assigning dynamic buckets, held against a model that looks at one hash after another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.table.write.bucket_assignment import BUCKETS_MAX, BucketRule, HashBuckets, fill_buckets

HASHES = st.integers(-20, 20)
RULES = st.builds(
    BucketRule, target_rows=st.integers(1, 6), buckets_max=st.none() | st.integers(3, 6), assigners=st.just(1)
)


class Model:
    """One hash after another, as the format's rule says it; at the limit any bucket will do."""

    def __init__(self, rule: BucketRule) -> None:
        self.rule = rule
        self.bucket_of: dict[int, int] = {}

    def count(self, bucket: int) -> int:
        return sum(found == bucket for found in self.bucket_of.values())

    def allowed(self, value: int) -> set[int]:
        """Buckets that the hash may get."""
        if value in self.bucket_of:
            return {self.bucket_of[value]}
        used = set(self.bucket_of.values())
        roomy = [bucket for bucket in sorted(used) if self.count(bucket) < self.rule.target_rows]
        if roomy:
            return {roomy[0]}
        unused = next(bucket for bucket in range(BUCKETS_MAX) if bucket not in used)
        limit = self.rule.buckets_max
        return {unused} if limit is None or unused < limit else used


@given(st.lists(st.lists(HASHES, max_size=12), max_size=5), RULES)
def test_hashes_get_the_buckets_of_a_model_of_single_steps(batches: list[list[int]], rule: BucketRule):
    model, assigner = Model(rule), HashBuckets({}, rule)
    for batch in batches:
        found = assigner.assign(np.array(batch, dtype=np.int32)).tolist()

        for value, bucket in zip(batch, found, strict=True):
            assert bucket in model.allowed(value)
            model.bucket_of[value] = bucket


@given(st.lists(HASHES), st.lists(HASHES), RULES)
def test_a_second_assigner_continues_where_the_first_one_ended(one: list[int], other: list[int], rule: BucketRule):
    first = HashBuckets({}, rule)
    buckets = first.assign(np.array(one, dtype=np.int32))
    index = first.changed()

    second = HashBuckets(index, rule)
    again = second.assign(np.array([*one, *other], dtype=np.int32))

    assert again[: len(one)].tolist() == buckets.tolist()
    changed = second.changed()
    merged = {**index, **changed}
    held = [value for hashes in merged.values() for value in hashes.tolist()]
    assert sorted(held) == sorted({*one, *other})
    assert all(set(index[bucket].tolist()) < set(changed[bucket].tolist()) for bucket in changed if bucket in index)


def test_concurrent_assigners_add_only_to_buckets_of_their_own():
    known = {0: np.arange(3, dtype=np.int32), 1: np.arange(3, 5, dtype=np.int32)}
    hashes = np.arange(40, dtype=np.int32)
    for number in range(3):
        assigner = HashBuckets(known, BucketRule(4, assigners=3, assigner=number))

        found = assigner.assign(hashes)

        assert found[:5].tolist() == [0, 0, 0, 1, 1]
        assert set((found[5:] % 3).tolist()) == {number}
        assert set(assigner.changed()) == set(found[5:].tolist())


def test_at_the_limit_the_rest_is_spread_evenly():
    counts = {0: 4, 1: 1}

    found = fill_buckets(counts, 13, BucketRule(4, buckets_max=3))

    assert found[:3].tolist() == [1, 1, 1]
    assert found[3:7].tolist() == [2] * 4
    assert counts == {0: 6, 1: 6, 2: 6}


def test_a_partition_has_at_most_the_buckets_that_java_can_number():
    assert fill_buckets({}, BUCKETS_MAX, BucketRule(1)).max() == BUCKETS_MAX - 1
    with pytest.raises(InvalidArgumentError, match=r"dynamic-bucket.target-row-num"):
        fill_buckets({}, BUCKETS_MAX + 1, BucketRule(1))
