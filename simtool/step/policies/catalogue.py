"""The policies by name, and how one is typed: NAME, or NAME:PARAMETER=VALUE,PARAMETER=VALUE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType

from simtool.errors import UsageError, did_you_mean
from simtool.files.reading import quoted
from simtool.step.policies.bandit import WidthBandit
from simtool.step.policies.dspark_production import DsparkProduction
from simtool.step.policies.dspark_strict import DsparkStrict
from simtool.step.policies.fixed_budget import FixedBudget
from simtool.step.policies.forecast import ForecastSurvival
from simtool.step.policies.oracle import KnowsMatchRuns
from simtool.step.policies.policy import Policy, Value, parse_value
from simtool.step.policies.sglang_relay import SglangRelay
from simtool.step.policies.threshold import ConfidenceThreshold
from simtool.step.policies.vllm_adaptive import VllmAdaptive
from simtool.step.policies.vllm_ascend import VllmAscend
from simtool.step.policies.xllm import XllmController

_ALL: tuple[type[Policy], ...] = (
    XllmController,
    DsparkStrict,
    DsparkProduction,
    SglangRelay,
    VllmAdaptive,
    VllmAscend,
    ConfidenceThreshold,
    FixedBudget,
    WidthBandit,
    ForecastSurvival,
    KnowsMatchRuns,
)

POLICIES: Mapping[str, type[Policy]] = MappingProxyType({kind.name: kind for kind in _ALL})


def parse_policy(text: str) -> Policy:
    """Return the policy that a text names; raises UsageError for an unknown name, parameter or value."""
    name, _, told = text.partition(":")
    parts = [part.partition("=") for part in told.split(",") if part.strip()]
    for parameter, equals, _value in parts:
        if not equals:
            raise UsageError(f"{text!r}: {parameter!r} has no value; expected {name}:PARAMETER=VALUE,...")
    return policy_from_dict({"name": name, **{parameter.strip(): value for parameter, _, value in parts}})


def policy_from_dict(table: Mapping[str, object]) -> Policy:
    """Return the policy of a table with `name` and any of its parameters; raises UsageError as `parse_policy`."""
    name = table.get("name")
    kind = POLICIES.get(name) if isinstance(name, str) else None
    if kind is None:
        hint = did_you_mean(str(name), POLICIES)
        raise UsageError(f"unknown policy {quoted(name)}; expected one of {', '.join(POLICIES)}{hint}")
    known = {each.name: each for each in fields(kind)}
    values: dict[str, Value] = {}
    for parameter, value in table.items():
        if parameter == "name":
            continue
        if parameter not in known:
            has = f"expected one of {', '.join(known)}" if known else "it has no parameters"
            raise UsageError(f"{kind.name}: unknown parameter {parameter!r}; {has}{did_you_mean(parameter, known)}")
        values[parameter] = parse_value(kind.name, known[parameter], value)
    return kind(**values)
