"""Figures are drawn, with and without truth, for odd posteriors too."""

import numpy as np
import pytest

import smered
from smered.report import figures
from smered.simulate import simulate


@pytest.fixture(scope="module", params=["field", "file"])
def posterior(request):
    data = simulate({("a",): 10, ("b",): 5, ("a", "b"): 20}, [8, 6], seed=2)
    return smered.link(
        data.tables, data.fields, id="id", draws=10, chains=2, distortion=request.param
    )


def test_every_figure(posterior, tmp_path):
    drawn = [
        figures.entities(posterior, truth=35),
        figures.entities(posterior),
        figures.overlap(posterior, {("a",): 10, ("a", "b"): 20, ("c",): 1}),
        figures.overlap(posterior),
        figures.distortion_rates(posterior),
        figures.match_probabilities(posterior),
    ]
    for number, figure in enumerate(drawn):
        figure.savefig(tmp_path / f"{number}.png")
        figure.savefig(tmp_path / f"{number}.svg")
    labels = [text.get_text() for text in drawn[2].axes[0].get_yticklabels()]
    assert labels == ["a", "b", "c", "a & b"]


def test_draws_that_do_not_differ():
    grid, heights = figures.smooth(np.full(20, 5.0))
    assert heights.max() > 0
    assert grid[0] < 5 < grid[-1]
