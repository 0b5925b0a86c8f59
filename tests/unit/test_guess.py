"""What `smered init` guesses, and why."""

import numpy as np
import pyarrow as pa

from smered.config import Configuration, make_model
from smered.config.schema import merge
from smered.fields import Categorical, Date, Number, Text
from smered.guess import guess
from smered.priors import ClusterSizes
from smered.simulate import survey
from smered.sources.source import Source


def table(records=400, seed=0):
    rng = np.random.default_rng(seed)
    letters = list("abcdefghijklmnop")
    job = rng.integers(0, 6, records)
    return pa.table(
        {
            "rec_id": [f"r{i}" for i in range(records)],
            "name": ["".join(rng.choice(letters, 6)) for _ in range(records // 2)] * 2,
            "phone": [str(n) for n in rng.integers(10**8, 10**9, records // 2)] * 2,
            "year": [str(n) for n in rng.integers(1920, 2000, records)],
            "born": [f"{y}{m:02}{d:02}" for y, m, d in zip(rng.integers(1920, 2000, records),
                     rng.integers(1, 13, records), rng.integers(1, 29, records), strict=True)],
            "job": [f"job {i}" for i in job],
            "sector": [["farm", "office", "shop"][i % 3] for i in job],
            "sex": [["f", "m"][i] for i in rng.integers(0, 2, records)],
        }
    )  # fmt: skip


def guessed(content, tmp_path, **data):
    sources = {"people": Source("people", "people.csv", "CSV", content)}
    given = merge(Configuration(), {"data": {"files": ["people.csv"]} | data})
    return guess(given, sources, tmp_path), sources


def test_types_follow_from_values(tmp_path):
    (config, reasons), sources = guessed(table(), tmp_path)
    kinds = {name: field.type for name, field in config.fields.items()}
    assert kinds == {
        "name": "text", "phone": "text", "year": "number", "born": "date", "job": "categorical",
        "sex": "categorical",
    }  # fmt: skip
    assert config.data.ignore == ["sector"]
    assert "follows from 'job'" in reasons["ignore.sector"]
    model = make_model(config, sources)
    found = {field.name: type(field) for field in model.fields}
    assert found == {
        "name": Text, "phone": Text, "year": Number, "born": Date, "job": Categorical,
        "sex": Categorical,
    }  # fmt: skip
    assert isinstance(model.prior, ClusterSizes)
    assert {(part.a, part.b) for part in model.coded} == {(1.0, 49.0)}


def test_names_that_all_differ_are_compared_and_ids_are_not(tmp_path):
    """Half of the records are others with a typo: no name is there twice."""
    rng = np.random.default_rng(3)
    names = ["".join(rng.choice(list("abcdefghij"), 8)) for _ in range(60)]
    content = pa.table(
        {
            "pid": [f"{i:05}" for i in range(120)],
            "name": [*names, *(name[:3] + "x" + name[4:] for name in names)],
            "code": ["".join(rng.choice(list("abcdefghijklmnop"), 8)) for _ in range(120)],
        }
    )
    (config, reasons), _ = guessed(content, tmp_path)
    assert config.data.id == "pid"
    assert {name: field.type for name, field in config.fields.items()} == {"name": "text"}
    assert "different value in every record" in reasons["ignore.code"]
    twice = content.set_column(0, "pid", [[*content["pid"].to_pylist()[:-1], "00007"]])
    (config, reasons), _ = guessed(twice, tmp_path)
    assert config.data.id is None
    assert "pid" not in config.fields
    assert "rows 8 and 120 both have '00007'" in reasons["ignore.pid"]


def test_numbers_that_many_records_share_are_categories(tmp_path):
    content = table(6000).drop_columns(["name", "phone", "born"])
    (config, _), _ = guessed(content, tmp_path)
    assert config.fields["year"].type == "number"  # 80 values of 6,000 records
    many = pa.concat_tables([content] * 2)
    ids = pa.array([f"r{i}" for i in range(len(many))])
    many = many.set_column(0, "rec_id", ids)
    (config, reasons), _ = guessed(many, tmp_path)
    assert config.fields["year"].type == "categorical"
    assert "near ones say little" in reasons["fields.year"]


def survey_config(tmp_path, **settings):
    data = survey(1, **settings)
    sources = {name: Source(name, f"{name}.csv", "CSV", t) for name, t in data.tables.items()}
    files = [f"{name}.csv" for name in data.tables]
    given = merge(Configuration(), {"data": {"files": files, "duplicates": False}})
    return guess(given, sources, tmp_path), sources


def test_columns_that_change_together_become_one_field(tmp_path):
    (config, reasons), sources = survey_config(tmp_path, share=0.1)
    assert config.data.time_order == ["1982", "1989", "1994"]
    joint = config.fields["state | office"]
    assert (joint.type, joint.changes, joint.slips) == ("joint", True, None)
    assert "'state' agree in 'office' in 7" in reasons["fields.state | office"]
    assert make_model(config, sources).changing.tolist().count(True) == 1
    (config, reasons), _ = survey_config(tmp_path, share=0.1, distortion=0.04)
    assert config.fields["state | office"].slips
    assert "wrong in a part" in reasons["fields.state | office"]
    (config, reasons), _ = survey_config(tmp_path, share=0.1, independent=True)
    assert set(config.fields) == {"sex", "day", "month", "year", "state", "office"}
    assert "prior" not in reasons


def test_columns_that_depend_in_part_keep_the_conditioned_prior(tmp_path):
    rng = np.random.default_rng(2)
    group = rng.integers(0, 6, 3000)
    columns = {}
    for name in ("job", "branch", "school", "club"):
        own = np.where(rng.random(3000) < 0.7, group, rng.integers(0, 6, 3000))
        columns[name] = [f"{name} {i}" for i in own]
    (config, reasons), _ = guessed(pa.table(columns), tmp_path)
    assert config.model.prior.files is False
    assert "go together in part" in reasons["prior"]


def test_columns_of_blocks_are_not_compared(tmp_path):
    (config, reasons), sources = guessed(table(), tmp_path, blocks=["sex"])
    assert "sex" not in config.fields
    assert "makes blocks" in reasons["ignore.sex"]
    assert make_model(config, sources).records.blocks == 2
