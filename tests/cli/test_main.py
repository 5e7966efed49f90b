from __future__ import annotations

import errno
import importlib
import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tyro

from soundwhere import __version__
from soundwhere.cli import analyse, bench, benchmark, main
from soundwhere.errors import ConfigError
from soundwhere.methods.scav.config import SCAVConfig

if TYPE_CHECKING:
    from collections.abc import Collection

HELP = """
import sys
from soundwhere.cli.main import run
try:
    code = run(sys.argv[1:])
except SystemExit as end:
    code = end.code
assert code == 0, code
assert "torch" not in sys.modules
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], *([name, "--help"] for name in ("localise", "demo", "world", "doctor", "train"))]
)
def test_help_needs_no_torch(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", HELP, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "soundwhere" in done.stdout
    assert "xamples" in done.stdout or "examples" in done.stdout


@pytest.mark.parametrize("arguments", [["reproduce"], ["analyse"], ["analyse", "theory"]])
def test_help_waits_for_no_mathematics(arguments: list[str]) -> None:
    code = HELP.replace('"torch" not in sys.modules', 'not {"numpy", "scipy", "av"} & {*sys.modules}')
    subprocess.run([sys.executable, "-c", code, *arguments, "--help"], stdout=subprocess.DEVNULL, check=True)


def test_help_is_quick() -> None:
    """Under a second of work, or few times that of an interpreter that does nothing: a busy machine does not matter."""

    def worked() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def fastest(*arguments: str) -> float:
        times = []
        for _ in range(3):
            start = worked()
            subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
            times.append(worked() - start)
        return min(times)

    assert fastest("-m", "soundwhere", "--help") < max(1.0, 4 * fastest("-c", "pass"))


def test_version_and_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"soundwhere {__version__}\n"
    assert main.run([]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in main.COMMANDS)


def test_the_room_holds_commands_and_nothing_else() -> None:
    room = Path(main.__file__).parent
    files = {path.stem for path in room.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert files == {"__init__", "main", *main.COMMANDS}
    for name, inner in {"analyse": analyse.ANALYSES, "benchmark": benchmark.COMMANDS}.items():
        assert {path.stem for path in (room / name).glob("*.py")} == {
            "__init__",
            *(each.replace("-", "_") for each in inner),
        }


MODULES = {name: importlib.import_module(f"soundwhere.cli.{name}") for name in main.COMMANDS}


@pytest.mark.parametrize("name", MODULES)
def test_examples_make_sense(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of a command's help, without the words that explain it, is parsed; nothing is run."""
    parsed = []

    read = tyro.cli

    def stop(*arguments: Any, **options: Any) -> None:
        parsed.append(read(*arguments, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(tyro, "cli", stop)
    monkeypatch.setattr("soundwhere.methods.files.read_facts", lambda _: (SCAVConfig(), {}))  # for `train --from`
    monkeypatch.chdir(Path(__file__).parents[2])  # where configs/ is
    examples = re.sub(r"\\\n +", "", MODULES[name].DESCRIPTION.partition("Examples:\n")[2]).splitlines()
    for example in examples:
        words = shlex.split(example.strip().split("  ")[0])
        assert main.run(words[words.index("soundwhere") + 1 :]) == 130, example
    assert len(parsed) == len(examples) > 0


def help_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        main.run([*words, "--help"])
    assert end.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", MODULES)
def test_help_of_every_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What may be left out does not look as if it had to be given, and every command within one has an example."""
    text = help_of([name], capsys)
    nested = re.search(r"\{([a-z,-]+)\}", text.partition("\n\n")[0])
    for words in [[name], *([name, inner] for inner in (nested[1].split(",") if nested else ()))]:
        text = help_of(words, capsys)
        assert "{None}" not in text
        assert "(default: )" not in text
        assert not text.rstrip().endswith("\\"), f"half an example of {words}"
        assert f"  soundwhere {' '.join(words)}" in text or words == ["localise"], f"no example of {words}"
    assert not re.search(r" FOLDER$", help_of(["serve"], capsys).partition("\n\n")[0])  # it is `[FOLDER]`


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (analyse.ANALYSES, main.COMMANDS["analyse"]),
        (analyse.ANALYSES, analyse.DESCRIPTION),
        (benchmark.COMMANDS, benchmark.DESCRIPTION),
        (bench.MEASUREMENTS, bench.DESCRIPTION),
    ],
)
def test_subcommands_are_told(names: Collection[str], words: str) -> None:
    assert len(names) > 4
    assert [name for name in names if not re.search(rf"\b{name}\b", words)] == []


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ConfigError("Something is wrong.", "Do this."), 2, "soundwhere: Something is wrong.\nDo this.\n"),
        (KeyboardInterrupt(), 130, "soundwhere: interrupted"),
        (ZeroDivisionError("oh"), 2, "internal error: ZeroDivisionError: oh"),
        (OSError(errno.ENAMETOOLONG, "Too long", "xxx"), 2, "soundwhere: xxx cannot be used: Too long.\nGive another"),
        (FileNotFoundError(errno.ENOENT, "Not there", "a.mp4"), 2, "soundwhere: a.mp4 cannot be used: Not there."),
        (OSError("odd"), 2, "internal error: OSError: odd"),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_errors_become_messages_and_codes(
    error: BaseException,
    code: int,
    words: str,
    debug: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: list[str]) -> int:
        raise error

    monkeypatch.setattr("soundwhere.cli.localise.run", fail)
    assert main.run(["clip.mp4", *["--debug"] * debug]) == code
    captured = capsys.readouterr()
    assert words in captured.err
    assert ("Traceback" in captured.err) == debug


def test_an_unknown_option_of_a_command_within_one_is_explained_by_that_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main.run(["analyse", "compare", "--benchmark", "synthetic", "--config", "my.toml"])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "soundwhere analyse compare --help" in said
    assert "--configs" in said
    assert "ablation" not in said


@pytest.mark.parametrize(
    ("words", "near"),
    [("trian --config x", "train"), ("benchmark inti x", "benchmark init"), ("bench comand", "bench command")],
)
def test_a_mistyped_command_names_the_nearest(words: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(words.split()) == 2
    assert f"Did you mean `soundwhere {near}`?" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "goes_on"), [("prepare", True), ("analyse compare", True), ("export", False)])
def test_an_interruption_says_whether_the_same_command_goes_on(
    words: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"soundwhere.cli.{words.split()[0]}.run", interrupt)
    assert main.run([*words.split(), "--out", "there"]) == 130
    assert ("kept, and the same command goes on.\n" in capsys.readouterr().err) == goes_on


@pytest.mark.parametrize(
    "words",
    [
        "{}.mp4",
        "train --out {} --resume",
        "evaluate --benchmark folder --data {} --input-free",
        "doctor {}",
        "serve {}",
    ],
)
def test_names_that_are_too_long(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(words.format("x" * 300).split()) == 2
    told = capsys.readouterr().err
    assert "xxx" in told
    assert "internal error" not in told


def test_unknown_options_exit_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main.run(["clip.mp4", "--no-such-option"])
    assert end.value.code == 2
    assert "no-such-option" in capsys.readouterr().err
