"""A set whose instruments are played on other soundfonts, to train against one synthesiser's colour and to measure it.

Eleven classes of wide-duet are heard on one soundfont only, in training and in its own test: whoever has learnt that
soundfont instead of the instrument is found out by another.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from soundwhere.data.rebuilding.lists import COLUMNS, SCENES
from soundwhere.data.rebuilding.soundfont import VOICES, Soundfont
from soundwhere.data.rebuilding.sounds import write_sound
from soundwhere.data.table import Row, read_table
from soundwhere.errors import ConfigError, DataError
from soundwhere.files import atomic_folder, write_csv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    Tick = Callable[[int, int], None]

_TEMPI: Final = (70, 160)  # beats a minute
_LEVEL_DB: Final = "-24.0"


@dataclass(frozen=True)
class Revoiced:
    """What became of a set.

    Attributes:
        classes: Fonts that play each class, by name; classes that none plays are not there.
        phrases: How many were played.
        clips: Training clips that sound otherwise than before, of all.
        scenes: Scenes of each list that are left, of all: those whose sounds were all played.
    """

    classes: Mapping[str, tuple[str, ...]]
    phrases: int
    clips: tuple[int, int]
    scenes: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class _Phrase:
    """A phrase to be played, and the file it becomes."""

    kind: str
    split: str
    font: Soundfont
    file: str

    def row(self, table: Path) -> Row:
        """Its line in the table of sounds."""
        cells = (self.file, self.kind, self.split, "", "phrase", _LEVEL_DB, self.font.font.name, "")
        return Row(table, 0, dict(zip(COLUMNS["audios"], cells, strict=True)))


class _Player:
    """Gives out phrases, the fonts that play a class taking turns."""

    def __init__(self, playing: Mapping[str, Sequence[Soundfont]]) -> None:
        self.playing = playing
        self.phrases: list[_Phrase] = []
        self._turns: dict[tuple[str, str], int] = defaultdict(int)

    def phrase(self, kind: str, split: str) -> str:
        """The file of a phrase that nobody else has."""
        number = self._turns[kind, split]
        self._turns[kind, split] += 1
        font = self.playing[kind][number % len(self.playing[kind])]
        self.phrases.append(_Phrase(kind, split, font, f"audio/{kind}/{font.name}_{split}_{number:03d}.ogg"))
        return self.phrases[-1].file


def revoice(data: Path, fonts: Sequence[Path], out: Path, tick: Tick = lambda done, total: None) -> Revoiced:
    """Copy a set so that soundfonts play its instruments: every second training clip of them, and every scene.

    Of the lists of scenes those are left all of whose sounds can be played. Phrases depend on their names alone.

    Args:
        data: Folder of wide-duet, or of a set in its layout.
        fonts: Soundfonts, which take turns.
        out: Folder of the copy; a set that is there is replaced once the new one is whole.
        tick: Told how many phrases are played, of how many.

    Raises:
        ConfigError: A font is missing, or `out` lies in the set itself or holds other things.
        DataError: The set or a font is damaged, or no class can be played.
    """
    if out.resolve() == data.resolve() or data.resolve() in out.resolve().parents:
        raise ConfigError(f"{out} lies in the set itself.", "Choose another place with --out.")
    if out.is_dir() and any(out.iterdir()) and not (out / "clips.csv").is_file():
        raise ConfigError(f"{out} holds other things than a set.", "Choose another place with --out.")
    tables = {name: read_table(data / f"{name}.csv", COLUMNS[name]) for name in ("audios", "clips")}
    scenes = {
        name: read_table(data / f"{name}.csv", COLUMNS[name]) for name in SCENES if (data / f"{name}.csv").is_file()
    }
    player = _Player(_playing({row["class"] for row in tables["clips"]}, fonts))
    clips = [list(row.values.values()) for row in tables["clips"]]
    changed = _change_clips(tables["clips"], clips, player)
    left = {name: _change_scenes(rows, name.split("_")[1], player) for name, rows in scenes.items()}
    with atomic_folder(out) as folder:
        _copy(data, folder)
        _play(player.phrases, folder, tick)
        sounds = [*tables["audios"], *(each.row(folder / "audios.csv") for each in player.phrases)]
        write_csv(folder / "audios.csv", [COLUMNS["audios"], *(row.values.values() for row in sounds)])
        write_csv(folder / "clips.csv", [COLUMNS["clips"], *clips])
        for name, rows in left.items():
            write_csv(folder / f"{name}.csv", [COLUMNS[name], *rows])
    return Revoiced(
        {kind: tuple(font.name for font in playing) for kind, playing in player.playing.items()},
        len(player.phrases),
        (changed, sum(row["split"] == "train" for row in tables["clips"])),
        {name: (len(left[name]), len(rows)) for name, rows in scenes.items()},
    )


def _copy(data: Path, folder: Path) -> None:
    """Copy a set into a folder that may be written to, be the set's own read-only."""
    shutil.copytree(data, folder, dirs_exist_ok=True)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | (0o700 if path.is_dir() else 0o600))


def _playing(kinds: Iterable[str], fonts: Sequence[Path]) -> dict[str, list[Soundfont]]:
    """The fonts that play each class."""
    opened = [Soundfont(path) for path in fonts]
    playing = {kind: [font for font in opened if font.plays(kind)] for kind in sorted(set(kinds) & set(VOICES))}
    playing = {kind: found for kind, found in playing.items() if found}
    if not playing:
        raise DataError(
            "No class of the set is an instrument that the soundfont plays.", "Give the folder of wide-duet."
        )
    return playing


def _change_clips(rows: Sequence[Row], clips: list[list[str]], player: _Player) -> int:
    """Let every second training clip of a class that is played have a phrase; how many those are."""
    met: dict[str, int] = defaultdict(int)
    sound = COLUMNS["clips"].index("audio")
    changed = 0
    for row, cells in zip(rows, clips, strict=True):
        if row["split"] == "train" and row["class"] in player.playing:
            met[row["class"]] += 1
            if met[row["class"]] % 2 == 0:
                cells[sound] = player.phrase(row["class"], "train")
                changed += 1
    return changed


def _change_scenes(rows: Sequence[Row], split: str, player: _Player) -> list[list[str]]:
    """The scenes all of whose sounds can be played, with phrases for sounds."""
    left = []
    for row in rows:
        cast = list(zip(row["classes"].split("|"), row["audios"].split("|"), strict=False))
        if all(kind in player.playing for kind, audio in cast if audio):
            played = [player.phrase(kind, split) if audio else "" for kind, audio in cast]
            left.append([row["id"], row["images"], row["classes"], "|".join(played)])
    return left


def _play(phrases: Sequence[_Phrase], folder: Path, tick: Tick) -> None:
    """Write the sounds of all phrases, font by font and class by class."""
    together: dict[tuple[Soundfont, str], list[_Phrase]] = defaultdict(list)
    for each in phrases:
        together[each.font, each.kind].append(each)
    done = 0
    for (font, kind), alike in together.items():
        names = [each.file for each in alike]
        for each, waveform in zip(alike, font.phrases(kind, names, list(map(_tempo, names))), strict=True):
            write_sound(each.row(folder / "audios.csv"), waveform, folder, exact=True)
            done += 1
            tick(done, len(phrases))


def _tempo(file: str) -> int:
    """Beats a minute of a phrase, by its name."""
    low, high = _TEMPI
    return low + int.from_bytes(hashlib.sha256(f"tempo of {file}".encode()).digest()[:4], "big") % (high - low)
