"""Options of VARIANT columns: which parts of their values get columns of their own in Parquet files.

Source: `CoreOptions`, `VariantShreddingWritePlanFactory` of the Java library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.options.texts import OptionTexts

SHREDDING_SCHEMA: Final = "variant.shreddingSchema"


@dataclass(frozen=True)
class VariantOptions(OptionTexts):
    """A table's options `variant.*`."""

    @property
    def variant_shredding_schema(self) -> str | None:
        """JSON text of a ROW type: a type for each VARIANT column whose values are taken apart."""
        return self.raw.get(SHREDDING_SCHEMA)

    @property
    def variant_infers_shredding(self) -> bool:
        """Whether the first rows of a file decide, where no schema is given."""
        return self._bool("variant.inferShreddingSchema", default=False)

    @property
    def variant_inference_mode(self) -> str:
        """`per-file`, or `adaptive`, where a writer of Java looks at fewer rows of files after its first."""
        return self._choice("variant.shredding.inferenceMode", "per-file", ("per-file", "adaptive"))

    @property
    def variant_width_max(self) -> int:
        """Columns that parts of all VARIANT columns may take together."""
        return self._int("variant.shredding.maxSchemaWidth", 300)

    @property
    def variant_depth_max(self) -> int:
        """How deep objects and arrays are looked into."""
        return self._int("variant.shredding.maxSchemaDepth", 50)

    @property
    def variant_field_share_min(self) -> float:
        """Share of values that must have a field, from 0 to 1."""
        return self._share("variant.shredding.minFieldCardinalityRatio", 0.1)

    @property
    def variant_sample_rows(self) -> int:
        """First rows of a file that are looked at."""
        return self._positive("variant.shredding.maxInferBufferRow", 4_096)

    @property
    def variant_adaptive_sample_rows(self) -> int:
        """First rows of a file after the first, where the inference is adaptive."""
        return self._positive("variant.shredding.adaptive.maxInferBufferRow", 256)

    @property
    def variant_adaptive_share_min(self) -> float:
        """Share of values at which a field keeps its column, where the inference is adaptive."""
        return self._share("variant.shredding.adaptive.retentionRatio", 0.05)

    def _positive(self, key: str, default: int) -> int:
        found = self._int(key, default)
        if found < 1:
            raise InvalidArgumentError(f"option '{key}' = '{found}'; use a positive number")
        return found

    def _share(self, key: str, default: float) -> float:
        found = self._float(key, default)
        if not 0 <= found <= 1:
            raise InvalidArgumentError(f"option '{key}' = '{self.raw[key]}'; use a number from 0 to 1")
        return found
