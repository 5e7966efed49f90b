"""Follow a clip while it is being analysed: a line whenever the sources that sound change.

Only a few frames are held at a time, so the clip may be as long as you like.

    python examples/who_sounds_when.py clip.mp4
"""

import sys

import soundwhere


def main(clip: str) -> None:
    before: tuple[int, ...] | None = None
    for answer in soundwhere.Localiser(fps=5).stream(clip):
        heard = tuple(int(source) for source in answer.sounding.nonzero()[0])
        if heard != before:
            places = [f"source {k + 1} at x {answer.peaks[k, 0]:.0f}, y {answer.peaks[k, 1]:.0f}" for k in heard]
            print(f"{answer.time_s:7.2f} s  {' and '.join(places) or 'silence'}", flush=True)
            before = heard


if __name__ == "__main__":
    main(*sys.argv[1:])
