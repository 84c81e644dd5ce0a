"""What every command that runs models shares: which models, which prompts, and the controller's predictor."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from simtool.cli.shared import console
from simtool.engine.models.json_file import read_json
from simtool.errors import CheckpointError, UsageError
from simtool.step.controller import ControllerSettings, LinearPredictor

if TYPE_CHECKING:
    from simtool.engine.devices.spec import RunnerSpec, SamplingConfig
    from simtool.engine.serving.engine import Prompt
    from simtool.engine.serving.session import Session

Algorithm = Literal["dspark", "dflash"]

#: The pair that ships, in a checkout: models/checkpoints beside the package.
SHIPPED = Path(__file__).parents[3] / "models" / "checkpoints"
_SHIPPED_DRAFTS = {"dspark": {7: "dspark_sl7", 16: "dspark_sl16"}, "dflash": {7: "dflash_sl7"}}
_PROMPT_TOKENS = (24, 96)
_DEFAULT_NEW_TOKENS = 96


@dataclass(frozen=True)
class Models:
    """Checkpoint folders, and the draft tokens per block (None: what the drafter was trained for)."""

    target: Path
    draft: Path
    drafts: int | None


@dataclass(frozen=True)
class PromptSource:
    """Where prompts come from: a file of ids, a file of text, or (both None) held-out standard library text."""

    count: int | None
    max_new_tokens: int | None
    seed: int
    ids: Path | None = None
    text: Path | None = None

    @property
    def drawn_with(self) -> int | None:
        """The seed that draws the prompts; None when a file gives them."""
        return self.seed if self.ids is None and self.text is None else None

    def load(self, target: Path) -> list[Prompt]:
        """Return the prompts as the target's token ids; --max-new-tokens caps what a file asks for.

        Raises UsageError when both files are given or a file holds fewer than asked for.
        """
        from simtool.engine.prompts import files as inputs

        new_tokens = _DEFAULT_NEW_TOKENS if self.max_new_tokens is None else self.max_new_tokens
        if new_tokens < 1:
            raise UsageError(f"--max-new-tokens is {new_tokens}; expected 1 or more")
        if self.ids is not None and self.text is not None:
            raise UsageError("--prompt-ids and --prompts were both given; keep one")
        if self.count is not None and self.count < 1:
            raise UsageError(f"--num-prompts is {self.count}; expected 1 or more")
        if self.ids is None and self.text is None:
            return inputs.stdlib_prompts(target, self.count or 32, self.seed, _PROMPT_TOKENS, new_tokens)
        if self.ids is not None:
            prompts = inputs.read_prompt_ids(self.ids, _number(target, "vocab_size"), new_tokens)
        else:
            assert self.text is not None
            prompts = inputs.read_text_prompts(self.text, target, new_tokens)
        if self.count is not None and self.count > len(prompts):
            raise UsageError(f"--num-prompts is {self.count} and the file holds {len(prompts)}; ask for that or less")
        most = self.max_new_tokens or max(prompt.max_new_tokens for prompt in prompts)
        return [replace(prompt, max_new_tokens=min(prompt.max_new_tokens, most)) for prompt in prompts[: self.count]]


def choose_models(target: Path | None, draft: Path | None, algorithm: str | None, sl: int | None) -> Models:
    """Return the folders: those given, or the shipped pair whose drafter fits the algorithm and SL best."""
    if sl is not None and sl < 1:
        raise UsageError(f"--sl is {sl}; expected 1 or more draft tokens per block")
    if algorithm is not None and algorithm not in _SHIPPED_DRAFTS:
        raise UsageError(f"--algorithm is {algorithm!r}; expected one of {', '.join(_SHIPPED_DRAFTS)}")
    if (target is None) != (draft is None):
        missing = "--draft" if draft is None else "--target"
        raise UsageError(f"a target and a drafter belong together: {missing} is missing; give both or neither")
    if target is not None and draft is not None:
        if algorithm is not None:
            raise UsageError("--algorithm picks a shipped drafter, and --draft names one already; keep one of them")
        for folder in (target, draft):
            if not folder.is_dir():
                raise UsageError(f"{folder}: no such folder; give the folder of a downloaded checkpoint")
        return Models(target, draft, sl)
    if not SHIPPED.is_dir():
        raise UsageError(f"no models at {SHIPPED} (they ship with a checkout); give --target and --draft")
    drafters = _SHIPPED_DRAFTS[algorithm or "dspark"]
    trained = min(drafters, key=lambda n: abs(n - (sl or 7)))
    return Models(SHIPPED / "target", SHIPPED / drafters[trained], sl or trained)


def open_session(
    device: str,
    models: Models,
    concurrency: int,
    prompts: Sequence[Prompt],
    *,
    dtype: str,
    sampling: SamplingConfig,
    kv: tuple[int | None, int],
    graph_rows: int = 0,
) -> Session:
    """Open a device with the models loaded and room for the longest of the prompts in every slot.

    kv: blocks (None: enough for `concurrency` such requests), block size. graph_rows: largest captured target batch.
    """
    from simtool.engine.devices.open import open_device
    from simtool.engine.devices.spec import RunnerSpec
    from simtool.engine.serving.session import Session

    if concurrency < 1:
        raise UsageError(f"--concurrency is {concurrency}; expected 1 or more")
    context_tokens = _context_tokens(models, prompts)
    blocks, block_size = kv
    if blocks is None and block_size > 0:
        blocks = concurrency * -(-context_tokens // block_size)
    spec: RunnerSpec = RunnerSpec(
        models.target,
        models.draft,
        slots=concurrency,
        kv_blocks=1 if blocks is None else blocks,
        block_size=block_size,
        drafts=models.drafts,
        context_tokens=context_tokens,
        dtype=dtype,  # type: ignore[arg-type]  # RunnerSpec checks it
        sampling=sampling,
        graph_rows=graph_rows,
    )
    opened = Session(open_device(device, spec), spec, seed=sampling.seed)
    for warning in opened.warnings:
        console.note(f"warning: {warning}")
    return opened


def live_predictor(session: Session) -> LinearPredictor:
    """Time validates on the session's device and fit the controller's predictor to them."""
    import numpy as np

    from simtool.calibrate.regression import fit_nonnegative
    from simtool.engine.serving.probe import probe_grid, probe_validate

    spec, info = session.spec, session.info
    longest = min(info.max_tokens - info.drafts - 1, spec.kv_blocks * spec.block_size - info.drafts - 1)
    samples = probe_validate(session.device, probe_grid(info.drafts, longest), spec.kv_blocks, spec.block_size)
    columns = np.array([[sample.rows, sample.row_prefixes] for sample in samples], dtype=np.float64)
    line = fit_nonnegative(columns, np.array([sample.validate_ms for sample in samples]))
    return LinearPredictor(*(float(value) for value in line))


def read_predictor(path: Path) -> LinearPredictor:
    """Return the predictor of a calibrated profile."""
    from simtool.profile.storage import load_profile

    predictor = load_profile(path).predictor
    if predictor is None:
        raise UsageError(f"{path}: has no predictor (its validates never varied); calibrate on a run that prunes")
    return predictor


def controller_settings(session: Session, predictor: str, draft_ms: float, min_gain: float) -> ControllerSettings:
    """Return what the controller knows. predictor: "live", "none" or a profile's path."""
    settings = ControllerSettings(None, draft_ms, min_gain)
    if predictor == "none":
        return settings
    if predictor != "live":
        return replace(settings, predictor=read_predictor(Path(predictor)))
    started = time.perf_counter()
    fitted = live_predictor(session)
    console.note(
        f"predictor, timed live in {time.perf_counter() - started:.1f} s: validate ms = {fitted.intercept_ms:.3f} + "
        f"{fitted.query_token_ms:.4f} x rows + {fitted.query_prefix_ms:.2e} x row prefixes"
    )
    return replace(settings, predictor=fitted)


def shapes(prompts: Sequence[Prompt]) -> str:
    """Say how many prompts there are and how long, for the terminal."""
    lengths = sorted(len(prompt.prompt_ids) for prompt in prompts)
    new = sorted({prompt.max_new_tokens for prompt in prompts})
    return (
        f"{len(prompts)} prompts of {lengths[0]} to {lengths[-1]} tokens (median {lengths[len(lengths) // 2]}), "
        f"up to {' / '.join(map(str, new[:3]))} new tokens each"
    )


def _context_tokens(models: Models, prompts: Sequence[Prompt]) -> int:
    """Positions of the longest request and the block drafted past its end, as far as the target has them."""
    block = read_json(models.draft / "config.json").get("block_size")
    ahead = models.drafts or (block if isinstance(block, int) else 0)
    longest = max(len(prompt.prompt_ids) + prompt.max_new_tokens for prompt in prompts)
    return min(longest + ahead + 1, _number(models.target, "max_position_embeddings", 32_768))


def _number(folder: Path, key: str, default: int | None = None) -> int:
    """A size from a model folder's config.json."""
    value = read_json(folder / "config.json").get(key, default)
    if type(value) is not int or value < 1:
        raise CheckpointError(f"{folder / 'config.json'}: {key} is {value!r}, expected a whole number: mend the key")
    return value
