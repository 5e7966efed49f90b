"""The page: one HTML file beside the other outputs that shows them, without a server or anything from the net."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

import numpy as np

from soundwhere import __version__
from soundwhere.files import write_text
from soundwhere.media.video import clock

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.inference.result import Result

_POINTS = 400  # of a confidence curve


def write_page(result: Result, folder: Path) -> None:
    """Write `index.html` for the outputs that are in the folder already."""
    write_text(folder / "index.html", page(result, folder))


def page(result: Result, folder: Path) -> str:
    """The page for a result whose other outputs are in `folder`."""
    template = files("soundwhere.inference").joinpath("web", "page.html").read_text(encoding="utf-8")
    footage, settings = result.footage, result.settings
    whole = footage.start_s == 0 and footage.end_s >= footage.info.duration_s
    part = "" if whole else f", {clock(footage.start_s)} to {clock(footage.end_s)} of it"
    return Template(template).substitute(
        title=escape(footage.path.name),
        facts=escape(footage.describe() + part),
        screen=_screen(folder, footage.path.name),
        lanes="\n".join(_lane(result, source) for source in range(result.sources)),
        ticks=_ticks(footage.start_s, footage.end_s),
        gallery=_gallery(result, folder),
        downloads=_downloads(folder),
        model=escape(result.model.name),
        analysis=escape(f"{result.fps:g} frames per second, a window of sound every {settings.hop_s:g} s"),
        least=f"{settings.least_confidence:g}",
        start_s=f"{footage.start_s:.3f}",
        length_s=f"{footage.end_s - footage.start_s:.3f}",
        version=__version__,
    )


def _screen(folder: Path, name: str) -> str:
    poster = ' poster="overlay.png"' if (folder / "overlay.png").is_file() else ""
    if (folder / "overlay.mp4").is_file():
        label = f'aria-label="{escape(name)} with heatmaps"'
        return f'<video src="overlay.mp4"{poster} controls playsinline loop {label}></video>'
    return '<img src="overlay.png" alt="The clip with its heatmaps">' if poster else ""


def _lane(result: Result, source: int) -> str:
    """A source's row under the picture: its colour and place, a curve of its confidence, bars where it sounds."""
    spans = result.spans(source)
    bars = "".join(_bar(result, start, end) for start, end in spans)
    total = sum(end - start for start, end in spans)
    heard = f"{result.where(source)} · {total:.1f} s" if spans else "not heard"
    return (
        f'<div class="lane" style="--colour:{_css(result, source)}">'
        f'<div class="label"><b>source {source + 1}</b><span>{escape(heard)}</span></div>'
        f'<div class="track"><svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<path d="{_curve(result, source)}"/></svg>{bars}</div></div>'
    )


def _bar(result: Result, start: float, end: float) -> str:
    left, right = 100 * _share(result, start), 100 * _share(result, end)
    place = f'style="left:{left:.3f}%;width:{right - left:.3f}%" title="{clock(start)} to {clock(end)}"'
    return f'<i {place} data-from="{start:.3f}" data-to="{end:.3f}"></i>'


def _curve(result: Result, source: int) -> str:
    """The outline of a source's confidence over time, in a box of 1 x 1, as an SVG path."""
    start_s, end_s = result.footage.start_s, result.footage.end_s
    times = np.linspace(start_s, end_s, min(_POINTS, max(2, 4 * len(result.times))))
    confidence = np.interp(times, result.times, result.confidence[:, source])
    points = " ".join(
        f"L{_share(result, time):.4f} {1 - value:.3f}" for time, value in zip(times, confidence, strict=True)
    )
    return f"M0 1 {points} L1 1Z"


def _css(result: Result, source: int) -> str:
    return "#{:02x}{:02x}{:02x}".format(*result.colour(source)[1])


def _share(result: Result, time_s: float) -> float:
    start_s, end_s = result.footage.start_s, result.footage.end_s
    return float(np.clip((time_s - start_s) / (end_s - start_s), 0, 1))


def _ticks(start_s: float, end_s: float) -> str:
    """Five times along the axis."""
    times = np.linspace(start_s, end_s, 5)
    fine = end_s - start_s < 10
    return "".join(f"<span>{f'{time:.1f} s' if fine else clock(time)}</span>" for time in times)


def _gallery(result: Result, folder: Path) -> str:
    """The pictures in `heatmaps/`, one row per time."""
    rows = []
    for overlay in sorted((folder / "heatmaps").glob("*-overlay.png")):
        stem = overlay.name.removesuffix("-overlay.png")
        time_s = float(stem.removesuffix("s"))
        time = f"{time_s:g} s"
        pictures = [_figure(overlay.name, f"The clip with its heatmaps at {time}", time)]
        for source in range(result.sources):
            name = f"source {source + 1}"
            silent = "" if result.presence(time_s)[source] else " · silent"
            caption = f'<b style="--colour:{_css(result, source)}">{name}</b>{silent}'
            pictures.append(_figure(f"{stem}-source-{source + 1}.png", f"Heatmap of {name} at {time}", caption))
        rows.append(f'<div class="moment">{"".join(pictures)}</div>')
    return f"<h2>Heatmaps</h2>\n{''.join(rows)}" if rows else ""


def _figure(name: str, description: str, caption: str) -> str:
    image = f'<img loading="lazy" src="heatmaps/{name}" alt="{description}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


def _downloads(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != "index.html")
    return "".join(f'<li><a href="{escape(name)}">{escape(name)}</a></li>' for name in names)
