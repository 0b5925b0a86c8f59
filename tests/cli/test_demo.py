"""The program as a user starts it: a real process."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).parent / "smered"


def smered(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)


def test_version_and_help():
    assert smered("--version").stdout.startswith("smered ")
    assert "Link a simulated three-wave survey" in smered("demo", "--help").stdout
    assert smered().returncode == 2  # no command: help, and an exit code that scripts notice


def test_demo_prints_the_result_beside_the_truth():
    result = smered("demo", "--draws", "4", "--burn-in", "2", "--chains", "1", "--share", "0.1")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "R-hat of beta[" in result.stdout or "draws of " in result.stdout  # the verdict
    for text in (
        "records of three",
        "in truth 3,494",
        "82, 1989",
        "Moved, 1982",
        "FNR",
        "FPR",
        "Time:",
    ):
        assert text in result.stdout, text
    assert "━━━━" not in result.stdout.split("\n")[0]  # no progress bar outside a terminal


def test_bad_settings_end_with_one_line_and_exit_code_2():
    result = smered("demo", "--draws", "0")
    assert result.returncode == 2
    assert result.stderr == "smered: draws = 0 must be at least 1\n"


def test_import_is_light():
    code = "import sys, smered; print('numba' in sys.modules, 'pyarrow' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False False\n"


def test_reading_tables_needs_no_numba():
    code = (
        "import sys, smered, pyarrow as pa\n"
        "r = smered.Records.from_frames(pa.table({'f': ['x', 'x']}), columns=['f'])\n"
        "m = smered.Model(r, ['f']); m.coded\n"
        "print('numba' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"
