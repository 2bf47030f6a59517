"""Where a number comes from, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Provenance(StrEnum):
    """How a predicted number was obtained; ordered from best to weakest by `rank`."""

    MEASURED = "measured"
    CALIBRATED = "calibrated"
    SIMULATED = "simulated"
    OPERATOR_TABLE = "operator-table"
    FITTED = "fitted"
    DATASHEET = "datasheet"

    @property
    def rank(self) -> int:
        """0 is best; a sum of terms is only as good as its weakest term."""
        return list(Provenance).index(self)

    @staticmethod
    def weakest(*terms: Provenance) -> Provenance:
        """Provenance of a number that was built from all `terms`."""
        return max(terms, key=lambda p: p.rank)


class Method(StrEnum):
    """How a figure in a profile was obtained."""

    DATASHEET = "datasheet"
    DRIVER = "driver"  # reported by the driver or the runtime
    MEASURED = "measured"
    DERIVED = "derived"  # computed from published numbers; the note says how
    PUBLISHED = "published"  # quoted from a named table or document
    LISTING = "listing"  # price list


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Origin of one figure in a profile. `date` is ISO (yyyy-mm-dd or yyyy-mm)."""

    source: str
    date: str
    method: Method
    confirmed: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted value with its 80 % interval, in the unit its field name states."""

    value: float
    low: float
    high: float

    def overlaps(self, other: Estimate) -> bool:
        """Whether the two intervals share a value, i.e. the predictions are not distinguishable."""
        return self.low <= other.high and other.low <= self.high
