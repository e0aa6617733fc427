# SPDX-License-Identifier: GPL-2.0-only
"""What the scripts beside it share: they compare policies on scenarios of their own, and write tables into pages."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Each has a folder here, and a page in docs/papers.
EXPERIMENTS = ["app-slice", "boost-credit", "cosched", "load-weight", "mcredit2"]

# As many as tell what is undecided.
SEEDS = 5


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


def states(steelyard, name, settings=(), ours=False):
    """What has become of each claim of the publication, and of ours if they are asked for, and the experiment."""
    command = [steelyard, "reproduce", name, "--claims", "--json", "--seeds", str(SEEDS)]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # 3: a claim is not in the state that is expected with ten seeds.
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}\n{done.stderr.strip()}")
    outcome = json.loads(done.stdout)["experiments"][0]
    claims = (claim for claim in outcome["claims"] if claim["source"] or ours)
    means = {"holds": "holds", "turned": "holds", "known": "does not hold", "fails": "does not hold",
             "undecided": "undecided"}
    whose = {True: "", False: "ours: "}
    return {whose[bool(claim["source"])] + claim["says"]: means[claim["state"]] for claim in claims}, outcome


def row(cells):
    """A row of a table."""
    cells = (str(cell).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(cells)} |"


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
