"""Rung 4: kernels with one deliberate mistake each, which the other rungs must reject.

Each mutant is a copy of the package with one piece of text replaced; the exactness tests run on it
in a fresh process and must fail. If the text is gone, the mutant must be written anew.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import smered

PACKAGE = Path(smered.__file__).parent
ROOT = Path(__file__).parents[2]
CHAIN, PLAIN = "exact/test_partitions.py", "exact/test_reference.py"
SINGLE = "exact/test_transfers.py"
WHOLE, GEWEKE = "exact/test_quadrature.py", "calibration/test_geweke.py"
TOGGLES, COUNTS = "exact/test_joint.py", "exact/test_counts.py"

MUTANTS = {
    "no-hastings-factor": (
        "kernels/moves.py", "log_back = -(size - 2) * LOG_2", "log_back = 0.0", CHAIN),
    "n-for-n-minus-N": (
        "priors/uniform.py", "return 0.0, records - entities", "return 0.0, records",
        CHAIN),
    "stale-weight-after-a-move": (
        "kernels/moves.py", "clusters.log_weight[name] = left if last < size else right",
        "pass", CHAIN),
    "labels-not-returned": (
        "kernels/moves.py", "free -= more", "free -= 0", CHAIN),
    "labels-weigh-nothing": (
        "labels.py", "return log_unit - np.log(chance), found", "return log_unit * chance, found",
        CHAIN),
    "labels-of-another-group": (
        "labels.py", "int(prior.free[group])", "int(prior.free[0])", CHAIN),
    "distortions-not-counted": (
        "kernels/latent.py", "statistics.distorted[row, field] += 1",
        "statistics.distorted[row, field] += 0", COUNTS),
    "agreeing-values-never-distorted": (
        "counts.py", "distorted = hidden + elsewhere * shows", "distorted = 0 * hidden", COUNTS),
    "another-true-value-not-counted": (
        "counts.py", "clusters - elsewhere + distorted", "clusters + distorted", COUNTS),
    "transfer-without-hastings-factor": (
        "kernels/transfers.py", "return math.log(back / forward) if back > 0 else -math.inf",
        "return 0.0", SINGLE),
    "transfer-back-by-the-wrong-record": (
        "kernels/transfers.py", "back, _ = candidates_in(rival, two, layout, clusters)",
        "back, _ = candidates_in(record, two, layout, clusters)", SINGLE),
    "arrival-without-its-chance": (
        "kernels/moves.py",
        "log_back = -log_chance(record, two, members, start, end, layout, clusters)",
        "log_back = 0.0", CHAIN),
    "unfair-coin": (
        "kernels/moves.py", "if bits & ONE:", "if bits & np.uint64(3):", CHAIN),
    "distorted-values-not-counted": (
        "kernels/latent.py", "statistics.level_counts[shown] += 1",
        "pass", COUNTS),
    "lone-values-not-counted": (
        "kernels/latent.py",
        "layout.exact[field]):\n        statistics.level_counts[level] += 1",
        "layout.exact[field]):\n        statistics.level_counts[level] += 0", COUNTS),
    "lone-values-taken-for-telling": (
        "kernels/latent.py", "if not mixed and (present == 1 or layout.exact[field]):",
        "if not mixed and layout.exact[field]:", COUNTS),
    "arrival-with-unweighted-candidates": (
        "kernels/partners.py", "inside += weight", "inside += 1", CHAIN),
    "concentration-sees-one-entity-more": (
        "priors/restaurant.py", "log_entities(value, entities, records) + x",
        "log_entities(value, entities + 1, records) + x", WHOLE),
    "bracket-without-minus-one": (
        "kernels/likelihood.py", "(scratch.tally[level] - 1.0)", "scratch.tally[level]", PLAIN),
    "third-record-for-free": (
        "kernels/likelihood.py", "rate * parameters.agree[two] + rate * rate * (1.0 - rate)",
        "parameters.agree[two]", PLAIN),
    "unseen-levels-never-true": (
        "kernels/latent.py", "total += unseen * math.exp(-top)", "total += 0.0", COUNTS),
    "slips-not-counted": (
        "kernels/latent.py", "statistics.slips[row, field] += 1",
        "statistics.slips[row, field] += 0", COUNTS),
    "misspellings-only-as-they-were-seen": (
        "near.py", "share * missing))", "share * 0.0))", PLAIN),
    "pair-without-a-third-true-value": (
        "kernels/near.py", "close * close * common)\n    if", "close * close)\n    if", PLAIN),
    "triple-without-the-odd-one-true": (
        "kernels/near.py", "(2.0 * again + across)", "2.0 * again", PLAIN),
    "closeness-counts-slips-twice": (
        "sampler.py", "rng.beta(1 + slips, 1 + distorted - slips)",
        "rng.beta(1 + slips, 1 + distorted)", GEWEKE),
    "classes-all-alike": (
        "kernels/mixture.py", "scratch.classes[c] = parameters.class_weight[c]",
        "scratch.classes[c] = 1.0", PLAIN),
    "entities-without-a-class": (
        "kernels/latent.py", "statistics.class_counts[c] += 1",
        "statistics.class_counts[c] += c == 0", COUNTS),
    "sizes-without-their-arrangements": (
        "priors/kinds.py", "ways = np.cumsum(np.log(sizes)) + log_tail", "ways = log_tail", PLAIN),
    "weights-of-files-without-their-ways": (
        "priors/kinds.py", "weight[file] - ways", "weight[file]", WHOLE),
    "a-block-without-the-order-of-its-entities": (
        "kernels/moves.py", "/ ((counts[last] + 1.0) * (base[kind] + counts[kind]))",
        "/ (base[kind] + counts[kind])", CHAIN),
    "counts-of-kinds-not-given-back": (
        "kernels/moves.py", "elif counted:", "elif counted and sweep < 0:", CHAIN),
    "patterns-that-forget-which-files": (
        "kernels/clusters.py", "pattern |= UNIT << file", "pattern += UNIT", CHAIN),
    "numbers-without-their-arrangements": (
        "priors/kinds.py", "found[file, 1:] = ways + share", "found[file, 1:] = share", PLAIN),
    "pooling-without-stops": (
        "priors/sizes.py", "pooled.tables.sum() - pooled.stopped[0]", "pooled.tables.sum()", WHOLE),
    "every-entity-from-the-common-shares": (
        "kernels/shares.py", "tables[kind] += uniform(one) * (base[kind] + i) < base[kind]",
        "tables[kind] += 1", WHOLE),
    "gaps-that-only-a-slip-shows": (
        "kernels/near.py", "return weight + (1.0 - rate) * (1.0 - other_rate) * both",
        "return weight", PLAIN),
    "gaps-shown-by-any-slip-alike": (
        "near.py", "weight = np.repeat(share[value], counts) * strength[entry]",
        "weight = np.repeat(share[value], counts)", PLAIN),
    "changes-that-cost-nothing": (
        "kernels/likelihood.py", "weight = 1.0 - kept + kept * weight", "weight = kept * weight",
        PLAIN),
    "stretches-that-begin-for-free": (
        "kernels/likelihood.py",
        "found += log_or_none(1.0 - kept_before(begin, field, layout, parameters, scratch))",
        "found += 0.0", PLAIN),
    "toggles-depend-on-toggles": (
        "kernels/toggles.py",
        "mark(gather(mover, ZERO, clusters, scratch), FROZEN, touched, scratch)", "pass", TOGGLES),
    "rate-without-its-jacobian": (
        "joint.py", "+ model.coded[field].a * np.log(rates)",
        "+ (model.coded[field].a - 1.0) * np.log(rates)", TOGGLES),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_rejected(name, tmp_path):
    file, old, new, tests = MUTANTS[name]
    copy = tmp_path / "smered"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    source = (copy / file).read_text()
    assert source.count(old) == 1, f"{old!r} must stand exactly once in {file}"
    (copy / file).write_text(source.replace(old, new))
    interpreted = (
        {"NUMBA_DISABLE_JIT": "1"} if tests in (PLAIN, SINGLE) else {}
    )  # no time to compile
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))
    }
    result = subprocess.run(
        [sys.executable, "-m", "pytest", f"tests/{tests}", "-m", "smoke or plain",
         "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=",
         "-W", "ignore:overflow encountered"],
        cwd=ROOT, env=environment | interpreted | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert result.returncode == 1, result.stdout + result.stderr  # 1: tests ran and failed
    assert re.search(r"^E +(assert|AssertionError)", result.stdout, re.MULTILINE), result.stdout
