"""The report of a run: what it says, what it must not say, and how it works in a real browser."""

import json
import re

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import smered
from smered.cli import app
from smered.evaluate import evaluate
from smered.report.cards import collect_cards
from smered.report.write import write_report
from smered.simulate import simulate
from tests.report.browser import open_page

HOSTILE = [
    "</script><script>alert('value')</script>",
    '"><img src=x onerror=alert(1)>',
    "$x^2$ & {{ 7 * 7 }} <b>bold</b>",
    "\u2028\u202e' onmouseover='alert(2)",
    "=cmd|' /C calc'!A0",
]


@pytest.fixture(scope="module")
def data():
    return simulate({("a",): 60, ("b",): 40, ("a", "b"): 80}, [25, 12, 30], missing=0.03, seed=4)


@pytest.fixture(scope="module")
def posterior(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "run"
    return smered.link(
        data.tables, data.fields, id="id", draws=150, burn_in=50, chains=2, out=folder
    )


@pytest.fixture(scope="module")
def page(data, posterior, tmp_path_factory):
    found = evaluate(posterior, data.truth)
    path = tmp_path_factory.mktemp("page") / "report.html"
    return write_report(posterior, path, evaluation=found, title="Two files")


def data_of(path):
    text = re.search(r'<script id="data" type="application/json">(.*?)</script>', path.read_text())
    return json.loads(text[1])


def test_it_tells_what_the_summary_tells(page, posterior):
    text = page.read_text()
    entities = posterior.entities()
    for part in (
        f"{entities.mean:,.0f}<small>95% interval {entities.lower:,.0f} to {entities.upper:,.0f}",
        posterior.diagnostics().sentence,
        "<caption>Distortion rates</caption>",
        "<caption>Entities in exactly these files</caption>",
        "Calibration error",
        "fingerprint of a",
        "effective sizes",
    ):
        assert part in text, part
    assert text.count("<svg") == 6
    assert "http:" not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", text)


def test_every_entity_is_there_with_its_records_and_alternatives(page, posterior):
    found, estimate = data_of(page), posterior.estimate()
    assert found["left_out"] == 0
    assert [name for name, _, _ in found["entities"]] != list(estimate.entity_id)
    assert {name for name, _, _ in found["entities"]} == set(estimate.entity_id)
    probabilities = [found["sets"][own][0] for _, own, _ in found["entities"]]
    assert probabilities == sorted(probabilities)
    number = {name: i for i, name in enumerate(estimate.entity_id)}
    for name, own, others in found["entities"]:
        members = [i for i, e in enumerate(estimate.entity) if e == number[name]]
        shown = [tuple(found["records"][r][:2]) for r in found["sets"][own][1]]
        ids = posterior.records.ids.to_pylist()
        expected = [(int(posterior.records.file[i]), str(ids[i])) for i in members]
        assert shown == expected
        for other in others:
            named = [found["records"][r] for r in found["sets"][other][1]]
            numbers = [
                posterior.records.position(found["files"][file], id) for file, id, *_ in named
            ]
            assert set(numbers) & set(members)
            assert found["sets"][other][0] == pytest.approx(
                posterior.matching_set_probability(numbers), abs=6e-4
            )


def test_evidence_is_what_the_posterior_says(page, posterior):
    found = data_of(page)
    several = [item for item in found["sets"] if len(item[1]) > 1]
    assert len(several) > 50
    for _, members, _, _, bits in several[:40]:
        named = [found["records"][r] for r in members]
        evidence = posterior.evidence(*((found["files"][file], id) for file, id, *_ in named))
        assert bits == pytest.approx([v / 0.6931471805599453 for v in evidence.values()], abs=0.051)


def test_only_so_much_is_shown_and_the_rest_is_counted(posterior):
    estimate = posterior.estimate()
    some = collect_cards(posterior, estimate, bytes=4000)
    assert 0 < some["left_out"] < len(estimate)
    assert len(some["entities"]) + some["left_out"] == len(estimate)
    assert len(json.dumps(some)) < 12_000


def test_it_works_in_a_browser(page, posterior):
    with open_page(page) as (tab, noticed):
        assert tab.locator(".card").count() == 20
        assert f"{len(posterior.estimate()):,} entities" in tab.inner_text("#found")
        tab.click("#more")
        assert tab.locator(".card").count() == 40
        tab.fill("#search", "b:17")
        assert tab.locator(".card").count() == 1
        assert "b:17" in tab.inner_text(".card")
        tab.fill("#search", "no such record")
        assert tab.locator(".card").count() == 0
        assert "No record named" in tab.inner_text("#found")
        tab.fill("#search", "")
        details = tab.locator(".card details:not([open])").first
        summary = details.locator("summary").inner_text()
        details.locator("summary").click()
        opened = tab.locator(".card details[open]", has_text=summary).first
        opened.get_by_text("field").first.wait_for()  # it is filled once the page notices
        assert len(noticed) == 1


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1100, "light")])
def test_it_fits_the_screen(page, width, scheme):
    size = {"width": width, "height": 800}
    with open_page(page, viewport=size, color_scheme=scheme) as (tab, _):
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, re.findall(r"\d+", paper)[:3])) > 380
        assert light == (scheme == "light")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    n = 30
    table = pa.table({
        "id": [f"{HOSTILE[i % 5]}{i}" for i in range(n)],
        HOSTILE[1]: [HOSTILE[i % 5] for i in range(n)],
        "plain": [f"secret-{i // 2}" for i in range(n)],
    })  # fmt: skip
    names = [HOSTILE[0], HOSTILE[2]]
    frames = {name: table.slice(i * 15, 15) for i, name in enumerate(names)}
    folder = tmp_path_factory.mktemp("hostile") / "run"
    return smered.link(
        frames, [HOSTILE[1], "plain"], id="id", draws=30, chains=2, out=folder, burn_in=10,
        prior=smered.UniformLabels(),
    )  # fmt: skip


@pytest.mark.parametrize("mask", [False, True])
def test_hostile_names_are_only_text(hostile, tmp_path, mask):
    path = write_report(hostile, tmp_path / "page.html", title=HOSTILE[0], mask=mask)
    assert "<script>alert" not in path.read_text()
    with open_page(path) as (tab, noticed):
        assert tab.inner_text("h1") == HOSTILE[0]
        assert HOSTILE[1] in tab.inner_text("#linked")
        tab.fill("#search", HOSTILE[1])
        assert tab.locator(".card").count() >= 1
        assert tab.locator(".card img").count() == 0
        assert len(noticed) == 1


def test_a_masked_page_has_no_values(hostile, tmp_path):
    masked = write_report(hostile, tmp_path / "masked.html", mask=True)
    assert "secret-" not in masked.read_text()
    assert "fingerprint" not in masked.read_text()
    assert "secret-" in write_report(hostile, tmp_path / "open.html").read_text()
    found = data_of(masked)
    assert all(len(record) == 2 for record in found["records"])
    evidence = {bits for item in found["sets"] for bits in item[4]}
    assert evidence <= {-1, 0, 1}  # odds would tell how common a value is
    assert not any(field["values"] for field in found["fields"])
    with open_page(masked) as (tab, _):
        assert "Field values are left out" in tab.inner_text("header")
        assert "same" in tab.inner_text("#cards")


def test_the_values_that_a_prior_names_are_masked(tmp_path):
    table = pa.table({"f": ["x", "y"] * 5, "g": list("aabbccddee")})
    run = smered.link(
        table, [smered.Categorical("f", mu={"x": 1, "y": 1, "hush": 2}), "g"],
        draws=10, burn_in=0, chains=1, out=tmp_path / "run",
    )  # fmt: skip
    assert "hush" not in write_report(run, tmp_path / "m.html", mask=True).read_text()
    assert "hush" in write_report(run, tmp_path / "o.html").read_text()


def test_odd_runs_have_reports(tmp_path):
    table = pa.table({"f": ["x"] * 70 + [None], "g": ["1"] * 71})
    exact = [smered.Categorical("f", b=float("inf")), smered.Categorical("g", b=float("inf"))]
    run = smered.link(table, exact, prior=smered.Ewens(0.01), draws=5, burn_in=5, chains=1)
    text = write_report(run, tmp_path / "page.html").read_text()
    assert "Every field is exact" in text
    named = max((item[2] for item in data_of(tmp_path / "page.html")["sets"]), key=len)
    assert named  # records beyond those that fit side by side
    with open_page(tmp_path / "page.html") as (tab, _):
        assert "Also in this set" in tab.inner_text("#cards")
        tab.fill("#search", data_of(tmp_path / "page.html")["records"][named[0]][1])
        assert tab.locator(".card").count() == 1


def test_contradictions_and_endless_evidence_are_told_in_words(tmp_path):
    """Two records that can never match, and 200 that agree on rare values."""
    table = pa.table({"f": ["x"] * 200 + ["y"], "g": ["1"] * 201})
    run = smered.link(
        table, [smered.Categorical("f", b=float("inf")), "g"], prior=smered.Ewens(1e-6), draws=5,
        burn_in=30, chains=1,
    )  # fmt: skip
    found = collect_cards(run, run.estimate(), bytes=10**6)
    assert max(len(item[1]) + len(item[2]) + item[3] for item in found["sets"]) > 100
    path = write_report(run, tmp_path / "page.html")
    with open_page(path) as (tab, _):
        assert "Infinity" not in tab.inner_text("body")
    assert run.evidence(0, 200)["f"] == float("-inf")


def test_partial_truth(data, posterior, tmp_path):
    truth = [int(t) if i % 3 else None for i, t in enumerate(data.truth)]
    found = evaluate(posterior, pa.array(truth))
    text = write_report(posterior, tmp_path / "page.html", evaluation=found).read_text()
    assert "the dashed line is the truth" not in text
    assert "among the records whose truth is known" in text


def test_many_files_make_no_large_page(tmp_path):
    """Twelve files, hundreds of overlap patterns: the largest are shown."""
    files = [f"file {i}" for i in range(12)]
    overlap = {tuple(f for i, f in enumerate(files) if mask >> i & 1): 1
               for mask in range(1, 4096, 9)}  # fmt: skip
    many = simulate(overlap, [40, 12, 31], seed=5)
    run = smered.link(many.tables, many.fields, id="id", draws=10, burn_in=10, chains=2)
    path = write_report(run, tmp_path / "page.html", evaluation=evaluate(run, many.truth))
    assert path.stat().st_size < 5_000_000
    assert "The 30 largest of" in path.read_text()


def test_one_chain_is_not_said_to_agree_with_others(tmp_path):
    table = pa.table({"f": list("aabbccddee") * 4, "g": list("uvwxyzuvwx") * 4})
    run = smered.link(table, ["f", "g"], draws=150, burn_in=20, chains=1)
    text = write_report(run, tmp_path / "page.html").read_text()
    assert "The chains agree" not in text
    assert "match\nprobabilities of doubtful pairs differ" not in text


def test_the_command(posterior, tmp_path):
    run = posterior.run.path
    runner = CliRunner()
    done = runner.invoke(app, ["report", str(run), "--truth", "entity"])
    assert done.exit_code == 0, done.output
    text = (run / "report.html").read_text()
    assert "Evaluation against the truth" in text
    other = tmp_path / "other.html"
    assert runner.invoke(app, ["report", str(run), "--out", str(other), "--mask"]).exit_code == 0
    assert "Evaluation" not in other.read_text()
    again = runner.invoke(app, ["report", str(run), "--out", str(other)])
    assert "--force replaces it" in str(again.exception)
    assert runner.invoke(app, ["report", str(run), "--out", str(other), "--force"]).exit_code == 0
    folder = runner.invoke(app, ["report", str(run), "--out", str(tmp_path)])
    assert "is a folder" in str(folder.exception)
