"""Machines derived from others: scaled sides, the split fill, and figures that others published."""

import dataclasses
from pathlib import Path

import pytest

from simtool.errors import ProfileError, UsageError
from simtool.profile.profile import StepCosts
from simtool.profile.proxies import with_proxies
from simtool.profile.published import KINDS, assumed_figures, constructed_profile
from simtool.profile.scaling import scaled, split_fill
from simtool.profile.storage import load_profile, save_profile
from simtool.step.controller import LinearPredictor
from simtool.step.cost_features import DecodeShape
from simtool.step.ops import CATALOGUE
from simtool.step.placement import BUILT_IN
from tests.replay.synthetic import constant_costs, profile_of, random_costs

FIGURES = Path(__file__).parents[2] / "models" / "profiles" / "xllm-2280-like.toml"


def features(batch, drafts):
    return DecodeShape(drafts, drafts, [100] * batch, [drafts] * batch, [1] * batch).features()


def test_scaled_keeps_sides_apart():
    profile = dataclasses.replace(profile_of(random_costs(1)), predictor=LinearPredictor(1.0, 0.5, 0.25))
    other = scaled(profile, "other", host=2, device=3, latency=5)
    sizes = {**features(4, 7), "prompt_rows": 50.0, "prompt_kv": 70.0}
    for name, cost in profile.decode.host.items():
        assert other.decode.host[name].pre.predict(sizes) == pytest.approx(2 * cost.pre.predict(sizes))
        for launched, offset in cost.launches.items():
            assert other.decode.host[name].launches[launched].predict(sizes) == pytest.approx(5 * offset.predict(sizes))
    for name, work in profile.decode.device.items():
        assert other.decode.device[name].duration.predict(sizes) == pytest.approx(3 * work.duration.predict(sizes))
    assert other.predictor == LinearPredictor(3.0, 1.5, 0.75)
    assert other.provenance.changes == ("synthetic with host work x2, device work x3, latencies x5",)
    with pytest.raises(UsageError, match="expected factors above 0"):
        scaled(profile, "none", device=0)


def test_split_fill_adds_up():
    costs = constant_costs(pre=10, host_fill_varlen=70, host_fill_dense=15)
    pre = {key: line for key, line in costs.pre.items() if key[1] not in ("build_fill_index", "scatter_fill")}
    profile = split_fill(profile_of(dataclasses.replace(costs, pre=pre)))
    assert profile.decode.host["build_fill_index"].pre.predict({}) == 55
    assert profile.decode.host["scatter_fill"].pre.predict({}) == 15
    assert profile.provenance.changes == ()
    (note,) = profile.provenance.proxies_of(BUILT_IN["lag-overlap-index"])
    assert "not recorded" in note
    assert profile.provenance.proxies_of(BUILT_IN["lag-overlap"]) == []
    assert split_fill(profile) == profile


def test_what_was_not_recorded_is_priced_like_what_is_most_like_it():
    """A profile of this-step runs alone prices lag-overlap-index, and says how."""
    profile = profile_of(random_costs(2))
    ran = {op.name for pruned in (True, False) for op in BUILT_IN["this-step"].ops(pruned=pruned)} - {"fill_dense"}
    works = {work.name for name in ran for work in CATALOGUE[name].works}
    decode = StepCosts(
        {name: cost for name, cost in profile.decode.host.items() if name in ran},
        {name: cost for name, cost in profile.decode.device.items() if name in works},
    )
    whole = with_proxies(dataclasses.replace(profile, decode=decode))
    for placement in BUILT_IN.values():
        for op in (*placement.ops(pruned=True), *placement.ops(pruned=False)):
            assert op.name in whole.decode.host
            assert {work.name for work in op.works} <= set(whole.decode.device)
    sizes = features(3, 5)
    stored, read = (whole.decode.host[name] for name in ("store_confidence", "read_confidence"))
    assert stored.pre.predict(sizes) == read.pre.predict(sizes)
    assert list(whole.provenance.proxies) == [
        "store_confidence",
        "launch_tokens",
        "fill_dense",
        "fill_varlen (syncs)",
        "launch_verify (syncs)",
        "build_fill_index",
        "scatter_fill",
    ]
    assert with_proxies(whole) == whole


def test_the_published_figures_come_out_again(tmp_path):
    """Pull request 2280 at concurrency 32: 52 us of decision at SL 7, 588 and 760 us of rebuild, 285 us of fill."""
    profile = constructed_profile(FIGURES, "2026-01-01")
    host = profile.decode.host
    assert host["build_varlen"].pre.predict(features(32, 7)) == pytest.approx(588_000, rel=0.01)
    assert host["build_varlen"].pre.predict(features(32, 16)) == pytest.approx(760_000, rel=0.01)
    for drafts, moved_us in ((7, 63.85), (16, 77.62)):
        both = host["decide"].pre.predict(features(32, drafts)) + host["read_confidence"].pre.predict({})
        assert both == pytest.approx(moved_us * 1000, rel=0.02)
        assert host["fill_varlen"].pre.predict(features(32, drafts)) == pytest.approx(285_000, rel=0.01)
    save_profile(profile, tmp_path / "p.json")
    assert load_profile(tmp_path / "p.json") == profile
    assert all(source["kind"] in KINDS and source["why"] for source in profile.provenance.sources)
    priced = {
        op.name for placement in BUILT_IN.values() for slot in placement.order for op in (slot.full, slot.pruned) if op
    }
    assert priced <= set(host)


def test_assumed_figures_have_ranges_and_take_factors():
    """A factor of 2 on one figure doubles that cost and no other."""
    figures = {figure.name: figure for figure in assumed_figures(FIGURES)}
    assert {"launch_verify", "verify", "wake_us", "launch_us", "queue_us"} <= set(figures)
    assert not {"decide", "build_varlen", "fill_varlen", "target"} & set(figures)
    assert all(0 < figure.low < 1 < figure.high for figure in figures.values())
    plain, other = (
        constructed_profile(FIGURES, "now"),
        constructed_profile(FIGURES, "now", {"launch_verify": 2.0, "wake_us": 3.0}),
    )
    for name, cost in plain.decode.host.items():
        expected = cost.pre.scaled(2.0) if name == "launch_verify" else cost.pre
        assert other.decode.host[name].pre == expected
        assert (other.decode.host[name].wake is None) == (cost.wake is None)
        if cost.wake is not None:
            assert other.decode.host[name].wake.intercept_ns == 3 * cost.wake.intercept_ns
    assert other.decode.device == plain.decode.device
    with pytest.raises(ProfileError, match="lacks 'moon'"):
        constructed_profile(FIGURES, "now", {"moon": 2.0})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "assumed"\nrange = [0.33, 3]\nwhy = "small transfers"', "", "uploads and copies: says neither kind"),
        ("decide_work = 0.0048", "moon = 1.0", "decide grows with unknown 'moon'"),
        ('op = "finish"', 'op = "polish"', "unknown op 'polish'"),
        ("[latency]", "[patience]", "lacks 'latency'"),
        ("[latency]", "[latency", "not TOML"),
        ('work = "target"', 'work = "targets"', "device figure of unknown work 'targets'"),
        ("us = 23800.0", "us = -1.0", "target: us is -1.0; expected a number of 0 or more"),
        ("us = 23800.0", "us = nan", "target: us is nan"),
        ("us = 23800.0", 'us = "long"', "us is 'long'; expected a number"),
        ("wake_us = 20.0", "wake_us = true", "wake_us is True"),
        ("range = [0.25, 4]", "range = [2, 4]", r"latency: range is \[2, 4\], and the figure is assumed"),
        ('kind = "published"', 'kind = "published"\nrange = [0.5, 2]', "the figure is published; expected two factors"),
    ],
)
def test_bad_figures_are_one_line(tmp_path, old, new, message):
    text = FIGURES.read_text()
    assert old in text
    path = tmp_path / "figures.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(ProfileError, match=message):
        constructed_profile(path, "2026-01-01")
    with pytest.raises(ProfileError, match="cannot be read"):
        constructed_profile(tmp_path / "absent.toml", "2026-01-01")
