"""Regressions by formula: which columns they take, and which data have no answer."""

import numpy as np
import pyarrow as pa
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from smered.errors import DataError
from smered.propagate import linear, logistic, poisson


def test_a_large_linear_predictor_is_no_separation():
    rng = np.random.default_rng(0)
    x = np.append(rng.normal(size=200), 60.0)
    y = (x + rng.logistic(size=201) > 0).astype(int)
    assert logistic("y ~ x")(pa.table({"x": x, "y": y})).estimate[1] > 0.5


@pytest.mark.parametrize("outcome", ["y > 0", "I(y > 0)", 'Q("is ill")', "(ill)", "ill", "C(ill)"])
def test_true_is_success_however_the_outcome_is_written(outcome):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = x + rng.logistic(size=200)
    data = pa.table({"x": x, "y": y, "ill": y > 0, "is ill": y > 0, "number": (y > 0) * 1})
    found = logistic(f"{outcome} ~ x")(data).estimate
    assert found == pytest.approx(logistic("number ~ x")(data).estimate, abs=1e-12)
    assert found[1] > 0.5


def test_columns_are_variables_of_the_formula():
    names = ["age", "wage", "year", "a b", "x", "match_probability", "degree", "f", "o"]
    analysis = linear('wage ~ year + np.exp(Q("a b")) + bs(age, df=4, degree=3) + C(x, levels="o")')
    assert analysis.needs(names) == ["age", "wage", "year", "a b", "x", "match_probability"]
    assert linear("wage ~ C(x, Treatment('f'))").needs(names) == ["wage", "x", "match_probability"]


def test_whole_numbers_stay_whole_where_values_are_missing():
    """Else categories have other names in draws that leave nobody without a value."""
    rows = {"y": [1.0, 2.0, 3.5, 4.0, 6.0, 5.0], "g": [1, 2, 1, 2, 3, 3]}
    more = {"y": [*rows["y"], 3.0], "g": [*rows["g"], None]}
    assert linear("y ~ C(g)")(pa.table(rows)).names == linear("y ~ C(g)")(pa.table(more)).names


def test_columns_of_any_scale_and_place():
    rng = np.random.default_rng(1)
    year = rng.integers(2015, 2021, 100)
    ill = (0.1 * (year - 2017) + rng.logistic(size=100) > 0).astype(int)
    data = pa.table({"year": year, "ill": ill, "large": rng.uniform(1e14, 2e14, 100)})
    for analysis, family in ((logistic, sm.families.Binomial()), (poisson, sm.families.Poisson())):
        expected = smf.glm("ill ~ year", data.to_pandas(), family=family).fit()
        assert analysis("ill ~ year")(data).estimate == pytest.approx(expected.params.to_numpy())
    assert linear("ill ~ large")(data).names == ("Intercept", "large")


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:Perfect separation")
@pytest.mark.parametrize("analysis", [logistic, poisson])
def test_rare_levels_without_cases_separate(analysis):
    """Three of many thousand, none of them ill: no odds ratio but 0, whatever its error says."""
    rng = np.random.default_rng(2)
    x, rare = rng.normal(size=20_000), np.arange(20_000) < 3
    ill = (rng.random(20_000) < 0.1) & ~rare
    data = pa.table({"x": x, "rare": rare.astype(int), "ill": ill.astype(int)})
    with pytest.raises(DataError, match="no maximum: rare separates"):
        analysis("ill ~ x + rare")(data)
    with pytest.raises(DataError, match="no maximum: rare separates"):
        analysis("ill ~ 0 + x + rare")(data)


def test_outcomes_that_a_model_cannot_have():
    data = pa.table({"x": [1.0, 2.0, 4.0, 3.0], "one": [1, 2, 2, 1], "below": [-1, 1, 2, 1],
                     "same": [1, 1, 1, 1], "risk": [0, 1, 1, 1]})  # fmt: skip
    for analysis, message in [
        (logistic("one ~ x"), "one of a logistic regression must be 0 or 1"),
        (logistic("same ~ x"), "same is the same for all"),
        (poisson("below ~ x"), "below of a Poisson regression must not be negative"),
        (poisson("one ~ x", exposure="risk"), "exposure risk must be above 0"),
    ]:
        with pytest.raises(DataError, match=message):
            analysis(data)
