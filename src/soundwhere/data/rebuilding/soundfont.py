"""Phrases played on a General MIDI soundfont by the program fluidsynth, made by a seeded rule.

All phrases of a class are written as one MIDI file, each in a stretch of its own, and rendered in one go.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.data.rebuilding.sounds import SOUND_SAMPLES
from soundwhere.data.rebuilding.sources import SOUNDFONT
from soundwhere.errors import ConfigError, DataError
from soundwhere.media.audio import read_audio

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from soundwhere.types import Waveform


@dataclass(frozen=True)
class Voice:
    """How a class is played: a General MIDI program in a range of keys, or keys of the drum kit."""

    program: int
    keys: tuple[int, ...]
    drum: bool = False


def _melodic(program: int, lowest: int, octaves: int = 2) -> Voice:
    scale = (0, 2, 4, 7, 9)  # pentatonic: any two keys agree
    return Voice(program, tuple(lowest + 12 * octave + step for octave in range(octaves) for step in scale))


VOICES: Final[Mapping[str, Voice]] = {
    "accordion": _melodic(21, 55),
    "bagpipes": _melodic(109, 62),
    "dulcimer": _melodic(15, 57),
    "harmonica": _melodic(22, 60),
    "ocarina": _melodic(79, 67),
    "sitar": _melodic(104, 50),
    "steel_drum": _melodic(114, 60),
    "trumpet": _melodic(56, 57),
    "tuba": _melodic(58, 33),
    "violin": _melodic(40, 60),
    "xylophone": _melodic(13, 65),
    "bongo": Voice(0, (60, 61), drum=True),
    "castanets": Voice(0, (85,), drum=True),
    "guiro": Voice(0, (73, 74), drum=True),
    "maracas": Voice(0, (70,), drum=True),
    "tambourine": Voice(0, (54,), drum=True),
    # heard as recordings in wide-duet; for `revoicing`
    "banjo": _melodic(105, 50),
    "clarinet": _melodic(71, 55),
    "flute": _melodic(73, 65),
    "guitar": _melodic(24, 45),
    "harp": _melodic(46, 48, octaves=3),
    "piano": _melodic(0, 43, octaves=3),
    "saxophone": _melodic(65, 53),
    "trombone": _melodic(57, 41),
    "drums": Voice(0, (36, 38, 42, 46, 45, 49), drum=True),
}
_STRETCH_S = 8  # 5 s of a phrase and what still rings
_TICKS_PER_S = 960  # 480 a quarter at 120 a minute
_DRUMS = 9
_TIMEOUT_S = 1_800


class _SilentError(DataError):
    """A soundfont lacks a voice."""


class Soundfont:
    """A soundfont and the program that plays it.

    Args:
        path: The .sf2 (or .sf3) file, or a folder that holds one.

    Raises:
        ConfigError: There is none, or no fluidsynth.
        DataError: It is not a soundfont, or cut short.
    """

    def __init__(self, path: Path) -> None:
        fonts = sorted(path.rglob("*.sf2")) if path.is_dir() else [path]
        if not fonts or not fonts[0].is_file():
            raise ConfigError(
                f"{SOUNDFONT.option} {path}: there is no .sf2 file.",
                f"Give a General MIDI soundfont, such as {SOUNDFONT.where}.",
            )
        self.font = fonts[0]
        with self.font.open("rb") as file:
            head = file.read(12)
        if head[:4] != b"RIFF" or head[8:12] != b"sfbk":
            raise DataError(
                f"{self.font} is not a soundfont.", f"Give a General MIDI soundfont, such as {SOUNDFONT.where}."
            )
        if self.font.stat().st_size < int.from_bytes(head[4:8], "little") + 8:
            raise DataError(f"{self.font} is cut short.", f"Download it again: {SOUNDFONT.where}.")
        program = shutil.which("fluidsynth")
        if program is None:
            raise ConfigError(
                "fluidsynth, which plays soundfonts, is not installed.",
                "Install the package fluidsynth of your system, or leave out --soundfont.",
            )
        self._program = program

    @property
    def name(self) -> str:
        """What it is called, in letters and digits."""
        return "".join(filter(str.isalnum, self.font.stem)).lower()

    def plays(self, kind: str) -> bool:
        """Whether anything is heard where a class is played."""
        try:
            return next(self.phrases(kind, ["a try"], [100])) is not None
        except _SilentError:
            return False

    def phrases(self, kind: str, names: Sequence[str], tempi: Sequence[int]) -> Iterator[Waveform]:
        """Play the phrases of a class.

        Args:
            kind: The class.
            names: What each phrase is called, which decides what is played.
            tempi: Beats a minute of each.

        Yields:
            5 s of each, in order.

        Raises:
            DataError: Nobody knows how to play the class, or fluidsynth failed.
        """
        if kind not in VOICES:
            raise DataError(f"No General MIDI voice is known for {kind}.")
        with tempfile.TemporaryDirectory() as folder:
            midi, rendered = Path(folder) / "phrases.mid", Path(folder) / "phrases.wav"
            midi.write_bytes(_midi(VOICES[kind], names, tempi))
            self._play(midi, rendered)
            for number in range(len(names)):
                start_s = float(number * _STRETCH_S)
                waveform = read_audio(rendered, start_s, start_s + 5.0)
                if not np.abs(waveform).max(initial=0.0) > 1e-4:
                    raise _SilentError(
                        f"{self.font} is silent where {kind} is played.", "Give another one, such as FluidR3_GM.sf2."
                    )
                yield np.pad(waveform, (0, max(0, SOUND_SAMPLES - len(waveform))))

    def _play(self, midi: Path, rendered: Path) -> None:
        rate = str(SAMPLE_RATE_HZ)
        command = [self._program, "-ni", "-q", "-g", "0.6", "-r", rate, "-F", str(rendered), str(self.font), str(midi)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DataError(f"fluidsynth failed: {error}.", "Try fluidsynth on its own.") from error
        if done.returncode or not rendered.is_file():
            said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
            raise DataError(f"fluidsynth failed on {self.font}: {said[0]}.", "Try fluidsynth on its own.")


def _midi(voice: Voice, names: Sequence[str], tempi: Sequence[int]) -> bytes:
    """A MIDI file of one track: phrase by phrase, notes of half a beat, one or two, on a walk over the keys."""
    channel = _DRUMS if voice.drum else 0
    events: list[tuple[int, bytes]] = [] if voice.drum else [(0, bytes([0xC0 | channel, voice.program]))]
    for number, (name, tempo) in enumerate(zip(names, tempi, strict=True)):
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))
        beat_s, time_s = 60 / tempo, 0.0
        place = int(rng.integers(len(voice.keys)))
        while time_s < 5.0:
            lasts_s = float(rng.choice([0.5, 1.0, 1.0, 2.0])) * beat_s
            key, force = voice.keys[place], int(rng.integers(70, 120))
            start = round((number * _STRETCH_S + time_s) * _TICKS_PER_S)
            end = round((number * _STRETCH_S + min(time_s + 0.9 * lasts_s, 5.5)) * _TICKS_PER_S)
            events.append((start, bytes([0x90 | channel, key, force])))
            events.append((max(end, start + 1), bytes([0x80 | channel, key, 0])))
            place = int(np.clip(place + rng.integers(-2, 3), 0, len(voice.keys) - 1))
            time_s += lasts_s
    events.append((len(names) * _STRETCH_S * _TICKS_PER_S, b"\xff\x2f\x00"))
    track, now = b"", 0
    for tick, event in sorted(events, key=lambda pair: pair[0]):
        track += _delta(tick - now) + event
        now = tick
    return b"MThd\x00\x00\x00\x06\x00\x00\x00\x01\x01\xe0" + b"MTrk" + len(track).to_bytes(4, "big") + track


def _delta(ticks: int) -> bytes:
    """A number of ticks in MIDI's bytes of 7 bits, the highest first."""
    groups = [ticks & 127]
    while ticks := ticks >> 7:
        groups.append(ticks & 127 | 128)
    return bytes(reversed(groups))
