"""From boxes to a set that the evaluator reads unchanged."""

from __future__ import annotations

import csv
import json
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from soundwhere.annotate.export import export
from soundwhere.annotate.load import load_test
from soundwhere.annotate.masking import Masker
from soundwhere.annotate.project import Project, initialise, read_manifest
from soundwhere.annotate.segmenter.simple import SimpleSegmenter
from soundwhere.annotate.stats import class_table, mask_facts, write_figures
from soundwhere.annotate.verify import verify
from soundwhere.cli.main import run
from soundwhere.data.annotation.masks import read_mask
from soundwhere.data.annotation.rle import encode_rle
from soundwhere.data.benchmarks.catalogue import Options, open_benchmark
from soundwhere.data.benchmarks.media import MediaFolder
from soundwhere.errors import DataError, OutputError

if TYPE_CHECKING:
    from pathlib import Path


def annotate(project: Project, task: int, who: str = "ann", candidate: int = 1) -> None:
    """What the page does for a frame whose candidate fits."""
    store, masker = project.store, Masker(project, SimpleSegmenter())
    frame = store.frame(store.task(task).frame)
    prompts = {"box": 0, "candidate": candidate, "points": [], "strokes": []}
    mask = encode_rle(masker.mask(frame, prompts))
    revision = store.task(task).revision
    for kind, body in (("prompt", {"prompts": prompts}), ("object", {"prompts": prompts, "mask": mask}), ("done", {})):
        revision = store.append(task, who, kind, body, base=revision, segmenter="simple-1").number
    store.release(task, who)


@pytest.fixture(scope="session")
def annotated(tmp_path_factory: pytest.TempPathFactory, media: Path) -> Project:
    """All four frames done by ann, and again by bob."""
    root = tmp_path_factory.mktemp("annotated") / "project"
    initialise(root, media / "vggss.json", MediaFolder(media), double=1.0, licence="CC BY 4.0, as an example.")
    project = Project(root)
    for task in project.store.tasks():
        annotate(project, task.id, "bob" if task.second else "ann", 2 if task.second else 1)
    return project


@pytest.fixture(scope="session")
def exported(annotated: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("set") / "masks-1.0"
    export(annotated, out, media=True)
    return out


def test_init_takes_what_is_there_and_never_starts_over(tmp_path: Path, media: Path) -> None:
    work = tmp_path / "media"
    shutil.copytree(media, work)
    (work / "frames" / "clip_000030.png").unlink()
    report = initialise(tmp_path / "project", work / "vggss.json", MediaFolder(work))
    assert (report.added, report.present) == (3, 0)
    assert [item.scene for item in report.unavailable] == ["clip_000030", "gone_000040"]
    project = Project(tmp_path / "project")
    annotate(project, 1)
    before = project.store.events()
    shutil.copy(media / "frames" / "clip_000030.png", work / "frames")
    report = initialise(tmp_path / "project", work / "vggss.json", MediaFolder(work))
    assert (report.added, report.present, len(report.unavailable)) == (1, 3, 1)
    assert Project(tmp_path / "project").store.events() == before
    with (tmp_path / "project" / "unavailable.csv").open() as file:
        assert [row["scene"] for row in csv.DictReader(file)] == ["gone_000040"]


def test_init_takes_the_middle_frame_of_a_video(tmp_path: Path, clip_path: Path) -> None:
    shutil.copy(clip_path, tmp_path / "clip_000000.mp4")
    (tmp_path / "boxes.csv").write_text('id,kind,boxes\nclip_000000,square,"[[40, 20, 70, 44]]"\n')
    report = initialise(tmp_path / "project", tmp_path / "boxes.csv", MediaFolder(tmp_path))
    assert report.added == 1
    project = Project(tmp_path / "project")
    (frame,) = project.store.frames()
    assert (frame.size, bool(frame.sound)) == ((64, 96), True)
    assert frame.boxes == ((40, 20, 70, 44),)
    assert project.picture(frame)[32, 44:54].min() > 200  # the white square after 1 s


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "{}"),
        ("a.json", '[{"file": "x"}]'),
        ("a.json", '[{"file": "x", "class": "k", "bbox": []}, {"file": "x", "class": "k", "bbox": []}]'),
        ("a.csv", "id,kind\nx,k\n"),
        ("a.csv", "id,kind,boxes\nx,k,oops\n"),
    ],
)
def test_manifests_that_are_none_are_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError):
        read_manifest(tmp_path / name)


def test_every_format_says_the_same(exported: Path) -> None:
    assert verify(exported) == []
    card = json.loads((exported / "card.json").read_text())
    assert (card["frames"], card["annotators"], card["agreement"]["frames"]) == (4, {"ann": 4}, 4)
    assert card["classes"] == {"dog barking": 2, "saw": 1, "violin": 1}
    assert 0.5 < card["agreement"]["mean"] <= 1
    assert card["licence"] == "CC BY 4.0, as an example."
    assert card["versions"]["segmenters"] == ["simple-1"]
    values = pickle.loads((exported / "masks" / "pkl" / "clip_000000.pkl").read_bytes())
    assert (values.dtype, values.shape, set(np.unique(values))) == (np.uint8, (100, 150), {0, 1})
    assert (read_mask(exported / "masks" / "pkl" / "clip_000000.pkl") == values.astype(bool)).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda root: (root / "masks" / "pkl" / "clip_000000.pkl").unlink(), "pkl is missing"),
        (lambda root: shutil.copy(root / "masks/png/clip_000010.png", root / "masks/png/clip_000000.png"), "changed"),
        (lambda root: (root / "extra.txt").write_text("x"), "not on the card"),
        (lambda root: (root / "duets.csv").write_text("nobody,saw,clip_000000,dog_barking\n"), "no mask of nobody"),
    ],
)
def test_verify_says_what_is_wrong(exported: Path, tmp_path: Path, change: Any, said: str) -> None:
    root = tmp_path / "set"
    shutil.copytree(exported, root)
    change(root)
    assert any(said in problem for problem in verify(root))


def test_a_set_is_never_written_over(annotated: Project, exported: Path) -> None:
    with pytest.raises(OutputError, match="already exists"):
        export(annotated, exported)


def test_nothing_is_exported_that_was_not_accepted(annotated: Project, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="accepted"):
        export(annotated, tmp_path / "out", accepted_only=True)
    assert not (tmp_path / "out").exists()


def test_the_set_loads_in_the_evaluator_unchanged(exported: Path) -> None:
    folder = open_benchmark("folder", exported)
    assert (len(folder.scenes), folder.missing) == (4, ())
    assert folder.scenes[0].masks.any()
    duets = open_benchmark(
        "vggsound-duet-mask",
        exported,
        exported,
        Options(masks=exported / "masks" / "pkl", pairing=str(exported / "duets.csv")),
    )
    assert duets.missing == ()
    scene = duets.scenes[0]
    assert scene.masks.shape == (2, 224, 448)
    assert scene.kinds[0] != scene.kinds[1]


def test_from_boxes_to_a_score(exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--benchmark", "vggsound-duet-mask", "--data", str(exported), "--annotations", str(exported)]
    masks = ["--masks", str(exported / "masks" / "pkl"), "--pairing", str(exported / "duets.csv")]
    code = run(["evaluate", *arguments, *masks, "--input-free", "--no-page", "--out", str(tmp_path / "out")])
    assert code == 0
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert "vggsound-duet-mask" in json.dumps(results)
    assert "scoring 4 scenes" in capsys.readouterr().out


def test_stats_measure_size_and_fill(exported: Path, tmp_path: Path) -> None:
    facts = mask_facts(exported)
    disc = np.pi / 4 * (44 / 48) ** 2  # of a disc of radius 22 in a box of 48
    assert all(fact.fill == pytest.approx(disc, abs=0.12) for fact in facts)
    assert all(fact.inside == 1 for fact in facts)
    rows = class_table(facts)
    assert [row[:2] for row in rows] == [("dog barking", 2), ("saw", 1), ("violin", 1), ("all", 4)]
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    write_figures(facts, tmp_path / "histograms.png")
    assert (tmp_path / "histograms.png").stat().st_size > 5000


def test_the_commands_go_all_the_way(media: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project, out = tmp_path / "project", tmp_path / "out"
    init = ["benchmark", "init", str(project), "--manifest", str(media / "vggss.json"), "--data", str(media)]
    assert run([*init, "--double", "0"]) == 0
    assert "4 frames added, 0 already there, 1 are unavailable" in capsys.readouterr().out
    assert run(["benchmark", "propose", str(project)]) == 0
    assert len(list((project / "candidates").rglob("*.json"))) == 4
    assert run(["benchmark", "export", str(project), "--out", str(out)]) == 2
    annotate(Project(project), 1)
    annotate(Project(project), 2)
    assert run(["benchmark", "export", str(project), "--out", str(out)]) == 0
    assert run(["benchmark", "verify", str(out)]) == 0
    assert "2 masks" in capsys.readouterr().out
    assert run(["benchmark", "stats", str(out), "--out", str(tmp_path / "stats")]) == 0
    assert (tmp_path / "stats" / "stats.csv").is_file()
    (out / "masks" / "png" / "clip_000000.png").unlink()
    assert run(["benchmark", "verify", str(out)]) == 1
    assert run(["annotate", str(project), "--invite", "ann"]) == 0
    assert "#ann:" in capsys.readouterr().out
    assert run(["annotate", str(tmp_path)]) == 2


def test_each_step_names_the_next(
    media: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, out = tmp_path / "project", tmp_path / "set"
    init = ["benchmark", "init", str(project), "--manifest", str(media / "vggss.json"), "--data"]
    (tmp_path / "empty").mkdir()
    assert run([*init, str(tmp_path / "empty")]) == 0
    assert f"looked for ID.mp4, or frames/ID.jpg and audio/ID.wav, in {tmp_path / 'empty'}" in capsys.readouterr().err
    assert run([*init, str(media)]) == 0
    assert (
        f"next: soundwhere benchmark propose {project}, then soundwhere annotate {project}" in capsys.readouterr().out
    )
    assert run(["benchmark", "export", str(project), "--out", str(out)]) == 2
    assert f"First run: soundwhere annotate {project}" in capsys.readouterr().err
    monkeypatch.setattr("soundwhere.annotate.server.serve", lambda *_: None)
    assert run(["annotate", str(project), "--no-browser"]) == 0  # and nothing is done
    assert "frames to do; the same command goes on" in capsys.readouterr().out
    monkeypatch.setattr("soundwhere.annotate.server.serve", lambda *_: annotate(Project(project), 2))
    assert run(["annotate", str(project), "--no-browser"]) == 0
    assert f"frames to do; next: soundwhere benchmark export {project}" in capsys.readouterr().out
    assert run(["benchmark", "export", str(project), "--out", str(out)]) == 0
    assert f"next: soundwhere benchmark verify {out}" in capsys.readouterr().out


def test_a_manifest_that_is_none(media: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "picture.csv"
    picture.write_bytes(b"\xff\xd8\xff\xe0")
    words = tmp_path / "boxes.txt"
    words.write_text("kettle-1")
    for manifest, found in (
        (tmp_path / "none.csv", "does not exist"),
        (tmp_path, "is a folder, not a file"),
        (picture, "cannot be read as CSV: it is not text in UTF-8"),
        (words, "is neither a .csv nor a .json file"),
    ):
        command = ["benchmark", "init", str(tmp_path / "project"), "--manifest", str(manifest), "--data", str(media)]
        assert run(command) == 2
        assert f"{manifest} {found}." in capsys.readouterr().err
    assert run(["benchmark", "init", str(picture), "--manifest", str(picture), "--data", str(media)]) == 2
    assert "Give a folder for the project." in capsys.readouterr().err
    assert run(["benchmark", "propose-score", "--data", str(picture)]) == 2
    assert "images.csv does not exist.\nGive the folder that holds the whole data set." in capsys.readouterr().err


def test_a_licence_that_cannot_be_read(media: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    licence = tmp_path / "licence.txt"
    init = ["benchmark", "init", str(tmp_path / "project"), "--manifest", str(media / "vggss.json")]
    for reason in ("No such file", "not text in UTF-8"):
        assert run([*init, "--data", str(media), "--licence", str(licence)]) == 2
        message, remedy = capsys.readouterr().err.strip().split("\n")
        assert f"{licence} cannot be read: " in message
        assert reason in message
        assert "UTF-8" in remedy
        licence.write_bytes("Lizenz für alle".encode("latin-1"))
    assert not (tmp_path / "project").exists()


def test_other_machines_need_tokens(media: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    initialise(tmp_path / "project", media / "vggss.json", MediaFolder(media))
    assert run(["annotate", str(tmp_path / "project"), "--host", "0.0.0.0", "--no-browser"]) == 2
    assert "nobody has a token" in capsys.readouterr().err


def test_many_annotators_lose_nothing(tmp_path: Path) -> None:
    report = load_test(tmp_path, annotators=4, decisions=60)
    assert (report.errors, report.lost) == ([], 0)
    assert report.confirmed == 60
    assert report.stored == 60
