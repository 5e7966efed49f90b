from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.cli import evaluate
from soundwhere.cli.main import run
from soundwhere.data.benchmarks.catalogue import Options, open_benchmark
from soundwhere.data.synthetic.world import World
from soundwhere.media.audio import write_wav
from soundwhere.metrics.presets import PRESETS

if TYPE_CHECKING:
    from soundwhere.types import Scene

    Capture = pytest.CaptureFixture[str]

WORLD = ["evaluate", "--benchmark", "synthetic", "--count", "4", "--out", "out"]


@pytest.fixture
def few_scenes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose the constant pair by few scenes."""
    monkeypatch.setattr("soundwhere.evaluation.constant._ENOUGH", 4)


@pytest.fixture
def few_draws(few_scenes: None, quick_intervals: None) -> None:
    """Choose the constant pair by few scenes, and find intervals by few draws."""


@pytest.mark.usefixtures("few_draws")
def test_two_models_on_the_made_up_world(folder: Path, model_path: Path, capsys: Capture) -> None:
    other = shutil.copy(model_path, folder / "other.safetensors")
    names = [f"made-up-1000002-{number}" for number in range(4)]
    command = [*WORLD, "--model", str(model_path), str(other), "--figure", names[1], names[3], "--compare"]
    assert run(command) == 0
    out, err = capsys.readouterr()
    for expected in ("tiny, audio-shuffled", "tiny, silence", "other, picture-shuffled", "other, feature norm"):
        assert expected in out
    for expected in ("best on val", "everything on", "random smooth maps", "tiny - other", "drop CAP", "AUROC"):
        assert expected in out
    assert "no results on synthetic" in err
    made = {path.name for path in (folder / "out").iterdir()}
    files = {"results.json", "scenes.npz", "tables.md", "tables.tex", "report.html", "figure.png", "list.csv", "scores"}
    assert made == files
    result = json.loads((folder / "out" / "results.json").read_text())
    assert result["benchmark"]["scenes_scored"] == 4
    assert result["preset"]["rule"] == "minmax-0.5"
    assert result["command"].startswith("soundwhere evaluate --benchmark synthetic")
    assert [method["label"] for method in result["methods"]] == ["tiny", "other"]
    assert result["differences"]["tiny - other"]["cap"] == {"value": 0, "low": 0, "high": 0}  # the same weights
    score = result["scores"]["tiny"]["cap"]
    assert score["low"] <= score["value"] <= score["high"]
    with np.load(folder / "out" / "scenes.npz") as arrays:
        assert arrays["scenes"].tolist() == names
        assert arrays["rows"][0] == "tiny"
        assert arrays["0/ap"].mean() == pytest.approx(score["value"])
    page = (folder / "out" / "report.html").read_text()
    assert page.count("<img") == 4  # score against size; best, worst and random scenes
    assert 'src="http' not in page
    with Image.open(folder / "out" / "figure.png") as figure:
        assert figure.width > 4 * 224  # truth, tiny, other 1, other 2
        assert figure.height > 2 * 224

    before = result
    assert run(command) == 0  # goes on from what is there: nothing to do
    assert json.loads((folder / "out" / "results.json").read_text()) == before
    assert out.endswith(
        "wrote out/figure.png, list.csv, report.html, results.json, scenes.npz, tables.md, tables.tex\n"
    )
    capsys.readouterr()
    assert run([*WORLD, "--model", str(model_path), "--no-page"]) == 0  # beside the files of before
    assert capsys.readouterr().out.endswith("wrote out/list.csv, results.json, scenes.npz, tables.md, tables.tex\n")


@pytest.mark.usefixtures("few_draws")
def test_predictions_of_others(folder: Path, capsys: Capture) -> None:
    maps = folder / "theirs"
    maps.mkdir()
    scenes = open_benchmark("synthetic", options=Options(count=4)).scenes
    for number, scene in enumerate(scenes):
        if number == 1:
            for k, mask in enumerate(scene.masks):
                Image.fromarray(mask).convert("L").save(maps / f"{scene.name}_{k}.png")
        elif number < 3:
            np.savez(maps / f"{scene.name}.npz", maps=scene.masks[::-1].astype(np.float32))
    command = [*WORLD, "--predictions", "theirs", "--no-page"]
    assert run(command) == 2
    assert "maps of 3 of 4 scenes; first missing: made-up-1000002-3" in capsys.readouterr().err
    assert run([*command, "--allow-missing"]) == 0
    result = json.loads((folder / "out" / "results.json").read_text())
    assert result["benchmark"]["scenes_scored"] == 3
    assert result["scores"]["theirs"]["cap"]["value"] == pytest.approx(1)
    assert result["scores"]["theirs"]["ciou@0.5"]["value"] == 1
    assert not (folder / "out" / "report.html").exists()


@pytest.mark.usefixtures("few_draws")
def test_mixed_predictions_are_scored_or_refused_whatever_the_batch(folder: Path, capsys: Capture) -> None:
    """Scenes with one, two, three and two maps, of several sizes."""
    maps = folder / "theirs"
    maps.mkdir()
    for number, scene in enumerate(open_benchmark("synthetic", options=Options(count=4)).scenes):
        heat = np.concatenate([scene.masks, scene.masks[:1, ::-1]])[: (1, 2, 3, 2)[number]].astype(np.float32)
        np.savez(maps / f"{scene.name}.npz", maps=heat[:, :: 1 + number, :: 1 + number])
    found = []
    for batch in ("1", "2", "16"):
        command = [*WORLD[:-1], f"out-{batch}", "--predictions", "theirs", "--no-page", "--batch", batch]
        assert run(command) == 2
        err = capsys.readouterr().err
        assert "1 for made-up-1000002-0, 3 for made-up-1000002-2" in err
        assert "--preset noprior" in err
        assert run([*command, "--preset", "noprior"]) == 0
        with np.load(folder / f"out-{batch}" / "scenes.npz") as arrays:
            found.append({name: arrays[name].tolist() for name in arrays.files})
    np.testing.assert_equal(found, [found[0]] * 3)
    theirs = found[0]["rows"].index("theirs")
    assert found[0][f"{theirs}/scene"] == [0, 0, 1, 1, 2, 2, 2, 3, 3]  # a missing map and a surplus one count
    constant = next(place for place, row in enumerate(found[0]["rows"]) if "best on val" in row)
    assert len(found[0][f"{constant}/scene"]) == 8  # which controls do not have


@pytest.mark.usefixtures("few_draws")
def test_answers_without_input_need_no_media(folder: Path, shared: Path, capsys: Capture) -> None:
    """The first of the 5 158 published duets; the folder of annotations is all there is."""
    annotations = str(shared / "data" / "annotations")
    command = [
        "evaluate",
        "--benchmark",
        "vggsound-duet",
        "--annotations",
        annotations,
        "--limit",
        "40",
        "--out",
        "out",
    ]
    assert run([*command, "--input-free", "--compare", "--no-page"]) == 0
    out, err = capsys.readouterr()
    assert "0 of 5 158 scenes usable" in out
    assert "constant pair, sigma 70 px" in out
    assert "SCAV, joint training" in out
    assert "Warning" in err
    assert len((folder / "out" / "missing.csv").read_text().splitlines()) == 5159
    assert run([*command, "--model", "scav-tiny"]) == 2
    assert "--data" in capsys.readouterr().err


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("extra", [["--preset", "avgn"], ["--protocol", "source-wise", "--rule", "median"], ["--solo"]])
def test_other_protocols(folder: Path, model_path: Path, extra: list[str]) -> None:
    side_by_side = [*WORLD, "--layout", "side-by-side", "--silent", "0", "--no-page", "--model", str(model_path)]
    assert run([*side_by_side, *extra]) == 0
    result = json.loads((folder / "out" / "results.json").read_text())
    assert result["preset"]["domain"] == {"--preset": "frame", "--protocol": "cropped", "--solo": "picture"}[extra[0]]
    assert result["about"]["solo"] == (extra == ["--solo"])
    assert bool(result["frames"]) == (extra == ["--solo"])


@pytest.mark.usefixtures("few_draws")
def test_scenes_without_a_source_are_negatives(folder: Path, model_path: Path, capsys: Capture) -> None:
    assert run([*WORLD, "--sounding", "0", "--silent", "2", "--model", str(model_path)]) == 0
    result = json.loads((folder / "out" / "results.json").read_text())
    assert result["scores"] == {}
    assert set(result["negatives"]["tiny"]) == {"absent_lit", "absent_confidence"}
    assert "Sound of absent classes" in capsys.readouterr().out


@pytest.mark.usefixtures("few_draws")
def test_silent_negatives_are_compared_with_real_pairs(folder: Path, model_path: Path, capsys: Capture) -> None:
    clips = ("aaaaaaaaaaa_000001", "bbbbbbbbbbb_000002")
    for place in ("lvs", "slavc", "frames", "audio"):
        (folder / place).mkdir()
    for number, clip in enumerate(clips):
        Image.new("RGB", (40, 30), (100 * number, 50, 0)).save(folder / "frames" / f"{clip}.jpg")
        write_wav(folder / "audio" / f"{clip}.wav", tone(300 + 400 * number))
    boxes = [{"file": clip, "class": clip[0], "bbox": [[0.2, 0.2, 0.8, 0.8]]} for clip in clips]
    (folder / "lvs" / "vggss.json").write_text(json.dumps(boxes))
    lines = [f"{clips[0]},{clips[1]},non-sounding", f"{clips[1]},{clips[0]},non-sounding"]
    (folder / "slavc" / "vggss_test_plus_silent.csv").write_text("\n".join(["video,audio,label", *lines]) + "\n")
    command = ["evaluate", "--benchmark", "silent-negatives", "--data", ".", "--model", str(model_path), "--out", "out"]
    assert run(command) == 0
    assert "real pairs: vgg-ss: 2 of 2 scenes usable" in capsys.readouterr().out
    negatives = json.loads((folder / "out" / "results.json").read_text())["negatives"]["tiny"]
    assert 0 <= negatives["auroc"]["value"] <= 1
    assert set(negatives) == {"real_lit", "real_confidence", "absent_lit", "absent_confidence", "auroc"}


@pytest.mark.usefixtures("few_draws")
def test_corrected_annotations_are_scored_anew(folder: Path) -> None:
    command = ["evaluate", "--benchmark", "vgg-ss", "--input-free", "--no-page", "--out", "out"]
    found = []
    for name, box in (("a", [0.0, 0.0, 0.1, 0.1]), ("b", [0.3, 0.3, 0.7, 0.7]), ("a", [0.3, 0.3, 0.7, 0.7])):
        (folder / name / "lvs").mkdir(parents=True, exist_ok=True)
        boxes = [{"file": f"abc_00000{number}", "class": "dog", "bbox": [box]} for number in range(2)]
        (folder / name / "lvs" / "vggss.json").write_text(json.dumps(boxes))
        assert run([*command, "--annotations", name]) == 0
        found.append(json.loads((folder / "out" / "results.json").read_text())["scores"]["everything on"])
    assert found[0] != found[1]  # scenes of the same names in another folder
    assert found[2] == found[1]  # the first folder with other boxes


def tone(hertz: float) -> np.ndarray:
    """3 s of it."""
    return (0.2 * np.sin(2 * np.pi * hertz * np.arange(3 * 22_050) / 22_050)).astype(np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--benchmark", "nowhere"], "Choose one of: real-duet, real-trio, wide-duet"),
        (
            ["--benchmark", "synthetic", "--input-free", "--preset", "mine"],
            "Choose one of: scav, scav-source-wise, lvs",
        ),
        (["--benchmark", "synthetic", "--input-free", "--rule", "half"], "minmax, max-fraction, fixed, top-area"),
        (["--benchmark", "synthetic"], "Nothing to score"),
        (["--benchmark", "synthetic", "--input-free", "--model", "scav-tiny"], "only answers without input"),
        (["--benchmark", "synthetic", "--input-free", "--limit", "1"], "--limit"),
        (["--benchmark", "synthetic", "--input-free", "--count", "1"], "At least 2"),
        (["--benchmark", "synthetic", "--input-free", "--subset", "heard"], "not take the option 'subset'"),
        (["--benchmark", "synthetic", "--count", "2", "--model", "absent.safetensors"], "does not exist"),
        (["--benchmark", "synthetic", "--predictions", "absent"], "not a folder"),
        (["--benchmark", "synthetic", "--input-free", "--left-out", "first"], "not take the option 'left-out'"),
        (["--benchmark", "real-duet", "--data", "absent", "--input-free"], "not a folder"),
        (["--benchmark", "real-duet", "--data", "absent", "--input-free"], "soundwhere benchmark build"),
        (["--benchmark", "real-duet", "--data", ".", "--input-free"], "Give the folder that holds the whole data set."),
        (["--benchmark", "folder", "--data", ".", "--input-free"], "scenes.csv"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_bad_input(arguments: list[str], message: str, capsys: Capture) -> None:
    assert run(["evaluate", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_unknown_scene_of_the_figure(model_path: Path, capsys: Capture) -> None:
    assert run([*WORLD, "--model", str(model_path), "--figure", "somewhere"]) == 2
    assert "made-up-1000002-0" in capsys.readouterr().err


@pytest.mark.usefixtures("few_draws")
def test_without_matplotlib_everything_but_the_page_is_there(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soundwhere.evaluation.page.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run([*WORLD, "--input-free"]) == 0
    told = capsys.readouterr()
    assert "report.html is left out: matplotlib is not installed. " in told.err
    assert "pip install 'soundwhere[report]'" in told.err
    assert "constant pair" in told.out
    assert "report.html" not in told.out
    written = {path.name for path in (folder / "out").iterdir()}
    assert {"results.json", "tables.md"} <= written
    assert "report.html" not in written
    assert run([*WORLD, "--input-free", "--no-page"]) == 0
    assert "matplotlib" not in capsys.readouterr().err


@pytest.mark.usefixtures("few_draws")
def test_scenes_with_names_that_no_file_can_have(folder: Path, capsys: Capture) -> None:
    (folder / "mine").mkdir()
    (folder / "maps").mkdir()
    Image.new("RGB", (64, 64)).save(folder / "mine" / "p.png")
    write_wav(folder / "mine" / "a.wav", np.full(3000, 0.1, np.float32))
    lines = [f'{letter * 300},p.png,a.wav,"[[8, 8, 40, 40]]"' for letter in "xy"]
    (folder / "mine" / "scenes.csv").write_text("\n".join(["id,image,audio,boxes", *lines, ""]))
    command = ["evaluate", "--benchmark", "folder", "--data", "mine", "--no-page", "--out", "out"]
    assert run([*command, "--input-free"]) == 0
    assert "constant blob" in capsys.readouterr().out
    assert run([*command, "--predictions", "maps"]) == 2
    assert "maps has maps of 0 of 2 scenes" in capsys.readouterr().err


@pytest.mark.usefixtures("few_draws")
def test_foreign_lines_among_the_scores_are_named(folder: Path, capsys: Capture) -> None:
    assert run([*WORLD, "--input-free", "--no-page"]) == 0
    for path in (folder / "out" / "scores").glob("*.jsonl"):
        path.write_text(f"{path.read_text()}[1, 2, 3]\n")
    capsys.readouterr()
    assert run([*WORLD, "--input-free", "--no-page"]) == 2
    told = capsys.readouterr().err
    assert ".jsonl, line " in told
    assert "Remove that file: its scenes are scored again." in told


def test_the_help_names_every_preset(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        run(["evaluate", "--help"])
    words = capsys.readouterr().out.replace("\n", " ")
    assert all(name in words for name in PRESETS)
    assert evaluate.Options("x").preset in PRESETS


class Reads(Counter[str]):
    """How often each made-up scene is made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        made = World.scene

        def scene(world: World, number: int, *arguments: object, **options: object) -> Scene:
            found = made(world, number, *arguments, **options)  # type: ignore[arg-type]
            self[found.name] += 1
            return found

        monkeypatch.setattr(World, "scene", scene)


@pytest.mark.usefixtures("few_draws")
def test_scenes_are_read_once_and_scoring_is_said_before_it_begins(
    folder: Path, model_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(monkeypatch)
    monkeypatch.setattr("soundwhere.terminal.progress.PLAIN_EVERY_S", 0.0)  # every half minute is too rare for a test
    command = [*WORLD, "--count", "9", "--batch", "2", "--model", str(model_path), "--no-page"]
    assert run(command) == 0
    told = capsys.readouterr()
    assert {name: count for name, count in reads.items() if "1000002" in name} == {
        f"made-up-1000002-{number}": 1 for number in range(9)
    }
    assert set(reads.values()) == {1}  # the constant was chosen on val, once
    assert "scoring 9 scenes\n" in told.out
    assert "scenes are scored" not in told.out
    lines = [line for line in told.err.splitlines() if line.startswith("scoring ")]
    assert [line.split(",")[0] for line in lines] == [f"scoring {done}/9 scenes" for done in (2, 4, 6, 8, 9)]
    assert run(command) == 0
    assert set(reads.values()) == {1}  # nor are they read again where everything is known


@pytest.mark.usefixtures("few_draws")
def test_a_run_that_was_stopped_reads_only_what_is_left(
    folder: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [*WORLD, "--count", "8", "--batch", "2", "--no-page", "--model", str(model_path)]
    whole = [*command[:-3], "--input-free", "--no-page"]
    assert run(whole) == 0
    for path in (folder / "out" / "scores").iterdir():
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[:-2]) if len(lines) > 3 else "".join(lines))
    before = json.loads((folder / "out" / "results.json").read_text())
    reads = Reads(monkeypatch)
    assert run(whole) == 0
    assert sum(reads.values()) == 8 + 2  # to count sources, and the last batch
    assert json.loads((folder / "out" / "results.json").read_text()) == before


@pytest.mark.usefixtures("few_draws")
def test_scores_of_another_version_are_left_alone_and_told_of(folder: Path, capsys: Capture) -> None:
    scores = folder / "out" / "scores"
    scores.mkdir(parents=True)
    old = scores / "0123456789abcdef.jsonl"
    old.write_text('{"settings": {"schema": 1, "probe": {"label": "tiny"}}}\n["0 a", {"tiny": {"lit": 0.5}}]\n')
    before = old.read_text()
    assert run([*WORLD, "--input-free", "--no-page"]) == 0
    said = capsys.readouterr().err
    assert "holds 1 files of another version" not in said
    assert "holds 1 file that another version wrote" in said
    assert "scored again" in said
    assert old.name in said
    assert old.read_text() == before


@pytest.mark.usefixtures("few_scenes")
def test_the_made_up_world_scores_as_it_always_has(folder: Path) -> None:
    """Six scenes and the shipped small model, as the version before this loop scored them; see golden/README.md."""
    golden = json.loads((Path(__file__).parent / "golden" / "synthetic-6.json").read_text())
    command = ["evaluate", "--benchmark", "synthetic", "--count", "6", "--model", "scav-tiny", "--no-page"]
    assert run([*command, "--out", "out"]) == 0
    results = json.loads((folder / "out" / "results.json").read_text())
    assert list(results) == golden["keys"]
    assert results["rows"] == golden["rows"]
    assert list(results["rows"]) == list(golden["rows"])
    for part in ("scores", "drops", "differences", "solo_peaks", "negatives"):
        assert list(results[part]) == list(golden[part])
        for row, figures in golden[part].items():
            for figure, interval in figures.items():
                assert results[part][row][figure] == pytest.approx(interval, abs=2e-3), (part, row, figure)
