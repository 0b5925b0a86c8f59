"""Splink on the public files: the settings of its own examples, or the nearest to them."""

import logging
import time
import warnings
from typing import Any

import pyarrow as pa

__all__ = ["splink_pairs"]

LEAST = 1e-4  # pairs below are left out


def people(cl: Any, block_on: Any) -> dict[str, Any]:
    """The settings of Splink's examples on the Febrl files."""
    return {
        "comparisons": [
            cl.NameComparison("given_name"),
            cl.NameComparison("surname"),
            cl.DateOfBirthComparison(
                "date_of_birth", input_is_string=True, datetime_format="%Y%m%d"
            ),
            cl.DamerauLevenshteinAtThresholds("soc_sec_id", [1, 2]),
            cl.ExactMatch("street_number").configure(term_frequency_adjustments=True),
            cl.DamerauLevenshteinAtThresholds("postcode", [1, 2]),
        ],
        "rules": [
            block_on("soc_sec_id"), block_on("given_name", "surname"), block_on("date_of_birth"),
            block_on("given_name", "postcode"), block_on("surname", "postcode"),
            block_on("street_number", "postcode"), block_on("street_number", "address_1"),
        ],
        "certain": [block_on("soc_sec_id"), block_on("given_name", "surname", "date_of_birth")],
        "recall": 0.9,
        "training": [block_on("date_of_birth"), block_on("surname", "given_name")],
    }  # fmt: skip


def german(cl: Any, block_on: Any) -> dict[str, Any]:
    """Names and parts of a date of birth."""
    return {
        "comparisons": [
            cl.NameComparison("fname_c1"), cl.NameComparison("lname_c1"),
            cl.LevenshteinAtThresholds("by", [1]), cl.ExactMatch("bm"), cl.ExactMatch("bd"),
        ],
        "rules": ["1=1"],
        "certain": [block_on("fname_c1", "lname_c1", "by"), block_on("by", "bm", "bd")],
        "recall": 0.7,
        "training": [block_on("by", "bm"), block_on("fname_c1", "lname_c1")],
    }  # fmt: skip


def multilink(cl: Any, block_on: Any) -> dict[str, Any]:
    """Names, telephone numbers and much missing."""
    return {
        "comparisons": [
            cl.NameComparison("gname"), cl.NameComparison("fname"),
            cl.DamerauLevenshteinAtThresholds("phone", [1, 2]),
            cl.DamerauLevenshteinAtThresholds("postcode", [1, 2]),
            cl.ExactMatch("sex"), cl.ExactMatch("age"), cl.ExactMatch("occup"),
        ],
        "rules": ["1=1"],
        "certain": [block_on("phone"), block_on("gname", "fname", "postcode")],
        "recall": 0.6,
        "training": [block_on("phone"), block_on("gname", "fname")],
    }  # fmt: skip


def survey(cl: Any, block_on: Any) -> dict[str, Any]:
    """Categories, within regions."""
    columns = ("SEX", "ANASC", "NASCREG", "CIT", "ACOM4C", "STUDIO", "Q", "QUAL", "SETT")
    return {
        "comparisons": [cl.ExactMatch(column) for column in columns],
        "rules": [block_on("IREG", "SEX"), block_on("IREG", "ANASC")],
        "certain": [block_on("IREG", *columns)],
        "recall": 0.6,
        "training": [block_on("IREG", "ANASC"), block_on("IREG", "STUDIO", "QUAL", "SETT")],
    }


FILES = {
    "RLdata500": german, "febrl1": people, "febrl3": people, "febrl4": people,
    "dup_data": multilink, "no_dup_data": multilink, "italy": survey,
}  # fmt: skip


def splink_pairs(name: str, table: pa.Table, known: Any) -> tuple[dict[int, float], float] | None:
    """Splink's probability of each pair, one * n + two, and its seconds; None without Splink."""
    try:
        import splink.comparison_library as cl
        from splink import DuckDBAPI, Linker, SettingsCreator, block_on
    except ImportError:
        print("Splink is not installed: pip install 'smered[accuracy]'")
        return None
    if name not in FILES:
        return None
    logging.getLogger("splink").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    chosen = FILES[name](cl, block_on)
    frame = table.to_pandas()
    frame = frame.astype(dict.fromkeys(frame.columns, str)).replace(
        {"nan": None, "None": None, "": None}
    )
    frame["unique_id"] = range(len(frame))
    frames = [frame]
    if not known.duplicates:
        frames = [part.reset_index(drop=True) for _, part in frame.groupby("source")]
    begun = time.perf_counter()
    settings = SettingsCreator(
        link_type="dedupe_only" if known.duplicates else "link_only",
        comparisons=chosen["comparisons"],
        blocking_rules_to_generate_predictions=chosen["rules"],
    )
    linker = Linker(frames, settings, db_api=DuckDBAPI())
    training = linker.training
    training.estimate_probability_two_random_records_match(chosen["certain"], chosen["recall"])
    training.estimate_u_using_random_sampling(1e6, seed=1)
    for rule in chosen["training"]:
        training.estimate_parameters_using_expectation_maximisation(rule)
    found = linker.inference.predict(threshold_match_probability=LEAST).as_pandas_dataframe()
    seconds = time.perf_counter() - begun
    n = len(frame)
    one = found[["unique_id_l", "unique_id_r"]].min(axis=1).to_numpy().astype(int)
    two = found[["unique_id_l", "unique_id_r"]].max(axis=1).to_numpy().astype(int)
    probability = found["match_probability"].to_numpy()
    return dict(zip((one * n + two).tolist(), probability.tolist(), strict=True)), seconds
