"""How long one piece of work takes: a line in its features, what the line left over, and how good it is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simtool.errors import ProfileError

_KEYS = {"intercept_ns", "per_feature_ns", "ranges", "quality", "residuals_ns", "refits"}
#: Eleven days: no piece of a step takes as long, and thousands of them still count in 64 bits of ns.
MOST_NS = 1e15
#: A line may be followed this far past its last observation before it counts as an extrapolation.
SLACK = 1.25


@dataclass(frozen=True)
class Quality:
    """What a cost was fitted on and how well it does.

    n: observations. mean_ns, p50_ns, p99_ns: of the observed durations. r2: share of their variance explained; None
    when they do not vary. held_out_error: mean |error| on blocks kept out of the fit, as a share of their mean
    duration; held_out_bias: the mean signed error (observed minus predicted), likewise; None when too few.
    """

    n: int
    mean_ns: float
    p50_ns: float
    p99_ns: float
    r2: float | None = None
    held_out_error: float | None = None
    held_out_bias: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            optional = name in ("r2", "held_out_error", "held_out_bias")
            if not (optional and value is None) and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ValueError(f"quality.{name} is {value!r}; expected a number")


@dataclass(frozen=True)
class Line:
    """intercept_ns + sum over features of per_feature_ns[feature] x feature."""

    intercept_ns: float
    per_feature_ns: Mapping[str, float] = field(default_factory=dict)

    def plus(self, other: Line) -> Line:
        """Return the sum of two lines."""
        names = {**self.per_feature_ns, **other.per_feature_ns}
        slopes = {n: self.per_feature_ns.get(n, 0.0) + other.per_feature_ns.get(n, 0.0) for n in names}
        return Line(self.intercept_ns + other.intercept_ns, slopes)

    def scaled(self, factor: float) -> Line:
        """Return the line times a factor."""
        return Line(self.intercept_ns * factor, {name: slope * factor for name, slope in self.per_feature_ns.items()})


@dataclass(frozen=True)
class Cost:
    """duration = intercept_ns + sum over features of per_feature_ns[feature] x feature.

    residuals_ns: observed minus predicted, in time order, for block resampling. ranges: feature -> the smallest and
    largest value that was observed; a prediction outside them is an extrapolation. refits: the line fitted to
    resampled steps of the recording, the same resample at the same index of every cost; how much they differ is how
    uncertain the fit is.
    """

    intercept_ns: float
    per_feature_ns: Mapping[str, float] = field(default_factory=dict)
    residuals_ns: tuple[int, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    quality: Quality | None = None
    refits: tuple[Line, ...] = ()

    @cached_property
    def residual_array(self) -> NDArray[np.int64]:
        """The residuals as an array; made once, as there are many."""
        return np.array(self.residuals_ns, np.int64)

    def refitted(self, index: int) -> Cost:
        """Return the cost with its line replaced by a refit; itself where it has none."""
        if not self.refits:
            return self
        line = self.refits[index]
        return replace(self, intercept_ns=line.intercept_ns, per_feature_ns=line.per_feature_ns)

    def predict(self, features: Mapping[str, float]) -> float:
        """Return the expected duration in ns."""
        return self.intercept_ns + sum(slope * features[name] for name, slope in self.per_feature_ns.items())

    def scaled(self, factor: float) -> Cost:
        """Return the cost times a factor, its residuals too."""
        return replace(
            self,
            intercept_ns=self.intercept_ns * factor,
            per_feature_ns={name: slope * factor for name, slope in self.per_feature_ns.items()},
            residuals_ns=tuple(round(residual * factor) for residual in self.residuals_ns),
            refits=tuple(line.scaled(factor) for line in self.refits),
        )

    def shifted(self, delta_ns: float) -> Cost:
        """Return the cost plus a constant."""
        refits = tuple(Line(line.intercept_ns + delta_ns, line.per_feature_ns) for line in self.refits)
        return replace(self, intercept_ns=self.intercept_ns + delta_ns, refits=refits)

    def plus(self, other: Cost) -> Cost:
        """Return the cost of both together; residuals and refits are paired where both have as many, else dropped."""
        paired = len(self.residuals_ns) == len(other.residuals_ns)
        residuals = zip(self.residuals_ns, other.residuals_ns, strict=True) if paired else ()
        refits = zip(self.refits, other.refits, strict=True) if len(self.refits) == len(other.refits) else ()
        total = Line(self.intercept_ns, self.per_feature_ns).plus(Line(other.intercept_ns, other.per_feature_ns))
        return Cost(
            total.intercept_ns,
            total.per_feature_ns,
            tuple(one + another for one, another in residuals),
            {**other.ranges, **self.ranges},
            None,
            tuple(one.plus(another) for one, another in refits),
        )

    def growing(self, feature: str, slope_ns: float) -> Cost:
        """Return the cost plus a slope in a feature that it did not have; itself when the slope is 0."""
        if not slope_ns:
            return self
        refits = tuple(Line(line.intercept_ns, {**line.per_feature_ns, feature: slope_ns}) for line in self.refits)
        return replace(self, per_feature_ns={**self.per_feature_ns, feature: slope_ns}, refits=refits)

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "intercept_ns": self.intercept_ns,
            "per_feature_ns": dict(self.per_feature_ns),
            "ranges": {name: list(ends) for name, ends in self.ranges.items()},
            "quality": asdict(self.quality) if self.quality else None,
            "residuals_ns": list(self.residuals_ns),
            "refits": _refits_to_dict(self.refits),
        }

    @classmethod
    def from_dict(cls, table: object, source: str) -> Cost:
        """Build a cost from parsed JSON; raises ProfileError naming the source."""
        if not isinstance(table, dict):
            raise ProfileError(f"{source}: is {table!r}; expected a cost (intercept_ns, per_feature_ns, ...)")
        check_keys({"refits": None, **table}, _KEYS, source)
        if not isinstance(table["residuals_ns"], list):
            raise ProfileError(f"{source}: residuals_ns is {table['residuals_ns']!r:.80}; expected a list of numbers")
        try:
            cost = cls(
                _number(table["intercept_ns"]),
                {str(name): _number(slope) for name, slope in table["per_feature_ns"].items()},
                tuple(int(_number(residual)) for residual in table["residuals_ns"]),
                {str(name): (_number(low), _number(high)) for name, (low, high) in table["ranges"].items()},
                None if table["quality"] is None else Quality(**table["quality"]),
                _refits_from_dict(table.get("refits", {"intercept_ns": [], "per_feature_ns": {}})),
            )
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError, IndexError) as error:
            raise ProfileError(f"{source}: is not a cost ({error}); calibrate it anew") from error
        for name, value in cost.numbers():
            if not abs(value) <= MOST_NS:
                raise ProfileError(f"{source}: {name} is {value:g}; expected at most {MOST_NS:g} either way, in ns")
        return cost

    def numbers(self) -> Iterator[tuple[str, float]]:
        """Yield every number of the cost that times are computed from, with its name."""
        yield "intercept_ns", self.intercept_ns
        yield from ((f"per_feature_ns.{name}", slope) for name, slope in self.per_feature_ns.items())
        yield from (("a residual", residual) for residual in self.residuals_ns)
        for name, ends in self.ranges.items():
            yield from ((f"ranges.{name}", end) for end in ends)
        for line in self.refits:
            yield "intercept_ns of a refit", line.intercept_ns
            yield from ((f"per_feature_ns.{name} of a refit", slope) for name, slope in line.per_feature_ns.items())

    def least_ns(self) -> float:
        """Return the least that the line gives at the sizes it was fitted on."""
        ends = ((slope, self.ranges.get(name, (0.0, 0.0))) for name, slope in self.per_feature_ns.items())
        return self.intercept_ns + sum(min(slope * low, slope * high) for slope, (low, high) in ends)


def check_keys(table: object, known: Collection[str], source: str) -> None:
    """Raise ProfileError naming the source unless a table has just these keys."""
    if not isinstance(table, Mapping) or set(table) != set(known):
        found = f"has keys {', '.join(sorted(map(str, table)))}" if isinstance(table, Mapping) else f"is {table!r:.80}"
        raise ProfileError(f"{source}: {found}; expected {', '.join(sorted(known))}: calibrate it anew")


def _number(value: object) -> float:
    """JSON's true is no number here, nor is a text of digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.80} is no number")
    return float(value)


def _refits_to_dict(refits: Sequence[Line]) -> dict[str, object]:
    """Columns, not rows: a list of numbers a coefficient."""
    names = dict.fromkeys(name for line in refits for name in line.per_feature_ns)
    slopes = {name: [_short(line.per_feature_ns.get(name, 0.0)) for line in refits] for name in names}
    return {"intercept_ns": [_short(line.intercept_ns) for line in refits], "per_feature_ns": slopes}


def _refits_from_dict(table: Mapping[str, Any]) -> tuple[Line, ...]:
    if sorted(table) != ["intercept_ns", "per_feature_ns"]:
        raise ValueError(f"refits have keys {', '.join(sorted(table))}")
    if not all(isinstance(column, list) for column in (table["intercept_ns"], *table["per_feature_ns"].values())):
        raise TypeError("refits are lists of numbers")
    slopes = {str(name): [_number(slope) for slope in column] for name, column in table["per_feature_ns"].items()}
    return tuple(
        Line(_number(intercept), {name: column[i] for name, column in slopes.items()})
        for i, intercept in enumerate(table["intercept_ns"])
    )


def _short(value: float) -> float:
    """Six digits: a refit's spread needs no more, and there are many."""
    return float(f"{value:.6g}")


#: Work that takes no time at all.
FREE = Cost(0.0)
