"""The size of a population: closed forms, statsmodels, published tables, and the edges."""

import itertools
import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import gammaln
from scipy.stats import norm

import smered
from smered.population import chao, chapman, graphs, loglinear
from smered.population.decomposable import Graph, average_graphs, decomposable_graphs
from smered.population.estimate import sizes_of
from smered.population.loglinear import fit_terms, hierarchical_models
from smered.population.tables import name_terms, overlap_array, overlap_table
from smered.population.unseen import Gridded, LogNormals, quantile

HISTORIES = [f"{cell:04b}" for cell in range(15, 0, -1)]


# Known diabetics in Casale Monferrato by source: clinic or physician, hospital, prescriptions,
# strips and syringes. Bruno et al. (1994); counts and the estimates of Bruno et al. and of Rivest
# (2011) as printed in the tests of the R package Rcapture 1.4 (testPapersResults.R).
DIABETES = [58, 157, 18, 104, 46, 650, 12, 709, 14, 20, 7, 74, 8, 182, 10]


# Killings in Kosovo, March to June 1999, by source: EXH, ABA, OSCE, HRW. Ball et al. (2002); counts
# and estimate as printed in Silverman's R package MultipleSystemsEstimation
# (estimate_population_stepwise).
KOSOVO = [27, 181, 18, 177, 42, 228, 106, 1131, 32, 217, 31, 845, 123, 936, 306]


# Births with spina bifida by birth certificate (last), death certificate, rehabilitation (first).
# Hook, Albright and Cross (1980), as Madigan and York (1997) analyse them; cells 000 to 111.
SPINA_BIFIDA = [0, 60, 49, 4, 247, 112, 142, 12]


# The five lists of the example in the README of the R package dga (Johndrow, Lum and Ball).
FIVE_LISTS = [0, 27, 37, 19, 4, 4, 1, 1, 97, 22, 37, 25, 2, 1, 3, 5]
FIVE_LISTS += [83, 36, 34, 18, 3, 5, 0, 2, 30, 5, 23, 8, 0, 3, 0, 2]


def table(histories, counts):
    found = np.zeros((1, 1 << len(histories[0])), np.int64)
    for history, count in zip(histories, counts, strict=True):
        found[0, sum(1 << i for i, seen in enumerate(history) if seen == "1")] = count
    return found


def terms(files, *interactions):
    """The terms of a hierarchical model whose largest interactions are given, as "134"."""
    found = {0, *(1 << i for i in range(files))}
    for text in interactions:
        members = [1 << int(digit) - 1 for digit in text]
        for size in range(2, len(members) + 1):
            found |= {sum(part) for part in itertools.combinations(members, size)}
    return tuple(sorted(found))


@pytest.mark.parametrize(
    ("counts", "interactions", "population", "error", "deviance"),
    [
        (DIABETES, ["12", "13", "23", "24", "34"], "2771", "145", "7.62"),
        (DIABETES, ["13", "24", "34"], "2472", "53", "21.97"),
        (KOSOVO, ["134", "12", "23"], "18393.31", None, None),
    ],
    ids=["diabetes-Bruno", "diabetes-Rivest", "Kosovo"],
)
def test_published_log_linear_estimates(counts, interactions, population, error, deviance):
    found = table(HISTORIES, counts)
    fit = fit_terms(found, terms(4, *interactions), range(1, 16))

    def printed(value, like):
        digits = len(like.partition(".")[2])
        return f"{value:.{digits}f}"

    assert printed(found.sum() + fit.unseen[0], population) == population
    if error:
        assert printed(math.sqrt(fit.variance[0]), error) == error
        assert printed(fit.deviance[0], deviance) == deviance


def test_published_averages_over_graphs():
    """Madigan and York's spina bifida, with their prior; probabilities that dga prints."""
    counts = np.array([SPINA_BIFIDA])
    unseen = np.arange(1, 301)
    population = counts.sum() + unseen
    a, b = 13.14, 55.17  # a negative binomial population
    prior = population * math.log(b) - (population + a) * math.log(1 + b)
    prior = prior + gammaln(population + a) - gammaln(population + 1)
    every = decomposable_graphs(3, saturated=True)
    found = average_graphs(counts, every, unseen, delta=1.0, log_prior=prior)
    best = int(found.graph_probability[0].argmax())
    assert set(every[best].cliques) == {0b011, 0b100}  # rehabilitation with deaths, and births
    assert f"{found.graph_probability[0, best]:.2f}" == "0.37"

    def summary(probability):
        estimate = (probability / population).sum() / (probability / population**2).sum()
        return round(estimate), int(population[probability.argmax()])

    assert summary(found.probability[0]) == (731, 728)
    alone = average_graphs(counts, (every[best],), unseen, delta=1.0, log_prior=prior)
    assert summary(alone.probability[0]) == (731, 729)

    five = average_graphs(
        np.array([FIVE_LISTS]), decomposable_graphs(5, saturated=True), unseen, delta=0.5
    )
    largest = np.sort(five.graph_probability[0])[::-1][:5]
    printed = ["0.21707345", "0.16029369", "0.08226562", "0.06535887", "0.05193514"]
    assert [f"{p:.8f}" for p in largest] == printed


@pytest.mark.filterwarnings("ignore:Perfect separation")  # of saturated models
@pytest.mark.parametrize("files", [2, 3, 4])
def test_every_model_equals_statsmodels(files):
    rng = np.random.default_rng(files)
    counts = rng.integers(5, 200, (3, 1 << files))
    counts[:, 0] = 0
    cells = range(1, 1 << files)
    for model in hierarchical_models(files):
        fit = fit_terms(counts, model, cells)
        design = np.array([[float(c & t == t) for t in model] for c in cells])
        for row in range(len(counts)):
            glm = sm.GLM(counts[row, 1:], design, family=sm.families.Poisson())
            with np.errstate(divide="ignore", invalid="ignore"):  # no residuals where saturated
                found = glm.fit(tol=1e-12, maxiter=200)
            unseen = math.exp(found.params[0])
            # its own covariance is that of the step before the last
            covariance = np.linalg.inv(-glm.hessian(found.params))
            variance = unseen + unseen**2 * covariance[0, 0]
            assert fit.unseen[row] == pytest.approx(unseen, rel=1e-8)
            assert fit.variance[row] == pytest.approx(variance, rel=1e-8)
            assert fit.deviance[row] == pytest.approx(found.deviance, abs=1e-8)
            assert fit.log_likelihood[row] == pytest.approx(found.llf, abs=1e-8)


def test_two_files_have_closed_forms():
    one, two, both = 300, 180, 60
    counts = np.array([[0, one, two, both]])
    first, second = one + both, two + both
    estimate, variance = chapman(counts, "ab").unseen.moments
    expected = (first + 1) * (second + 1) / (both + 1) - 1
    seber = (first + 1) * (second + 1) * one * two / ((both + 1) ** 2 * (both + 2))
    assert counts.sum() + estimate[0] == pytest.approx(expected, rel=1e-12)
    assert variance[0] == pytest.approx(seber, rel=1e-12)
    for method in (loglinear, chao):  # the ratio estimate, and its classical variance
        estimate, variance = method(counts, "ab").unseen.moments
        assert counts.sum() + estimate[0] == pytest.approx(first * second / both, rel=1e-10)
        assert variance[0] == pytest.approx(first * second * one * two / both**3, rel=1e-9)


def test_an_interval_is_chaos_log_normal_one():
    counts = np.array([[0, 300, 180, 60]])
    (size,) = sizes_of("chapman", "ab", {None: counts}, 0, 0.95)
    estimate, variance = (part[0] for part in chapman(counts, "ab").unseen.moments)
    factor = math.exp(norm.ppf(0.975) * math.sqrt(math.log(1 + variance / estimate**2)))
    seen = counts.sum()
    ends = (size.lower, size.estimate, size.upper)
    expected = (seen + estimate / factor, seen + estimate, seen + estimate * factor)
    assert ends == pytest.approx(expected, rel=1e-10)


def test_chaos_bound_of_files_of_equal_size_is_his():
    counts = np.zeros((1, 16), np.int64)
    for cell in range(1, 16):
        counts[0, cell] = {1: 120, 2: 30, 3: 11, 4: 3}[cell.bit_count()]
    estimate = chao(counts, "abcd").unseen.moments[0][0]
    assert estimate == pytest.approx(3 / 8 * (4 * 120) ** 2 / (6 * 30), rel=1e-10)


def test_chaos_bound_where_a_file_has_nobody_in_one_or_two_files():
    """The third file says nothing of pairs: what remains is the ratio estimate of the others."""
    counts = np.array([[0, 100, 100, 50, 0, 0, 0, 5]])
    mean, variance = chao(counts, "abc").unseen.moments
    assert mean[0] == pytest.approx(200.0, rel=1e-6)
    assert variance[0] == pytest.approx(200 + 200**2 * (1 / 100 + 1 / 100 + 1 / 50), rel=1e-6)


def test_rare_files_do_not_make_chaos_bound_endless():
    """Sets of several rare files are expected to hold nearly nobody, and that is no divergence."""
    rng = np.random.default_rng(0)
    held = np.zeros(10_000, np.int64)
    for file, members in enumerate((4985, 3941, 2951, 3, 2, 4, 3)):
        held[rng.choice(len(held), members, replace=False)] |= 1 << file
    counts = np.bincount(held, minlength=128)[None]
    missed = counts[0, 0]
    counts[0, 0] = 0
    mean, variance = (part[0] for part in chao(counts, "abcdefg").unseen.moments)
    assert abs(mean - missed) < 4 * math.sqrt(variance)


def test_weights_are_those_of_bic():
    counts = table(HISTORIES, DIABETES)
    models = list(hierarchical_models(4))
    bic = np.array([fit_terms(counts, m, range(1, 16)).bic(counts.sum(axis=1))[0] for m in models])
    weights = np.exp(-(bic - bic.min()) / 2)
    expected = dict(zip((name_terms(m, "abcd") for m in models), weights, strict=True))
    found = loglinear(counts, "abcd").models
    assert sum(model.weight for model in found) == pytest.approx(1.0)
    for model in found[:10]:
        assert model.weight == pytest.approx(expected[model.name] / weights.sum(), rel=1e-8)
    assert len(models) == len(set(models)) == 113


def test_graphs_by_direct_integration():
    """Two files, independent: probabilities integrated on a grid of both files' shares."""
    counts, delta = np.array([[0, 5, 3, 2]]), 0.25
    unseen = np.arange(40)
    (independent,) = decomposable_graphs(2)
    assert independent == Graph((1, 2), (0,))
    found = average_graphs(counts, (independent,), unseen, delta=delta).probability[0]
    # each file's share is Beta(2 delta, 2 delta): the margins of a Dirichlet with delta per cell
    from scipy.special import betaln

    population = counts.sum() + unseen
    log = gammaln(population + 1) - gammaln(unseen + 1) - np.log(population)
    for inside in (5 + 2, 3 + 2):
        log = log + betaln(inside + 2 * delta, population - inside + 2 * delta)
    expected = np.exp(log - log.max())
    assert found == pytest.approx(expected / expected.sum(), abs=1e-12)


def test_the_grid_of_graphs_is_fine_enough():
    counts = table(HISTORIES, DIABETES)
    found = graphs(counts, "abcd").unseen
    whole = np.arange(0, 3000)
    every = decomposable_graphs(4)
    exact = Gridded(whole, average_graphs(counts, every, whole, delta=1 / 16).probability)
    for x in (300.0, 500.0, 900.0):
        assert found.cdf(np.array([x])) == pytest.approx(exact.cdf(np.array([x])), abs=0.002)
    assert found.moments[0] == pytest.approx(exact.moments[0], rel=0.001)


@pytest.mark.parametrize("files", [3, 4, 5])
def test_cliques_and_separators_rebuild_their_graph(files):
    for graph in decomposable_graphs(files, saturated=True):
        assert len(graph.separators) == len(graph.cliques) - 1
        sizes = [sum(c >> i & 1 for c in graph.cliques) for i in range(files)]
        apart = [sum(s >> i & 1 for s in graph.separators) for i in range(files)]
        assert [a - b for a, b in zip(sizes, apart, strict=True)] == [1] * files


def test_empty_cells():
    """A term whose files share nobody is dropped with its cells; nothing in common has no bound."""
    counts = table(HISTORIES, DIABETES)
    apart = counts.copy()
    apart[:, [c for c in range(16) if c & 0b11 == 0b11]] = 0  # nobody in the first two files
    fit = fit_terms(apart, terms(4, "12"), range(1, 16))
    cells = [c for c in range(1, 16) if c & 0b11 != 0b11]
    same = fit_terms(apart, terms(4), cells)
    assert fit.unseen == pytest.approx(same.unseen, rel=1e-10)
    assert fit.variance == pytest.approx(same.variance, rel=1e-10)
    nothing = np.array([[0, 10, 20, 0], [0, 10, 20, 5]])
    for method in (loglinear, chao):
        mean = method(nothing, "ab").unseen.moments[0]
        assert mean[0] == math.inf
        assert mean[1] == pytest.approx(40.0)
    assert chapman(nothing, "ab").unseen.moments[0][0] == pytest.approx(200.0)
    half = sizes_of("loglinear", "ab", {None: nothing}, 1, 0.95)[0]
    assert half.upper == math.inf
    assert math.isfinite(half.lower)
    # n100 n010 n001 n111 / (n110 n101 n011): none if nobody is in the first file alone
    pairs = terms(3, "12", "13", "23")
    counts = np.array(
        [[0, 0, 5, 3, 4, 2, 6, 1], [0, 7, 5, 0, 4, 2, 6, 1], [0, 7, 5, 3, 4, 2, 6, 1]]
    )
    fit = fit_terms(counts, pairs, range(1, 8))
    assert fit.unseen[[0, 2]] == pytest.approx([0.0, 7 * 5 * 4 / (3 * 2 * 6)])
    assert np.isnan(fit.unseen[1])


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([0, 0, 0, 10], (0, 0)),  # both files hold the same
        ([0, 0, 5, 10], (0, 0)),  # one within the other
        ([0, 0, 0, 10, 0, 10, 10, 10], (None, 0)),  # nobody in one file alone
        ([0, 0, 0, 0, 0, 0, 0, 10], (0, 0)),
        ([0, 0, 0, 0], (0, 0)),
        ([0, 3, 4, 0], (math.inf, math.inf)),
    ],
)
def test_nobody_is_missing_or_there_is_no_bound(counts, expected):
    table = np.array([counts])
    files = "abc"[: len(counts).bit_length() - 1]
    for method, unseen in zip((loglinear, chao), expected, strict=True):
        if unseen is not None:
            assert method(table, files).unseen.moments[0][0] == unseen
    size = sizes_of("chao", files, {None: table}, 0, 0.95)[0]
    assert size.estimate == pytest.approx(sum(counts) + expected[1])


def test_a_model_that_cannot_be_told_from_others_is_left_out():
    counts = np.zeros((1, 8), np.int64)
    counts[0, [1, 2, 4]] = 10, 20, 30  # nobody in two files
    assert loglinear(counts, "abc").unseen.moments[0][0] == math.inf


def test_mixtures_and_quantiles():
    rng = np.random.default_rng(0)
    mixture = LogNormals(
        np.array([[0.3, 0.7]]), np.array([[50.0, 200.0]]), np.array([[400.0, 900.0]])
    )
    sample = mixture.sample(400_000, rng)[0]
    for share in (0.1, 0.5, 0.9):
        x = quantile(lambda x: float(mixture.cdf(np.array([x]))[0]), share, 0.0)
        assert (sample <= x).mean() == pytest.approx(share, abs=0.003)
    mean, variance = mixture.moments
    assert mean[0] == pytest.approx(0.3 * 50 + 0.7 * 200)
    assert variance[0] == pytest.approx(0.3 * 400 + 0.7 * 900 + 0.3 * 0.7 * 150**2)
    gridded = Gridded(np.array([0, 1, 2, 10]), np.array([[0.1, 0.2, 0.3, 0.4]]))
    sample = gridded.sample(100_000, rng)[0]
    assert [(sample == x).mean() for x in (0, 1)] == pytest.approx([0.1, 0.2], abs=0.01)
    for x in (0, 1, 3, 5, 6, 8, 10):  # 2 stands for 2 to 5, 10 for 6 to 10, and half of 6 for each
        at_most = gridded.cdf(np.array([float(x)]))[0]
        assert (sample <= x).mean() == pytest.approx(at_most, abs=0.01)


@pytest.mark.parametrize("each", [25, 2500, 250_000])
def test_graphs_of_any_size_equal_an_exact_sum(each):
    """Two files of 2 `each`, `each` in both: the number in neither, summed over whole numbers."""
    counts = np.array([[0, each, each, each]])
    sd = 2 * math.sqrt(each)
    whole = np.arange(max(0, int(each - 12 * sd)), int(each + 40 * sd))
    one = average_graphs(counts, decomposable_graphs(2), whole, delta=0.25).probability[0]
    (size,) = sizes_of("graphs", "ab", {None: counts}, 0, 0.95)
    at = np.searchsorted(np.cumsum(one), [0.025, 0.5, 0.975])
    found = (size.lower, size.estimate, size.upper)
    assert found == pytest.approx(3 * each + whole[at], abs=max(0.01 * sd, 1.0))


def test_graphs_of_an_empty_stratum_miss_nobody():
    mean, variance = graphs(np.array([[0, 0, 0, 0], [0, 5, 5, 5]]), "ab").unseen.moments
    assert (mean[0], variance[0]) == (0.0, 0.0)
    assert mean[1] > 1


def test_tables_of_files():
    files, counts = overlap_table({"a": 5, ("b",): 3, ("b", "a"): 2, ("c",): 7})
    assert files == ("a", "b", "c")
    assert counts.tolist() == [0, 5, 3, 2, 7, 0, 0, 0]
    two = overlap_array([("a",), ("b",), ("a", "b"), ("c",)], np.array([5, 3, 2, 7]), ("b", "a"))
    assert two.tolist() == [0, 3, 5, 2]
    with pytest.raises(smered.DataError, match="whole numbers"):
        overlap_table({"a": -1})
