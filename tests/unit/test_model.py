"""Fields, priors, pairs and the model's own checks."""

import math

import numpy as np
import pyarrow as pa
import pytest

from smered.errors import ConfigError, DataWarning
from smered.fields import Categorical, Joint, Text
from smered.model import Model
from smered.pairs import InformedPairs, UniformPairs
from smered.priors import Ewens, PitmanYor
from smered.records import Records
from smered.sampler import Settings


def records(blocks=(), **columns):
    return Records.from_frames(pa.table(columns), columns=list(columns), blocks=blocks)


def test_a_block_column_is_exact_unless_told_otherwise():
    data = records("s", s=["m", "f", "m", "f"], f=["x", "x", "y", "y"])
    assert Model(data, ["s", "f"]).exact.tolist() == [True, False]
    assert Model(data, [Categorical("s", b=7), "f"]).exact.tolist() == [False, False]
    assert Model(data, [Categorical("f", b=math.inf), "s"]).exact.tolist() == [True, True]


def test_joint_codes_combinations():
    data = records(s=["1", "1", "2", None, "1"], o=["a", "b", "a", None, "b"])
    field = Joint("s", "o").code(data)
    assert field.name == "s | o"
    assert field.codes.tolist() == [0, 1, 2, -1, 1]
    assert field.levels.to_pylist() == ["1 | a", "1 | b", "2 | a"]
    assert field.similar is None


def test_a_gap_in_one_column_of_a_joint_field_leaves_the_rest_to_count():
    """A value that agrees with no whole one, or has no part at all, is missing."""
    states = ["1", "1", "2", None, None, "3", "1", "1"]
    data = records(s=states, o=["a", "b", "a", "a", None, None, None, "a"])
    field = Joint("s", "o").code(data)
    assert field.levels.to_pylist() == ["1 | a", "1 | b", "2 | a", "? | a", "1 | ?"]
    assert field.codes.tolist() == [0, 1, 2, 3, -1, -1, 4, 0]
    assert field.values == 3
    sets = np.split(field.partial.value, field.partial.start[1:-1])
    assert [one.tolist() for one in sets] == [[0, 2], [0, 1]]
    assert field.near.marginal == pytest.approx([0.5, 0.25, 0.25, 0.75, 0.75])
    exact = Joint("s", "o", b=math.inf).code(data)
    assert exact.codes.tolist() == [0, 1, 2, -1, -1, -1, -1, 0]


def test_joint_values_are_near_by_a_slip_in_one_part():
    data = records(s=["anna", "anne", "anna", "otto", "otto"], o=["1", "1", "2", "2", "2"])
    field = Joint(Text("s", threshold=0.5), "o").code(data)
    names = field.levels.to_pylist()
    near = {
        (names[i], names[j])
        for i in range(4)
        for j in field.neighbours.level[field.neighbours.start[i] : field.neighbours.start[i + 1]]
    }
    assert near == {("anna | 1", "anne | 1"), ("anne | 1", "anna | 1")}
    slips = Joint("s", "o", slips=True).code(data)
    assert np.diff(slips.neighbours.start).tolist() == [2, 2, 1, 1]


def test_fields_that_change_need_an_order_of_time():
    table = pa.table({"file": ["a", "b"], "f": ["x", "x"]})
    data = Records.from_frames(table, columns=["f"], file_column="file")
    with pytest.raises(ConfigError, match="field 'f' changes over time: say the order"):
        Model(data, [Categorical("f", changes=True)])
    with pytest.raises(ConfigError, match="must name every file once"):
        Model(data, ["f"], time_order=["a", "c"])
    model = Model(data, [Categorical("f", changes=True)], time_order=["b", "a"])
    assert model.time.tolist() == [1, 0]
    with pytest.raises(ConfigError, match="know no fields that change"):
        Model(data, [Categorical("f", changes=True)], time_order=["b", "a"], classes=2)


def test_mu_by_level_may_name_levels_that_are_not_in_the_data():
    field = Categorical("f", mu={"x": 3, "new": 0.5}).code(records(f=["x", "y", "x"]))
    assert field.levels.to_pylist() == ["x", "y", "new"]
    assert field.mu.tolist() == [3, 1, 0.5]


def test_a_field_that_cannot_link_is_warned_of():
    with pytest.warns(DataWarning, match="'f' has a different value in every record"):
        Categorical("f").code(records(f=["x", "y", "z"]))
    with pytest.warns(DataWarning, match="'f' is missing in every record"):
        Categorical("f").code(records(f=pa.nulls(3)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Categorical("f", a=0), "field 'f': a = 0 must be a positive number"),
        (lambda: Categorical("f", a=math.inf), "a = inf must be a positive number"),
        (lambda: Categorical("f", b=-1), "field 'f': b = -1 must be a positive number"),
        (lambda: Categorical("f", b=math.nan), "b = nan must be a positive number"),
        (lambda: Joint("f"), "two or more different columns"),
        (lambda: Joint("f", "f"), "two or more different columns"),
        (lambda: Model(records(f=["x"]), []), "no fields given"),
        (lambda: Model(records(f=["x"]), ["f", "f"]), "field 'f' is given twice"),
        (lambda: Model(records(f=["x"]), ["f"], distortion="x"), "must be 'field' or 'file'"),
        (lambda: Model(records(f=["x"]), ["f"], duplicates={"b": True}), "no file 'b'"),
        (lambda: Categorical("f", mu=0).code(records(f=["x"])), "mu of level 'x' must be"),
        (lambda: Categorical("f", mu={"x": -1}).code(records(f=["x"])), "mu of level 'x' must"),
        (lambda: Ewens(0), "concentration = 0 must be"),
        (lambda: PitmanYor(1, 1.0), "discount = 1.0 must be in [0, 1)"),
        (lambda: Ewens(shape=-1), "shape = -1 must be"),
        (lambda: Ewens(rate=0), "rate = 0 must be"),
        (lambda: InformedPairs(candidates=0), "candidates = 0 must be at least 1"),
        (lambda: InformedPairs(uniform_share=0), "uniform_share = 0 must be in (0, 1]"),
        (lambda: Settings(draws=0), "draws = 0 must be at least 1"),
        (lambda: Settings(thin=0), "thin = 0 must be at least 1"),
        (lambda: Settings(seed=-1), "seed = -1 must be at least 0"),
        (lambda: Settings(seed=2**64), "must be below 2**64"),
        (lambda: Settings(proposals=0), "proposals = 0 must be at least 1"),
        (lambda: Settings(proposals=2**32), "must be below 2**32 - 1"),
        (lambda: Settings(draws=2.5), "draws = 2.5 must be a whole number"),
    ],
)
def test_impossible_settings_are_refused(make, message):
    with pytest.raises(ConfigError) as caught:
        make()
    assert message in str(caught.value)


def test_candidates_agree_on_all_but_two_fields_and_respect_files_and_blocks():
    rng = np.random.default_rng(0)
    n = 300
    table = pa.table({
        "file": rng.choice(["a", "b"], n),
        "block": rng.choice(["u", "v"], n),
        **{name: rng.integers(0, 4, n) for name in "fghi"},
    })  # fmt: skip
    data = Records.from_frames(table, columns=list("fghi"), file_column="file", blocks="block")
    model = Model(data, list("fghi"), duplicates={"a": False, "b": True})
    layout = model.layout()
    counts = np.diff(layout.candidate_start)
    assert counts.max() <= model.pairs.candidates
    assert counts.min() > 0
    source = np.repeat(np.arange(n), counts)
    partner = layout.candidates
    file, block = data.file[model.order], data.block[model.order]
    assert (source != partner).all()
    assert (block[source] == block[partner]).all()
    single = data.files.index("a")
    assert not ((file[source] == single) & (file[partner] == single)).any()
    differing = (layout.values[source] != layout.values[partner]).sum(axis=1)
    assert differing.max() <= 2
    pairs = source.astype(np.int64) * n + partner
    assert len(np.unique(pairs)) == len(pairs)


def test_uniform_pairs_spread_proposals_by_pairs_of_a_block():
    table = pa.table({"block": ["u"] * 4 + ["v"] * 2 + ["w"], "f": list("xyxyxyx")})
    data = Records.from_frames(table, columns=["f"], blocks="block")
    layout = Model(data, ["f"], pairs=UniformPairs()).layout(proposals=140)
    assert layout.proposals.tolist() == pytest.approx([120, 20, 0])


def test_no_proposals_where_nothing_can_be_linked():
    data = records(f=["x", "x"])
    layout = Model(data, ["f"], duplicates=False).layout()
    assert layout.proposals.tolist() == [0]
