"""Numbers in the pages are what files in docs/figures/ make of them; those files were written by commands."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "fill_docs.py"))
PAGES = SCRIPT["pages"]()

# Tables whose decimals and percents we did not measure, by page and heading
TYPED = {
    ("MODEL_CARD.md", "Model cards"): "sizes of files that ship, and licences",
    ("analyses.md", "Ablation: what each part is worth"): "settings",
    ("benchmarks.md", "Where the annotation files come from"): "licences",
    ("benchmarks.md", "What is wrong in the published files, and what is done about it"): "what others published",
    ("formats.md", "result.json"): "constants",
    ("live.md", "Options"): "settings",
    ("localise.md", "What may be given"): "constants",
    ("scale.md", "What breaks first at 10^8 clips"): "arithmetic, not a measurement",
    ("serve.md", "Options"): "settings",
}


def find_setting(model: str, name: str) -> float:
    """A setting of a built-in model, as its file says."""
    with safe_open(ROOT / f"src/soundwhere/weights/{model}.safetensors", "np") as file:
        return float(json.loads(file.metadata()["method"])[name])


# Decimals and percents in sentences that we did not measure, or that another test compares with their files, by page
SAID = {
    "README.md": {"3.11": "a version", "4.0": "a licence"},
    "MODEL_CARD.md": {
        "7.2": "million values",
        **dict.fromkeys(("0.5 %", "0.2"), "settings"),
        "4.0": "a licence",
        "15 %": "a setting",
        **{f"{find_setting('scav-wide', name):.3f}": "a setting" for name in ("sounding_threshold", "dark")},
    },
    "analyses.md": {
        **dict.fromkeys(("0.7", "0.8", "0.80", "0.56", "0.65", "0.03", "0.02", "0.2"), "settings of the simulation"),
        "1.5": "seconds, a setting",
        "15 %": "a setting",
        "0.71": "arithmetic: 1 / sqrt 2",
    },
    "annotate.md": {"0.7": "a setting"},
    "evaluation.md": {
        "0.1": "a setting",
        "15 %": "a setting",
        "0.4": "a setting",
        "0.04": "arithmetic: 2 of 5 158",
    },
    "live.md": {"0.4": "what a test asserts"},
    "method.md": {
        **dict.fromkeys(("0.65", "0.4", "0.07", "0.32"), "settings"),
        "0.5": "arithmetic",
        "0.5 %": "a setting",
        "0.1": "million values",
    },
    "performance.md": {"0.5": "a setting", "0.001": "a setting", "43.2": "the paper's"},
    "rebuild.md": {"0.15": "a setting"},
    "reproduction.md": {"0.3": "a setting"},
    "results.md": {
        **dict.fromkeys(("0.3", "0.5", "0.1"), "settings"),
        **dict.fromkeys(("+7.4", "+5.0", "+4.0", "+3.4", "1.2", "1.8", "2.6"), "compared below with the files"),
    },
    "rivals-several.md": {"0.95": "a setting", "0.96": "a setting", "2506.18557": "an address"},
    "rivals.md": {"22.05": "a setting", "0.999": "a setting"},
    "scale.md": {"2.13": "a version"},
    "serve.md": {"127.0.0.1": "an address"},
    "training.md": {"0.4": "a version"},
}
CHANCE = {"95 %", "33.3", "33.3 %", "66.7", "66.7 %", "50 %"}  # how sure intervals are, and chance, on any page


@pytest.fixture
def figures(tmp_path: Path) -> Path:
    """The plan alone, without any file."""
    shutil.copy(FIGURES / "tables.toml", tmp_path)
    return tmp_path


def results(value: float, *rows: str) -> dict[str, Any]:
    names = ("cap", "ciou@0.3", "ciou@0.5", "auc")
    figure = {"value": value, "low": value - 0.01, "high": value + 0.01}
    return {"scores": {row: dict.fromkeys(names, figure) for row in rows}, "frames": {}}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_holds_what_was_measured(page: Path) -> None:
    figures = SCRIPT["Figures"](FIGURES)
    text = page.read_text(encoding="utf-8")
    assert SCRIPT["fill"](text, figures) == text, "run python scripts/fill_docs.py"
    awaited = tomllib.loads((FIGURES / "tables.toml").read_text(encoding="utf-8"))["awaited"]
    assert {missing.split(":")[0] for missing in figures.missing} <= set(awaited)


def test_every_table_of_the_plan_is_on_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in SCRIPT["Figures"](FIGURES).plan["tables"]:
        assert text.count(f"<!-- figures: {name} -->") == 1


def unfilled(page: Path) -> str:
    """A page without code, and without what files fill in."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"<!-- (figures?|value): .*?<!-- end -->", "", text, flags=re.DOTALL)


def said_figures(page: Path) -> set[str]:
    """Decimals and percents in sentences that no file fills in."""
    text = re.sub(r"^\|.*$|`[^`]*`|\]\([^)]*\)", "", unfilled(page), flags=re.MULTILINE)
    return set(re.findall(r"(?<![\w.@-])[+-]?\d+(?:(?:\.\d+)+(?: %)?| ?%)", text))


def typed_figures(page: Path) -> set[str]:
    """Headings under which a table has cells with decimals or percents that no file fills in."""
    text = unfilled(page)
    heading, body, found = "", False, set()
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("|"):
            body = False
        elif line.startswith("|---"):
            body = True
        elif body and re.search(r"\d\.\d|\d ?%", re.sub(r"`[^`]*`", "", line)):
            found.add(heading)
    return found


def test_no_table_has_figures_that_were_typed_in() -> None:
    """Let a command write them to docs/figures/, or say why they are no measurement of ours."""
    assert {(page.name, heading) for page in PAGES for heading in typed_figures(page)} == set(TYPED)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_sentence_has_figures_that_were_typed_in(page: Path) -> None:
    """Fill them from a file of docs/figures/, say it in words, or say why they are no measurement of ours."""
    assert said_figures(page) - CHANCE == set(SAID.get(page.name, {}))


def test_figures_in_sentences_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "CIoU@0.3 is 61.2 (+2.0 to 63 %), by `minmax-0.5` <!-- value: a b .1f -->7.5<!-- end --> in version 0.2.0.\n"
        "```\nit took 28.1 s\n```\n| a | 0.5 |\n[a page](docs/v1.5.md)\n"
    )
    assert said_figures(page) == {"61.2", "+2.0", "63 %", "0.2.0"}


def test_typed_figures_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    table = "| a | b |\n|---|---:|\n| {} | {} |\n"
    parts = {
        "Decimals": table.format("x", "61.4 (59.0 to 63.5)"),
        "Percents": table.format("x", "61 %"),
        "Counts and `names`": table.format("`minmax-0.5`", "61"),
        "Code": f"```\n# Decimals in code\n{table.format('x', 0.5)}```\n",
        "Filled": f"<!-- figures: x -->\n{table.format('x', 0.5)}<!-- end -->\n",
        "Filled cells": table.format("x", "<!-- value: file place .1f -->0.5<!-- end -->"),
        "A head": "| CIoU@0.3 |\n|---|\n| yes |\n",
    }
    page.write_text("".join(f"## {heading}\n{part}\n" for heading, part in parts.items()))
    assert typed_figures(page) == {"Decimals", "Percents"}


def test_every_file_says_where_it_comes_from() -> None:
    for path in FIGURES.glob("*.json"):
        found = json.loads(path.read_text(encoding="utf-8"))
        named = "command" in {**found, **found.get("settings", {})}
        assert named or {"clips", "workers"} & set(found), f"{path.name} does not name its command"


def test_a_file_renews_its_cells_and_no_others(figures: Path) -> None:
    (figures / "real-trio.json").write_text(
        json.dumps(results(0.5, "scav-wide", "constant pair, sigma 40 px (best on val)"))
    )
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    filled = SCRIPT["fill"](text, SCRIPT["Figures"](figures))
    changed = [line for line, old in zip(filled.splitlines(), text.splitlines(), strict=True) if line != old]
    assert len(changed) == 2
    for line, title in zip(changed, ("`scav-wide`", "fixed blobs"), strict=True):
        cells = line.strip("| ").split(" | ")
        assert cells[0].startswith(title)
        assert cells[3:] == ["50.0 (49.0 to 51.0)"] * 2
        assert (
            cells[1:3] == next(old for old in text.splitlines() if old.startswith(f"| {cells[0]} ")).split(" | ")[1:3]
        )


def test_a_list_is_put_in_whole(figures: Path) -> None:
    row = {"sounding": 2, "both_stages": 0.875, "stage_one": 0.5, "two_maps": 0.25, "wrong_sound": 0.125, "called": 3.0}
    (figures / "sources.json").write_text(json.dumps({"command": "soundwhere bench sources", "rows": [row]}))
    page = (ROOT / "docs" / "localise.md").read_text(encoding="utf-8")
    filled = SCRIPT["fill"](page, SCRIPT["Figures"](figures))
    assert "|---:|---:|---:|---:|---:|\n| 2 | 87.5% | 50.0% | 25.0% | 12.5% |\n<!-- end -->" in filled


def test_a_list_may_stand_anywhere_in_a_file(figures: Path) -> None:
    check = {"claim": "|x| <= 1", "holds": False, "measured": "1.5"}
    (figures / "theory.json").write_text(json.dumps({"checks": [check]}))
    (figures / "train-parts.json").write_text(json.dumps({"scenes_per_s": {"decode": 6.78}}))
    filled = {
        name: SCRIPT["fill"]((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"), SCRIPT["Figures"](figures))
        for name in ("analyses", "training")
    }
    assert "|---|---|---|\n| \\|x\\| <= 1 | does not hold | 1.5 |\n<!-- end -->" in filled["analyses"]
    assert "|---|---:|\n| decode | 6.8 |\n<!-- end -->" in filled["training"]


def test_figures_may_stand_further_inside(figures: Path) -> None:
    interval = {"value": 0.25, "low": 0.2, "high": 0.3}
    kinds = ("absent sound", "swapped sound", "silence")
    found = {"miss": interval, "false_alarms": dict.fromkeys(kinds, interval), "auroc": dict.fromkeys(kinds, 0.75)}
    (figures / "calibration-mobile.json").write_text(json.dumps({"calibration": found}))
    boxes = {"mean_fill": 0.5, "bins": []}
    (figures / "protocols.json").write_text(json.dumps({"presets": {}, "boxes": boxes}))
    card, page = (
        SCRIPT["fill"]((ROOT / name).read_text(encoding="utf-8"), SCRIPT["Figures"](figures))
        for name in ("MODEL_CARD.md", "docs/analyses.md")
    )
    assert "| silence | 25.0 (20.0 to 30.0) | 75.0 |" in card
    assert "calibration - miss -->25.0 (20.0 to 30.0)<!-- end --> %" in card
    assert "boxes/mean_fill .1% -->50.0%<!-- end -->" in page


def test_a_row_that_fits_twice_is_refused(figures: Path) -> None:
    rows = [f"constant pair, sigma {width} px (best on val)" for width in (40, 55)]
    (figures / "real-trio.json").write_text(json.dumps(results(0.5, *rows)))
    with pytest.raises(ValueError, match="several rows"):
        SCRIPT["fill"]((ROOT / "README.md").read_text(encoding="utf-8"), SCRIPT["Figures"](figures))


def test_every_recording_is_in_the_tables_of_agreement(shared: Path) -> None:
    files = [FIGURES / f"{name}.json" for name in ("agreement", "agreement-several")]
    rows = [row for path in files for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]
    recorded = {path.stem for path in (shared / "oracles").glob("*.npz")} - {"evaluators"}  # equal, see test_oracles.py
    assert {row["recording"] for row in rows} == recorded
    for row in rows:
        allowed = 1e-5 if row["recording"] == "audio_frontends" else 1e-6
        assert row["difference"] <= allowed, row


def test_the_largest_difference_of_a_kind_of_array_counts(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "agreement.py"))
    script["write"](
        ["lvs\tmap\t1.0e-08", "dsol\ts1_map\t2.0e-08", "dsol\ts2_map\t5.0e-08", "lvs\tmap\t0.0e+00"], tmp_path
    )
    found = {path.stem: json.loads(path.read_text())["rows"] for path in tmp_path.glob("*.json")}
    assert found == {
        "agreement": [{"recording": "lvs", "array": "map", "difference": 1e-8}],
        "agreement-several": [{"recording": "dsol", "array": "map", "difference": 5e-8}],
    }


def test_what_is_said_of_the_comparison_follows_from_its_files() -> None:
    """Words of docs/results.md: who beats a constant, who listens, by how much, how long it took."""
    trio, duet = (
        json.loads((FIGURES / f"compare-{name}.json").read_text(encoding="utf-8")) for name in ("trio", "duet")
    )
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    text = " ".join(text[text.index("## Every system, on the same footing") : text.index("## What was tried")].split())
    score = {row: trio["scores"][row]["ciou@0.3"]["value"] for row in trio["methods"]}
    duets = {row: duet["scores"][row]["ciou@0.3"]["value"] for row in duet["methods"]}
    frames = {row: trio["frames"][row]["by_peak"]["value"] for row in trio["methods"]}

    minutes = [float(found) for words in trio["methods"].values() for found in re.findall(r"in ([\d.]+) min", words)]
    assert f"took {min(minutes):.0f} to {max(minutes):.0f} minutes" in text

    def above(scores: dict[str, float], results: dict[str, Any]) -> set[str]:
        (constant,) = (row for row in results["scores"] if row.endswith("(best on val)"))
        least = results["scores"][constant]["ciou@0.3"]["value"]
        return {row.split()[0].rstrip(",") for row, value in scores.items() if value > least}

    assert above(score, trio) == {"scav", "dsol"}
    assert above(duets, duet) == {"scav"}
    assert "of trios, SCAV and, told the classes, DSOL; of duets, SCAV alone" in text

    listening = {row.split()[0].rstrip(",") for row in trio["methods"] if trio["drops"][row]["cap"]["low"] > 0}
    deaf = {row.split()[0].rstrip(",") for row in trio["methods"]} - listening
    assert listening == {
        "scav",
        "lvs",
        "ssl-tie",
        "slavc",
        "ez-vsl",
        "noprior",
        "ots",
        "ots-ave",
        "coarse-to-fine",
        "fnac",
    }
    assert "SCAV, LVS, SSL-TIE, SLAVC, EZ-VSL, NoPrior, both forms of OTS, CoarsetoFine and (barely) FNAC" in text
    named = {"jsa", "mix-and-localize", "avgn", "dsol"}
    assert deaf == {"attention10k", "attention10k-original", "dmc", "dmc-duet", *named}
    assert "both forms of Attention10k and DMC, JSA, Mix-and-Localize, AVGN and DSOL" in text

    ours = min(value for row, value in score.items() if row.startswith("scav, seed"))
    told = ("scav", "dsol", "avgn", "coarse-to-fine")  # ours, and those that read labels
    lead = ours - max(value for row, value in score.items() if not row.startswith(told))
    assert f"by {100 * lead:.0f} points and more" in text

    def ahead(row: str, seed: int) -> str:
        (found,) = (each for each in frames if each.startswith(row))
        return f"{100 * (frames[found] - frames[f'scav, seed {seed}']):+.1f}"

    assert ahead("lvs, seed 0", 0) == ahead("ssl-tie", 0)
    assert f"({ahead('lvs, seed 0', 0)} each" in text
    assert f"with seed 1, LVS {ahead('lvs, seed 1', 1)}" in text
    assert f"({ahead('slavc, seed 0', 0)} and {ahead('slavc, seed 1', 1)}, both" in text

    def apart(values: dict[str, float]) -> float:
        pairs = [(row, row.replace("seed 0", "seed 1")) for row in values if "seed 0" in row]
        return 100 * max(abs(values[one] - values[other]) for one, other in pairs)

    assert len([row for row in score if "seed 1" in row]) == 3
    said = (
        f"{apart(score):.1f} points of CIoU@0.3 on trios, {apart(duets):.1f} on duets and {apart(frames):.1f} of frames"
    )
    assert said in text
