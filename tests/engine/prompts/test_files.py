"""Prompts from files: ids, text, chats, ShareGPT; and one line about whatever cannot be used."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from simtool.engine.prompts.files import TextEncoder, read_prompt_ids, read_text_prompts
from simtool.engine.prompts.source import PromptSource, describe_prompts
from simtool.errors import CheckpointError, UsageError

WORDS = ["<unk>", "<user>", "<assistant>", "<system>", "<end>", "say", "hello", "world", "again", "please"]
TEMPLATE = (
    "{%- if messages[0].role == 'assistant' %}{{ raise_exception('an assistant cannot begin') }}{% endif %}"
    "{%- for message in messages %}\n    {%- if not message.content %}{% continue %}{% endif %}\n"
    "<{{ message.role }}> {{ message.content }} {{ eos_token }} {% endfor -%}"
    "{%- if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture
def folder(tmp_path):
    """A model folder with a tokenizer of ten words."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text('{"vocab_size": 10}')
    return tmp_path


def with_template(folder, template=TEMPLATE):
    config = {"chat_template": template, "eos_token": {"content": "<end>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def lines(folder, *values):
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(value if isinstance(value, str) else json.dumps(value) for value in values))
    return path


def words(ids):
    return " ".join(WORDS[i] for i in ids)


def test_plain_prompts_and_their_lengths(folder):
    path = lines(folder, {"prompt": "say hello"}, "", {"prompt": "hello world again", "kind": "other"})
    prompts = read_text_prompts(path, folder, 9)
    assert [words(prompt.prompt_ids) for prompt in prompts] == ["say hello", "hello world again"]
    assert [(p.request_id, p.max_new_tokens, p.key) for p in prompts] == [("r0000", 9, 0), ("r0001", 9, 1)]
    assert describe_prompts(prompts) == "2 prompts of 2 to 3 tokens (median 3), up to 9 new tokens each"


SHAREGPT = {
    "conversations": [
        {"from": "human", "value": "say hello"},
        {"from": "gpt", "value": "hello"},
        {"from": "human", "value": "again please"},
        {"from": "gpt", "value": "hello world"},
    ]
}


def test_sharegpt_is_cut_before_the_last_answer(folder):
    with_template(folder)
    (prompt,) = read_text_prompts(lines(folder, SHAREGPT), folder, 9)
    assert words(prompt.prompt_ids) == (
        "<user> say hello <end> <assistant> hello <end> <user> again please <end> <assistant>"
    )


def test_a_json_list_of_conversations_is_read_too(folder):
    path = folder / "list.json"
    path.write_text(json.dumps([SHAREGPT, {"messages": [{"role": "user", "content": "hello"}]}], indent=1))
    assert [len(prompt.prompt_ids) for prompt in read_text_prompts(path, folder, 9)] == [5, 1]


@pytest.mark.parametrize("where", ["tokenizer_config.json", "by name", "chat_template.jinja"])
def test_the_template_may_lie_in_three_places(folder, where):
    with_template(folder, [{"name": "default", "template": TEMPLATE}] if where == "by name" else TEMPLATE)
    if where == "chat_template.jinja":
        with_template(folder, "wrong")
        (folder / where).write_text(TEMPLATE)
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": "hello"}]
    assert words(TextEncoder(folder).chat(messages)) == "<user> hello <end> <assistant>"


def test_a_template_that_refuses_or_is_none(folder):
    with_template(folder)
    with pytest.raises(UsageError, match=r"refuses a conversation \(an assistant cannot begin\)"):
        TextEncoder(folder).chat([{"role": "assistant", "content": "hello"}])
    with_template(folder, "{% if %}")
    with pytest.raises(CheckpointError, match="not a chat template"):
        TextEncoder(folder).chat([{"role": "user", "content": "hello"}])
    with_template(folder, "{{ ().__class__.__bases__ }}")
    with pytest.raises(UsageError, match="refuses a conversation"):
        TextEncoder(folder).chat([{"role": "user", "content": "hello"}])


def test_a_public_template_equals_what_transformers_renders(folder):
    """The same template and conversation through the public library."""
    transformers = pytest.importorskip("transformers")
    with_template(folder)
    public = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), eos_token="<end>", chat_template=TEMPLATE
    )
    messages = [{"role": "system", "content": "please"}, {"role": "user", "content": "say hello world"}]
    theirs = public.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert TextEncoder(folder).chat(messages) == list(theirs)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("3", "line 1: a int; expected a JSON table"),
        ('{"text": "hello"}', r"line 1: expected a prompt text, messages or conversations; got \['text'\]"),
        ('{"prompt": ""}', "line 1: no tokens in it"),
        ('{"prompt": 5}', "line 1: expected a prompt text"),
        ('{"conversations": []}', "line 1: expected a prompt text"),
        ('{"conversations": [{"from": "tool", "value": "x"}]}', "line 1: a turn is"),
        ('{"messages": [{"role": "user", "content": null}]}', "line 1: a turn is"),
        ('{"conversations": [{"from": "gpt", "value": "hello"}]}', "no turn before the assistant's"),
        ("", "no prompts in it"),
        ("[1, 2", "not JSON"),
    ],
)
def test_lines_that_are_no_prompts(folder, line, message):
    with pytest.raises(UsageError, match=message):
        read_text_prompts(lines(folder, line), folder, 9)


def test_files_that_are_none(folder):
    with pytest.raises(UsageError, match=r"nowhere\.jsonl: cannot be read"):
        read_text_prompts(folder / "nowhere.jsonl", folder, 9)
    (folder / "latin").write_bytes(b'{"prompt": "caf\xe9"}')
    with pytest.raises(UsageError, match="not UTF-8"):
        read_text_prompts(folder / "latin", folder, 9)


def test_a_folder_without_a_tokenizer(folder):
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not a tokenizer"):
        TextEncoder(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json in it; give --prompt-ids"):
        TextEncoder(folder)


def test_prompt_ids_and_their_defaults(folder):
    path = lines(folder, {"prompt_ids": [1, 2, 9], "max_new_tokens": 4}, {"prompt_ids": [0]})
    prompts = read_prompt_ids(path, 10, 7)
    assert [(p.prompt_ids, p.max_new_tokens) for p in prompts] == [((1, 2, 9), 4), ((0,), 7)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"prompt_ids": []}, "line 1: expected"),
        ({"prompt_ids": [1.0]}, "line 1: expected"),
        ({"prompt_ids": [True]}, "line 1: expected"),
        ({"prompt_ids": "12"}, "line 1: expected"),
        ({"prompt_ids": [10]}, "token id outside 0..9"),
        ({"prompt_ids": [-1]}, "token id outside 0..9"),
        ({"prompt_ids": [1], "max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"prompt_ids": [1], "max_new_tokens": "9"}, "max_new_tokens is '9'"),
    ],
)
def test_ids_that_cannot_be_used(folder, line, message):
    with pytest.raises(UsageError, match=message):
        read_prompt_ids(lines(folder, line), 10, 7)


def test_max_new_tokens_caps_what_the_file_asks_for(folder):
    path = lines(folder, {"prompt_ids": [1], "max_new_tokens": 4}, {"prompt_ids": [2], "max_new_tokens": 40})
    for most, expected in ((None, [4, 40]), (10, [4, 10])):
        prompts = PromptSource(None, most, 0, ids=path).load(folder)
        assert [prompt.max_new_tokens for prompt in prompts] == expected
    assert len(PromptSource(1, None, 0, ids=path).load(folder)) == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"count": 3}, "--num-prompts is 3 and the file holds 2"),
        ({"count": 0}, "--num-prompts is 0"),
        ({"max_new_tokens": 0}, "--max-new-tokens is 0"),
    ],
)
def test_bad_counts(folder, source, message):
    path = lines(folder, {"prompt_ids": [1]}, {"prompt_ids": [2]})
    with pytest.raises(UsageError, match=message):
        PromptSource(**{"count": None, "max_new_tokens": None, "seed": 0, "ids": path, **source}).load(folder)
