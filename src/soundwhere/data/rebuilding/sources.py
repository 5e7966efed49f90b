"""What the sets were made from: the official downloads, how files lie in them, and where to get them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_NOTE = re.compile(r" \([^()/]*\)$")  # what a table says about a file after its name: its class, its author


@dataclass(frozen=True)
class Source:
    """One download.

    Attributes:
        key: Its name here, and in `manifest.json`.
        title: What the tables of the sets call it.
        option: What gives its folder on the command line.
        where: Where to get it, and what to cite.
        patterns: Where in its folder a file may lie that the tables call `{}`.
    """

    key: str
    title: str
    option: str
    where: str
    patterns: tuple[str, ...] = ("{}",)

    def places(self, name: str) -> tuple[str, ...]:
        """Where a file may lie, relative to the source's folder."""
        return tuple(pattern.format(name) for pattern in self.patterns)


VOC: Final = Source(
    "voc",
    "PASCAL VOC2012",
    "--voc",
    "The PASCAL Visual Object Classes Challenge 2012, VOCtrainval_11-May-2012.tar (Everingham et al.)",
    ("JPEGImages/{}.jpg",),
)
CALTECH: Final = Source(
    "caltech101",
    "Caltech-101",
    "--caltech101",
    "Caltech-101, CaltechDATA doi 10.22002/D1.20086, 101_ObjectCategories.tar.gz (Fei-Fei, Fergus, Perona 2004)",
    ("{}.jpg",),
)
ESC50: Final = Source(
    "esc50",
    "ESC-50",
    "--esc50",
    "ESC-50, github.com/karolpiczak/ESC-50 (Piczak 2015)",
    ("audio/{}",),
)
URBANSOUND: Final = Source(
    "urbansound8k",
    "UrbanSound8K",
    "--urbansound8k",
    "UrbanSound8K, UrbanSound8K.tar.gz (Salamon, Jacoby, Bello 2014)",
    tuple(f"audio/fold{fold}/{{}}" for fold in range(1, 11)),
)
ANIMALS: Final = Source(
    "animals10", "Animals-10", "--animals10", "Animals-10 on Kaggle; a copy: github.com/ignaszienius/Animals10"
)
INSTRUMENTS: Final = Source(
    "instruments30",
    "30 Musical Instruments",
    "--instruments30",
    "30 Musical Instruments on Kaggle; a copy: github.com/aizadaaskar/dl-homework",
)
POPULAR: Final = Source(
    "popular-animals",
    "InputBlackBoxOutput/popular-animals-dataset",
    "--popular-animals",
    "github.com/InputBlackBoxOutput/popular-animals-dataset",
)
HIBA: Final = Source(
    "hibafourati", "HibaFourati/Projet-annuel", "--hibafourati", "github.com/HibaFourati/Projet-annuel"
)
YASH: Final = Source(
    "yashnita", "YashNita/Animal-Sound-Dataset", "--yashnita", "github.com/YashNita/Animal-Sound-Dataset"
)
PHILHARMONIA: Final = Source(
    "philharmonia",
    "Philharmonia samples",
    "--philharmonia",
    "The Philharmonia Orchestra's sound samples; a copy: github.com/skratchdot/philharmonia-samples",
)
TONEJS: Final = Source(
    "tonejs", "tonejs-instruments", "--tonejs", "github.com/nbrosowsky/tonejs-instruments (Brosowsky)"
)
SOUNDFONT: Final = Source(
    "soundfont",
    "General MIDI soundfont FluidR3_GM",
    "--soundfont",
    "FluidR3_GM.sf2 (Frank Wen), in Debian the package fluid-soundfont-gm",
)
VIDEOS: Final = Source(
    "videos", "videos", "--videos", "the pages that videos.csv names, or the videos by their YouTube ids"
)

FILES: Final = (VOC, CALTECH, ANIMALS, INSTRUMENTS, POPULAR, HIBA, ESC50, URBANSOUND, YASH)
"""Sources of which single files are named."""
PHRASES: Final = (PHILHARMONIA, TONEJS, SOUNDFONT)
"""Sources of which phrases are made anew."""
SOURCES: Final = {source.key: source for source in (*FILES, *PHRASES, VIDEOS)}


def file_of(origin: str) -> tuple[Source, str] | None:
    """The source and the file's name in it that a cell such as `ESC-50 1-2-A-0.wav (dog)` speaks of, if any.

    >>> source, name = file_of("ESC-50 1-100032-A-0.wav (dog, freesound 100032)")
    >>> source.places(name)
    ('audio/1-100032-A-0.wav',)
    """
    for source in FILES:
        if origin.startswith(f"{source.title} "):
            return source, _NOTE.sub("", origin.removeprefix(f"{source.title} "))
    return None


def phrase_sources(origin: str) -> tuple[Source, ...]:
    """The sources that a phrase was made from; one of them is enough to make another."""
    return tuple(source for source in PHRASES if source.title in origin)
