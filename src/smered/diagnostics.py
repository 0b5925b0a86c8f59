"""Whether chains agree and how much their draws are worth (Vehtari et al. 2021).

All functions take draws of one label-free number as an array (chains, draws). With fewer than
four draws per chain there is nothing to say: the answer is nan.
"""

from statistics import NormalDist

import numpy as np

from smered.layout import Floats

__all__ = ["ess", "ess_bulk", "ess_tail", "mcse", "rhat"]

LEAST_DRAWS = 4


def rhat(draws: Floats) -> float:
    """Rank-normalised split R-hat: the larger of its bulk and folded form."""
    if draws.shape[1] < LEAST_DRAWS:
        return np.nan
    folded = np.abs(draws - np.median(draws))
    return max(plain_rhat(rank_normalise(split(part))) for part in (draws, folded))


def ess_bulk(draws: Floats) -> float:
    """Effective number of draws for the centre of the distribution."""
    return ess(rank_normalise(split(draws))) if draws.shape[1] >= LEAST_DRAWS else np.nan


def ess_tail(draws: Floats) -> float:
    """Effective number of draws for its tails: the smaller of the 5% and 95% quantile."""
    if draws.shape[1] < LEAST_DRAWS:
        return np.nan
    cuts = np.quantile(draws, [0.05, 0.95])
    return min(ess(split((draws <= cut).astype(float))) for cut in cuts)


def mcse(draws: Floats) -> float:
    """Monte Carlo standard error of the mean."""
    if draws.shape[1] < LEAST_DRAWS:
        return np.nan
    return float(np.std(draws, ddof=1) / np.sqrt(ess(split(draws))))


def split(draws: Floats) -> Floats:
    """Cut each chain in two halves, leaving out the middle draw of an odd number."""
    half = draws.shape[1] // 2
    return np.concatenate((draws[:, :half], draws[:, draws.shape[1] - half :]))


def rank_normalise(draws: Floats) -> Floats:
    """Replace draws by the normal quantiles of their ranks; ties share their average rank."""
    _, number, counts = np.unique(draws, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - (counts - 1) / 2
    normal = NormalDist()
    quantile = np.array([normal.inv_cdf((r - 0.375) / (draws.size + 0.25)) for r in rank])
    return quantile[number].reshape(draws.shape)


def plain_rhat(draws: Floats) -> float:
    """Gelman and Rubin's ratio of the pooled to the within-chain standard deviation."""
    length = draws.shape[1]
    within = draws.var(axis=1, ddof=1).mean()
    between = draws.mean(axis=1).var(ddof=1) * length
    if within == 0:
        return 1.0 if between == 0 else np.inf
    return float(np.sqrt((between / within + length - 1) / length))


def ess(draws: Floats) -> float:
    """Effective sample size by Geyer's initial monotone sequence; all draws where none differ."""
    chains, length = draws.shape
    if length < 5 or np.ptp(draws) == 0:
        return float(draws.size)
    covariance = autocovariance(draws)
    within = covariance[:, 0].mean() * length / (length - 1)
    pooled = within * (length - 1) / length
    if chains > 1:
        pooled += draws.mean(axis=1).var(ddof=1)
    correlation = 1.0 - (within - covariance.mean(axis=0)) / pooled
    correlation[0] = 1.0
    pairs = correlation[: (length - 3) // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    kept = np.minimum.accumulate(pairs[: negative[0] if len(negative) else None])
    last_even = max(correlation[min(2 * len(kept), length - 1)], 0.0)
    time = max(-1.0 + 2.0 * kept.sum() + last_even, 1.0 / np.log10(draws.size))
    return float(draws.size / time)


def autocovariance(draws: Floats) -> Floats:
    """Autocovariance of each chain at every lag, by the fast Fourier transform."""
    length = draws.shape[1]
    centred = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, n=2 * length, axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :length] / length
