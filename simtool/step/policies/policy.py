"""A policy: how old the confidence is behind the total budget and behind the split, and the rule that reads it.

A policy is parameters, and starts a decider for each run. The decider sees plain arrays and returns prefix lengths;
the live engine and the replay ask the same one. What it did for want of something better, it counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from simtool.errors import UsageError
from simtool.files.reading import quoted
from simtool.step.controller import ControllerSettings, survival

Floats = NDArray[np.float64]
#: What a parameter may be.
Value = int | float | str | bool
#: As many steps as a confidence may be old.
MOST_AGE = 8


@dataclass(frozen=True)
class Aged:
    """Confidence of one age. own: indices of the sequences that have one so old. confidence: theirs, [own, N].

    batch: how many sequences there are.
    """

    own: Sequence[int]
    confidence: Floats
    batch: int

    @cached_property
    def own_survival(self) -> Floats:
        """Probability that the drafts up to and with each are all accepted, of those that have one: [own, N]."""
        return survival(self.confidence)

    @property
    def survival(self) -> Floats:
        """The same of all, 1.0 for a sequence that has none so old: it is verified rather too far. [batch, N]."""
        if len(self.own) == self.batch:
            return self.own_survival
        rows = np.ones((self.batch, self.confidence.shape[1]))
        rows[list(self.own)] = self.own_survival
        return rows

    @property
    def missing(self) -> int:
        """How many sequences have none so old."""
        return self.batch - len(self.own)


@dataclass(frozen=True)
class StepView:
    """What a decision may know. drafts: N. kv_lens: [batch], tokens. keys: [batch], names a sequence over its steps.

    aged: what was asked for by `Policy.ages`. graph_rows: rows at which target forwards were captured; none: ().
    match_runs: [batch], known to a replay only, before the verify.
    """

    drafts: int
    kv_lens: Sequence[int]
    keys: Sequence[object]
    aged: Mapping[int, Aged]
    settings: ControllerSettings
    graph_rows: tuple[int, ...] = ()
    match_runs: Sequence[int] | None = None

    @property
    def batch(self) -> int:
        """Sequences in the step."""
        return len(self.kv_lens)


class Decider(ABC):
    """A policy in one run. counters: how often it fell back on something, by name, 0 too."""

    def __init__(self, *counted: str) -> None:
        self.counters: Counter[str] = Counter(dict.fromkeys(counted, 0))

    @abstractmethod
    def decide(self, view: StepView) -> list[int]:
        """Return how many drafts of each sequence to verify, 0..N."""

    def learn(self, view: StepView, offered: Sequence[int], accepted: Sequence[int]) -> None:  # noqa: B027  few learn
        """Hear how many of the drafts that were offered were accepted: [batch] each."""


@dataclass(frozen=True)
class Policy(ABC):
    """Parameters of a policy; a subclass is one. Its fields are the parameters, their values here the defaults.

    name, what, source: for people. origins: parameter -> where its default comes from. home: the placement whose order
    it takes unless another is named. on_device: the original splits the budget on the device. reads: the settings of
    the controller that it reads. lossless: why sampled output follows the target, or why it may not.
    """

    name: ClassVar[str]
    what: ClassVar[str]
    source: ClassVar[str]
    origins: ClassVar[Mapping[str, str]] = {}
    home: ClassVar[str] = "lag-overlap-late"
    on_device: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()
    needs_truth: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for age in self.ages:
            if not 0 <= age <= MOST_AGE:
                raise UsageError(f"{self.name}: an age of {age} steps; expected 0 to {MOST_AGE}")

    @property
    @abstractmethod
    def budget_steps(self) -> int | None:
        """Age of the confidence behind the total budget; None: behind it is none."""

    @property
    @abstractmethod
    def split_steps(self) -> int | None:
        """Age of the confidence behind each sequence's share; None: behind it is none."""

    @property
    def ages(self) -> tuple[int, ...]:
        """The ages of confidence that a decision looks at, ascending."""
        return tuple(sorted({age for age in (self.budget_steps, self.split_steps) if age is not None}))

    @property
    @abstractmethod
    def lossless(self) -> str:
        """Why sampled output follows the target's distribution, as a sentence; or why not, starting with "no"."""

    @property
    def biased(self) -> bool:
        """Whether sampled output may differ from the target's."""
        return self.lossless.startswith("no")

    def why_biased(self, *, confidence_head: bool) -> str | None:
        """Return why sampled output may not follow the target; None: it does.

        confidence_head: position k's confidence is computed from the drafts before k. Without it, it is the probability
        of the very draft that is judged.
        """
        if self.biased:
            return self.lossless.removeprefix("no: ")
        if not confidence_head and 0 in self.ages:
            return "this drafter's confidence is the probability of the very token it drafted"
        return None

    @abstractmethod
    def start(self) -> Decider:
        """Return a decider that has seen nothing yet."""

    @property
    def parameters(self) -> dict[str, Value]:
        """Every parameter and its value."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def changed(self) -> dict[str, Value]:
        """The parameters that are not at their defaults."""
        defaults = {each.name: each.default for each in fields(self)}
        return {name: value for name, value in self.parameters.items() if value != defaults[name]}

    @property
    def text(self) -> str:
        """The policy as it is typed: NAME, or NAME:PARAMETER=VALUE,..."""
        told = ",".join(f"{name}={_typed(value)}" for name, value in self.changed.items())
        return f"{self.name}:{told}" if told else self.name

    def to_dict(self) -> dict[str, object]:
        """Return what a manifest keeps, and what makes the policy again: all parameters."""
        return {"name": self.name, **self.parameters}


@dataclass(frozen=True)
class TwoAges(Policy):
    """A policy whose total and whose split read confidence of an age each."""

    budget_age: int = 0
    split_age: int = 0

    @property
    def budget_steps(self) -> int:
        """Age behind the total."""
        return self.budget_age

    @property
    def split_steps(self) -> int:
        """Age behind each share."""
        return self.split_age


class WithoutConfidence(Policy):
    """A policy that reads no confidence, of any age."""

    @property
    def budget_steps(self) -> None:
        """Behind the total is none."""
        return

    @property
    def split_steps(self) -> None:
        """Behind a share is none."""
        return


def parse_value(policy: str, parameter: Field[Value], text: object) -> Value:
    """Return a parameter's value from a text or a JSON value; raises UsageError for another kind."""
    kind = type(parameter.default)
    told = text.strip() if isinstance(text, str) else text
    try:
        if kind is bool:
            return _BOOLS[str(told).lower()]
        if kind is str and isinstance(told, str):
            return told
        if kind is int and not isinstance(told, bool | float):
            return int(str(told))
        if kind is float and not isinstance(told, bool):
            value = float(str(told))
            if np.isfinite(value):
                return value
    except (KeyError, ValueError):
        pass
    raise UsageError(f"{policy}: {parameter.name} is {quoted(text)}; expected {_KINDS[kind]}")


def check_share(policy: str, name: str, value: float) -> None:
    """Raise UsageError for a number outside 0 to 1."""
    if not 0 <= value <= 1:
        raise UsageError(f"{policy}: {name} is {value:g}; expected 0 to 1")


_BOOLS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
_KINDS: Mapping[object, str] = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}


def _typed(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
