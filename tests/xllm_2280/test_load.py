"""Greedy and sampled texts are answered apart: their costs and outcomes are not pooled."""

from dataclasses import replace

from xllm_2280.answers import group_traces
from xllm_2280.load import Load
from xllm_2280.machines import profile_names

from tests.replay.synthetic import random_work, source_trace


def test_traces_are_grouped_by_sl_and_temperature(tmp_path):
    greedy = source_trace(tmp_path / "a", random_work(3, 4, 2, tokens=8))
    sampled = replace(greedy, manifest=replace(greedy.manifest, sampling={"temperature": 0.6, "accept": "match"}))
    replayed = replace(greedy, manifest=replace(greedy.manifest, origin="replayed"))
    assert group_traces([sampled, greedy, sampled, replayed]) == [[greedy], [sampled, sampled]]


def test_names_and_words():
    assert (str(Load(7)), Load(7).slug) == ("7", "sl7")
    assert (str(Load(16, 0.6)), Load(16, 0.6).slug) == ("16 at T 0.6", "sl16-t0.6")
    names = profile_names(Load(7, 0.6), None, "2026-01-01")
    assert names == ["measured-sl7-t0.6", "device-bound-sl7-t0.6", "host-bound-sl7-t0.6"]
