"""Whose models a trace ran and a profile priced: two small models cost nothing like two large ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from simtool.errors import ProfileError

#: Role (target, draft) -> id and sha256, as in a trace's manifest; empty: not said.
Models = Mapping[str, Mapping[str, str]]
_HASH_LETTERS = 8
_ROLES = {"target": "target", "draft": "drafter"}


def describe_models(models: Models) -> str:
    """Return the models in one phrase, such as "target: Qwen3-8B (sha256 0123abcd), drafter: not said"."""
    return _listed(models, _ROLES) if models else "not said"


def differing_roles(one: Models, other: Models) -> list[str]:
    """Return the roles whose models are known to differ: by their hashes, or by their ids where a hash is absent."""
    return [role for role in sorted(set(one) & set(other)) if not _same(one[role], other[role])]


def pooled_models(named: Sequence[tuple[str, Models]], *, allow_other: bool) -> tuple[Models, list[str]]:
    """Return the models of traces that are fitted together, (name, models) of each, and warnings about them.

    Raises ProfileError when two ran different models, unless that is allowed.
    """
    told = [(name, models) for name, models in named if models]
    warnings = []
    for name, models in told[1:]:
        if differing_roles(told[0][1], models):
            listed = f"{told[0][0]}: {describe_models(told[0][1])}; {name}: {describe_models(models)}"
            if not allow_other:
                raise ProfileError(
                    f"traces of different models ({listed}); calibrate each by itself, or pool them with "
                    "`simtool calibrate --allow-other-model`"
                )
            warnings.append(f"traces of different models were pooled: {listed}")
    if told and (silent := [name for name, models in named if not models]):
        warnings.append(
            f"pooled without knowing whether the models are the same: {', '.join(silent)} does not name its"
        )
    return (told[0][1] if told and not warnings else {}), warnings


def check_models(profile: tuple[str, Models], trace: tuple[str, Models], *, allow_other: bool) -> str | None:
    """Return what to warn of when a profile prices a trace, each (name, models); None when the models are the same.

    Raises ProfileError when they are known to differ, unless that is allowed.
    """
    roles = differing_roles(profile[1], trace[1])
    if not roles:
        silent = _silent([profile, trace])
        return f"{silent} does not name its models, so nothing tells whether they are the same" if silent else None
    both = f"{profile[0]} was fitted to {_listed(profile[1], roles)}, and {trace[0]} ran {_listed(trace[1], roles)}"
    if not allow_other:
        raise ProfileError(f"{both}; give a profile of the same models, or pass --allow-other-model")
    return f"priced with another model's profile: {both}"


def _listed(models: Models, roles: Iterable[str]) -> str:
    return ", ".join(f"{_ROLES.get(role, role)}: {_name(models.get(role))}" for role in roles)


def _silent(named: Iterable[tuple[str, Models]]) -> str | None:
    return next((name for name, models in named if not models), None)


def _name(model: Mapping[str, str] | None) -> str:
    if not model:
        return "not said"
    digest = f" (sha256 {model['sha256'][:_HASH_LETTERS]})" if model.get("sha256") else ""
    return f"{model.get('id') or 'without a name'}{digest}"


def _same(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    key = "sha256" if one.get("sha256") and other.get("sha256") else "id"
    return not one.get(key) or not other.get(key) or one[key] == other[key]
