"""Wrong inputs are refused in one line with exit code 2, before any work and without a file left behind.

First every option of every command, found in the command tree: a wrong type, below and above its range, an unknown
choice, a file or model that is not there. Then a table of what new users typed.
"""

from __future__ import annotations

import enum
import math
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import typer.models

from regard.cli import app
from regard.cli.data import data
from regard.cli.keys import keys
from regard.cli.vectors import vectors

REQUIRED = {
    "inspect": ["fr-en", "x", "-o", "x.html"],
    "export": ["fr-en", "-o", "x"],
    "import": ["folder"],
    "forecast": ["fr-en", "x.csv"],
    "distill": ["fr-en", "--sources", "a.fr", "-o", "x.tsv"],
    "ablate": ["fr-en", "--source", "a.fr", "--target", "a.en"],
    "index": ["fr-en", "--source", "a.fr", "--target", "a.en"],
    "data get": ["multi30k"],
    "data clean": ["a.tsv", "-o", "x.tsv"],
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
    ("score", "--source"): ["fr-en", "--target", "a.en"],
    ("score", "--target"): ["fr-en", "--source", "a.fr"],
    ("translate", "--input"): ["--output", "out"],
    ("translate", "--glossary"): ["x"],
    **{
        (name, "--input"): ["fr-en", "-o", "out"]
        for name in ("classify", "tag", "fill", "generate", "caption", "transcribe")
    },
    ("train", "--memory"): ["--start", "fr-en"],
    ("calibrate", "--source"): ["fr-en", "--target", "a.en"],
    ("calibrate", "--target"): ["fr-en", "--source", "a.fr"],
    ("check", "--glossary"): ["a.fr", "a.en"],
    ("bench", "--target"): ["search", "--source", "a.fr"],
    ("ablate", "--source"): ["fr-en", "--target", "a.en"],
    ("ablate", "--target"): ["fr-en", "--source", "a.fr"],
    ("index", "--source"): ["fr-en", "--target", "a.en"],
    ("index", "--target"): ["fr-en", "--source", "a.fr"],
    ("inspect", "--index"): ["fr-en", "x", "-o", "x.html", "--view", "near"],
    ("distill", "--sources"): ["fr-en", "-o", "x.tsv"],
    ("distill", "--keep-out"): ["fr-en", "--sources", "a.fr", "-o", "x.tsv"],
    ("data clean", "--keep-out"): ["a.tsv", "-o", "x.tsv"],
    ("lab", "--numbers"): ["scaled-scores"],
    ("bench", "--source"): ["cold-start"],
    ("export", "--shortlist"): ["fr-en", "-o", "x"],
    ("serve", "--api-key-file"): [],
    ("serve", "--metrics-token-file"): [],
    ("vectors near", "--vectors"): ["x"],
    ("vectors analogy", "--vectors"): ["x", "y", "z"],
    ("vectors compare", "--vectors"): ["x", "y"],
}
"""Options that name a file to be read, and what else must be said for it to be read."""
WRITTEN = {"--output", "--dropped", "--page", "--suggestions"}


class Option(NamedTuple):
    command: str
    name: str
    kind: Any
    info: typer.models.OptionInfo

    @property
    def base(self) -> list[str]:
        return [*self.command.split(), *REQUIRED.get(self.command, [])]


def commands() -> Iterator[tuple[str, Any]]:
    for prefix, group in (("", app), ("data ", data), ("keys ", keys), ("vectors ", vectors)):
        for known in group.registered_commands:
            yield prefix + (known.name or known.callback.__name__), known.callback


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
    (tmp_path / "b.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "s.csv").write_text("a,b\n1,2\n")
    (tmp_path / "bad.toml").write_text("task = \n")
    (tmp_path / "typo.toml").write_text("[training]\nstep = 3\n")
    (tmp_path / "tiny-typo.toml").write_text("[tiny]\ntraining = {step = 3}\n")
    (tmp_path / "numbers.json").write_text("{}")
    (tmp_path / "keys.txt").write_text("secret\n")
    (tmp_path / "keys.txt").chmod(0o644)
    (tmp_path / "bin").write_bytes(b"\xff\xfe\x00\x01" * 50)
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    for name in ("x.png", "x.wav", "x.gif"):
        (tmp_path / name).write_bytes(b"something else")
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
    low, high = option.info.min, option.info.max
    assert low is not None and high is not None, f"{option.command} {option.name} has no range"
    whole = option.kind is int
    wrong = ["many", "", "1e400", "0x10", "1,5", "½", "1 2"]
    beyond = (low - 3, high * 2) if whole else (low - 1e-6 - abs(low) / 2, high * 2, math.nan, math.inf, -math.inf)
    expected = f"{option.name}: wants a {'whole ' * whole}number from {low:,} to {high:,}, given "
    for value in [*wrong, *map(str, beyond)]:
        said = refused(*option.base, f"{option.name}={value}").replace("'", "")
        assert said.startswith(f"regard: {expected.replace('.0,', ',')}{value}"), value


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
    ("export fr-en -o a.fr", "--output: a.fr is a file; name a folder"),
    ("export fr-en -o x --format ctranslate2 --from fr", "leave them out"),
    ("export fashion -o x --from fr", "fashion: languages are for models that translate"),
    ("translate --from de x", "does not translate from de (German); it translates from fr (French)"),
    ("translate --to fr x", "does not translate to fr (French); it translates to en (English)"),
    ("translate --from fr --to en --via de x", "none of the models translates to 'de'"),
    ("translate -m fr-en -m five-languages --from it --to fr x", "none of the models translates from 'it'"),
    ("translate -m fr-en -m fr-en-luong --from en --to fr x", "this model does not translate from en (English)"),
    ("translate --server http://127.0.0.1:1 --via de --from fr --to en x", "leave out --via and further models"),
    ("evaluate fr-en a.fr a.en --to de", "does not translate to de (German); it translates to en (English)"),
    ("evaluate fashion labels.tsv --to de", "--to is for translators"),
    ("inspect fr-en x -o x.svg --from de", "does not translate from de (German); it translates from fr (French)"),
    ("inspect fashion x.png -o x.svg --to de", "the task classify has no such option"),
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
    ("data fetch multi30k", "no action 'fetch'; write: regard data get NAME"),
    ("data --mirror x", "name the data set to get"),
    ("lab nothing", "nothing"),
    ("lab --numbers a.tsv", "name the experiment"),
    ("bench nothing", "no benchmark 'nothing'"),
    ("bench --require 2", "--require and --memory judge one benchmark"),
    ("serve --port 70000", "'70000' is not a port"),
    ("serve --load-only de", "no model for these languages"),
    ("serve --url-prefix ../x", "is not a URL path"),
    ("vectors near x", "vectors.txt does not exist"),
    ("vectors train a.fr -o .", "--output: . is a folder; name a file"),
    # Recipes and their keys
    ("train a.fr", "a.fr: not valid TOML"),
    ("train bad.toml", "bad.toml: not valid TOML"),
    ("train typo.toml", "typo.toml: training: no key 'step'; did you mean 'steps'?"),
    ("train tiny-typo.toml", "tiny-typo.toml: tiny.training: no key 'step'; did you mean 'steps'?"),
    ("train bin", "bin: not UTF-8 text"),
    ("train folder", "no recipe 'folder'; `regard recipes` lists them"),
    ("train fr-en --tiny --folds 3", "--folds deals out labelled examples"),
    ("train sst2-lstm --tiny tiny.steps=3", "[tiny] is a section of recipe files; write --tiny steps=3"),
    ("train sst2-lstm --tiny training.steps", "training.steps: is a setting without a value; write training.steps=VALUE"),
    ("train sst2-lstm --tiny =3", "'=3' is not a setting; write key=value"),
    ("train sst2-lstm --tiny training=3", "training: wants a table of keys, given 3"),
    ("train sst2-lstm --tiny training.steps.x=3", "'training.steps' is a value and has no keys"),
    ("train sst2-lstm --tiny name=../x", "name: '../x' is not the name of a folder; choose another place with --output"),
    ("train sst2-lstm --tiny seed=1.5", "seed: wants a whole number of at least 0, given 1.5"),
    ("train sst2-lstm --tiny data.folds=1", "data.folds: one fold leaves nothing to train on"),
    ("train sst2-lstm --tiny data.fold=3", "data.fold: no fold 3 of 0 folds; set data.folds"),
    ("train sst2-lstm --tiny input.size=3", "input: this model reads text, which has no key 'size'; leave it out"),
    ("train vit-fashion --tiny input.sise=3", "input: no key 'sise'; did you mean 'size'?"),
    ("train vit-fashion --tiny input.channels=2", "input.channels: no 2; use 0, 1 or 3"),
    ("train sst2-lstm --tiny tokenizer=word", "tokenizer: wants a table of keys, given 'word'"),
    ("train sst2-lstm --tiny tokenizer.kind=bpe", "tokenizer.kind: no kind 'bpe'"),
    ("train sst2-lstm --tiny tokenizer.size=1", "tokenizer.size: wants a whole number from 8 to 1,048,576, given 1"),
    ("train sst2-lstm --tiny tokenizer.path=nowhere", "tokenizer.path: no tokenizer in nowhere; give the folder of a model"),
    # Models that do not fit
    ("train sst2-lstm --tiny model.encoder=lstmm", "model.encoder: no kind 'lstmm'"),
    ("train sst2-lstm --tiny model.encoder.layers=1000000", "model.encoder.layers: wants a whole number from 1 to 1,000"),
    ("train sst2-lstm --tiny model.kind=tagger", "model.kind: tagger is a model to tag, not to classify; leave it out"),
    ("train sst2-lstm --tiny model.decoder=transformer", "model.decoder: a model of the kind classifier has no decoder"),
    ("train sst2-lstm --tiny model.stem.patch=3", "model.stem: no key 'patch'"),
    ("train sst2-lstm --tiny model.stem.vectors=no.txt", "no.txt does not exist"),
    ("train sst2-lstm --tiny model.pooling=sum", "model.pooling: no 'sum'; use mean, max, last, first or first_two"),
    ("train sst2-lstm --tiny --start fashion", "the model reads image, but the examples are of the kind text; use model.stem=tokens"),
    ("train fr-en --tiny model.kind=language_model", "language_model is a model to generate, not to translate"),
    ("train --source a.fr --target a.en model.heads=3", "width 256 cannot be divided among 3 heads"),
    ("train --source a.fr --target a.en model.stem=patches", "patches reads image, and a translator reads text; use tokens"),
    ("train speech-digits --tiny model.stem.subsample=3", "model.stem.subsample: 3 is not supported; use 1, 2, 4, 8 or 16"),
    ("train gpt-shakespeare --tiny data.max_length=1", "data.max_length: a window of 1 shows no text; use 2 or more"),
    ("train forecast-airline --tiny model.horizon=100000", "model.horizon"),
    # Data that do not fit
    ("train sst2-lstm --tiny --source a.fr", "data.source: a model to classify does not read it; name its files by data.train"),
    ("train sst2-lstm --tiny --valid-source a.fr", "data.valid_source: a model to classify does not read it"),
    ("train sst2-lstm --tiny --from fr --to en", "source_language: languages are for models that translate"),
    ("train fr-en --tiny --source a.fr --target a.en", "makes its own pairs (so does --tiny); leave out one of the two"),
    ("train fr-en --tiny data.train=a.tsv", "data.train: a model to translate does not read it"),
    ("train --source a.fr", "1 source files but 0 target files; name as many of each"),
    ("train --source a.fr --target a.en --valid-source a.fr", "name as many of each"),
    ("train --source empty --target empty", "the corpus is empty"),
    ("train --source bin --target bin", "bin, line 1: is not text in UTF-8"),
    ("train --source folder --target folder", "folder is a folder; name a file in it"),
    ("train --source a.fr --target a.en -o a.fr", "--output: a.fr is a file; name a folder"),
    ("train --source a.fr --target a.en -o a.fr/run", "a.fr is a file, so nothing can be written below it"),
    ("train --task classify data.train=a.tsv", "data.format.kind: say which format the files have: "),
    ("train --task classify data.format.kind=labelled_table", "data.train: name the files to train on"),
    ("train --task classify data.format.kind=labeled_table", "did you mean 'labelled_table'?"),
    ("train --task classify data.format.kind=labelled_table data.root=. data.train=a.tsv data.format.label=9", "a.tsv, line 1: has 2 column(s), but column 9"),
    ("train --task classify data.format.kind=made_names data.format.count=20", "this task needs a label, which made_names does not give"),
    ("train --task tag data.format.kind=made_shapes data.format.count=20", "the model reads text, but the examples are of the kind image"),
    ("train track-clips --tiny data.format.target=flight", "data.format.target: no 'flight'; use activity or track"),
    ("train activity-clips --tiny data.format.kind=clip_folder", "data.train: name the files to train on; clip_folder reads files"),
    ("train music-lstm --tiny data.format.transpose=2", "MadeChorales takes no 'transpose'"),
    # Evaluation
    ("evaluate fr-en empty empty", "the corpus is empty: no lines in empty"),
    ("evaluate fr-en a.fr b.en", "a.fr has 2 lines but b.en has 3"),
    ("evaluate fr-en bin bin", "bin, line 1: is not text in UTF-8 (byte 1 is 0xff); convert the file to UTF-8"),
    ("evaluate fr-en folder folder", "folder is a folder; name a file in it"),
    ("evaluate fr-en a.tsv --against b.en", "b.en has 3 lines but a.tsv has 2; they must match"),
    ("evaluate fr-en a.tsv data.format.kind=conll", "a translator is scored on pairs of lines; leave it out"),
    ("evaluate fashion a.tsv", "a.tsv: is no IDX file of images or labels"),
    ("evaluate fashion a.tsv data.forma.kind=idx", "evaluate takes settings of data.format alone"),
    ("evaluate fashion data.format.kind=idx", "no files are named that it could be for; leave it out"),
    ("evaluate fashion --beam 3 a.tsv", "--beam is for translators; fashion is made to classify"),
    ("evaluate shakespeare empty", "empty: holds no text"),
    ("evaluate shapes a.tsv", "captions reads two files per part"),
    ("evaluate shapes folder a.tsv", "a.tsv: names 'un', which is not in folder; add it"),
    # Other commands
    ("translate -m folder x", "folder: no model in this folder (no manifest.json); give a model folder or a run"),
    ("translate --input folder --output o", "folder is a folder; name a file in it"),
    ("translate --input a.fr --output a.en", "--output: a.en is a file; name a folder"),
    ("translate --shards 3 x", "--shards is for a corpus only"),
    ("translate --server ftp://x --from fr --to en x", "write it like http://127.0.0.1:5000"),
    ("translate --server http://127.0.0.1:1 --from fr --to en x", "no server is listening at http://127.0.0.1:1; start one with: regard serve"),
    ("translate --server http://127.0.0.1:1 --from fr x", "--from needs --to"),
    ("translate --server http://127.0.0.1:1 -m fashion x", "give --from fr --to en"),
    ("translate a.fr -o b.fr", "a.fr: documents of this kind cannot be translated, only .csv"),
    ("translate no.docx -o b.docx", "no.docx cannot be read: No such file or directory"),
    ("translate no.docx -o b.docx --scores", "a document has no lines; leave out --server, --n-best, --scores"),
    ("translate x --columns a", "--columns is for a document: regard translate table.csv"),
    ("translate --server http://127.0.0.1:1 --device cpu x", "leave out --input, --device, --precision, --engine, --batch-tokens"),
    ("classify fashion x.png", "x.png: is no picture that can be read; use PNG, JPEG, GIF, BMP or WebP"),
    ("classify fashion folder", "folder is a folder; this model reads pictures"),
    ("caption fashion x.png", "made to classify, not to caption; use: regard classify"),
    ("transcribe fashion x.wav", "made to classify, not to transcribe"),
    ("track fashion x.gif", "made to classify, not to track"),
    ("tag fashion x", "made to classify, not to tag"),
    ("fill fashion x", "made to classify, not to fill"),
    ("forecast fashion s.csv", "made to classify, not to forecast"),
    ("generate fashion x", "made to classify, not to generate"),
    ("generate shakespeare --format midi x -o x.mid", "this model writes text, not music; leave out --format midi"),
    ("generate shakespeare -o folder x", "--output: folder is a folder; name a file"),
    ("inspect fr-en x -o x.svg --view nothing", "--view: no view 'nothing'; there is: alignment, "),
    ("inspect fr-en x -o x.svg --view head", "--view: no view 'head'; did you mean 'heads'?"),
    ("inspect fr-en x -o a.fr/x.svg", "a.fr is a file, so nothing can be written below it"),
    ("inspect fashion no.png -o x.svg", "no.png does not exist"),
    ("inspect fashion a.fr -o x.svg", "a.fr: is no picture that can be read"),
    ("export shapes -o x --format ctranslate2", "CTranslate2 runs models that translate; this one is made to caption"),
    ("export fr-en-luong -o x --format ctranslate2", "CTranslate2 runs Transformers alone"),
    ("export fr-en -o folder", "folder already exists; choose another folder"),
    ("studio --only --no-open", "there is no model to show; name one"),
    ("serve folder", "folder: no model in this folder (no manifest.json)"),
    ("serve --api-key-file keys.txt", "keys.txt: this file holds secrets but is world-readable; run: chmod o= keys.txt"),
    ("serve --translation-cache many", "--translation-cache: give a number of sentences"),
    ("serve --char-limit 0", "--char-limit: wants a whole number of at least 1, or -1 for no limit, given 0"),
    ("lab dropot", "no experiment 'dropot'; did you mean 'dropout'?"),
    ("lab dropout --numbers numbers.json", "numbers.json holds no numbers of an experiment"),
    ("lab dropout --numbers a.fr", "a.fr is not JSON"),
    ("lab dropout --page x -o y", "leave out --output"),
    ("lab --page folder", "there are no pages in folder to list"),
    ("bench cold-strat", "no benchmark 'cold-strat'; did you mean 'cold-start'?"),
    ("recipes --keys nothing", "no section 'nothing' of recipes; there is: data, decoding"),
    ("recipes --schema fr-en", "--schema describes whole recipes; leave out 'fr-en'"),
    ("data get multi30", "no data set 'multi30'; did you mean 'multi30k'?"),
    ("data get multi30k --mirror nowhere", "nowhere: no such folder; --mirror takes a folder"),
    ("data get multi30k --mirror http://x", "only https is fetched from"),
    ("vectors near x -v a.fr", "a.fr, line 1: a word and 1 to 4,096 numbers are wanted"),
    ("vectors near x -v empty", "empty: holds no vectors"),
    ("vectors train a.fr --min-count 100 -q", "the corpus has no word that occurs 100 times"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), TABLE, ids=[words for words, _ in TABLE])
def test_wrong_input_is_one_line_that_says_what_to_do(words, message, refused):
    assert message in refused(*words.split())
