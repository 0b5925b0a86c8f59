"""Analyses of linked data: pooled as Rubin says, equal to statsmodels where nothing is in doubt."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats

import smered
from smered.errors import ConfigError, DataError, DataWarning
from smered.fields import Categorical
from smered.propagate import Fit, linear, logistic, mix, poisson, pool
from smered.propagate.fit import Sample, as_outcome

# short runs: more draws would make it smaller
pytestmark = pytest.mark.filterwarnings("ignore:the Monte Carlo error")


def surveys(seed=0, people=120, errors=0.0):
    """Two surveys of people whose key says who is who, but for errors."""
    rng = np.random.default_rng(seed)
    key = rng.permutation(people)
    x, group = rng.normal(size=people), rng.integers(0, 3, people)
    y = 1.0 + 0.7 * x + rng.normal(size=people)
    one, two = key[: people * 3 // 4], key[people // 4 :]
    two_key = np.where(rng.random(len(two)) < errors, rng.integers(0, people, len(two)), two)
    a = pa.table({"key": one, "x": x[one], "group": [f"g{g}" for g in group[one]]})
    b = pa.table(
        {
            "key": two_key, "y": y[two], "ill": (y[two] > 1).astype(int),
            "visits": rng.poisson(np.exp(0.3 * y[two])), "years": rng.integers(1, 6, len(two)),
        }
    )  # fmt: skip
    return {"a": a, "b": b}


@pytest.fixture(scope="module")
def certain():
    """A posterior without any doubt: keys are never wrong, and equal keys are always linked."""
    tables = {
        name: table.append_column("again", table["key"]).append_column("once_more", table["key"])
        for name, table in surveys().items()
    }
    fields = [Categorical(name, b=math.inf) for name in ("key", "again", "once_more")]
    return smered.link(
        tables, fields, duplicates=False, draws=8, burn_in=300, chains=2,
        prior=smered.UniformPartitions(),
    )  # fmt: skip


@pytest.fixture(scope="module")
def doubtful():
    rng = np.random.default_rng(5)
    tables = surveys(errors=0.1)
    more = {}
    for name, table in tables.items():
        day = table["key"].to_numpy() % 17
        wrong = rng.random(len(day)) < 0.05
        more[name] = table.append_column(
            "day", [np.where(wrong, rng.integers(0, 17, len(day)), day)]
        )
    return smered.link(
        more, ["key", "day"], duplicates=False, draws=60, burn_in=100, chains=2,
        prior=smered.ClusterSizes(),
    )  # fmt: skip


def joined(tables):
    return tables["a"].to_pandas().merge(tables["b"].to_pandas(), on="key")


FITS = {
    "linear": (linear("y ~ x + C(group)"), lambda d: smf.ols("y ~ x + C(group)", d).fit()),
    "robust": (
        linear("y ~ x", cov_type="HC3"),
        lambda d: smf.ols("y ~ x", d).fit(cov_type="HC3", use_t=True),
    ),
    "logistic": (
        logistic("ill ~ x"),
        lambda d: smf.glm("ill ~ x", d, family=sm.families.Binomial()).fit(),
    ),
    "poisson": (
        poisson("visits ~ x", exposure="years"),
        lambda d: smf.glm("visits ~ x", d, family=sm.families.Poisson(), exposure=d["years"]).fit(),
    ),
}


@pytest.mark.parametrize("kind", FITS)
def test_without_doubt_it_is_statsmodels(certain, kind):
    analysis, alone = FITS[kind]
    found = certain.propagate(analysis, 16, progress=False)
    expected = alone(joined(surveys()))
    assert list(found.pooled.names) == list(expected.params.index)
    assert found.pooled.estimate == pytest.approx(expected.params.to_numpy(), abs=1e-8)
    assert found.pooled.std_error == pytest.approx(expected.bse.to_numpy(), abs=1e-8)
    ends = np.stack((found.pooled.lower, found.pooled.upper), axis=1)
    assert ends == pytest.approx(expected.conf_int().to_numpy(), abs=1e-8)
    assert not found.pooled.linkage_share.any()
    assert found.failures == ()


def test_a_fitted_result_is_taken_as_it_is(certain):
    def analysis(table):
        return smf.ols("y ~ x", table.to_pandas().dropna()).fit()

    found = certain.propagate(analysis, 16, columns=["x", "y"], progress=False).pooled
    same = certain.propagate(linear("y ~ x"), 16, progress=False).pooled
    assert found.table().equals(same.table())


def test_rubins_rules_are_those_of_mice():
    """pool.scalar(c(1, 1.4, 0.8, 1.2), c(.1, .12, .08, .11), n = 50, k = 2) of R's mice 3.15."""
    pairs = zip((1.0, 1.4, 0.8, 1.2), (0.10, 0.12, 0.08, 0.11), strict=True)
    fits = [Fit({"x": q}, [u], df=48) for q, u in pairs]
    found = pool(fits)
    assert found.estimate[0] == pytest.approx(1.1, abs=1e-12)
    assert found.covariance[0, 0] == pytest.approx(0.1858333333333333, abs=1e-12)
    assert found.df[0] == pytest.approx(9.4035652050973102, abs=1e-10)
    half = stats.t.ppf(0.975, found.df[0]) * math.sqrt(found.covariance[0, 0])
    assert found.upper[0] - found.lower[0] == pytest.approx(2 * half, abs=1e-12)
    assert math.isnan(found.mcse[0]) is False
    alike = pool([Fit({"x": 1.0}, [0.0], df=9), Fit({"x": 2.0}, [0.0], df=9)])
    assert alike.df[0] == 1.0  # all of the variance is between two fits
    large = pool([Fit({"x": f.estimate[0]}, f.covariance) for f in fits])
    assert large.df[0] == pytest.approx(14.918700000000005, abs=1e-10)
    assert large.linkage_share[0] == pytest.approx(1.25 * 0.2 / 3 / 0.1858333333333333)
    one = pool(fits[:1])
    assert math.isnan(one.mcse[0])
    assert math.isnan(one.linkage_share[0])
    assert one.df[0] == 48


def test_covariances_are_pooled_whole(doubtful):
    found = doubtful.propagate(linear("y ~ x"), 60, progress=False)
    fits = found.outcomes
    m = len(fits)
    within = np.mean([fit.covariance for fit in fits], axis=0)
    between = np.cov(np.array([fit.estimate for fit in fits]).T)
    worth = np.diag(between) / found.pooled.mcse**2  # effective draws
    worth = min(m, worth.min())
    assert found.pooled.covariance == pytest.approx(within + (1 + 1 / worth) * between)
    rubin = pool(fits)
    assert rubin.covariance == pytest.approx(within + (1 + 1 / m) * between)
    assert (found.pooled.linkage_share > 0).all()
    assert (found.pooled.mcse < found.pooled.std_error).all()
    assert m == 60
    assert "due to linkage" in str(found)
    assert "60 linked data sets" in str(found)
    serial = doubtful.propagate(linear("y ~ x"), 60, progress=False, threads=1)
    assert serial.table().equals(found.table())


def test_doubtful_links_are_left_out_of_regressions(doubtful):
    table = doubtful.linked(0, columns=["x", "y", "match_probability"])
    frame = table.to_pandas().dropna()
    sure = frame[frame.match_probability >= 0.9]
    assert 3 < len(sure) < len(frame)
    fitted = smf.ols("y ~ x", sure).fit()
    assert linear("y ~ x")(table).estimate == pytest.approx(fitted.params.to_numpy(), abs=1e-10)
    every = linear("y ~ x", min_probability=0.0)(table)
    assert every.estimate == pytest.approx(smf.ols("y ~ x", frame).fit().params.to_numpy())
    with pytest.raises(DataError, match=r"match with probability 1\.1"):
        linear("y ~ x", min_probability=1.1)(table)


def test_numbers_are_mixed(doubtful):
    found = doubtful.propagate(lambda table: len(table), 40, progress=False)
    counts = [int(doubtful.entities().draws[spot]) for spot in found.spots]
    assert found.pooled.estimate[0] == pytest.approx(np.mean(counts))
    assert found.pooled.std_error[0] == pytest.approx(np.std(counts, ddof=1))
    assert found.pooled.linkage_share[0] == 1.0
    assert [found.pooled.lower[0], found.pooled.upper[0]] == pytest.approx(
        np.quantile(counts, [(1 - 0.95) / 2, (1 + 0.95) / 2], method="inverted_cdf")
    )


def test_posterior_draws_are_mixed(doubtful):
    """A mean with a normal posterior: the mixture has the variance within and between."""

    def analysis(table):
        y = table["y"].drop_null().to_numpy()
        spread = stats.norm.ppf((np.arange(50) + 0.5) / 50)
        return {"mean": y.mean() + spread * y.std() / math.sqrt(len(y)), "n": np.full(50, len(y))}

    found = doubtful.propagate(analysis, 20, columns=["y"], progress=False)
    draws = np.stack([outcome.draws[:, 0] for outcome in found.outcomes])
    pooled = found.pooled
    assert pooled.names == ("mean", "n")
    assert pooled.estimate[0] == pytest.approx(draws.mean())
    within = draws.var(axis=1, ddof=1).mean()
    total = within + max(draws.mean(axis=1).var(ddof=1) - within / 50, 0.0)
    assert pooled.std_error[0] == pytest.approx(math.sqrt(total))
    assert pooled.lower[0] == pytest.approx(np.quantile(draws, 0.025, method="inverted_cdf"))


def test_a_failing_draw_is_named_and_the_rest_kept(doubtful):
    calls = []

    def analysis(table):
        calls.append(len(table))
        if len(calls) in (3, 4):
            raise ZeroDivisionError("no cases\nin this draw")
        return {"n": len(table)}

    with pytest.warns(DataWarning, match="failed on 2 of 20 draws") as caught:
        found = doubtful.propagate(analysis, 20, threads=1, progress=False)
    spots = doubtful.spaced(10)
    assert [(f.chain, f.draw) for f in found.failures] == [spots[2], spots[3]]
    message = f"chain 0, draw {spots[2][1]}: ZeroDivisionError: no cases in this draw"
    assert message in str(caught[0].message)
    assert len(found.outcomes) == 18
    assert "2 failed" in str(found)

    def broken(table):
        raise KeyError("nothing")

    with pytest.raises(DataError, match=r"failed on every draw; chain 0, draw 0: KeyError"):
        doubtful.propagate(broken, 4, progress=False)


def test_terms_that_differ_between_draws_are_failures(doubtful):
    def analysis(table):
        terms = {"x": 1.0} if calls.pop() else {"x": 1.0, "z": 2.0}
        return Fit(terms, np.ones(len(terms)))

    calls = [True, True, True, False]  # the first draw is the odd one out
    with pytest.warns(DataWarning, match="it has z; name the levels"):
        found = doubtful.propagate(analysis, 4, threads=1, progress=False)
    assert len(found.outcomes) == 3


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:Perfect separation")
def test_singular_and_empty_fits_are_refused(certain, doubtful):
    table = certain.linked(0)
    for analysis, message in [
        (linear("y ~ x + I(2 * x)"), r"singular: I\(2 \* x\) follows from"),
        (linear("y ~ x:C(key)"), "entities are too few for"),
        (poisson("visits ~ x", exposure="year"), "no column 'year'.*years"),
    ]:
        with pytest.raises((DataError, ConfigError), match=message):
            analysis(table)
    frame = table.to_pandas()
    frame["perfect"] = (frame["x"] > 0).astype(float)
    perfect = pa.Table.from_pandas(frame[["x", "perfect"]].dropna())
    with pytest.raises(DataError, match="no maximum: x separates"):
        logistic("perfect ~ x")(perfect)
    nobody = pa.table({"x": [1.0, None], "y": [None, 2.0]})
    with pytest.raises(DataError, match="no entity has a value in all of: x, y"):
        linear("y ~ x")(nobody)
    with pytest.raises(ConfigError, match="no column 'nonsense'"):
        doubtful.propagate(linear("y ~ nonsense"), 4, progress=False)
    for formula, message in [
        ("y", "missing required outcome"),
        ("y ~ 0", "lacks an outcome"),
        ("y ~ (x", "formula 'y ~ "),
    ]:
        with pytest.raises(ConfigError, match=message):
            linear(formula)(table)


def test_an_outcome_of_true_and_false(certain):
    frame = certain.linked(0).to_pandas()
    for yes, no in ((1, 0), (True, False)):
        frame["sick"] = [None if pd.isna(v) else (yes if v else no) for v in frame["ill"]]
        some = frame[["sick", "x"]].dropna().infer_objects()
        found = logistic("sick ~ x")(pa.Table.from_pandas(some))
        assert found.estimate[1] > 0.5
    some = some.assign(sick=some["sick"].map({True: "yes", False: "no"}))
    with pytest.raises(DataError, match="the outcome sick has categories; use numbers"):
        logistic("sick ~ x")(pa.Table.from_pandas(some))


def test_ready_analyses_take_the_columns_they_need(doubtful):
    found = doubtful.propagate(linear("y ~ x"), 10, columns=["y", "x"], progress=False)
    same = doubtful.propagate(linear("y ~ x"), 10, progress=False)
    assert found.table().equals(same.table())


def test_fields_alone_can_be_analysed(doubtful):
    """True values come from all files: so does the probability that their records match."""
    found = doubtful.propagate(linear("key ~ day"), 4, progress=False)
    assert found.pooled.names == ("Intercept", "day")
    table = doubtful.linked(0, columns=["key", "match_probability", "x"])
    whole = doubtful.linked(0)
    assert table["match_probability"].equals(whole["match_probability"])
    assert not whole.select(["match_probability"]).equals(
        doubtful.linked(0, columns=["match_probability", "x"]).select(["match_probability"])
    )


def test_data_sets_weigh_the_same_however_many_draws_they_have():
    one, two = (Sample(("a",), np.array(draws)[:, None]) for draws in ([0.0, 0, 0, 12], [6.0] * 5))
    found = mix([one, two])
    assert found.estimate[0] == 4.5
    assert found.upper[0] == 12.0
    assert mix([one, two], level=0.5).lower[0] == 0.0


def test_the_monte_carlo_error_of_mixed_draws_is_what_it_says():
    rng = np.random.default_rng(3)
    every = [mix([Sample(("a",), rng.normal(size=(5, 1))) for _ in range(100)]) for _ in range(200)]
    said = np.mean([found.mcse[0] for found in every])
    assert said == pytest.approx(np.std([found.estimate[0] for found in every]), rel=0.2)


def test_noise_within_data_sets_is_not_due_to_the_linkage():
    rng = np.random.default_rng(1)
    samples = [Sample(("a",), rng.normal(size=(5, 1))) for _ in range(2000)]
    assert mix(samples).linkage_share[0] < 0.02


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "returned str; it must return a Fit"),
        ({}, "returned dict"),
        ([1.0, 2.0], "returned list"),
        ({"a": [1.0, 2.0], "b": 1.0}, "as many draws"),
        ({"a": math.nan}, "no finite value of a"),
    ],
)
def test_what_is_no_answer(value, message):
    with pytest.raises((ConfigError, DataError), match=message):
        as_outcome(value)


def test_fits_are_checked():
    with pytest.raises(DataError, match=r"has shape \(2, 2\), not \(3,\)"):
        Fit({"a": 1.0, "b": 2.0}, [1.0, 2.0, 3.0])
    with pytest.raises(DataError, match="no finite estimate of b"):
        Fit({"a": 1.0, "b": math.inf}, [1.0, 2.0])
    with pytest.raises(DataError, match="must not be negative"):
        Fit({"a": 1.0}, [-1.0])
    for level in (0.0, 1.0):
        with pytest.raises(ConfigError, match="between 0 and 1"):
            pool([Fit({"a": 1.0}, [1.0])], level)
        with pytest.raises(ConfigError, match="between 0 and 1"):
            mix([Sample(("a",), np.ones((2, 1)))], level)


def test_too_few_draws_are_noticed(doubtful):
    rng = np.random.default_rng(0)
    with pytest.warns(DataWarning, match="Monte Carlo error of value is above a tenth"):
        doubtful.propagate(lambda table: rng.normal(), 10, threads=1, progress=False)
    with pytest.warns(DataWarning, match="Monte Carlo error of value is not known"):
        doubtful.propagate(lambda table: pa.scalar(1.0), 2, progress=False)
    with pytest.raises(ConfigError, match="at least 1"):
        doubtful.propagate(len, 0, progress=False)


def test_long_data_sets_can_be_analysed(doubtful):
    def largest(table):
        frame: pd.DataFrame = table.to_pandas()
        return frame.groupby("entity").size().max()

    assert doubtful.propagate(largest, 4, layout="long", progress=False).pooled.upper[0] == 2
