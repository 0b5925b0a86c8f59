"""The size of a population from a posterior: averaged over draws, in strata, and the mistakes."""

import math

import numpy as np
import pyarrow as pa
import pytest

import smered
from smered.errors import ConfigError
from smered.population import METHODS, chao
from smered.population.tables import overlap_array


@pytest.fixture(scope="module")
def posterior():
    data = smered.simulate.simulate(
        {("a",): 40, ("b",): 30, ("a", "b"): 50, ("a", "c"): 20, ("c",): 10, ("a", "b", "c"): 15},
        {"sex": 2, "day": 31, "year": 40, "town": 20},
        distortion=0.03, missing=0.03, seed=2,
    )  # fmt: skip
    return smered.link(
        data.tables, data.fields, id="id", duplicates=False, draws=60, burn_in=60, chains=2
    )


def test_population_of_a_posterior(posterior):
    found = posterior.population(draws=40)
    assert found.draws == 40
    assert [s.method for s in found.sizes[::2]] == ["loglinear", "chao", "graphs"]
    assert [s.certain for s in found.sizes] == [False, True] * 3
    spaced = posterior._spaced(20)
    counts = overlap_array(
        posterior.overlap().kinds,
        posterior.overlap().draws[:, :, spaced].reshape(len(posterior.overlap().kinds), -1),
        posterior.records.files,
    )
    mean, variance = chao(counts, "abc").unseen.moments
    size = found["chao"]
    between = (counts.sum(axis=1) + mean).var(ddof=1)
    assert size.sd**2 == pytest.approx(variance.mean() + between, rel=1e-10)
    assert size.linkage_share == pytest.approx(between / size.sd**2, rel=1e-10)
    assert size.lower < size.estimate < size.upper
    alone = found.sizes[3]
    assert alone.linkage_share == 0
    assert size.observed == pytest.approx(counts.sum(axis=1).mean())
    rows = found.table()
    assert rows.column("linkage").to_pylist() == ["averaged", "estimate"] * 3
    with pytest.raises(ConfigError, match="no method 'chap'"):
        found["chap"]


def test_two_of_the_files_and_strata(posterior):
    two = posterior.population("chapman", files=["c", "a"], draws=40)["chapman"]
    assert two.observed < posterior.entities().mean
    found = posterior.population("chao", by="sex", draws=40)
    whole, strata = found["chao"], [s for s in found.sizes if s.stratum and not s.certain]
    assert {s.stratum for s in strata} == {"0", "1"}
    assert sum(s.observed for s in strata) == pytest.approx(whole.observed)
    assert whole.sd**2 <= sum(s.sd for s in strata) ** 2
    assert found.to_dict()["by"] == "sex"
    again = posterior.population("chao", by="sex", draws=40)
    assert again.sizes == found.sizes  # random sums are the same whenever they are asked for


def test_overlap_by_a_field(posterior):
    every, parts = posterior.overlap(), posterior.overlap(by="sex", draws=None)
    for files in every.kinds:
        total = sum(parts[sex, files].draws for sex in ("0", "1"))
        assert total.tolist() == every[files].draws.tolist()


@pytest.mark.filterwarnings("ignore:field 'key'")
def test_what_no_record_shows_follows_from_the_class():
    """Two classes; the group is missing for most of the second, where it is nearly always B."""
    rng, n = np.random.default_rng(0), 400
    second = rng.random(n) < 0.5

    def likely(share):
        return np.where(rng.random(n) < np.where(second, share, 1 - share), "B", "A")

    columns = {name: likely(0.97) for name in "abcdef"}
    true = likely(0.88)
    columns["group"] = np.where(second & (rng.random(n) < 0.88), None, true)
    fields = [*columns, smered.Categorical("key", b=math.inf)]
    columns["key"] = [f"k{i}" for i in range(n)]
    posterior = smered.link(
        pa.table(columns), fields, classes=2, draws=60, burn_in=100, chains=2,
        prior=smered.Ewens(1000.0),
    )  # fmt: skip
    found = posterior.overlap(by="group")
    assert (columns["group"] == None).sum() > 150  # noqa: E711
    assert found["B", ("records",)].draws.mean() == pytest.approx((true == "B").sum(), abs=20)
    strata = posterior.attributes("group", draws=5)
    assert strata[None].draws.mean() > 150  # there they are counted as not known


def test_one_file_and_other_mistakes(posterior):
    single = smered.link(pa.table({"f": ["x", "y", "x"]}), ["f"], draws=5, burn_in=5, chains=1)
    with pytest.raises(ConfigError, match="two or more files; the run has one"):
        single.population()
    for settings, message in [
        ({"files": ["a"]}, "choose at least two"),
        ({"files": ["a", "z"]}, "no file 'z'"),
        ({"methods": "chapman"}, "chapman needs two files, not 3"),
        ({"methods": "chapmann"}, "no method 'chapmann'"),
        ({"by": "sexx"}, "no field 'sexx'"),
        ({"draws": 0}, "at least 1"),
        ({"level": 1.5}, "between 0 and 1"),
    ]:
        with pytest.raises(ConfigError, match=message):
            posterior.population(**settings)
    many = [f"f{i}" for i in range(6)]
    for name in ("loglinear", "graphs"):
        with pytest.raises(ConfigError, match="up to 5 files"):
            METHODS[name](np.zeros((1, 64), np.int64), many)
