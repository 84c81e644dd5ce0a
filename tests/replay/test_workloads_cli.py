"""`simtool replay --requests`, `--seeds` and what the result says of its outcomes, from the command line."""

import json

import polars as pl
import pytest

from simtool.cli.main import run
from simtool.profile.storage import save_profile
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from simtool.trace.trace import open_trace, replace_table
from tests.cli.documents.schemas import checked
from tests.replay.synthetic import constant_costs, profile_of, random_work, save_as_live, source_trace

LINES = [(0, 20, 12), (1, 5, 30), (1, 30, 9), (4, 90_000, 7)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A trace of six requests, the same sampled, one with holes, a profile, and files of four and two requests."""
    monkeypatch.chdir(tmp_path)
    profile = profile_of(constant_costs(pre=1_000, duration=5_000))
    source = source_trace(tmp_path / "source", random_work(3, 4, 6, tokens=20))
    recorded = replay(source, profile, Scenario(BUILT_IN["static"], 2))
    save_as_live(recorded, tmp_path / "whole")
    holed = save_as_live(recorded, tmp_path / "holed")
    kept = holed.table("outcomes").filter(pl.col("anchor_position") % 3 > 0)
    replace_table(holed, "outcomes", kept)
    recorded.manifest.sampling["temperature"] = 0.7
    save_as_live(recorded, tmp_path / "sampled")
    save_profile(profile, tmp_path / "p.json")
    text = "".join(
        json.dumps({"timestamp": at, "input_length": prompt, "output_length": output}) + "\n"
        for at, prompt, output in LINES
    )
    (tmp_path / "asked.jsonl").write_text(text)
    (tmp_path / "burst.jsonl").write_text("\n".join(text.splitlines()[1:3]))  # the two that come at once
    return tmp_path


def replayed(capsys, trace, *options, status=0):
    assert run(["replay", trace, "--profile", "p.json", *options]) == status
    return capsys.readouterr()


def test_requests_of_a_file_are_served(folder, capsys):
    options = ["--policy", "static", "--requests", "asked.jsonl"]
    printed = replayed(capsys, "whole", *options, "--out", "o")
    for word in ("outcomes: distributional", "queued", "TTFT"):
        assert word in printed.out
    assert "1 of 4 requests skipped, they never fit; the first: request line-4: 90000 prompt + 7 new" in printed.err
    requests = open_trace(folder / "o" / "whole-static").table("requests").sort("request_id")
    assert requests["arrival_ns"].to_list() == [0, 1_000_000, 1_000_000]
    (line,) = checked(replayed(capsys, "whole", *options, "--json").out)["runs"]
    assert (line["outcomes"], line["workload"]["requests"], line["bootstrap"]["seed"]) == ("distributional", 3, 0)
    assert line["ttft_p99_ns"] > line["queued_p99_ns"] >= 0


def test_the_folder_of_an_imported_trace_is_served_like_its_file(folder, capsys):
    assert run(["import", "asked.jsonl", "--out", "asked"]) == 0
    capsys.readouterr()
    for name in ("asked", "asked.jsonl"):
        options = ["--policy", "static", "--requests", name, "--num-requests", "3", "--out", f"o-{name}"]
        replayed(capsys, "whole", *options)
    served = [open_trace(folder / f"o-{name}" / "whole-static") for name in ("asked", "asked.jsonl")]
    for table in ("requests", "steps", "rows"):
        assert served[0].table(table).equals(served[1].table(table))


def test_a_time_unit_without_effect_is_refused(folder, capsys):
    replayed(capsys, "whole", "--policy", "static", "--time-unit", "s", status=2)
    replayed(capsys, "whole", "--policy", "static", "--requests", "whole", "--time-unit", "s", status=2)


def test_a_closed_loop_prints_no_waiting_times(folder, capsys):
    printed = replayed(capsys, "whole", "--policy", "static")
    assert "TTFT" not in printed.out
    assert "outcomes" not in printed.out  # they are the recorded ones


@pytest.mark.parametrize("arrivals", ["closed", "trace:200", "poisson:200"])
def test_arrivals_and_requests_are_one_workload(folder, capsys, arrivals):
    options = ["--policy", "static", "--requests", "asked.jsonl", "--num-requests", "3", "--arrivals", arrivals]
    replayed(capsys, "whole", *options, "--out", "o")
    requests = open_trace(folder / "o" / "whole-static").table("requests").sort("request_id")
    assert requests["output_tokens"].to_list() == [12, 30, 9]
    times = requests["arrival_ns"].to_list()
    assert {"closed": times == [0, 0, 0], "trace:200": times == [0, 10_000_000, 10_000_000]}.get(arrivals, times[0] > 0)


def test_requests_that_come_at_once_need_no_arrivals(folder, capsys):
    """The default, the file's own arrivals, is then the closed loop."""
    options = ["--policy", "static", "--requests", "burst.jsonl", "--json"]
    default, closed = (
        checked(replayed(capsys, "whole", *options, *more).out)["runs"] for more in ([], ["--arrivals", "closed"])
    )
    assert default == closed


def test_seeds_give_intervals_and_paired_changes(folder, capsys):
    options = ["--policy", "static", "--policy", "lag", "--requests", "asked.jsonl", "--seeds", "4", "--seed", "3"]
    printed = replayed(capsys, "whole", *options, "--out", "o", "--verbose")
    assert "mean over 4 seeds, 95 % intervals" in printed.out
    assert "change against static, paired by seed" in printed.out
    assert sorted(path.name for path in (folder / "o").iterdir()) == [
        f"whole-{name}-seed{seed}" for name in ("lag", "static") for seed in (3, 4, 5, 6)
    ]
    document = checked(replayed(capsys, "whole", *options, "--json").out)
    assert [run["seed"] for run in document["runs"]] == [3, 4, 5, 6, 3, 4, 5, 6]
    lengths = [run["acceptance_length"] for run in document["runs"][:4]]
    assert len(set(lengths)) > 1
    found = document["intervals"]["static"]["acceptance_length"]
    assert found["mean"] == pytest.approx(sum(lengths) / 4)
    assert found["high"] > found["mean"] > found["low"]
    (difference,) = document["differences"]
    assert (difference["over"], difference["repetitions"]) == ("seeds", 4)
    assert document["baseline"] == "static"
    assert document["changes"]["lag"]["step_ns"]["mean"] > 0


def test_substitutes_are_in_the_printed_result(folder, capsys):
    printed = replayed(capsys, "holed", "--policy", "static", "--outcomes", "resample")
    found = checked(replayed(capsys, "holed", "--policy", "static", "--outcomes", "resample", "--json").out)
    (line,) = found["runs"]
    share = line["anchors_substituted"] / line["anchors_looked_up"]
    assert 0 < share < 1
    assert line["outcomes"] == f"{share:.1%} substituted"
    assert line["outcomes"] in printed.out
    refusal = replayed(capsys, "holed", "--policy", "static", status=2).err
    assert "run `simtool fill holed` or record with --outcomes full, or replay with --outcomes resample" in refusal


def test_sampled_recordings_are_distributional_and_run_over_seeds(folder, capsys):
    once = replayed(capsys, "sampled", "--policy", "static", "--json")
    (line,) = checked(once.out)["runs"]
    assert line["outcomes"] == "distributional"
    assert "--seeds 10 shows how much the draw matters" in once.err
    document = checked(replayed(capsys, "sampled", "--policy", "static", "--seeds", "4", "--json").out)
    assert len({run["acceptance_length"] for run in document["runs"]}) > 1
    assert all(run["workload"]["requests"] == 6 for run in document["runs"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--num-requests", "3"], "--num-requests has no effect without --requests"),
        (["--requests", "asked.jsonl", "--num-requests", "9"], "9 requests asked for; asked.jsonl has 4"),
        (["--requests", "asked.jsonl", "--kv-blocks", "1"], "no request fits the KV cache"),
        (["--requests", "p.json"], "p.json: has schema_version, name, device"),
        (["--requests", "gone.csv"], "gone.csv: cannot be read"),
        (["--seeds", "3"], "--seed and --seeds have no effect"),
        (["--seeds", "0"], "--seeds is 0; expected 1 or more"),
        (["--arrivals", "closed:3"], "a closed loop has none"),
        (["--arrivals", "trace:3"], "whole is a closed loop, all its requests were queued"),
        (["--requests", "burst.jsonl", "--arrivals", "trace"], "burst.jsonl come all at once, as in a closed"),
        (["--requests", "burst.jsonl", "--arrivals", "trace:3"], "--arrivals trace:3: the requests of burst"),
        (["--requests", "asked.jsonl", "--num-requests", "1", "--arrivals", "trace"], "come all at once"),
    ],
)
def test_bad_use_is_one_line(folder, capsys, options, message):
    errors = replayed(capsys, "whole", "--policy", "static", *options, status=2).err.splitlines()
    assert message in errors[-1]
