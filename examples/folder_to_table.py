"""Every clip of a folder into one table: when each source sounds and where it mostly is.

The model is loaded once. A clip that cannot be read is named, and the others are done.

    python examples/folder_to_table.py films table.csv
"""

import csv
import sys
from pathlib import Path

import soundwhere
from soundwhere.errors import SoundwhereError

COLUMNS = ("clip", "source", "start_s", "end_s", "where", "confidence")


def rows(result: soundwhere.Result) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for source in range(result.sources):
        for start, end in result.spans(source):
            within = (result.times >= start) & (result.times < end)
            confidence = result.confidence[within, source].mean()
            line = (
                result.path.name,
                source + 1,
                f"{start:.2f}",
                f"{end:.2f}",
                result.where(source),
                f"{confidence:.2f}",
            )
            found.append(line)
    return found


def main(folder: str, table: str) -> None:
    localiser = soundwhere.Localiser()
    with Path(table).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for clip in sorted(path for path in Path(folder).iterdir() if path.is_file()):
            try:
                writer.writerows(rows(localiser.localise(clip)))
            except SoundwhereError as error:
                print(f"{clip.name}: {error.message}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
