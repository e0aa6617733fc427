# SPDX-License-Identifier: GPL-2.0-only
"""What the scripts beside it share: they compare policies on scenarios of their own, and write tables into pages."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def compare(steelyard, scenario, policies, *options):
    """The comparison that `results.json` has of a scenario given as TOML."""
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        (directory / "host.toml").write_text(scenario)
        command = [steelyard, "compare", directory / "host.toml", "--out", directory / "out", *options]
        for policy in policies:
            command += ["--policy", policy]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{scenario}\n{done.stderr.strip()}")
        return json.loads((directory / "out" / "results.json").read_text())["comparisons"][0]


def write(page, name, text):
    """Replaces what stands between the marks of this name in a page, which tell the script that writes it."""
    page = ROOT / page
    begin = f"<!-- {name}: written by experiments/{pathlib.Path(sys.argv[0]).name} -->\n"
    end = f"<!-- end of {name} -->\n"
    old = page.read_text()
    if begin not in old or end not in old:
        sys.exit(f"{page.relative_to(ROOT)}: no marks `{name}`")
    new = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}",
                 lambda _: f"{begin}\n{text.strip()}\n\n{end}", old, flags=re.DOTALL)
    page.write_text(new)
