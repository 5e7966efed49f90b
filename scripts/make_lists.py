"""Make the lists of a set that `soundwhere benchmark build` rebuilds it from.

    python scripts/make_lists.py real-duet/ src/soundwhere/data/rebuilding/lists/real-duet
    python scripts/make_lists.py real-duet/ --check     # how far fingerprints carry, measured on the set's own files

A list is a table of the set with fingerprints, cuts and run lengths of derived masks as further columns, packed by
gzip, the same bytes every time. No photo and no sound is in it.
`tests/data/rebuilding/test_shipped_lists.py` compares.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from base64 import b64encode
from pathlib import Path

import numpy as np
from PIL import Image as Pillow
from scipy.signal import resample_poly
from scipy.spatial.distance import pdist

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.data.annotation.rle import encode_rle, pack_counts
from soundwhere.data.rebuilding.lists import ADDED, COLUMNS
from soundwhere.data.rebuilding.photo_prints import SAME_PHOTO, photo_distance, photo_print
from soundwhere.data.rebuilding.sound_prints import SAME_SOUND, STEP_DB, sound_distance, sound_print, unpacked
from soundwhere.data.rebuilding.sounds import GAP_SAMPLES, SOUND_SAMPLES
from soundwhere.data.rebuilding.sources import phrase_sources
from soundwhere.data.table import Row, read_table
from soundwhere.files import as_csv, atomic_path
from soundwhere.media.audio import read_audio
from soundwhere.media.encoded import decode_jpeg, decode_sound, encode_jpeg, encode_sound
from soundwhere.media.image import read_image, resize
from soundwhere.media.video import read_frames

_SHORTEST = round(0.2 * SAMPLE_RATE_HZ)  # of a sound that is repeated
_QUIET = 0.02  # of a sound's peak: more is no gap
_RINGING = 600  # samples of a gap that the codec blurs, on either side
_OPUS_HZ = 24_000


def main() -> None:
    """Write the lists of a set, or measure its fingerprints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", type=Path, help="folder of the set")
    parser.add_argument("out", type=Path, nargs="?", help="folder for the lists")
    parser.add_argument("--check", action="store_true", help="measure how far fingerprints carry")
    parser.add_argument("--sample", type=int, default=300, help="files of each kind that are changed for that")
    options = parser.parse_args()
    if options.out:
        make_lists(options.set, options.out)
    if options.check:
        print(json.dumps(check(options.set, options.sample), indent=2))


def make_lists(folder: Path, out: Path) -> None:
    """Write all lists of the set in a folder."""
    added = {"images": photo_columns, "audios": sound_columns, "videos": video_columns}
    for table, columns in COLUMNS.items():
        path = folder / f"{table}.csv"
        if not path.is_file():
            continue
        names = (*columns, *ADDED.get(table, ()))
        rows = [{**row.values, **(added[table](row) if table in added else {})} for row in read_table(path, columns)]
        text = as_csv([names, *([row[name] for name in names] for row in rows)])
        with atomic_path(out / f"{table}.csv.gz") as temporary:
            temporary.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def photo_columns(row: Row) -> dict[str, str]:
    """The fingerprint of a photo, and the run lengths of its mask if that was derived."""
    runs = ""
    if row["mask_kind"] == "derived":
        with Pillow.open(row.file(row["mask"])) as mask:
            runs = pack_counts(encode_rle(np.asarray(mask.convert("1")))["counts"])
    return {"print": text_of(photo_print(read_image(row.file(row["image"])))), "runs": runs}


def sound_columns(row: Row) -> dict[str, str]:
    """The fingerprint of a sound and how many samples it has before it repeats; nothing for a phrase."""
    if phrase_sources(row["audio_source"]):
        return {"print": "", "samples": ""}
    waveform = read_audio(row.file(row["audio"]))
    samples = body_samples(waveform, row["prep"]) if row["prep"].startswith("looped") else SOUND_SAMPLES
    return {"print": text_of(sound_print(waveform[:samples])), "samples": str(samples)}


def video_columns(row: Row) -> dict[str, str]:
    """The fingerprints of a video's sound and of its middle frame."""
    path = row.file(row["video"])
    [middle] = read_frames(path, [float(row["seconds"]) / 2])
    sound = read_audio(path)[: round(float(row["seconds"]) * SAMPLE_RATE_HZ)]
    return {"print": text_of(sound_print(sound)), "frame_print": text_of(photo_print(middle.image))}


def text_of(data: bytes) -> str:
    """Bytes as a cell."""
    return b64encode(data).decode()


def body_samples(waveform: np.ndarray, prep: str) -> int:
    """After how many samples a repeated sound pauses: where it agrees best with itself, one gap later.

    Args:
        waveform: 5 s.
        prep: `looped 0.32s`, or `looped or cut` of a sound whose length nobody wrote down.
    """
    length = len(waveform)
    spectrum = np.fft.rfft(waveform.astype(np.float64), 2 * length)
    products = np.fft.irfft(np.square(np.abs(spectrum)))[:length]
    energy = np.concatenate([[0.0], np.cumsum(np.square(waveform, dtype=np.float64))])
    lags = np.arange(length)
    overlap = np.sqrt((energy[length] - energy[lags]) * energy[length - lags])
    agreement = products / np.maximum(overlap, 1e-6 * energy[length] + 1e-12)
    stated = re.search(r"[\d.]+", prep)
    if stated:
        about = round(float(stated[0]) * SAMPLE_RATE_HZ) + GAP_SAMPLES
        low = max(about - 130, 0)
        return low + int(np.argmax(agreement[low : min(about + 131, length)])) - GAP_SAMPLES
    loud = np.abs(waveform) > _QUIET * np.abs(waveform).max()
    heard = np.concatenate([[0], np.cumsum(loud)])
    bodies = np.arange(_SHORTEST, length - GAP_SAMPLES - 2_000)
    gaps = heard[bodies + GAP_SAMPLES - _RINGING] - heard[bodies + _RINGING] == 0
    scores = np.where(gaps, agreement[bodies + GAP_SAMPLES], -1.0)
    first = int(np.argmax(scores > 0.9 * scores.max()))  # two repeats agree with themselves, too
    return int(bodies[first + np.argmax(scores[first : first + 2 * _RINGING])])


def check(folder: Path, sample: int) -> dict[str, object]:
    """How far files are from their own fingerprints after harmless changes, and how often others are taken for them."""
    rng = np.random.default_rng(0)
    photos = [read_image(row.file(row["image"])) for row in read_table(folder / "images.csv", COLUMNS["images"])]
    chosen = rng.choice(len(photos), min(sample, len(photos)), replace=False)
    prints = np.stack([np.frombuffer(photo_print(photo), np.uint8) for photo in photos])
    found: dict[str, object] = {"photos": len(photos), "photos changed": len(chosen)}
    for name, change in PHOTO_CHANGES.items():
        distances = [photo_distance(photo_print(change(photos[k])), prints[k].tobytes()) for k in chosen]
        found[f"photo, {name}"] = _own(np.array(distances), SAME_PHOTO)
    bits = prints.shape[1] * 8
    near = sum(
        int((np.bitwise_count(prints[k] ^ prints[k + 1 :]).sum(1) <= SAME_PHOTO * bits).sum())
        for k in range(len(prints))
    )
    found["photos taken for another"] = _others(near, len(prints))
    rows = read_table(folder / "audios.csv", COLUMNS["audios"])
    sounds = [read_audio(row.file(row["audio"])) for row in rows if not phrase_sources(row["audio_source"])]
    chosen = rng.choice(len(sounds), min(sample, len(sounds)), replace=False)
    marks = [sound_print(sound) for sound in sounds]
    found |= {"sounds": len(sounds), "sounds changed": len(chosen)}
    for name, alter in SOUND_CHANGES.items():
        distances = [sound_distance(alter(sounds[k]), marks[k]) for k in chosen]
        found[f"sound, {name}"] = _own(np.array(distances), SAME_SOUND)
    levels = np.stack([unpacked(mark).ravel() for mark in marks])
    apart = pdist(levels, "cityblock") / levels.shape[1] * STEP_DB
    found["sounds taken for another"] = _others(int((apart <= SAME_SOUND).sum()), len(marks))
    return found


def _own(distances: np.ndarray, limit: float) -> dict[str, float]:
    return {"largest": round(float(distances.max()), 3), "not recognised": int((distances > limit).sum())}


def _others(near: int, count: int) -> dict[str, float]:
    return {"pairs": near, "of": count * (count - 1) // 2, "rate": near / max(1, count * (count - 1) // 2)}


def _sized(image: np.ndarray, scale: float) -> np.ndarray:
    return resize(image, (round(image.shape[0] * scale), round(image.shape[1] * scale)))


def _by_opus(waveform: np.ndarray) -> np.ndarray:
    coded = decode_sound(encode_sound(resample_poly(waveform, 160, 147).astype(np.float32), _OPUS_HZ, "opus"))
    return np.pad(coded, (0, max(0, SOUND_SAMPLES - len(coded))))[:SOUND_SAMPLES]


PHOTO_CHANGES = {
    "encoded again": lambda image: decode_jpeg(encode_jpeg(image, 60)),
    "smaller": lambda image: decode_jpeg(encode_jpeg(_sized(image, 0.8), 80)),
    "larger": lambda image: _sized(image, 1.3),
    "darker": lambda image: (image * 0.85).astype(np.uint8),
}
SOUND_CHANGES = {
    "encoded again": _by_opus,
    "quieter": lambda waveform: np.rint(waveform * 0.3 * 32_767).astype(np.float32) / 32_767,
    "3 ms later": lambda waveform: np.roll(waveform, 66),
}

if __name__ == "__main__":
    main()
