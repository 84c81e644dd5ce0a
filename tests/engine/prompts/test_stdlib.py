import pytest

from simtool.engine.prompts.stdlib import DOMAINS, heldout_prompts, is_held_out, standard_library
from simtool.errors import SimtoolError


def as_bytes(text: str) -> list[int]:
    return list(text.encode())


def test_prompts_repeat_with_their_seed_and_mix_domains() -> None:
    first = heldout_prompts(as_bytes, 9, 3, 20, 40)
    assert first == heldout_prompts(as_bytes, 9, 3, 20, 40)
    assert first != heldout_prompts(as_bytes, 9, 4, 20, 40)
    assert {prompt.domain for prompt in first} == set(DOMAINS)
    assert all(20 <= len(prompt.prompt_ids) <= 40 for prompt in first)


def test_the_sides_share_no_name() -> None:
    held = {document.name for document in standard_library(held_out=True)}
    assert len(held) > 20
    assert all(is_held_out(name) for name in held)


@pytest.mark.parametrize("lengths", [(0, 5), (6, 5)])
def test_lengths_that_make_no_sense_are_refused(lengths: tuple[int, int]) -> None:
    with pytest.raises(SimtoolError, match="choose other lengths"):
        heldout_prompts(as_bytes, 1, 0, *lengths)


def test_texts_that_are_too_short_are_refused() -> None:
    with pytest.raises(SimtoolError, match="lower min_tokens"):
        heldout_prompts(lambda _: [1], 1, 0, 2, 3)
