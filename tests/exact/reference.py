"""The model written down as plainly as possible, with true values and distortions explicit.

Everything here is slow on purpose: it sums over all true values, all distortions and all legal
partitions, and shares no code with the package beyond the objects that describe a model.
"""

import itertools
import math

import numpy as np

from smered.model import Model


def partitions(n):
    """All partitions of range(n), as labels named by the first member."""

    def grow(labels):
        if len(labels) == n:
            yield tuple(labels)
            return
        for label in [*sorted(set(labels)), len(labels)]:
            yield from grow([*labels, label])

    yield from grow([])


def is_legal(labels, model: Model):
    """No cluster across blocks, no two records of a file that holds no duplicates."""
    for one, two in itertools.combinations(range(len(labels)), 2):
        if labels[one] == labels[two]:
            if model.records.block[one] != model.records.block[two]:
                return False
            file = model.records.file[one]
            if file == model.records.file[two] and model.single[file]:
                return False
    return True


def channel(part, theta, closeness):
    """psi[y, v]: the distribution of a distorted value given the true one."""
    if part.similar is None:
        return np.tile(theta, (len(theta), 1))
    found, similar = part.neighbours, part.similar
    whole = part.codes[(part.codes >= 0) & (part.codes < part.values)]
    shares = np.bincount(whole) / len(whole)
    n = len(shares)
    closeness = closeness if len(found.level) else 0.0
    pull = np.zeros((n, n))
    for v in range(n):
        for i in range(found.start[v], found.start[v + 1]):
            step = (found.similarity[i] - similar.threshold) / (1 - similar.threshold)
            pull[v, found.level[i]] = math.exp(similar.scale * step)
    reach = pull @ shares
    flow = np.zeros((len(theta), len(theta)))  # share of y times the chance that a slip makes v
    for y, v in itertools.product(range(n), repeat=2):
        if pull[y, v]:
            flow[y, v] = shares[y] * shares[v] * pull[y, v] / max(reach[y], reach[v])
    for y in range(n):
        missing = shares[y] - flow[y].sum()
        twin = y if similar.may_equal else n + y
        flow[y, twin] = flow[twin, y] = missing
    total = flow.sum(axis=1)
    slips = np.divide(flow, total[:, None], out=np.eye(len(theta)), where=total[:, None] > 0)
    psi = closeness * slips + (1 - closeness) * theta
    copies = copying(part)
    for x in range(len(theta)):
        if part.partial is not None and x >= len(theta) - len(part.partial.start) + 1:
            psi[:, x] = psi @ copies[:, x]  # any value that agrees with what is shown
    return psi


def copying(part):
    """Whether a record of true value y may show x unchanged (levels, levels)."""
    names = [name.split(" | ") for name in part.levels.to_pylist()]
    copies = np.eye(len(names))
    for y, x in itertools.product(range(part.values), range(len(names))):
        if "?" in names[x]:
            pairs = zip(names[x], names[y], strict=True)
            copies[y, x] = all(shown in ("?", true) for shown, true in pairs)
    return copies


def cluster_likelihood(values, theta, betas, psi=None, true=None, copies=None):
    """Sum over y and all z of p(y) prod_r p(z_r) p(x_r | y, z_r); a missing x has no z.

    y is drawn from `true`, or from theta as distorted values are.
    """
    seen = [(x, beta) for x, beta in zip(values, betas, strict=True) if x >= 0]
    psi = np.tile(theta, (len(theta), 1)) if psi is None else psi
    copies = np.eye(len(theta)) if copies is None else copies
    total = 0.0
    for y, p_y in enumerate(theta if true is None else true):
        for z in itertools.product((0, 1), repeat=len(seen)):
            product = p_y
            for (x, beta), distorted in zip(seen, z, strict=True):
                product *= beta * psi[y, x] if distorted else (1 - beta) * copies[y, x]
            total += product
    return total


def changing_likelihood(values, times, theta, betas, psi, change, copies):
    """Sum over the true values at all times: p(y_0) prod_t p(y_t | y_t-1) prod_r p(x_r | y_t)."""
    steps = len(change)
    total = 0.0
    for path in itertools.product(range(len(theta)), repeat=steps + 1):
        product = theta[path[0]]
        for step in range(steps):
            kept = (1 - change[step]) * (path[step + 1] == path[step])
            product *= kept + change[step] * theta[path[step + 1]]
        for x, time, beta in zip(values, times, betas, strict=True):
            if x >= 0:
                product *= beta * psi[path[time], x] + (1 - beta) * copies[path[time], x]
        total += product
    return total


def log_likelihood(labels, model: Model, theta, beta, closeness=0.7, classes=None, change=None):
    """theta: one vector per field; beta (rows, fields); classes: shares and theta of each."""
    if model.classes > 1 and classes is None:
        from tests.exact.cases import fixed_classes

        classes = fixed_classes(model)
    if model.changing.any() and change is None:
        from tests.exact.cases import fixed_change

        change = fixed_change(model)
    total = 0.0
    psi = [channel(part, theta[i], closeness) for i, part in enumerate(model.coded)]
    for label in set(labels):
        members = [r for r in range(len(labels)) if labels[r] == label]
        rows = [model.records.file[r] if model.rate_rows > 1 else 0 for r in members]
        weights = np.ones(1) if classes is None else classes.weight.copy()
        for column, part in enumerate(model.coded):
            values = [part.codes[r] for r in members]
            betas = [beta[row, column] for row in rows]
            own = slice(*model.field_start[column : column + 2])
            for c in range(len(weights)):
                true = None
                if classes is not None and part.similar is None:
                    true = classes.theta[own, c]
                if model.changing[column]:
                    order = list(model.time_order)
                    times = [
                        order.index(model.records.files[model.records.file[r]]) for r in members
                    ]
                    weights[c] *= changing_likelihood(
                        values,
                        times,
                        theta[column],
                        betas,
                        psi[column],
                        change[:, column],
                        copying(part),
                    )
                    continue
                weights[c] *= cluster_likelihood(
                    values, theta[column], betas, psi[column], true, copying(part)
                )
        if weights.sum() == 0:
            return -math.inf
        total += math.log(weights.sum())
    return total


def log_prior(labels, prior, concentration=None, model=None):
    """Each prior from its own definition, not from V and W; `model` for its files."""
    n, sizes = len(labels), np.unique(labels, return_counts=True)[1]
    kind = type(prior).__name__
    if kind == "UniformLabels":
        return math.log(math.perm(n, len(sizes)))
    if kind == "UniformPartitions":
        return 0.0
    if kind == "ClusterSizes":
        if concentration is None:
            from tests.exact.cases import fixed_hyperparameters

            concentration = fixed_hyperparameters(model)
        return log_prior_of_kinds(labels, model, concentration)
    # Seat the records one after the other at the tables of a Chinese restaurant.
    c = prior.concentration if concentration is None else concentration
    c, d = c if isinstance(c, tuple) else (c, prior.discount)
    seated, total = {}, 0.0
    for i, label in enumerate(labels):
        if label in seated:
            total += math.log((seated[label] - d) / (i + c))
        else:
            total += math.log((c + d * len(seated)) / (i + c))
        seated[label] = seated.get(label, 0) + 1
    return total


def log_prior_of_kinds(labels, model: Model, hyper):
    """Entities drawn one by one, each of a kind, then placed in files, by brute force.

    By block, where blocks have shares of their own, which are summed out one entity at a time.
    """
    prior, files = model.prior, len(model.records.files)
    by_block = prior.blocks and len(model.block_sizes) > 1
    shares = hyper[: 2**files - 1 if prior.files else 8]
    pooling = hyper[len(shares)] if by_block else None
    repeating = np.flatnonzero(~model.single)
    numbers = hyper[len(shares) + by_block :].reshape(-1, 8) if prior.files else []
    numbers = dict(zip(repeating.tolist(), numbers, strict=True)) if prior.files else {}
    mass = 0.5 * np.ones(len(shares))
    if not prior.files:
        mass = prior.strength * 0.5 ** np.minimum(np.arange(1, 9), 7)

    total = 0.0
    blocks = np.unique(model.records.block) if by_block else [None]
    for block in blocks:
        held = [r for r in range(len(labels)) if block is None or model.records.block[r] == block]
        names = sorted({labels[r] for r in held})
        total += math.lgamma(len(names) + 1)
        seen = np.zeros(len(shares))
        for name in names:
            own = [model.records.file[r] for r in held if labels[r] == name]
            counts = [own.count(f) for f in range(files)]
            if prior.files:  # the set of files, then how many records each has
                kind = sum(2**f for f in range(files) if counts[f]) - 1
                for file, count in enumerate(counts):
                    if count and file in numbers:
                        total += math.log(numbers[file][count - 1]) + math.lgamma(count + 1)
            else:
                kind = len(own) - 1
                total += math.lgamma(len(own) + 1)
            if by_block:  # the next entity of an urn
                share = (pooling * shares[kind] + seen[kind]) / (pooling + seen.sum())
            elif len(model.block_sizes) == 1:
                share = (mass[kind] + seen[kind]) / (mass.sum() + seen.sum())
            else:
                share = shares[kind]
            seen[kind] += 1
            total += math.log(share)
    return total


def exact_posterior(model: Model, theta, beta):
    """Probability of every legal partition given theta and beta."""
    legal = [labels for labels in partitions(len(model.records)) if is_legal(labels, model)]
    logs = np.array(
        [
            log_likelihood(p, model, theta, beta) + log_prior(p, model.prior, model=model)
            for p in legal
        ]
    )
    weights = np.exp(logs - logs.max())
    return dict(zip(legal, weights / weights.sum(), strict=True))
