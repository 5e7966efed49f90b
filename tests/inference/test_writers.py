from __future__ import annotations

import csv
import errno
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from PIL import Image

from soundwhere.data.annotation.rle import decode_rle
from soundwhere.errors import ConfigError, OutputError
from soundwhere.inference import writers
from soundwhere.inference.folder import finished_folder, result_folder
from soundwhere.inference.formats import FILES, parse_formats, result_schema
from soundwhere.inference.localiser import Localiser
from soundwhere.media.audio import read_audio
from soundwhere.media.video import probe, read_frames

if TYPE_CHECKING:
    from soundwhere.inference.result import Result


@pytest.fixture
def result(red_and_blue: Any, squares_path: Path) -> Result:
    return Localiser(red_and_blue, "cpu").localise(squares_path)


def test_every_format(result: Result, tmp_path: Path) -> None:
    files = result.save(tmp_path / "out", tuple(FILES))
    names = {path.name for path in files}
    assert {"overlay.mp4", "overlay.png", "result.json", "result.csv", "result.npz", "coco.json", "index.html"} <= names
    assert all(path.stat().st_size > 0 for path in files)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_overlay_keeps_size_rate_sound_and_goes_dark(result: Result, squares_path: Path, tmp_path: Path) -> None:
    result.save(tmp_path / "out", ["mp4"])
    path = tmp_path / "out" / "overlay.mp4"
    info = probe(path)
    assert (info.width, info.height) == (256, 128)
    assert info.fps == pytest.approx(10, rel=0.01)
    assert info.duration_s == pytest.approx(5.0, abs=0.15)
    ours, theirs = read_audio(path), read_audio(squares_path)
    assert np.corrcoef(ours[:50_000], theirs[:50_000])[0, 1] > 0.99
    for time_s, drawn in ((1.0, True), (4.5, False)):
        before, after = (read_frames(file, [time_s])[0].image.astype(int) for file in (squares_path, path))
        assert (np.abs(before - after).max(-1) > 60).any() == drawn


def test_a_part_begins_at_its_start(red_and_blue: Any, squares_path: Path, tmp_path: Path) -> None:
    Localiser(red_and_blue, "cpu").localise(squares_path, start_s=1.0, end_s=3.0).save(tmp_path / "out", ["mp4"])
    assert probe(tmp_path / "out" / "overlay.mp4").duration_s == pytest.approx(2.0, abs=0.15)
    sound = read_audio(tmp_path / "out" / "overlay.mp4")
    level = [np.sqrt(np.mean(part**2)) for part in (sound[4_000:20_000], sound[26_000:42_000])]
    assert level[0] > 0.1
    assert level[1] < 0.01


def test_a_photo_becomes_a_video(red_and_blue: Any, noise_path: Path, tmp_path: Path) -> None:
    Image.new("RGB", (65, 33), "red").save(tmp_path / "photo.png")
    result = Localiser(red_and_blue, "cpu").localise(tmp_path / "photo.png", audio=noise_path)
    result.save(tmp_path / "out", ["mp4", "html"])
    info = probe(tmp_path / "out" / "overlay.mp4")
    assert info.duration_s == pytest.approx(2.0, abs=0.15)
    assert info.has_audio
    assert json.loads((tmp_path / "out" / "result.json").read_text())["audio"] == "noise.wav"


def test_json_says_what_the_result_says(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "out", ["json"])
    stored = json.loads((tmp_path / "out" / "result.json").read_text())
    assert stored["schema"] == "soundwhere-result-1"
    assert stored["times_s"] == pytest.approx(result.times.tolist(), abs=1e-3)
    assert [len(stored["sources"]), stored["width"], stored["height"]] == [2, 256, 128]
    for k, source in enumerate(stored["sources"]):
        assert source["sounding"] == result.sounding[:, k].tolist()
        np.testing.assert_allclose(source["peak_px"], result.peaks[:, k], atol=0.06)
        np.testing.assert_allclose(source["box_px"], result.boxes[:, k], atol=0.06)
        assert source["where"] == result.where(k)
        assert len(source["spans_s"]) == len(result.spans(k))


def test_json_is_documented_field_by_field(result: Result) -> None:
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(\w+)`", text, re.MULTILINE))
    stored = writers.to_json(result)
    written = {*stored, *stored["sources"][0], *stored["settings"], *writers.CSV_COLUMNS}
    assert written <= documented


def test_json_fits_the_published_schema(
    red_and_blue: Any, result: Result, squares_path: Path, noise_path: Path
) -> None:
    schema = result_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    silent = Localiser(red_and_blue, "cpu").localise(squares_path, noise_path, start_s=4.0)
    for found in (result, silent):
        stored = json.loads(json.dumps(writers.to_json(found)))
        assert [error.message for error in validator.iter_errors(stored)] == []
        assert stored["schema"] == schema["title"] == schema["properties"]["schema"]["const"]
        # nothing is written that the schema does not describe
        assert set(stored) == set(schema["properties"]) == set(schema["required"])
        for name, part in (("source", stored["sources"][0]), ("settings", stored["settings"])):
            assert set(part) == set(schema["$defs"][name]["properties"])


@pytest.mark.parametrize(
    ("field", "value"),
    [("schema", "soundwhere-result-2"), ("times_s", []), ("width", 0), ("sources", [{}]), ("level_db", ["loud"])],
)
def test_the_schema_refuses_what_is_wrong(result: Result, field: str, value: object) -> None:
    stored = {**writers.to_json(result), field: value}
    assert not Draft202012Validator(result_schema()).is_valid(stored)


def test_coco_holds_the_sources_that_sound(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "out", ["coco"])
    stored = json.loads((tmp_path / "out" / "coco.json").read_text())
    assert [image["time_s"] for image in stored["images"]] == pytest.approx(result.times.tolist(), abs=1e-3)
    assert [category["name"] for category in stored["categories"]] == ["source 1", "source 2"]
    found = {(a["image_id"] - 1, a["category_id"] - 1) for a in stored["annotations"]}
    assert found == {(int(t), int(k)) for t, k in np.argwhere(result.sounding)}
    assert len({a["id"] for a in stored["annotations"]}) == len(stored["annotations"])
    for annotation in stored["annotations"][::5]:
        frame, source = annotation["image_id"] - 1, annotation["category_id"] - 1
        heat = result.heatmap(float(result.times[frame]))[source]
        upper = heat >= (heat.min() + heat.max()) / 2
        mask = decode_rle(annotation["segmentation"])
        assert (mask != upper).mean() < 0.01  # half precision may move the edge by a pixel
        left, top, width, height = annotation["bbox"]
        assert mask[top : top + height, left : left + width].sum() == mask.sum() == annotation["area"]
        assert mask[top].any()
        assert mask[:, left + width - 1].any()
        # the same box as the result's own, which comes from a coarser grid
        corners = [left, top, left + width, top + height]
        np.testing.assert_allclose(corners, result.boxes[frame, source], atol=4)


def test_silence_is_valid_json(red_and_blue: Any, squares_path: Path, tmp_path: Path) -> None:
    Localiser(red_and_blue, "cpu").localise(squares_path, start_s=4.0).save(tmp_path / "out", ["json", "html", "png"])
    stored = json.loads((tmp_path / "out" / "result.json").read_text(), parse_constant=pytest.fail)
    assert stored["sources"][0]["spans_s"] == []
    page = (tmp_path / "out" / "index.html").read_text()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    assert [source["spans_s"] for source in json.loads(found[1])["sources"]] == [[], []]


def test_csv_and_npz_hold_the_arrays(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "out", ["csv", "npz"])
    with (tmp_path / "out" / "result.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(result.times) * 2
    assert float(rows[7]["peak_x"]) == pytest.approx(float(result.peaks[3, 1, 0]), abs=0.06)
    assert rows[7]["source"] == "2"
    with np.load(tmp_path / "out" / "result.npz") as arrays:
        np.testing.assert_array_equal(arrays["maps"], result.maps)
        assert arrays["size"].tolist() == [128, 256]


class Links(HTMLParser):
    """Everything a page points to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("src", "href", "poster") and value]


def test_the_page_shows_what_is_there_and_needs_no_net(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "out", tuple(FILES))
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    links = Links(text).found
    assert {"overlay.mp4", "result.json", "overlay.png"} <= set(links)
    assert all((tmp_path / "out" / link).is_file() for link in links)
    assert "://" not in text
    assert "$" not in text


def test_names_are_no_markup(red_and_blue: Any, squares_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "a <b>&'\" é.mp4"
    path.write_bytes(squares_path.read_bytes())
    result = Localiser(red_and_blue, "cpu").localise(path, end_s=0.5)
    result.save(tmp_path / "out", ["html"])
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "<b>&'" not in text
    assert "a &lt;b&gt;&amp;&#x27;&quot; é.mp4" in text


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_left_of_an_unfinished_result(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setitem(writers.WRITERS, "csv", fail)
    with pytest.raises((OutputError, KeyboardInterrupt)):
        result.save(tmp_path / "out", ["png", "csv"])
    assert list(tmp_path.iterdir()) == []
    # an earlier result survives a failed attempt to replace it
    result.save(tmp_path / "out", ["json"])
    with pytest.raises((OutputError, KeyboardInterrupt)):
        result.save(tmp_path / "out", ["png", "csv"], overwrite=True)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["out", "out/result.json"]


def test_results_are_replaced_only_when_told_and_other_folders_never(result: Result, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result.save(out, ["csv"])
    with pytest.raises(OutputError, match="--overwrite"):
        result.save(out, ["json"])
    result.save(out, ["json"], overwrite=True)
    assert [path.name for path in out.iterdir()] == ["result.json"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(OutputError, match="something other"):
        result.save(tmp_path / "mine", ["json"], overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years"
    with pytest.raises(OutputError, match="is a file"):
        result.save(tmp_path / "mine" / "thesis.txt", ["json"])
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with finished_folder(tmp_path / "empty") as folder:
        (folder / "result.json").write_text("{}")
    assert (tmp_path / "empty" / "result.json").is_file()


def test_long_names_fit(tmp_path: Path) -> None:
    name = result_folder(tmp_path / ("é" * 124 + ".mp4")).name
    assert name.startswith("ééé")
    assert len(name.encode()) <= 255


def test_formats_are_checked() -> None:
    assert parse_formats("html,JSON, mp4") == ("mp4", "json", "html")
    with pytest.raises(ConfigError, match="mp4,png,json,csv,npz,coco,html"):
        parse_formats("json,gif")
    with pytest.raises(ConfigError, match="No output format"):
        parse_formats(" ,")
