"""The header that xLLM's patch calls: compiled, run, and its log imported. The patch itself only adds lines."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from simtool.step.ops import CATALOGUE
from simtool.trace.importers.step_log.importing import import_step_log

FOLDER = Path(__file__).parents[2] / "integrations" / "xllm"
PATCH = FOLDER / "xllm-3906f5a.patch"

MAIN = r"""
#include "step_log.h"
using namespace xllm::step_log;
int main() {
  Log& log = Log::of_this_thread();
  op("decide");  // no step is open: nothing
  log.begin(/*writes=*/false, 3, "dspark");
  log.end({{"not the driver", 1, 1, 1, 1}});
  log.begin(/*writes=*/true, 3, "dspark");
  op("launch_prefill");
  log.end_prefill({"a \"quoted\" name", "b"}, {10, 30});
  const double confidence[] = {0.875, 0.5, 0.25, 1.0, 0.0, 0.125};
  for (int i = 0; i < 2; ++i) {
    log.begin(/*writes=*/true, 3, "dspark");
    op("launch_target");
    op("read_tokens");
    log.wait_begins();
    log.wait_ends();
    if (i == 0) log.confidence(confidence, 2, 3);
    log.end({{"a \"quoted\" name", 10 + 2 * i, 3, 1, 2}, {"b", 20 + i, 0, 0, 1}});
  }
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_the_header_compiles_alone_and_its_log_is_imported(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(MAIN)
    binary, log = tmp_path / "main", tmp_path / "run.steps.jsonl"
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{FOLDER}"]
    subprocess.run(["g++", *flags, "-o", str(binary), str(tmp_path / "main.cpp")], check=True)
    for _ in range(2):  # started again, it goes on in the same file
        subprocess.run([str(binary)], check=True, env={"XLLM_STEP_LOG": str(log)})
    subprocess.run([str(binary)], check=True, env={})  # not asked for: nothing is written
    imported = import_step_log(log)
    rows = imported.frames["rows"]
    assert rows["request_id"].head(2).to_list() == ['a "quoted" name', "b"]
    assert rows.select("anchor_position", "prefix_len", "accepted", "emitted").rows()[:2] == [
        (10, 3, 1, 2),
        (20, 0, 0, 1),
    ]
    assert rows["confidence"].head(3).to_list() == [[0.875, 0.5, 0.25], [1.0, 0.0, 0.125], None]
    events = imported.frames["events"]
    assert events["op"].to_list()[:3] == ["launch_prefill", "launch_target", "read_tokens"]
    assert imported.frames["steps"].select("kind", "validate_rows").row(0) == ("prefill", 30)
    assert events.filter(pl.col("op") == "read_tokens")["wait_end_ns"].null_count() == 0
    assert imported.manifest.details["steps"] == {"from": "the step log", "logged": 6, "resumed": 1}


def test_the_patch_adds_and_takes_nothing_away() -> None:
    lines = PATCH.read_text().splitlines()
    assert not [line for line in lines if line.startswith("-") and not line.startswith("---")]
    added = [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")]
    ops = {name for line in added for name in re.findall(r'op\("(\w+)"\)', line)}
    assert len(ops) == 16
    assert ops <= set(CATALOGUE)
