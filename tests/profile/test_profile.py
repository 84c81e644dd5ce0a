"""Profiles on disk, and what-if changes."""

import json
import re
from dataclasses import replace

import pytest

from simtool.errors import ProfileError, UsageError
from simtool.profile.cost import Cost, Quality
from simtool.profile.storage import load_profile, save_profile
from simtool.profile.whatif import with_change, with_changes
from simtool.step.controller import LinearPredictor
from tests.replay.synthetic import profile_of, random_costs


def whole_profile():
    profile = profile_of(random_costs(4))
    gap = Cost(1_500.5, {}, (3, -2, 0), {}, Quality(3, 1_500.5, 1_500.0, 1_503.0, None, 0.01, -0.002))
    return replace(profile, loop_gap=gap, predictor=LinearPredictor(1.0, 0.5, 0.25))


def test_reads_back_what_it_wrote(tmp_path):
    save_profile(whole_profile(), tmp_path / "new" / "p.json")
    assert load_profile(tmp_path / "new" / "p.json") == whole_profile()
    assert "[3,-2,0]" in (tmp_path / "new" / "p.json").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 99}, "schema version 99, and this simtool reads up to 1; upgrade"),
        ({"schema_version": "one"}, "schema_version is 'one'; this is not a profile"),
        ({"colour": 1}, "key 'colour' is unknown"),
        ({"loop_gap": 3}, "loop_gap: is 3; expected a cost"),
        (
            {"decode": {"host": {"decide": {}}, "device": {}}},
            "decode.decide: has keys ; expected launches, post, pre, wake",
        ),
        ({"executors": {"compute": "a"}}, "expected one for prepare, compute, copy"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path, change, message):
    path = tmp_path / "p.json"
    path.write_text(json.dumps(whole_profile().to_dict() | change))
    with pytest.raises(ProfileError, match=message) as caught:
        load_profile(path)
    assert "\n" not in str(caught.value)


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(ProfileError, match="cannot be read"):
        load_profile(tmp_path / "none.json")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ProfileError, match="not JSON"):
        load_profile(tmp_path / "text")
    (tmp_path / "list").write_text("[1]")
    with pytest.raises(ProfileError, match="holds a list"):
        load_profile(tmp_path / "list")
    cut = whole_profile().to_dict()
    del cut["loop_gap"]
    (tmp_path / "cut").write_text(json.dumps(cut))
    with pytest.raises(ProfileError, match="key 'loop_gap' is absent"):
        load_profile(tmp_path / "cut")


SIZES = {"decide_work": 10.0, "validate_rows": 20.0, "validate_kv": 300.0, "batch": 4.0}


def pre(profile, op):
    return profile.decode.host[op].pre.predict(SIZES)


def test_set_add_and_scale():
    profile = whole_profile()
    assert pre(with_change(profile, "decide=0"), "decide") == 0
    assert pre(with_change(profile, "decide=1.5us"), "decide") == 1_500
    assert pre(with_change(profile, "build_varlen=+200us"), "build_varlen") == pre(profile, "build_varlen") + 200_000
    assert pre(with_change(profile, "build_varlen=-1ns"), "build_varlen") == pre(profile, "build_varlen") - 1
    assert pre(with_change(profile, "fill_varlen=x0.5"), "fill_varlen") == pre(profile, "fill_varlen") / 2
    assert with_change(profile, "loop_gap=x2").loop_gap.intercept_ns == 3_001
    assert with_change(profile, "loop_gap=x2").loop_gap.residuals_ns == (6, -4, 0)


def test_bare_names_mean_the_host_and_device_names_the_device():
    profile = whole_profile()
    duration = profile.decode.device["build_varlen"].duration
    on_host = with_change(profile, "build_varlen=0")
    on_device = with_change(profile, "device.build_varlen=0")
    assert on_host.decode.device["build_varlen"].duration == duration
    assert pre(on_device, "build_varlen") == pre(profile, "build_varlen")
    assert on_device.decode.device["build_varlen"].duration == Cost(0.0)
    assert with_change(profile, "target=4ms").decode.device["target"].duration == Cost(4e6)


def test_setting_a_blocking_op_takes_its_time_after_the_wait_too():
    changed = with_change(whole_profile(), "read_tokens=0").decode.host["read_tokens"]
    assert (changed.pre, changed.post) == (Cost(0.0), Cost(0.0))


def test_changes_are_kept_in_the_provenance():
    profile = with_change(with_change(whole_profile(), "decide=0"), "target=x2")
    assert profile.provenance.changes == ("decide=0", "target=x2")


def test_more_taken_off_than_is_there_is_said():
    priced = replace(whole_profile(), loop_gap=Cost(5_000.0, {"batch": 1_000.0}, ranges={"batch": (1.0, 8.0)}))

    def noted(change):
        return with_change(priced, change).provenance.changes[-1]

    assert noted("loop_gap=-6us") == "loop_gap=-6us"
    assert noted("loop_gap=-7us") == "loop_gap=-7us (clamped to 0 where it would be below)"
    assert noted("loop_gap=-9999us") == "loop_gap=-9999us (clamped to 0: it never costs more than 13 us)"


def test_sizes_that_are_not_known_bound_nothing():
    priced = replace(whole_profile(), loop_gap=Cost(5_000.0, {"batch": 1_000.0}))
    assert with_change(priced, "loop_gap=-9s").provenance.changes[-1].endswith("where it would be below)")


@pytest.mark.parametrize("second", ["decide=0", "host.decide=3ms", "decide=0ns"])
@pytest.mark.parametrize("first", ["decide=0", "decide=x2", "host.decide=+1us"])
def test_a_change_that_a_later_one_would_undo_is_refused(first, second):
    with pytest.raises(UsageError, match=re.escape(f"'{second}' undoes '{first}'")):
        with_changes(whole_profile(), [first, second])


def test_changes_of_one_cost_add_up():
    profile = with_changes(whole_profile(), ["decide=3us", "decide=+2us", "decide=x2", "loop_gap=0", "target=0"])
    assert pre(profile, "decide") == 10_000
    assert with_changes(whole_profile(), ["build_varlen=0", "device.build_varlen=0"]).loop_gap.intercept_ns == 1_500.5


@pytest.mark.parametrize(
    "text", ["decide", "decide=", "decide=fast", "decide=x-1", "decide=5", "tidy=0", "host.target=0"]
)
def test_bad_changes_are_refused(text):
    with pytest.raises(UsageError):
        with_change(whole_profile(), text)
