"""What a posterior says of values that change over time."""

import numpy as np
import pytest

import smered
from smered.simulate import survey


@pytest.fixture(scope="module")
def posterior():
    data = survey(3, share=0.02)
    fields = ["day", "month", smered.Joint("state", "office", changes=True)]
    return smered.link(
        data.tables, fields, id="id", blocks=["sex", "year"], duplicates=False,
        time_order=["1982", "1989", "1994"], draws=200, burn_in=100, chains=2, threads=1,
    )  # fmt: skip


def test_rates_of_change(posterior):
    rates = posterior.changes("state | office")
    assert list(rates) == ["1982 to 1989", "1989 to 1994"]
    assert 0.01 < rates["1982 to 1989"].mean < 0.2
    assert posterior.change.shape == (2, 200, 2, 1)
    names = posterior.diagnostics().table["name"].to_pylist()
    assert "change[state | office, 1982 to 1989]" in names
    with pytest.raises(smered.ConfigError, match="field 'day' does not change"):
        posterior.changes("day")


def test_entities_have_a_value_in_every_file(posterior):
    """Records of one file and entity share a value; files may differ."""
    drawn = posterior.at(0, 150)
    true, linkage, file = drawn.true_values, drawn.linkage, posterior.records.file
    keys = linkage * 3 + file
    for column in range(3):
        pairs = np.unique(np.stack((keys, true[:, column])), axis=1)
        assert len(np.unique(pairs[0])) == pairs.shape[1]
    place = np.unique(np.stack((linkage, true[:, 2])), axis=1)
    assert len(np.unique(place[0])) < place.shape[1]  # somebody moved


def test_the_canonical_value_is_the_latest(posterior):
    estimate = posterior.estimate()
    table = posterior.canonical(estimate, draws=20).to_pylist()
    place, records = posterior.model.coded[2], posterior.records
    names, checked = place.levels.to_pylist(), 0
    for entity, row in enumerate(table):
        members = np.flatnonzero(estimate.entity == entity)
        latest = members[np.argmax(records.file[members])]
        if len({place.codes[m] for m in members}) > 1:
            checked += 1
            if row["state | office"] == names[place.codes[latest]]:
                assert row["state | office: probability"] > 0.4
    assert checked > 3


def test_no_change_is_learned_where_nothing_changes():
    data = survey(3, share=0.02, moving=0.0, distortion=0.01, right=("sex", "year"))
    fields = ["day", "month", smered.Joint("state", "office", changes=True)]
    found = smered.link(
        data.tables, fields, id="id", blocks=["sex", "year"], duplicates=False,
        time_order=["1982", "1989", "1994"], draws=200, burn_in=100, chains=1, threads=1,
    )  # fmt: skip
    assert max(rate.mean for rate in found.changes("state | office").values()) < 0.05
