"""The commands that are stopped, as they run in a folder of `stopping.prepare`: each takes a second or more."""

from __future__ import annotations

from collections.abc import Mapping

from tests.engine import golden

_PAIR = golden.FOLDER / "dspark_b7"
_MODELS = ("--target", str(_PAIR / "target"), "--draft", str(_PAIR / "draft"))
_LIVE = (*_MODELS, "--prompt-ids", "many.jsonl", "--concurrency", "4")
_TWO = ("--policy", "lag", "--policy", "static", "--repeats", "2")
_STUDY = ("--simulator", "simpy", "--jobs", "2")
_DRAWN = ("--profile", "p.json", "--acceptance", "0.8,0.7,0.6", "--num-requests", "200")
#: Those that write, by name. All but `fill`, which adds to a trace, replace what is there.
WRITERS: Mapping[str, tuple[str, ...]] = {
    "record": ("record", *_LIVE, "--policy", "lag", "--out", "out", "--force"),
    "interleaved": ("record", *_LIVE, *_TWO, "--out", "out", "--force"),
    "validate": ("validate", *_LIVE, *_TWO, "--out", "out", "--report", "out.html", "--force"),
    "fill": ("fill", "live", *_MODELS),
    "sweep": ("sweep", "toy", *_STUDY, "--concurrency", "2,3,4", "--seeds", "4", "--out", "out.csv", "--force"),
    "search": ("search", "toy", *_STUDY, "--seeds", "2", "--lag", "none,1", "--save", "out", "--force"),
    "answers": (
        *("answers", "toy", "toy2", "--concurrency", "1,2", "--waves", "1", "--seeds", "2", "--jobs", "2", "--force"),
        *("--out", "out.md", "--page", "out.html", "--profiles", "out"),
    ),
    "import": ("import", "k.json", "--out", "out", "--force"),
    "synth": ("synth", *_DRAWN, "--out", "out", "--force"),
    "calibrate": ("calibrate", "toy", "--out", "out.json", "--force"),
    "replay": ("replay", "toy", "--policy", "all", "--out", "out", "--force"),
    "report": ("report", "toy", "toy2", "--out", "out.html", "--force"),
    "what-if": ("what-if", "toy", "--out", "out.html", "--force"),
    "export": ("export", "toy", "--out", "out.json", "--force"),
    "tornado": ("tornado", "toy", "--policy", "lag", *_STUDY, "--figure", "out.html", "--force"),
    "break-even": ("break-even", "toy", *_STUDY, "--seeds", "2", "--figure", "out.html", "--force"),
}
COMMANDS: Mapping[str, tuple[str, ...]] = {
    **WRITERS,
    "inspect": ("inspect", "toy", "toy2"),
    "compare": ("compare", "toy", "toy2"),
    "power": ("power", "toy", "toy2", "toy3", "toy4"),
    "advise": ("advise", "toy", "toy2", "--jobs", "2", "--seeds", "3"),
    "why": ("why", "toy", *_STUDY),
    "lags": ("lags", "toy"),
    "placements": ("placements",),
    "policies": ("policies",),
    "first-run": ("first-run", "--device", "cpu", "--out", "out.json", "--force"),
    "doctor": ("doctor",),
    "published": ("validate", "--published"),
}
#: Those that other processes work for.
WITH_HELPERS = ("record", "interleaved", "validate", "sweep", "search", "answers", "tornado", "break-even")
