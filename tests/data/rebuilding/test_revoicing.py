"""Sets whose instruments other soundfonts play, with a stand-in for the program that plays them."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.cli.main import run
from soundwhere.data.real_duet import RealDuet
from soundwhere.data.rebuilding.lists import COLUMNS
from soundwhere.data.rebuilding.revoicing import Revoiced, revoice
from soundwhere.errors import ConfigError, DataError
from soundwhere.files import write_csv
from soundwhere.media.audio import read_audio, write_wav

if TYPE_CHECKING:
    from pathlib import Path

# plays each key as a tone of its frequency, an octave higher on one soundfont; another has no accordion (program 21)
FLUIDSYNTH = """\
#!{python}
import sys
import wave
import numpy as np
font, midi = sys.argv[-2:]
track = open(midi, "rb").read()[22:]
silent = "quiet" in font and b"\\xc0\\x15" in track
notes, ticks, place = [], 0, 0
while place < len(track):
    delta = 0
    while True:
        byte = track[place]
        place += 1
        delta = delta << 7 | byte & 127
        if byte < 128:
            break
    ticks += delta
    kind = track[place] >> 4
    if kind == 9:
        notes.append((ticks / 960, track[place + 1]))
    place += {{9: 3, 8: 3, 12: 2}}.get(kind, 3)
sound = np.zeros(round((ticks / 960 + 1) * 22050), np.float32)
for start, key in notes:
    tone = 440 * 2 ** ((key - 69 + 12 * ("high" in font)) / 12)
    first = round(start * 22050)
    sound[first : first + 2205] += 0.1 * np.sin(np.arange(2205) * tone * 2 * np.pi / 22050)
with wave.open(sys.argv[sys.argv.index("-F") + 1], "wb") as file:
    file.setparams((1, 2, 22050, 0, "NONE", ""))
    file.writeframes((sound * (not silent) * 32767).astype("<i2").tobytes())
"""


@pytest.fixture
def fonts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Three soundfonts, and a program that plays them."""
    program = tmp_path / "bin" / "fluidsynth"
    program.parent.mkdir()
    program.write_text(FLUIDSYNTH.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    made = {name: tmp_path / f"{name}.sf2" for name in ("plain", "high_tones", "quiet")}
    for path in made.values():
        path.write_bytes(b"RIFF" + (4).to_bytes(4, "little") + b"sfbk")
    return made


@pytest.fixture
def small_set(tmp_path: Path) -> Path:
    """Four clips of an accordion and of a violin, two of a dog, and three trios."""
    folder = tmp_path / "small"
    images, audios, clips = [], [], []
    for kind, count in {"accordion": 4, "violin": 4, "dog": 2}.items():
        for part in ("images", "masks", "audio"):
            (folder / part / kind).mkdir(parents=True)
        for number in range(count):
            split = "train" if number < count - 1 or kind == "dog" else "test"
            image, mask, audio = (f"{part}/{kind}/{number}" for part in ("images", "masks", "audio"))
            Image.new("RGB", (16, 16), (number, 0, 0)).save(folder / f"{image}.jpg")
            Image.new("1", (16, 16), 1).save(folder / f"{mask}.png")
            write_wav(folder / f"{audio}.wav", np.full(5 * 22_050, 0.1, np.float32))
            images.append([f"{image}.jpg", kind, split, f"{mask}.png", "human", 1.0, "[]", 16, 16, "", ""])
            audios.append([f"{audio}.wav", kind, split, "", "", "-20.0", "", ""])
            clips.append([f"{kind}-{number}", split, kind, f"{image}.jpg", f"{audio}.wav"])
    files = {kind: (f"images/{kind}/0.jpg", f"audio/{kind}/0.wav") for kind in ("accordion", "violin", "dog")}
    trios = []
    for number, silent in enumerate(files):
        heard = "|".join("" if kind == silent else audio for kind, (_, audio) in files.items())
        trios.append([f"t{number}", "|".join(image for image, _ in files.values()), "|".join(files), heard])
    tables = {"images": images, "audios": audios, "clips": clips, "trios_test": trios}
    for name, rows in tables.items():
        write_csv(folder / f"{name}.csv", [COLUMNS[name], *rows])
    return folder


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_second_clip_and_every_scene_is_played(small_set: Path, fonts: dict[str, Path], tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in small_set.rglob("*") if path.is_file()}
    told: list[tuple[int, int]] = []
    out = tmp_path / "out"
    made = revoice(small_set, [fonts["plain"], fonts["high_tones"]], out, lambda *done: told.append(done))
    both = ("plain", "hightones")
    # of three training clips of an instrument the second; of the trios the one in which the dog is silent
    assert made == Revoiced({"accordion": both, "violin": both}, 4, (2, 8), {"trios_test": (1, 3)})
    assert told[-1] == (4, 4)
    played = [row["audio"] for row in table(out, "clips") if "plain" in row["audio"] or "hightones" in row["audio"]]
    assert played == ["audio/accordion/plain_train_000.ogg", "audio/violin/plain_train_000.ogg"]
    assert [row["class"] for row in table(out, "clips")] == [row["class"] for row in table(small_set, "clips")]
    (trio,) = table(out, "trios_test")
    assert trio["id"] == "t2"
    assert trio["audios"] == "audio/accordion/plain_test_000.ogg|audio/violin/plain_test_000.ogg|"
    assert {row["audio"] for row in table(out, "audios")} >= {*played, *trio["audios"].strip("|").split("|")}
    for file in played:
        sound = read_audio(out / file)
        assert len(sound) == 5 * 22_050
        assert np.sqrt(np.mean(np.square(sound))) == pytest.approx(10 ** (-24 / 20), rel=0.02)
    assert len(RealDuet(out).clips("train")) == 8
    assert len(RealDuet(out).scenes("trios_test")) == 1
    assert before == {path: path.read_bytes() for path in small_set.rglob("*") if path.is_file()}


def test_the_same_again_and_another_font_sounds_otherwise(
    small_set: Path, fonts: dict[str, Path], tmp_path: Path
) -> None:
    for out, font in (("one", "plain"), ("two", "plain"), ("three", "high_tones")):
        revoice(small_set, [fonts[font]], tmp_path / out)
    first, again = (tmp_path / out / "audio/violin/plain_train_000.ogg" for out in ("one", "two"))
    assert first.read_bytes() == again.read_bytes()
    pitches = []
    for path in (first, tmp_path / "three/audio/violin/hightones_train_000.ogg"):
        spectrum = np.abs(np.fft.rfft(read_audio(path)))
        pitches.append(float((spectrum * np.arange(len(spectrum))).sum() / spectrum.sum()))
    assert pitches[1] > 1.5 * pitches[0]


def test_what_a_font_cannot_play_is_played_by_others_or_not_at_all(
    small_set: Path, fonts: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["benchmark", "revoice", str(small_set), "--out", str(tmp_path / "out"), "--soundfont"]
    assert run([*arguments, str(fonts["quiet"]), str(fonts["plain"])]) == 0
    said = capsys.readouterr().out
    assert "2 classes are played, in 4 phrases: accordion, violin" in said
    assert "accordion by plain only" in said
    assert "trios_test 1 of 3" in said
    alone = revoice(small_set, [fonts["quiet"]], tmp_path / "alone")
    assert (list(alone.classes), alone.scenes) == (["violin"], {"trios_test": (0, 3)})


def test_mistakes_leave_nothing(small_set: Path, fonts: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    fonts["plain"].write_bytes(b"no soundfont at all")
    with pytest.raises(DataError, match="is not a soundfont"):
        revoice(small_set, [fonts["plain"]], out)
    with pytest.raises(ConfigError, match=r"there is no \.sf2 file"):
        revoice(small_set, [tmp_path / "nowhere.sf2"], out)
    with pytest.raises(ConfigError, match="lies in the set itself"):
        revoice(small_set, [fonts["high_tones"]], small_set / "inside")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="holds other things"):
        revoice(small_set, [fonts["high_tones"]], tmp_path / "mine")
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"
    with pytest.raises(DataError, match="does not exist"):
        revoice(tmp_path / "nowhere", [fonts["high_tones"]], out)
    clips = table(small_set, "clips")
    write_csv(small_set / "clips.csv", [clips[0], *(row.values() for row in clips if row["class"] == "dog")])
    with pytest.raises(DataError, match="No class of the set"):
        revoice(small_set, [fonts["high_tones"]], out)
    assert not out.exists()
