"""Every system in one table: how well it localises, whether it listens, what it was told and what it costs.

What is said in words follows from intervals alone.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from soundwhere.analysis.contenders import OWN, REFERENCE, STAND_IN, TOLD_MORE
from soundwhere.analysis.match import FRAMES
from soundwhere.analysis.report import Report, rows_with_intervals
from soundwhere.data.benchmarks.boxed import is_boxed
from soundwhere.evaluation.page import sheets
from soundwhere.evaluation.published import published
from soundwhere.evaluation.summary import as_json
from soundwhere.evaluation.tables import INTERVALS, PAIRED, drop_figure
from soundwhere.metrics.report import Table, figure_name, figures_table, percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from soundwhere.analysis.match import Entrant, Match
    from soundwhere.evaluation.published import Published
    from soundwhere.evaluation.rows import Row
    from soundwhere.metrics.bootstrap import Interval
    from soundwhere.types import Image

JUDGED: Final = "ciou@0.3"
"""The figure by which rows are compared."""
FIGURES: Final = (JUDGED, "auc", "cap")
PAPER: Final = {
    "attention10k": "Attention10k",
    "attention10k-original": "Attention10k",
    "avgn": "AVGN",
    "coarse-to-fine": "CoarsetoFine",
    "dmc": "DMC",
    "dmc-duet": "DMC",
    "dsol": "DSOL",
    "ez-vsl": "EZ-VSL",
    "jsa": "Slot-Attn",
    "lvs": "LVS",
    "mix-and-localize": "Mix-and-Localize",
    "noprior": "NoPrior",
    "noprior-dual": "NoPrior",
    "oa-ssl": "OA-SSL",
    "ots": "OTS",
    "scav": "SCAV",
}
"""What the paper's tables call the methods; the others are in none of them."""
BESIDE: Final = ("vggsound-duet", "vggsound-duet-mask")
"""Whose published figures stand beside ours where nothing is published for the benchmark itself."""
_SCENE_PX: Final = 96  # height of a scene on the page
_PUBLISHED = "Figures of other data or of another evaluation do not rank against ours: compare orderings, not numbers."


def compare_results(entrants: Sequence[Entrant], matches: Sequence[Match], left_out: Mapping[str, str]) -> Report:
    """The tables, the words and the page.

    Args:
        entrants: The rows, the reference last.
        matches: What they scored on each benchmark.
        left_out: Rows that there could have been, with the reason.
    """
    words: dict[str, str] = {}
    tables: list[Table] = []
    for match in matches:
        said = in_words(entrants, match)
        words |= {f"{match.title}: {question}": answer for question, answer in said.items()}
        tables.append(scores_table(entrants, match))
        tables += [table for table in (differences_table(entrants, match),) if table.rows]
    tables += [training_table(entrants, left_out), published_table(entrants, matches)]
    values: dict[str, Any] = {
        "words": words,
        "rows": {
            str(each.row): {"name": each.name, **asdict(each.facts), "kind": each.facts.kind} for each in entrants
        },
        "left_out": dict(left_out),
        "benchmarks": {match.title: _values(entrants, match) for match in matches},
    }
    return Report(tables, values, words=words, page=lambda: _pictures(entrants, matches))


def scores_table(entrants: Sequence[Entrant], match: Match) -> Table:
    """Scores with intervals, what the sound is worth, what a scene costs, and what each row was told."""
    scores, drops, frames = match.summary.scores, match.summary.drops, match.summary.frames
    dropped = drop_figure(next(iter(scores.values()), {}))
    rows: dict[Any, dict[str, Any]] = {}
    for each in entrants:
        row = each.row
        own, other = (frames.get(sound, {}).get(FRAMES) for sound in (row, row.under("shuffled")))
        rows[row] = {
            **scores.get(row, {}),
            "lost": drops.get(row, {}).get(JUDGED),
            "lost_free": drops.get(row, {}).get(dropped),
            "frames": own,
            "frames_other": other,
            "seconds": f"{match.seconds[row]:.3f}",
            "parameters": f"{each.facts.parameters / 1e6:.1f}",
            "audioset": each.facts.audioset,
            "labels": each.facts.labels,
        }
    kinds: dict[Any, str] = {each.row: each.facts.kind for each in entrants}
    best = match.constant.best
    for row in [best, *(row for row in scores if not row.method and row not in match.constant.rows)]:
        rows[row] = {**scores.get(row, {}), "frames": frames.get(row, {}).get(FRAMES)}
        kinds[row] = "input-free"
    columns = {
        **{figure: figure_name(figure) for figure in FIGURES},
        "lost": f"lost {figure_name(JUDGED)}",
        "lost_free": f"lost {figure_name(dropped)}",
        **({"frames": "best frames", "frames_other": "another's sound"} if match.has_frames else {}),
        "seconds": "s a scene",
        "parameters": "M parameters",
        "audioset": "AudioSet",
        "labels": "labels",
    }
    preset = match.evaluation.preset
    chance = [100 * each["chance"].value for each in frames.values()][:1]
    how = (
        f"{len(match.evaluation.names)} scenes, scored as {preset.name}: {preset.domain}, {preset.rule}, "
        f"{preset.matching} matching. In percent. {INTERVALS}"
    )
    lost = "lost: with the scene's own sound minus with another scene's, paired; what loses nothing does not listen."
    found = [
        "best frames: share of scenes whose highest peaks lie in exactly the sounding frames, with their own sound and "
        f"with another scene's (chance {share:.1f})."
        for share in chance
    ]
    cost = "s a scene: from one picture and its sound to maps, on this machine."
    notes = how, lost, *found, cost
    signed = {"lost", "lost_free"}
    return figures_table(match.title, rows, columns, *notes, first="row", kinds=kinds, faint=TOLD_MORE, signed=signed)


def references(entrants: Sequence[Entrant]) -> dict[Row, Row]:
    """For each row the reference it is compared with: the one with its seed, else the first."""
    name = REFERENCE if any(each.name == REFERENCE for each in entrants) else STAND_IN
    known = [each for each in entrants if each.name == name]

    def own(entrant: Entrant) -> Entrant:
        seed = entrant.facts.seed
        return next((each for each in known if seed is not None and each.facts.seed == seed), known[0])

    return {each.row: own(each).row for each in entrants if each.name != name} if known else {}


def differences_table(entrants: Sequence[Entrant], match: Match) -> Table:
    """Each row minus the reference, paired."""
    rows = {f"{row} - {other}": match.difference(row, other) for row, other in references(entrants).items()}
    columns = {figure: figure_name(figure) for figure in FIGURES}
    columns |= {"frames": "best frames"} if match.has_frames else {}
    note = f"{PAIRED} {INTERVALS}"
    return figures_table(f"Differences to SCAV on {match.title}", rows, columns, note, first="rows", signed=columns)


def training_table(entrants: Sequence[Entrant], left_out: Mapping[str, str]) -> Table:
    """How each row was trained, and which rows there could have been."""
    lines = [(str(each.row), each.facts.trained) for each in entrants]
    lines += [(name, f"left out: {reason}") for name, reason in left_out.items()]
    return Table("Training", ("row", "trained"), tuple(lines))


def published_table(entrants: Sequence[Entrant], matches: Sequence[Match]) -> Table:
    """Ours and what the paper's tables print for the same methods, with the protocol of each."""
    used = ("cap", "ciou@0.1", JUDGED, "auc")
    lines: list[tuple[str, ...]] = []
    for each in entrants:
        lines += [
            (
                str(each.row),
                "ours",
                match.title,
                *(percent(match.summary.scores[each.row].get(figure)).text for figure in used),
                match.evaluation.preset.name,
                "this run",
            )
            for match in matches
            if each.row in match.summary.scores
        ]
        lines += [
            (
                row.method,
                f"published, {row.venue}",
                row.benchmark,
                *(f"{row.figures[figure]:.1f}" if figure in row.figures else "-" for figure in used),
                row.preset,
                row.source + (f"; {row.note}" if row.note else ""),
            )
            for row in _printed(each.name, matches)
        ]
    head = ("row", "whose", "data", *map(figure_name, used), "evaluation", "source")
    return Table("Beside published figures", head, tuple(lines), (_PUBLISHED,))


def _printed(name: str, matches: Sequence[Match]) -> list[Published]:
    """The paper's lines about a method: on these benchmarks or, where there are none, on its duets."""
    rows = [row for row in published() if row.method == PAPER.get(name)]
    own = [row for row in rows if row.benchmark in {match.task.benchmark.name for match in matches}]
    return own or [row for row in rows if row.benchmark in BESIDE]


def rivals(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Systems of others that were told nothing but clips."""
    return [each for each in entrants if each.facts.kind == OWN and each.name not in (REFERENCE, STAND_IN)]


def in_words(entrants: Sequence[Entrant], match: Match) -> dict[str, str]:
    """Which rows beat the constant, which listen, and how they compare with SCAV, by question."""
    figure = figure_name(JUDGED)
    scored = [each for each in entrants if each.row in match.summary.scores]
    names = {each.row: each.label for each in scored}
    best = match.constant.best
    gains = {names[row]: match.difference(row, best)[JUDGED] for row in names}
    said = {
        f"better than the {best}, by {figure}?": _sorted_out(gains, ("better", "undecided", "worse")),
        "listening?": _listening(scored, match),
    }
    against = {names[row]: match.difference(row, other) for row, other in references(scored).items()}
    if not against:
        return said
    for key in (JUDGED, *(["frames"] if match.has_frames else [])):
        leads = {name: difference[key] for name, difference in against.items()}
        by = figure if key == JUDGED else "best frames"
        said[f"against SCAV, by {by}?"] = _sorted_out(leads, ("ahead of it", "undecided", "behind it"))
        alone = [leads[each.label] for each in rivals(scored) if each.label in leads]
        ahead = sum(lead.high < 0 for lead in alone)
        said[f"self-supervised rivals, by {by}?"] = f"SCAV is ahead of {ahead} of {len(alone)}."
    return said


def _listening(scored: Sequence[Entrant], match: Match) -> str:
    """A row listens if another scene's sound costs it something: part of its score, or sounding frames."""
    dropped = drop_figure(next(iter(match.summary.scores.values())))
    listens: list[str] = []
    not_shown: list[str] = []
    for each in scored:
        lost = [match.summary.drops.get(each.row, {}).get(dropped), match.frames(each.row, each.row.under("shuffled"))]
        found = any(cell is not None and cell.low > 0 for cell in lost)
        (listens if found else not_shown).append(each.label)
    measured = f"{figure_name(dropped)} or best frames get" if match.has_frames else f"{figure_name(dropped)} gets"
    parts = [f"With another scene's sound, {measured} worse for {', '.join(listens)}."] if listens else []
    parts += [f"No sign that these listen: {', '.join(not_shown)}."] if not_shown else []
    return " ".join(parts)


def _sorted_out(cells: Mapping[str, Interval], said: tuple[str, str, str]) -> str:
    """Rows whose intervals lie above 0, hold it, and lie below it, in words."""
    groups = (
        [name for name, cell in cells.items() if cell.low > 0],
        [name for name, cell in cells.items() if cell.low <= 0 <= cell.high],
        [name for name, cell in cells.items() if cell.high < 0],
    )
    return " ".join(
        f"{word.capitalize()}: {', '.join(f'{name} ({100 * cells[name].value:+z.1f})' for name in group)}."
        for word, group in zip(said, groups, strict=True)
        if group
    )


def _values(entrants: Sequence[Entrant], match: Match) -> dict[str, Any]:
    """Every number about a benchmark, as JSON values."""
    against = references(entrants)
    return {
        "scenes": len(match.evaluation.names),
        "truth": match.task.benchmark.truth,
        "constant": str(match.constant.best),
        "scores": as_json(match.summary.scores),
        "lost": as_json(match.summary.drops),
        "frames": as_json(match.summary.frames),
        "seconds": {str(row): seconds for row, seconds in match.seconds.items()},
        "differences": as_json({(row, other): match.difference(row, other) for row, other in against.items()}),
    }


def _chart(entrants: Sequence[Entrant], match: Match) -> Figure:
    scores = match.summary.scores
    rows = {
        str(each.row): {"own sound": own[JUDGED], "another scene's": other[JUDGED]}
        for each in entrants
        if (own := scores.get(each.row)) and (other := scores.get(each.row.under("shuffled")))
    }
    return rows_with_intervals(rows, match.title, f"{figure_name(JUDGED)} (%)")


def _pictures(entrants: Sequence[Entrant], matches: Sequence[Match]) -> dict[str, Image | Figure]:
    """Charts, and scenes with one column for each row, by heading."""
    pictures: dict[str, Image | Figure] = {}
    for match in matches:
        pictures[f"With their own and with another scene's sound, {match.title}"] = _chart(entrants, match)
        if is_boxed(match.task.benchmark):
            continue  # the same scenes as by masks
        drawn = sheets(match.evaluation, match.task.scenes, match.methods, apart=False, height_px=_SCENE_PX)
        pictures |= {f"{heading}, {match.title}": sheet for heading, sheet in drawn.items()}
    return pictures
