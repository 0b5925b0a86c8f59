"""Public files with truth, linked end to end; skipped where they are not at hand.

They are looked for in the folder that SMERED_DATA names, or else in shared/data beside the project.
"""

import csv
import json
import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("SMERED_DATA", Path(__file__).parents[3] / "shared" / "data"))
COLUMNS = ["--id", "rec_id", "--file-column", "source", "--truth", "ent_id"]
LENGTH = ["--draws", "100", "--burn-in", "100", "--chains", "2"]


def public(name):
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{name} is not in {FOLDER}; set SMERED_DATA to where it is")
    return path


@pytest.mark.parametrize(
    ("name", "flags", "records", "least_f1"),
    [
        ("italy.csv", ["--block", "IREG", "--no-duplicates"], 27_435, 0.45),
        ("no_dup_data.csv", ["--no-duplicates"], 730, 0.3),
        ("dup_data.csv", [], 867, 0.3),
    ],
)
def test_from_the_command_line(smered_, tmp_path, name, flags, records, least_f1):
    path = public(name)
    result = smered_("link", path, *COLUMNS, *flags, *LENGTH, "--out", "run")
    assert result.code == 0, result.err
    with (tmp_path / "run" / "linked.csv").open(newline="") as file:
        linked = list(csv.DictReader(file))
    assert len(linked) == records
    if "--no-duplicates" in flags:
        assert len({(row["file"], row["entity_id"]) for row in linked}) == records
    found = json.loads(smered_("evaluate", "run", "--json").out)
    assert found["records_with_truth"] == records
    assert found["estimate"]["f1"] > least_f1
