"""For each kind of input a draw: one input spoilt, and a command that reads it."""

from __future__ import annotations

import gzip
import json
import random
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from simtool.engine.models.identity import identity
from simtool.step.placement import BUILT_IN
from simtool.trace.schema import TABLES
from tests.reliability.hostile import arguments, spoiling
from tests.reliability.hostile.inputs import MODELS, Drawn
from tests.reliability.hostile.spoiling import Change


def draw(folder: Path, dice: random.Random) -> Drawn:
    """Spoil one of the inputs in `folder` and return a command that reads it."""
    kind = dice.choice(list(KINDS))
    command, change = KINDS[kind](folder, dice)
    return Drawn(kind, command, change)


def _reads_trace(dice: random.Random) -> list[str]:
    """A command that reads the trace `toy`, at costs that its schema knows."""
    return dice.choice(
        (
            ["inspect", "toy"],
            ["replay", "toy", "--policy", "all", "--out", "out"],
            ["sweep", "toy", "--jobs", "1", "--concurrency", "2,3", "--out", "s.csv"],
            ["calibrate", "toy", "--out", "c.json"],
            ["compare", "toy", "toy2"],
            ["report", "toy", "toy2", "--out", "x.html"],
            ["export", "toy", "--out", "x.json"],
            ["lags", "toy"],
            ["tornado", "toy", "--policy", "lag", "--jobs", "1"],
            ["power", "toy", "toy2"],
            ["advise", "toy", "toy2", "--jobs", "1", "--seeds", "3"],
        )
    )


def _manifest(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    return _reads_trace(dice), spoiling.spoil_json(folder / "toy" / "manifest.json", dice)


def _table(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    """Half of them as a wrong writer would leave them: with the hash of what is there."""
    name = dice.choice(list(TABLES))
    change = spoiling.spoil_table(folder / "toy" / f"{name}.parquet", dice)
    if dice.random() < 0.7:
        spoiling.own_hash(folder / "toy", name)
    return _reads_trace(dice), change


def _profile(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    change = spoiling.spoil_json(folder / "p.json", dice)
    more = ["--profile", "p.json", "--allow-other-model"]
    return dice.choice(
        (
            ["replay", "toy", "--policy", "lag", *more],
            ["sweep", "toy", "--policy", "static", "--policy", "lag", "--jobs", "1", "--out", "s.json", *more],
            ["tornado", "toy", "--policy", "lag", "--jobs", "1", *more],
        )
    ), change


def _checkpoint(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    """A pair that worked, spoilt in a setting, in its weights or in their header, under a fill or a recording."""
    role = dice.choice(("target", "draft"))
    place = folder / "pair" / role
    if dice.random() < 0.75:
        change = spoiling.spoil_json(place / "config.json", dice)
    elif dice.random() < 0.5:
        change = _spoil_weights(place / "model.safetensors", dice)
    else:
        change = _spoil_header(place / "model.safetensors", dice)
    change = replace(change, what=f"{role}/{change.what}")
    if dice.random() < 0.15:
        return ["record", "--policy", "static", *MODELS, "--prompt-ids", "prompts.jsonl", "--out", "out"], change
    manifest = folder / "live" / "manifest.json"  # as if it had been recorded with this checkpoint
    told = json.loads(manifest.read_text())
    told["models"][role] = identity(place)
    manifest.write_text(json.dumps(told))
    return ["fill", "live", *MODELS], change


def _spoil_header(file: Path, dice: random.Random) -> Change:
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    made, change = spoiling.spoilt(json.loads(data[8 : 8 + length]), dice, "safetensors header")
    header = json.dumps(made).encode(errors="surrogatepass")
    told = dice.choice((len(header), len(header), len(header), 0, 2**63, len(data)))
    file.write_bytes(told.to_bytes(8, "little") + header + data[8 + length :])
    return change


def _spoil_weights(file: Path, dice: random.Random) -> Change:
    """A bit changed, or the file cut; told apart are the weights and what stands before them."""
    good = file.read_bytes()
    change = spoiling.spoil_bytes(file, dice)
    start = 8 + int.from_bytes(good[:8], "little")
    (at,) = change.place
    if change.how != "bit changed" or int(at) >= start:
        return change
    try:
        heads = [json.loads(data[8:start]) for data in (good, file.read_bytes())]
    except ValueError:
        return replace(change, how="bit of the header changed")
    same = data_of(heads[0]) == data_of(heads[1]) and good[:8] == file.read_bytes()[:8]
    return replace(change, how="bit of the header changed", same=same)


def data_of(header: dict[str, object]) -> dict[str, object]:
    """What a safetensors header says of tensors; its remarks are for people."""
    return {name: value for name, value in header.items() if name != "__metadata__"}


def _spoil_rules(file: Path, dice: random.Random) -> Change:
    """A bit changed, or the file cut; told is which keys of the rule differ then."""
    good = tomllib.loads(file.read_text())
    change = spoiling.spoil_bytes(file, dice)
    try:
        made = tomllib.loads(file.read_bytes().decode())
        (was,), (now,) = good["rule"], made["rule"]
    except (ValueError, KeyError):
        return change
    differ = tuple(key for key in {**was, **now} if was.get(key) != now.get(key))
    return replace(change, place=differ, same=made == good)


def _placement(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    order = [str(slot) for slot in BUILT_IN["lag"].order]
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(order))
        order[at : at + 1] = dice.choice(([], [order[at]] * 2, ["x"], ["-"], [order[at] + "|-"], [order[0]] * 300))
    name = dice.choice(("mine", "mine", "../x", "", "lag", "a\\u001b[2J"))
    lag = dice.choice(("1", "1", "-1", "99", "1.5", '"x"', "nan", "true"))
    more = dice.choice(("", "", 'sync = ["x"]\n', "sync = 3\n", 'sync = ["fill_varlen"]\n', "extra = 1\n", "[order]\n"))
    text = f'name = "{name}"\nlag_steps = {lag}\norder = {json.dumps(order)}\n{more}'
    (folder / "p.toml").write_text(text)
    plain = name == "mine" and lag == "1" and more in ("", 'sync = ["fill_varlen"]\n')
    change = Change("p.toml", "replaced", ("order" if plain else "keys",), "", f"{name} {lag} {more!r} {order}"[:600])
    return dice.choice(
        (
            ["placements", "p.toml"],
            ["replay", "toy", "--policy", "p.toml", "--out", "out"],
            ["sweep", "toy", "--policy", "static", "--policy", "p.toml", "--jobs", "1", "--out", "s.csv"],
        )
    ), change


def _prompts(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    change = spoiling.spoil_line(folder / "prompts.jsonl", dice)
    return ["record", "--policy", "static", *MODELS, "--prompt-ids", "prompts.jsonl", "--out", "out"], change


def _asked(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    name = dice.choice(("asked.csv", "asked.jsonl"))
    spoil = spoiling.spoil_cells if name.endswith("csv") else spoiling.spoil_line
    change = spoil(folder / name, dice)
    if dice.random() < 0.1:
        name = _packed(folder / name, dice)
    return dice.choice(
        (
            ["replay", "toy", "--policy", "lag", "--requests", name, "--time-unit", "ms"][: 6 if "csv" in name else 8],
            ["import", name, "--out", "out"],
        )
    ), change


def _packed(file: Path, dice: random.Random) -> str:
    """As gzip, sometimes cut short."""
    packed = gzip.compress(file.read_bytes())
    made = file.with_name(f"{file.name}.gz")
    made.write_bytes(packed[: dice.choice((len(packed), len(packed) // 2, 10))])
    return made.name


def _import(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    name = dice.choice(("k.json", "log.jsonl", "rules.toml"))
    if name == "k.json":
        return ["import", name, "--out", "out"], spoiling.spoil_json(folder / name, dice)
    if name == "log.jsonl":
        return ["import", "--step-log", name, "--out", "out"], spoiling.spoil_line(folder / name, dice)
    change = _spoil_rules(folder / name, dice)
    return ["import", "k.json", "--map", name, "--out", "out"], change


def _options(_folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    return arguments.spoilt_command(dice)


KINDS: dict[str, Callable[[Path, random.Random], tuple[list[str], Change]]] = {
    "manifest": _manifest,
    "table": _table,
    "profile": _profile,
    "checkpoint": _checkpoint,
    "placement": _placement,
    "prompts": _prompts,
    "request trace": _asked,
    "import": _import,
    "options": _options,
}
