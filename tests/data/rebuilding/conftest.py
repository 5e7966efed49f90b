"""A miniature set, and its sources in the layouts of their official downloads: all pictures and sounds are made up.

The set is made from the sources here by other means than the package's (another filter, another codec, cuts and
repeats written out), and its lists by `scripts/make_lists.py`.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from scipy.signal import resample_poly

from soundwhere.media.audio import write_wav
from soundwhere.media.encoded import encode_sound
from soundwhere.media.writer import VideoWriter

if TYPE_CHECKING:
    from types import ModuleType

RATE = 22_050
SPLITS = ("train", "val", "test")
PHILHARMONIA_NOTES = [
    f"guitar/guitar_{key}{octave}_very-long_forte_normal.wav" for key in "ABCDEG" for octave in (2, 3)
]
TONEJS_NOTES = [f"samples/harp/{key}{octave}.wav" for key in "ABCDEG" for octave in (3, 5)]
CUT_S = 1.7
"""Where in its recording the sound marked `cut` begins."""


@dataclass(frozen=True)
class Miniature:
    """Where everything is."""

    root: Path

    @property
    def original(self) -> Path:
        return self.root / "original"

    @property
    def lists(self) -> Path:
        return self.root / "mini-duet"

    def folder(self, key: str) -> Path:
        return self.root / "downloads" / key

    def given(self, *keys: str) -> dict[str, Path]:
        return {key: self.folder(key) for key in keys or sorted(path.name for path in self.folder(".").iterdir())}


def picture(number: int, size: tuple[int, int] = (150, 100)) -> Image.Image:
    """Soft blobs, unlike those of any other number."""
    coarse = np.random.default_rng(number).integers(0, 256, (7, 7, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)


def noise(number: int, seconds: float, rate: int = RATE) -> np.ndarray:
    """Sounding steps of 0.1 s, each of another level and pitch, unlike those of any other number."""
    rng = np.random.default_rng(1000 + number)
    steps, size = int(np.ceil(seconds * 10)), rate // 10
    time_s = np.arange(size) / rate
    pieces = [
        10 ** rng.uniform(-2, -0.6) * np.sin(2 * np.pi * rng.uniform(150, 5000) * time_s)
        + 0.003 * rng.standard_normal(size)
        for _ in range(steps)
    ]
    return np.concatenate(pieces)[: round(seconds * rate)].astype(np.float32)


def save(path: Path, image: Image.Image, **options) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


def save_wav(path: Path, waveform: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_wav(path, waveform)


def looped(body: np.ndarray) -> np.ndarray:
    """Repeated after 0.15 s of silence, to 5 s."""
    period = np.concatenate([body, np.zeros(int(0.15 * RATE), np.float32)])
    return np.tile(period, 5 * RATE // len(period) + 1)[: 5 * RATE]


class Maker:
    """Makes sources and, beside them, the set that was once made from them."""

    def __init__(self, mini: Miniature) -> None:
        self.mini = mini
        self.number = 0
        self.tables: dict[str, list[dict[str, str]]] = {"images": [], "audios": [], "videos": []}

    def photo(self, kind: str, split: str, key: str, place: str, origin: str, name: str, alpha: bool = False) -> None:
        """A photo of a source at `place`, and the small one of the set, with a mask where it is to be scored on."""
        self.number += 1
        source = picture(self.number)
        seen = source
        if alpha:  # what was used lies over white
            shade = Image.new("L", source.size, 255)
            shade.paste(0, (0, 0, 60, 100))
            source = source.copy()
            source.putalpha(shade)
            seen = Image.new("RGB", source.size, "white")
            seen.paste(source, mask=shade)
        save(self.mini.folder(key) / place, source)
        small = seen.resize((96, 64), Image.Resampling.BICUBIC)
        image = f"images/{kind}/{name}.jpg"
        save(self.mini.original / image, small, quality=85)
        human, row = key == "voc", {"image": image, "class": kind, "split": split}
        mask, share = np.zeros((100, 150), np.uint8), ""
        mask[20:70, 30 + self.number : 100] = 255
        if human:
            palette = np.zeros((100, 150), np.uint8)
            palette[mask > 0] = {"dog": 12, "cow": 10}[kind]
            palette[18:20] = 255  # undecided
            labels = Image.fromarray(palette, "P")
            labels.putpalette([value for colour in range(256) for value in (colour, 255 - colour, 7)])
            save(self.mini.folder("voc") / f"VOCdevkit/VOC2012/SegmentationClass/{Path(place).stem}.png", labels)
        drawn = np.asarray(Image.fromarray(mask).resize((96, 64), Image.Resampling.NEAREST)) > 0
        masked = split != "train"
        if masked:
            save(self.mini.original / f"masks/{kind}/{name}.png", Image.fromarray(drawn).convert("1"))
            share = f"{drawn.mean():.3f}"
        row |= {"mask": f"masks/{kind}/{name}.png" * masked, "mask_kind": ("human" if human else "derived") * masked}
        row |= {"mask_frac": share, "boxes": json.dumps([]), "width": "96", "height": "64"}
        self.tables["images"].append(row | {"image_source": origin, "image_licence": "made up"})

    def sound(self, kind: str, split: str, name: str, prep: str, waveform: np.ndarray, origin: str) -> None:
        """A sound of the set, in another codec than the package writes."""
        path = self.mini.original / f"audio/{kind}/{name}.ogg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_sound(resample_poly(waveform, 160, 147).astype(np.float32), 24_000, "opus"))
        level = 10 * np.log10(np.mean(np.square(waveform)))
        row = {"audio": f"audio/{kind}/{name}.ogg", "class": kind, "split": split, "fold": "", "prep": prep}
        row |= {"rms_db": f"{level:.1f}", "audio_source": origin, "audio_licence": "made up"}
        self.tables["audios"].append(row)

    def recorded(self, kind: str, split: str, key: str, place: str, origin: str, name: str, prep: str) -> None:
        """A recording of a source at `place`, and what the set has of it."""
        self.number += 1
        if prep == "as is":
            recording = used = noise(self.number, 5)
        elif prep == "cut":
            recording = noise(self.number, 8)
            used = recording[round(CUT_S * RATE) :][: 5 * RATE]
        else:
            body = noise(self.number, 1.3 if "or" not in prep else 4.0)
            padding = np.zeros(RATE if "or" not in prep else 0, np.float32)
            recording, used = np.concatenate([padding, body, padding]), looped(body)
        save_wav(self.mini.folder(key) / place, recording)
        self.sound(kind, split, name, prep, used, origin)

    def write(self, write_csv) -> None:
        images, audios = self.tables["images"], self.tables["audios"]
        clips, scenes = [], {}
        for kind in dict.fromkeys(row["class"] for row in images):
            for split in SPLITS:
                photos = [row["image"] for row in images if (row["class"], row["split"]) == (kind, split)]
                heard = [row["audio"] for row in audios if (row["class"], row["split"]) == (kind, split)]
                for number, (photo, audio) in enumerate(zip(photos, heard, strict=True)):
                    clip = {"id": f"{split}-{kind}-{number}", "split": split, "class": kind}
                    clips.append(clip | {"image": photo, "audio": audio})
        for split in ("val", "test"):
            each = [clip for clip in clips if clip["split"] == split]
            for name, size in (("duets", 2), ("trios", 3)):
                scenes[f"{name}_{split}"] = [
                    {
                        "id": f"{split}-{name}-{k}",
                        "images": "|".join(clip["image"] for clip in cast),
                        "classes": "|".join(clip["class"] for clip in cast),
                        "audios": "|".join([*(clip["audio"] for clip in cast[:2]), *[""] * (size - 2)]),
                    }
                    for k in range(len(each) - size + 1)
                    for cast in [each[k : k + size]]
                ]
        for table, rows in {**self.tables, "clips": clips, **scenes}.items():
            write_csv(self.mini.original / f"{table}.csv", rows)


def make(mini: Miniature, write_csv, script: ModuleType) -> Miniature:
    """Make the sources, the set and its lists."""
    maker = Maker(mini)
    pop, yash = "InputBlackBoxOutput/popular-animals-dataset", "YashNita/Animal-Sound-Dataset"
    for k, split in enumerate(SPLITS):
        for kind, label in (("dog", 0), ("cow", 3)):
            name = f"2008_{label}0000{k}"
            place = f"VOCdevkit/VOC2012/JPEGImages/{name}.jpg"
            maker.photo(kind, split, "voc", place, f"PASCAL VOC2012 {name}", f"voc_{name}")
            wav = f"{k + 1}-10{label}-A-{label}.wav"
            origin = f"ESC-50 {wav} ({kind}, freesound 10{label})"
            prep = "looped 1.30s" if kind == "cow" else "as is"
            if (kind, split) != ("dog", "train"):
                maker.recorded(kind, split, "esc50", f"ESC-50-master/audio/{wav}", origin, f"esc50_{wav[:-4]}", prep)
        place = f"caltech-101/101_ObjectCategories/electric_guitar/image_000{k}.jpg"
        maker.photo("guitar", split, "caltech101", place, f"Caltech-101 electric_guitar/image_000{k}", f"caltech_{k}")
        origin = "Philharmonia samples + tonejs-instruments (Karoryfer, Iowa)"
        maker.sound("guitar", split, f"notes_{k}", f"phrase of {8 + k} recorded notes", noise(900 + k, 5), origin)
        lion = f"lion/lion ({k}).png"
        maker.photo("lion", split, "popular-animals", lion, f"{pop} {lion}", f"popani_{k}", alpha=True)
        roar, prep = f"Aslan/aslan_{k}.wav", "cut" if split == "test" else "as is"
        place = f"Animal-Sound-Dataset-master/{roar}"
        maker.recorded("lion", split, "yashnita", place, f"{yash} {roar}", f"yn_{k}", prep)
        hen = f"gallina/OIP-{k}.jpeg"
        maker.photo("chicken", split, "animals10", f"raw-img/{hen}", f"Animals-10 {hen}", f"animals10_{k}")
        wav = f"{k + 1}-200-A-6.wav"
        origin = f"ESC-50 {wav} (hen, freesound 200)"
        maker.recorded("chicken", split, "esc50", f"ESC-50-master/audio/{wav}", origin, f"esc50_{wav[:-4]}", "as is")
        box = f"train/accordion/00{k}.jpg"
        maker.photo("accordion", split, "instruments30", box, f"30 Musical Instruments {box}", f"inst30_{k}")
        prep, origin = f"synthesised phrase, {90 + k} bpm", "General MIDI soundfont FluidR3_GM"
        maker.sound("accordion", split, f"gm_{k}", prep, noise(950 + k, 5), origin)
        harp = f"dataset/harpe/harpe_{k}.jpg"
        maker.photo("harp", split, "hibafourati", harp, f"HibaFourati/Projet-annuel {harp}", f"hiba_{k}")
        prep = f"phrase of {5 + k} recorded notes"
        maker.sound("harp", split, f"notes_{k}", prep, noise(970 + k, 5), "tonejs-instruments")
    bark = "43786-3-1-0"
    place, origin = f"UrbanSound8K/audio/fold7/{bark}.wav", f"UrbanSound8K {bark}.wav (dog_bark)"
    maker.recorded("dog", "train", "urbansound8k", place, origin, f"us8k_{bark}", "looped or cut")
    for number, name in enumerate(PHILHARMONIA_NOTES):
        save_wav(mini.folder("philharmonia") / name, noise(500 + number, 1.0))
    for number, name in enumerate(TONEJS_NOTES):
        save_wav(mini.folder("tonejs") / name, noise(600 + number, 1.0))
    _video(maker)
    maker.write(write_csv)
    (mini.folder("esc50") / "ESC-50-master" / "LICENSE").write_text("who recorded what\n")
    script.make_lists(mini.original, mini.lists)
    return mini


def _video(maker: Maker) -> None:
    """6 s of a picture that changes every second, and the 4 s from 1 s on that the set has of it."""
    sound = noise(700, 6)
    pictures = [np.array(picture(800 + second, (96, 64))) for second in range(6)]
    path = maker.mini.folder("videos") / "20qZLse0acs_000030.mp4"
    path.parent.mkdir(parents=True)
    (maker.mini.original / "video").mkdir(parents=True)
    for file, start in ((path, 0), (maker.mini.original / "video/im2wav_1.mp4", 1)):
        frames = range(60) if start == 0 else range(40)
        part = sound[start * RATE : start * RATE + len(frames) * RATE // 10]
        with VideoWriter(file, 96, 64, fps=10, waveform=part) as writer:
            for frame in frames:
                writer.write(pictures[start + frame // 10], frame / 10)
    row = {"video": "video/im2wav_1.mp4", "label": "dog", "split": "val", "youtube_id": "20qZLse0acs", "seconds": "4.0"}
    row |= {"width": "96", "height": "64", "fps": "10", "rms_db": "-20", "active": "1", "motion": "1"}
    source = "RoySheffer/im2wav Data/examples/video/20qZLse0acs_30000_40000.mp4"
    maker.tables["videos"].append(row | {"source": source, "licence": "made up"})


@pytest.fixture(scope="session")
def list_script() -> ModuleType:
    """scripts/make_lists.py as a module."""
    path = Path(__file__).parents[3] / "scripts" / "make_lists.py"
    spec = importlib.util.spec_from_file_location("make_lists", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_lists"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def miniature(tmp_path_factory: pytest.TempPathFactory, list_script: ModuleType) -> Miniature:
    """A miniature that no test changes."""

    def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
        path.write_text(list_script.as_csv([rows[0], *(row.values() for row in rows)]), encoding="utf-8")

    return make(Miniature(tmp_path_factory.mktemp("miniature")), write_csv, list_script)


@pytest.fixture
def own(miniature: Miniature, tmp_path: Path) -> Miniature:
    """A miniature to spoil."""
    shutil.copytree(miniature.root, tmp_path / "miniature")
    return Miniature(tmp_path / "miniature")
