"""`soundwhere bench sources`: how many sounds are told apart."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from soundwhere.terminal.measurements import FiguresFile, check_scenes, keep_figures


@dataclass(frozen=True)
class Options:
    """How many simultaneous sounds are told apart: made-up scenes in which one to four things sound."""

    model: str = "scav-tiny"
    """A model that was trained on the made-up world: its name or its file."""
    scenes: int = 200
    """Scenes of each number."""
    json: FiguresFile = None


def run(options: Options) -> None:
    """Run the measurement."""
    from soundwhere.bench.source_counts import count_sources
    from soundwhere.methods.files import check_kind, load_model
    from soundwhere.methods.scav.model import SCAV

    check_scenes(options.scenes)
    remedy = "Its stages are compared: give one, such as scav-tiny."
    model = check_kind(load_model(options.model), SCAV, options.model, remedy)
    print(f"{options.scenes} made-up scenes of each kind; share of the sounding things that a peak points at:")
    print("  sounding  --sources N  stage 1 alone  the model's 2 maps  another sound  called sounding, of 4")
    rows = count_sources(model, options.scenes)
    for row in rows:
        print(
            f"{row.sounding:>10}{row.both_stages:>13.1%}{row.stage_one:>15.1%}{row.two_maps:>20.1%}"
            f"{row.wrong_sound:>15.1%}{row.called:>23.1f}"
        )
    command = f"sources --model {options.model} --scenes {options.scenes}"
    keep_figures(options.json, command, {"rows": [asdict(row) for row in rows]})
