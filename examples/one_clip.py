"""One clip in; its overlay video, page and JSON out; and where each source is.

python examples/one_clip.py clip.mp4 found
"""

import sys

import soundwhere


def main(clip: str, folder: str) -> None:
    result = soundwhere.localise(clip)
    for source in range(result.sources):
        name, _ = result.colour(source)
        spans = ", ".join(f"{start:.1f}-{end:.1f} s" for start, end in result.spans(source))
        print(f"source {source + 1} ({name}): {f'{result.where(source)}, sounding {spans}' if spans else 'not heard'}")
    for file in result.save(folder, ["mp4", "html", "json"], overwrite=True):
        print(f"wrote {file}")


if __name__ == "__main__":
    main(*sys.argv[1:])
