"""`simtool synth`, and what other commands say of the trace."""

import json
from pathlib import Path

import pytest

from simtool.cli.main import run

PROFILE = str(Path(__file__).parents[3] / "models" / "profiles" / "xllm-2280-like.json")
ASKED = ["--profile", PROFILE, "--num-requests", "16", "--output-tokens", "40", "--prompt-tokens", "lognormal:60:1:200"]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    path = tmp_path_factory.mktemp("drawn") / "mine"
    assert run(["synth", "--out", str(path), *ASKED, "--acceptance", "0.8,0.6,0.4", "--seed", "5"]) == 0
    return path


def test_every_command_takes_it(drawn, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["inspect", str(drawn)]) == 1  # it warns that nobody recorded it
    assert "origin      synthetic, complete" in capsys.readouterr().out
    replayed = tmp_path / "replayed"
    arms = ["--policy", "static", "--policy", "this-step", "--policy", "lag"]
    assert run(["replay", str(drawn), *arms, "--profile", PROFILE, "--out", str(replayed)]) == 0
    printed = capsys.readouterr()
    assert "synthetic, distributional" in printed.out
    assert "nobody recorded them: acceptance 0.800 0.600 0.400" in printed.err
    assert run(["compare", *map(str, sorted(replayed.iterdir()))]) in (0, 1)
    assert run(["sweep", str(drawn), "--policy", "lag", "--profile", PROFILE, "--concurrency", "4,8", "--json"]) in (
        0,
        1,
    )
    assert run(["advise", str(drawn), "--profile", PROFILE]) in (0, 1)
    assert "(synthetic)" in capsys.readouterr().out
    assert run(["lags", str(drawn), "--profile", PROFILE]) == 0
    assert run(["report", str(drawn), "--out", str(tmp_path / "page.html")]) == 0
    assert "synthetic" in (tmp_path / "page.html").read_text()


def test_the_same_words_draw_the_same(drawn, tmp_path, capsys):
    again = tmp_path / "again"
    assert run(["synth", "--out", str(again), *ASKED, "--acceptance", "0.8,0.6,0.4", "--seed", "5"]) == 0
    for table in ("requests", "rows", "outcomes", "events"):
        assert (again / f"{table}.parquet").read_bytes() == (drawn / f"{table}.parquet").read_bytes()


def test_acceptance_length_and_autocorrelation(tmp_path, capsys):
    more = ["--acceptance-length", "1.75", "--sl", "2", "--acceptance-autocorrelation", "0.2", "--json"]
    assert run(["synth", "--out", str(tmp_path / "a"), *ASKED, *more]) == 0
    told = json.loads(capsys.readouterr().out)["manifest"]["details"]["synthetic"]
    assert told["acceptance"] == pytest.approx([0.5, 0.25])
    assert told["acceptance_autocorrelation"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "either --acceptance"),
        (["--acceptance", "0.5", "--sl", "1"], "--sl has no effect"),
        (["--acceptance-length", "2"], "give --sl too"),
        (["--acceptance", "half"], "expected shares by position"),
        (
            ["--acceptance", "0.5", "--sharpness", "0.2", "--acceptance-autocorrelation", "0.1"],
            "follow from each other",
        ),
        (["--acceptance", "0.5", "--output-tokens", "many"], "is no length"),
        (["--acceptance", "0.5", "--policy", "no-such"], "no-such"),
    ],
)
def test_bad_use(tmp_path, words, message, capsys):
    asked = ["--profile", PROFILE, *words]
    assert run(["synth", "--out", str(tmp_path / "a"), *asked]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
