"""Where in a file of JSON another value may be as true as the one before: places, by the kind of input.

A place is its keys and list indices, joined with dots. What is not named here ought to be refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NOWHERE = re.compile(r"(?!)")


def _all(text: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{part})" for part in text.split()))


#: Another value of the same kind may stand here.
OWN: Mapping[str, re.Pattern[str]] = {
    "manifest": _all(
        r"engine engine_version device device_name clock models\.\w+\.\w+ seed prompt_seed sampling\.\w+ "
        r"controller\.(min_gain|draft_ms) warnings(\.\d+)? details\..+ placement\.name"
    ),
    "profile": _all(
        r"name device device_name executors\.\w+ provenance\..+ predictor\.\w+ graphs\..+ models "
        r".+\.(intercept_ns|residuals_ns(\.\d+)?|per_feature_ns\.\w+|ranges\..+|quality\.\w+|refits\..+|launches)"
        r" loop_gap\.(intercept_ns|residuals_ns|per_feature_ns|ranges)"
    ),
    "checkpoint": _all(
        r"rms_norm_eps rope_parameters (rope_parameters\.)?rope_theta eos_token_id mask_token_id block_size "
        r"max_position_embeddings target_layer_ids\.\d+ transformers_version architectures\.\d+"
    ),
    "prompts": _all(r"prompt_ids(\.\d+)? max_new_tokens"),
    "request trace": _all(r"timestamp input_length output_length \d+\.\d+"),
    "import": _all(
        r"baseTimeNanoseconds traceEvents\.\d+\.(ts|dur|pid|tid|name|cat) traceEvents\.\d+\.args\.\w+ "
        r"engine engine_version clock arrival_ns start_ns end_ns temperature ops\..+ "
        r"(confidence|draft_prob|draft_tokens)\..+ finish_reason kind"
    ),
}
#: The key may be left out, or be null.
ABSENT: Mapping[str, re.Pattern[str]] = {
    "manifest": _all(
        r"prompt_seed tables details\..+ controller\..+ sampling\..+ models(\.\w+)* warnings\.\d+ placement"
    ),
    "profile": _all(
        r"graphs(\.\w+)? pinned models(\..+)? predictor provenance\..+ (.+\.)?refits .+\.(quality|post|wake) "
        r".+\.(residuals_ns|ranges|per_feature_ns|host|device|launches|quality)\..+"
    ),
    "checkpoint": _all(
        r"(rope_parameters\.)?rope_(theta|type) rope_parameters rms_norm_eps max_position_embeddings layer_types "
        r"eos_token_id tie_word_embeddings attention_bias markov_head_type num_target_layers hidden_act "
        r"architectures(\.\d+)? target_layer_ids\.\d+"
    ),
    "prompts": _all(r"max_new_tokens prompt_ids\.\d+"),
    "request trace": _NOWHERE,
    "import": _all(
        r"baseTimeNanoseconds traceEvents\.\d+ traceEvents\.\d+\.(pid|tid|name|cat|args) traceEvents\.\d+\.args\.\w+ "
        r"temperature confidence(\.\d+)? draft_prob draft_tokens slot fresh ops(\..+)? kind max_new_tokens arrival_ns "
        r"finish_reason"
    ),
}
#: Whatever the writer likes may stand here, under any key.
ADDED: Mapping[str, re.Pattern[str]] = {
    "manifest": _all(r"details(\..+)? models(\..+)?"),
    "profile": _all(
        r"models\.no.such.key provenance\.(bundles|sources|stand_ins)\..+ "
        r".*\.(ranges|per_feature_ns|launches|host|device)\.no.such.key"
    ),
    "checkpoint": _NOWHERE,
    "prompts": _NOWHERE,
    "request trace": _NOWHERE,
    "import": _NOWHERE,
}
#: A number of any size means something here: a seed, an id, a remark.
ANY_SIZE = _all(r"(prompt_|sampling\.)?seed details\..+ provenance\..+ .+\.(pid|tid|correlation) .+\.quality\.\w+")
