"""The table of features in the documentation says what this engine does, and what Java 2.0 then reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interop.feature_table import FEATURES, FILE, Feature, outcome_of, vars_of
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

SAID = {line["name"]: line for line in json.loads(FILE.read_text(encoding="utf-8"))}
AGAIN = "the documentation says otherwise: run `python -m tests.interop.feature_table`"


def test_each_feature_is_in_the_table():
    assert list(SAID) == [feature.name for feature in FEATURES], AGAIN


@pytest.mark.parametrize("feature", FEATURES, ids=[feature.name for feature in FEATURES])
def test_a_feature_is_as_the_documentation_says(feature: Feature, paimon2: JavaPaimon, tmp_path: Path):
    assert vars_of(outcome_of(feature, paimon2, tmp_path)) == SAID[feature.name], AGAIN
