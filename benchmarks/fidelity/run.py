"""The published error tables: validate many settings, judge costs across them, write two pages of it.

python -m benchmarks.fidelity.run     # an hour of a quiet machine; what is there already is kept

Then `benchmarks.fidelity.across` and `benchmarks.fidelity.pages`, which need no quiet machine (`make fidelity`).
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.fidelity.settings import EXACT, ROOT, TIMED, Setting


def main() -> None:
    """Validate every setting that is not there yet."""
    for setting in (*TIMED, *EXACT):
        run(setting)


def run(setting: Setting) -> None:
    """Validate one setting; a difference that it finds is a finding, which the page prints."""
    if (setting.folder / "validation.json").exists():
        return
    out = str(setting.folder.relative_to(ROOT))
    command = ["-m", "simtool", "validate", *setting.arguments, "--out", out, "--force"]
    print("simtool", *command[2:], flush=True)
    status = subprocess.run([sys.executable, *command], cwd=ROOT, check=False, stdout=subprocess.DEVNULL).returncode
    if status not in (0, 1):
        raise SystemExit(f"{setting.name}: validate ended with status {status}")


if __name__ == "__main__":
    main()
