"""Write the graphs of built-in models again, after a change of the code that computes them.

    python scripts/ship_graphs.py            # of all
    python scripts/ship_graphs.py scav-tiny

Writes src/soundwhere/weights/graphs/NAME/: what onnxruntime runs, without weights, which it takes from
NAME.safetensors. `tests/inference/test_graphs.py` fails where they are out of date.
"""

from __future__ import annotations

import argparse

from soundwhere.inference.graphs import graph_folder
from soundwhere.inference.shipping import write_graphs
from soundwhere.methods.files import SHIPPED, load_model


def main() -> None:
    """Write the graphs of the models that are named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(SHIPPED), help="names of built-in models")
    for name in parser.parse_args().models:
        write_graphs(load_model(name), graph_folder(name))
        print(graph_folder(name))


if __name__ == "__main__":
    main()
