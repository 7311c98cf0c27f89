"""Options of tags and consumers: automatic creation, and retention."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_engine.options.texts import OptionTexts


@dataclass(frozen=True)
class TagOptions(OptionTexts):
    """A table's options of tags and consumers."""

    @property
    def tag_automatic_creation(self) -> str:
        """The clock of automatic tags: `none`, `process-time`, `watermark` or `batch`."""
        return self._choice("tag.automatic-creation", "none", ("none", "process-time", "watermark", "batch"))

    @property
    def tag_creation_period(self) -> str:
        """`daily`, `hourly` or `two-hours`."""
        return self._choice("tag.creation-period", "daily", ("daily", "hourly", "two-hours"))

    @property
    def tag_creation_period_duration_ms(self) -> int | None:
        """Period of any other length; None: as `tag_creation_period` says."""
        key = "tag.creation-period-duration"
        return self._duration(key, 0) if key in self.raw else None

    @property
    def tag_creation_delay_ms(self) -> int:
        """Time that late data has after a period until its tag is made."""
        return self._duration("tag.creation-delay", 0)

    @property
    def tag_period_formatter(self) -> str:
        """`with_dashes`, `without_dashes` or `without_dashes_and_spaces`."""
        forms = ("with_dashes", "without_dashes", "without_dashes_and_spaces")
        return self._choice("tag.period-formatter", "with_dashes", forms)

    @property
    def tag_num_retained_max(self) -> int | None:
        """Automatic tags that stay at most; None is unbounded."""
        key = "tag.num-retained-max"
        return self._int(key, 0) if key in self.raw else None

    @property
    def tag_default_time_retained_ms(self) -> int | None:
        """How long new tags are kept by default; None means forever."""
        key = "tag.default-time-retained"
        return self._duration(key, 0) if key in self.raw else None

    @property
    def tag_time_expire_enabled(self) -> bool:
        """Whether tags are deleted when their time to live has ended."""
        return self._bool("tag.time-expire-enabled", default=True)

    @property
    def tag_automatic_completion(self) -> bool:
        """Whether periods in which nothing was committed get their tags later."""
        return self._bool("tag.automatic-completion", default=False)

    @property
    def tag_create_success_file(self) -> bool:
        """Whether a file says that a tag exists."""
        return self._bool("tag.create-success-file", default=False)

    @property
    def consumer_expiration_time_ms(self) -> int | None:
        """Age of a consumer file at which it expires; None is never."""
        key = "consumer.expiration-time"
        return self._duration(key, 0) if key in self.raw else None
