"""Wrong inputs are refused in one line with exit code 2, before any work and without a file left behind.

First every option of every command, found in the command tree: a wrong type, below and above its range, an unknown
choice, a file or model that is not there. Then a table of what new users typed.
"""

from __future__ import annotations

import enum
import sys
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import typer.models

from regard.cli import app, serve
from regard.cli.vectors import vectors

REQUIRED = {
    "inspect": ["fr-en", "x", "-o", "x.html"],
    "export": ["fr-en", "-o", "x"],
    "forecast": ["fr-en", "x.csv"],
    "vectors train": ["x.txt"],
    "vectors near": ["x"],
    "vectors analogy": ["x", "y", "z"],
    "vectors compare": ["x", "y"],
}
"""What a command cannot do without; one that takes a model is given a shipped one."""
FILES = {
    ("train", "--source"): ["--target", "no.en"],
    ("train", "--target"): ["--source", "a.fr"],
    ("train", "--valid-source"): ["--source", "a.fr", "--target", "a.en", "--valid-target", "a.en"],
    ("train", "--valid-target"): ["--source", "a.fr", "--target", "a.en", "--valid-source", "a.fr"],
    ("evaluate", "--source"): ["fr-en"],
    ("evaluate", "--target"): ["fr-en", "--source", "a.fr"],
    ("translate", "--input"): ["--output", "out"],
    ("lab", "--numbers"): ["scaled-scores"],
    ("bench", "--source"): ["cold-start"],
    ("serve", "--api-key-file"): [],
    ("serve", "--metrics-token-file"): [],
    ("vectors near", "--vectors"): ["x"],
    ("vectors analogy", "--vectors"): ["x", "y", "z"],
    ("vectors compare", "--vectors"): ["x", "y"],
}
"""Options that name a file to be read, and what else must be said for it to be read."""
WRITTEN = {"--output"}


class Option(NamedTuple):
    command: str
    name: str
    kind: Any
    info: typer.models.OptionInfo

    @property
    def base(self) -> list[str]:
        return [*self.command.split(), *REQUIRED.get(self.command, [])]

    @property
    def range(self) -> tuple[float | None, float | None]:
        if self.command == "serve":
            return serve_ranges().get(self.name, (self.info.min, self.info.max))
        return self.info.min, self.info.max


def serve_ranges() -> dict[str, tuple[float, float]]:
    ranges = sys.modules[serve.__module__].RANGES
    return {f"--{name.replace('_', '-')}": limits for name, limits in ranges.items()}


def commands() -> Iterator[tuple[str, Any]]:
    for prefix, group in (("", app), ("vectors ", vectors)):
        for known in group.registered_commands:
            yield prefix + known.callback.__name__, known.callback


def options() -> Iterator[Option]:
    for command, function in commands():
        for name, hint in typing.get_type_hints(function, include_extras=True).items():
            for info in getattr(hint, "__metadata__", ()):
                if isinstance(info, typer.models.OptionInfo) and not info.hidden:
                    kinds = [k for k in typing.get_args(hint.__origin__) or [hint.__origin__] if k is not type(None)]
                    written = [n for n in (info.default, *(info.param_decls or ())) if str(n).startswith("--")]
                    spelled = written[0] if written else f"--{name.rstrip('_').replace('_', '-')}"
                    yield Option(command, spelled, kinds[0], info)


OPTIONS = list(options())


def named(*kinds: type) -> list[Any]:
    found = [one for one in OPTIONS if isinstance(one.kind, type) and issubclass(one.kind, kinds)]
    return [pytest.param(one, id=f"{one.command} {one.name}") for one in found]


@pytest.fixture
def refused(monkeypatch, run_regard, tmp_path):
    """Runs a command that must be refused; returns its error message, one line."""
    for variable in ("REGARD_DATA", "REGARD_MODEL", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("regard.serving.http.server.listen", lambda *given: pytest.fail("a server was started"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.fr").write_text("un\ndeux\n")
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.tsv").write_text("un\tone\ndeux\ttwo\n")
    there = sorted(tmp_path.iterdir())

    def run(*words: str) -> str:
        out, err = run_regard(*words, code=2)
        assert out == "" and err.startswith("regard: ") and err.count("\n") == 1, (words, out, err)
        assert sorted(tmp_path.iterdir()) == there, "nothing is written"
        return err

    return run


@pytest.mark.parametrize("option", named(int, float))
def test_numbers(option, refused):
    if option.kind is bool:
        for word in ("=1", "=maybe"):
            assert option.name in refused(*option.base, option.name + word)
        return
    low, high = option.range
    wrong = ["many", "", "1e400", "0x10", "1,5"]
    if option.name not in ("--port",) or option.command != "serve":
        assert low is not None and high is not None, f"{option.command} {option.name} has no range"
        step = 1 if option.kind is int else 1e-6
        wrong += [str(low - max(step, abs(low) / 2)) if option.kind is float else str(int(low) - 3), str(int(high) * 2)]
    if option.kind is float:
        wrong += ["nan", "inf", "-inf"]
    for value in wrong:
        assert option.name in refused(*option.base, f"{option.name}={value}"), value


@pytest.mark.parametrize("option", named(enum.Enum))
def test_choices(option, refused):
    for value in ("unheard-of", "", next(iter(option.kind)).value + "x"):
        said = refused(*option.base, option.name, value)
        assert option.name in said and all(choice.value in said for choice in option.kind)


@pytest.mark.parametrize("command", sorted({one.command for one in OPTIONS if one.name == "--device"}))
def test_devices(command, refused):
    for value in ("cdua", "", "cuda:x", "gpu"):
        assert "use auto, cpu, cuda" in refused(*command.split(), *REQUIRED.get(command, []), "--device", value)


LANGUAGES = [one for one in OPTIONS if one.info.metavar == "CODE" and (one.command, one.name) != ("train", "--from")]
"""Without train's --from: what is no language there is a model, in the old spelling of --start."""


@pytest.mark.parametrize("option", LANGUAGES, ids=[f"{one.command} {one.name}" for one in LANGUAGES])
def test_languages(option, refused):
    for value in ("12", "français!", ""):
        assert option.name in refused(*option.base, f"{option.name}={value}")


def test_every_file_that_is_read_is_looked_for():
    told = {(one.command, one.name) for one in OPTIONS if one.info.metavar == "FILE" and one.name not in WRITTEN}
    assert told == set(FILES)


@pytest.mark.parametrize(("command", "option"), list(FILES), ids=[" ".join(names) for names in FILES])
def test_files(command, option, refused):
    for missing in ("no.txt", "no/folder/no.txt"):
        assert missing in refused(*command.split(), *FILES[command, option], option, missing)


@pytest.mark.parametrize(
    "words",
    [
        *(["translate", "-m", "MODEL", "x"], ["serve", "MODEL"], ["studio", "MODEL"], ["inspect", "MODEL", "x", "-o", "x.svg"]),
        *([name, "MODEL", "x"] for name in ("classify", "tag", "generate", "transcribe", "caption", "fill", "track")),
        *(["forecast", "MODEL", "x.csv"], ["export", "MODEL", "-o", "x"], ["evaluate", "MODEL"], ["models", "MODEL"]),
        ["evaluate", "fr-en", "a.fr", "a.en", "--against", "MODEL"],
        ["train", "--start", "MODEL", "--source", "a.fr", "--target", "a.en"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_models(words, refused):
    assert "no model 'fr-em'" in refused(*("fr-em" if word == "MODEL" else word for word in words))


TABLE = [
    ("evaluate fr-en", "fr-en is a model and names no files to test on; give labelled ones: regard evaluate fr-en SOURCE TARGET"),
    ("evaluate fashion", "give labelled ones: regard evaluate fashion FILE"),
    ("evaluate fashion --source a.fr", "--source is for translators; fashion is made to classify"),
    ("evaluate fr-en a.fr", "name as many of each"),
    ("evaluate fr-en a.fr a.en a.tsv", "a source and a target file, not on 3 files"),
    ("evaluate fr-en a.fr --source a.fr", "not both"),
    ("evaluate fr-en --target a.en", "--target is the reference of --source FILE; name both"),
    ("evaluate fr-en a.tsv --against fashion", "--against: fashion is made to classify, not to translate"),
    ("evaluate fr-en a.tsv --against no.txt", "no model 'no.txt'"),
    ("evaluate fr-en a.tsv --tokenize 13b", "--tokenize"),
    ("train", "nothing to train on"),
    ("train fr-em", "no recipe 'fr-em'"),
    ("train a.toml b.toml", "one recipe at a time"),
    ("train --start fashion --source a.fr --target a.en", "fashion is made to classify and reads image, but a model to translate reads text"),
    ("train --start shakespeare --source a.fr --target a.en", "has no encoder that a model to translate could go on with"),
    ("train --source a.fr --target a.en --folds 5", "--folds deals out labelled examples"),
    ("train --resume nowhere", "nowhere: no run to resume"),
    ("train --resume nowhere --source a.fr", "--resume goes on with a run as it is"),
    ("train --resume nowhere --data .", "leave out --data"),
    ("train --resume nowhere --folds 3", "--folds begins anew"),
    ("train sentiment-lstm --data nowhere", "--data: nowhere is not a folder"),
    ("train --source a.fr --target a.en training.step=3", "did you mean 'steps'?"),
    ("train --source a.fr --target a.en training.steps=many", "training.steps: wants a whole number"),
    ("train --source a.fr --target a.en --task sing", "sing"),
    ("train --source a.fr --target a.tsv.gz", "a.tsv.gz does not exist"),
    ("export fr-en -o x --precision float16", "precision float16 needs the format ctranslate2"),
    ("export fr-en -o x --precision int16", "precision int16 needs the format ctranslate2"),
    ("export fr-en -o a.fr", "a.fr already exists"),
    ("export fr-en -o x --format ctranslate2 --from fr", "leave them out"),
    ("export fashion -o x --from fr", "fashion: languages are for models that translate"),
    ("translate --from fr --to en x", "--from and --to are for --server"),
    ("translate --output o x", "a corpus needs both --input FILE and --output FOLDER"),
    ("translate --input a.fr --output o x", "give either text or --input, not both"),
    ("translate -m fashion x", "made to classify, not to translate; use: regard classify"),
    ("classify fr-en x", "made to translate, not to classify; use: regard translate"),
    ("classify fashion no.png", "no.png does not exist; this model reads pictures"),
    ("classify -m fashion -m shapes x", "one model at a time"),
    ("inspect fr-en x -o x.pdf", "give it such a name"),
    ("forecast fr-en x.csv -o x.pdf", "drawings are .svg or .png"),
    ("generate shakespeare --length 0 -o x", "never ends"),
    ("generate shakespeare --format midi --count 2 -o x.mid", "a MIDI file holds one piece"),
    ("models fr-em", "no model 'fr-em'"),
    ("recipes fr-em", "no recipe 'fr-em'"),
    ("data get", "name the data set to get"),
    ("data get nothing", "no data set 'nothing'"),
    ("data fetch multi30k", "'fetch' is nothing to do"),
    ("data --mirror x", "name the data set to get"),
    ("lab nothing", "nothing"),
    ("lab --numbers a.tsv", "name the experiment"),
    ("bench nothing", "no benchmark 'nothing'"),
    ("bench --require 2", "--require and --memory judge one benchmark"),
    ("serve --port 70000", "'70000' is not a port"),
    ("serve --load-only de", "no model for these languages"),
    ("serve --url-prefix ../x", "is not a URL path"),
    ("vectors near x", "vectors.txt does not exist"),
    ("vectors train a.fr -o .", ". is a folder"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), TABLE, ids=[words for words, _ in TABLE])
def test_what_new_users_typed(words, message, refused):
    assert message in refused(*words.split())
