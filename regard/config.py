"""Recipes: what to train and how, as data. TOML in, dotted overrides on top, typed sections out.

A recipe is short: it names only what differs from the defaults below. What is saved beside a model is complete.
Every key is declared once, with type, range and description: here, and for the free tables (`model`, `tokenizer`,
`input`, `data.format`) in part_settings.py. Which of those keys a part takes, its constructor says (assemble.py).
Nothing in a recipe is ever imported or run.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from regard import part_settings
from regard.errors import UserError, suggestion
from regard.part_settings import PRESETS as PRESETS
from regard.regular_files import read_regular
from regard.setting import ALIASES, Key, Setting, all_keys, check, declared, shown
from regard.toml_text import toml_text


def data_root() -> str:
    """The folder of data sets: REGARD_DATA, or `data`."""
    return os.environ.get("REGARD_DATA") or "data"


@dataclass
class Data:
    """Where the data are. A file may end in .gz, .xz or .zst; `pairs.tsv#2` means the second column of a .tsv.

    Translation reads pairs of lines from `source` and `target`. All other tasks read examples from `train`, `valid` and
    `test`, by `format`.
    """

    root: Annotated[str, Setting("Folder that relative paths start at; the default is $REGARD_DATA, else data.")] = (
        field(default_factory=data_root)
    )
    source: Annotated[list[str], Setting("Text to translate from, one sentence per line.")] = field(
        default_factory=list
    )
    target: Annotated[list[str], Setting("Its translation, line by line.")] = field(default_factory=list)
    valid_source: Annotated[list[str], Setting("Text to validate on; empty: some pairs are held out.")] = field(
        default_factory=list
    )
    valid_target: Annotated[list[str], Setting("Translation of valid_source.")] = field(default_factory=list)
    format: Annotated[
        dict[str, Any], Setting("What reads the examples: its kind and its keys.", keys=part_settings.Format)
    ] = field(default_factory=dict)
    train: Annotated[list[str], Setting("Files of training examples.")] = field(default_factory=list)
    valid: Annotated[list[str], Setting("Files of validation examples; empty: some of train are held out.")] = field(
        default_factory=list
    )
    test: Annotated[list[str], Setting("Files of test examples.")] = field(default_factory=list)
    folds: Annotated[int, Setting("Cross-validation: number of folds; 0: off.", ge=0, le=10_000)] = 0
    fold: Annotated[int, Setting("The fold that is tested on, counted from 0.", ge=0, lt=10_000)] = 0
    hold_out: Annotated[
        list[str], Setting("Which of source the held-out pairs are taken from; empty: all of them.")
    ] = field(default_factory=list)
    hold_out_valid: Annotated[
        int,
        Setting(
            "Pairs or examples held out for validation, besides the valid files; -1: 1,000 (of examples a tenth at "
            "most) if no such files are named, else none.",
            ge=-1,
        ),
    ] = -1
    hold_out_test: Annotated[
        int, Setting("Pairs held out into RUN/held_out/test.source and test.target, never trained on.", ge=0)
    ] = 0
    valid_limit: Annotated[int, Setting("Validation scores at most this many pairs, spread evenly.", ge=1)] = 2000
    max_length: Annotated[
        int,
        Setting(
            "Longer pairs (in tokens) are dropped from training; when translating, longer sentences are split.",
            ge=1,
            le=1 << 17,
        ),
    ] = 128
    max_ratio: Annotated[
        float,
        Setting("Pairs whose token counts differ by more than this factor are dropped (5 tokens of grace).", ge=1),
    ] = 4.0
    drop_duplicates: Annotated[bool, Setting("Drop repeated pairs.")] = True
    drop_identical: Annotated[bool, Setting("Drop pairs with the same text (of more than 3 words) on both sides.")] = (
        True
    )
    drop_wrong_script: Annotated[
        bool, Setting("Drop pairs with a side mostly in another script than that side's usual one.")
    ] = True
    plain_source: Annotated[
        bool, Setting("Typographic apostrophes of the source become ASCII, in training and in use.")
    ] = True
    part: Annotated[
        int,
        Setting(
            "Lines tokenised at a time. A corpus of more than 16 parts is trained on while it is read: its first 2 "
            "parts give held-out pairs and tokenizer.",
            ge=1,
        ),
    ] = 131072
    window: Annotated[int, Setting("Pairs shuffled together and sorted by length into batches.", ge=1)] = 262144
    workers: Annotated[
        int,
        Setting("Threads that prepare batches ahead, in unchanged order; 0: the training thread does.", ge=0, le=256),
    ] = 1


@dataclass
class Training:
    """How long, how fast and on what to train."""

    steps: Annotated[int, Setting("Optimizer steps.", ge=1)] = 20000
    minutes: Annotated[
        float, Setting("Stop after this time even if steps are left; the schedule follows it; 0: no limit.", ge=0)
    ] = 0.0
    batch_tokens: Annotated[
        int, Setting("A batch holds as many pairs as fit this many padded tokens on either side.", ge=1, le=1 << 24)
    ] = 4096
    batch_examples: Annotated[
        int, Setting("Examples per batch, for inputs not made of tokens; 0: batch_tokens decides.", ge=0, le=1 << 20)
    ] = 0
    accumulate: Annotated[
        int,
        Setting("Batches whose gradients make one step, of all processes together; at least one each.", ge=1, le=10**6),
    ] = 1
    shard: Annotated[
        bool, Setting("With several processes (torchrun): each keeps a share of weights, gradients and optimizer.")
    ] = False
    learning_rate: Annotated[
        float, Setting("Peak learning rate; 0: automatic, 0.001, or 0.0001 for fine-tuning.", ge=0, le=10)
    ] = 0.0
    schedule: Annotated[
        part_settings.Spec,
        Setting(
            "Learning rate schedule: its kind, or a table.", family="training/schedule", keys=part_settings.Schedule
        ),
    ] = "inverse_square_root"
    warmup: Annotated[
        int,
        Setting(
            "Steps over which the learning rate rises to its peak; -1: automatic, a tenth of the steps, at most 1,000, "
            "or 100 for fine-tuning.",
            ge=-1,
        ),
    ] = -1
    beta1: Annotated[float, Setting("Adam's decay of the mean of gradients.", ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Setting("Adam's decay of the mean of squared gradients.", ge=0, lt=1)] = 0.98
    epsilon: Annotated[float, Setting("Added to Adam's denominator.", ge=0, le=1)] = 1e-9
    weight_decay: Annotated[float, Setting("Decoupled weight decay (AdamW).", ge=0, le=100)] = 0.0
    clip: Annotated[float, Setting("Gradient norm above which gradients are scaled down; 0: off.", ge=0)] = 1.0
    label_smoothing: Annotated[
        float, Setting("Share of the target probability spread over all labels or tokens.", ge=0, lt=1)
    ] = 0.1
    precision: Annotated[
        str,
        Setting("Arithmetic; auto: bfloat16 where the GPU has it.", choices=("auto", "float32", "bfloat16")),
    ] = "auto"
    compile: Annotated[
        str,
        Setting("Compile layers; auto: on a CUDA GPU from 2,000 steps on.", choices=("auto", "always", "never")),
    ] = "auto"
    ema: Annotated[
        float,
        Setting("Decay of a moving average of the weights, for validation and final model; 0: off.", ge=0, lt=1),
    ] = 0.0
    average: Annotated[
        int, Setting("Checkpoints averaged into the final model: the best and those before it; 1: off.", ge=1, le=1000)
    ] = 5
    validate_every: Annotated[int, Setting("Steps between validations; 0: only at the end.", ge=0)] = 1000
    save_every: Annotated[int, Setting("Steps between checkpoints; 0: only at the end.", ge=0)] = 1000
    log_every: Annotated[int, Setting("Steps between lines of the log; 0: never.", ge=0)] = 50
    keep: Annotated[int, Setting("Checkpoints kept, besides the best.", ge=1)] = 5
    metric: Annotated[
        str, Setting("Score that the best checkpoint is chosen by; empty: the first one validation gives.")
    ] = ""
    patience: Annotated[int, Setting("Stop after this many validations without improvement; 0: never.", ge=0)] = 0
    bad_steps: Annotated[
        int, Setting("Steps with a non-finite loss are skipped; this many in a row stop the run.", ge=1)
    ] = 10
    device: Annotated[str, Setting("auto, cpu, cuda, cuda:1 or mps.")] = "auto"
    samples: Annotated[int, Setting("Outputs shown at each validation.", ge=0, le=1000)] = 3
    start_from: Annotated[
        str,
        Setting(
            "Model or run to fine-tune: its weights and tokenizer are taken over; from a model for another task only "
            "stem and encoder."
        ),
    ] = ""


@dataclass
class Decoding:
    """How a trained model is used unless the caller says otherwise."""

    beam: Annotated[int, Setting("Hypotheses kept in beam search; 1: greedy.", ge=1, le=1000)] = 4
    length_penalty: Annotated[
        float,
        Setting(
            "Exponent of ((5 + length) / 6) that a log-probability is divided by; less makes outputs shorter.",
            ge=0,
            le=10,
        ),
    ] = 1.0
    max_length: Annotated[int, Setting("Longest output in tokens.", ge=1, le=10_000)] = 256
    length_factor: Annotated[
        float, Setting("An output has at most length_factor * source tokens + length_extra tokens.", ge=0, le=1000)
    ] = 2.0
    length_extra: Annotated[int, Setting("See length_factor.", ge=0, le=10_000)] = 20
    batch_tokens: Annotated[int, Setting("Tokens that are decoded together.", ge=1, le=1 << 18)] = 4096


@dataclass
class Recipe:
    task: Annotated[str, Setting("What the model is for.", family="task")] = "translate"
    name: Annotated[str, Setting("Name of the run: runs/NAME.")] = ""
    seed: Annotated[int, Setting("Seed of everything random.", ge=0)] = 1
    source_language: Annotated[str, Setting("Code of the language translated from, such as fr.")] = ""
    target_language: Annotated[str, Setting("Code of the language translated to, such as en.")] = ""
    data: Annotated[Data, Setting("Where the data are.")] = field(default_factory=Data)
    tokenizer: Annotated[dict[str, Any], Setting("Tokenizer: its kind and its keys.", keys=part_settings.Tokenizer)] = (
        field(default_factory=lambda: {"kind": "subword"})
    )
    input: Annotated[dict[str, Any], Setting("How an input that is not text is read.", keys=part_settings.Input)] = (
        field(default_factory=dict)
    )
    model: Annotated[dict[str, Any], Setting("The model and its parts.", keys=part_settings.Model)] = field(
        default_factory=dict
    )
    training: Annotated[Training, Setting("How to train.")] = field(default_factory=Training)
    decoding: Annotated[Decoding, Setting("How the trained model is used.")] = field(default_factory=Decoding)
    tiny: Annotated[
        dict[str, Any],
        Setting(
            "What changes in a form of seconds on data the package makes itself: any keys of the other sections, and "
            "`beats`, scores that it must do better than to have learnt anything."
        ),
    ] = field(default_factory=dict)


LONGEST_TEXT = 1 << 17
MOST_DOTS = 100
"""A recipe is a page of text with a few dots a line; more would only keep the TOML reader busy, whose time for a key
grows with the square of its parts."""


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with the package (installed: beside this file; in a clone: in the repository)."""
    here = Path(__file__).parent
    return {path.stem: path for folder in (here.parent, here) for path in sorted(folder.glob("recipes/*.toml"))}


def read_recipe(path_or_name: str | Path) -> Recipe:
    """A recipe from a file, from a run or model folder, or a shipped one by its name."""
    path = Path(path_or_name)
    if path.is_dir() and (path / "recipe.toml").is_file():
        path = path / "recipe.toml"
    if path.is_dir() or not path.exists():
        path = _shipped(path)
    try:
        text = read_regular(path, 4 * LONGEST_TEXT).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text: {error}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    return recipe_from_toml(text, where=str(path))


def _shipped(path: Path) -> Path:
    shipped = shipped_recipes()
    if path.parent == Path(".") and path.name.removesuffix(".toml") in shipped:
        return shipped[path.name.removesuffix(".toml")]
    beside = [str(other) for other in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    raise UserError(f"no recipe '{path}'{suggestion(str(path), {*shipped, *beside})}")


def recipe_from_toml(text: str, where: str = "recipe") -> Recipe:
    """A recipe from the text of one; `where` is the file to blame."""
    try:
        return recipe_from_dict(parse_toml(text))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except RecursionError:
        raise UserError(f"{where}: its tables are nested too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """The plain values in the text of a recipe, in bounded time whatever it says."""
    if len(text) > LONGEST_TEXT:
        raise UserError(f"longer than {LONGEST_TEXT} characters; that is no recipe")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MOST_DOTS:
            raise UserError(f"more than {MOST_DOTS} dots in line {number}; write long lists one item a line")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number too long to be one
        raise UserError(f"not valid TOML: {error}") from None


def recipe_from_dict(tree: Mapping[str, Any]) -> Recipe:
    """A recipe from plain values; keys that do not exist and values of a wrong type are refused."""
    return _section(Recipe, tree, "")


def apply_overrides(recipe: Recipe, overrides: Iterable[str]) -> Recipe:
    """A new recipe in which `key.key=value` settings have the last word. Values are TOML, or else plain text."""
    tree = _plain(recipe)
    for text in overrides:
        keys, value = _setting(text)
        node: Any = tree
        for depth, key in enumerate(keys[:-1], start=1):
            path = ".".join(keys[:depth])
            node[key] = _as_table(path, node.get(key, {}))
            node = node[key]
            if not isinstance(node, dict):
                raise UserError(f"{'.'.join(keys)}: '{path}' is a value and has no keys")
        node[keys[-1]] = value
    return recipe_from_dict(tree)


def _as_table(path: str, value: Any) -> Any:
    """The value of a key that takes a kind or a table, as a table."""
    if isinstance(value, _Unparsed):
        value = _toml_value(value)
    if isinstance(value, str) and any(other == path and key.setting.keys for other, key in all_keys(Recipe)):
        return {"kind": value}
    return value


def tiny_form(recipe: Recipe) -> Recipe:
    """The recipe as its `[tiny]` section changes it: on data that need no files."""
    if not recipe.tiny:
        raise UserError("tiny: this recipe has no tiny form; train it on its data")
    tree, changes = _plain(recipe), _tree(recipe.tiny, "tiny")
    changes.pop("beats", None)
    for name, value in tree["data"].items():
        if isinstance(value, list) or name.startswith("hold_out"):
            tree["data"][name] = _plain(Recipe())["data"][name]
    # Another kind takes none of the keys of the first.
    if "format" in changes.get("data", {}):
        tree["data"]["format"] = {}
    if "kind" in changes.get("tokenizer", {}):
        tree["tokenizer"] = {}
    tree["tiny"] = {}
    return recipe_from_dict(_merged(tree, changes))


def _merged(tree: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for key, value in changes.items():
        inner = tree.get(key)
        tree[key] = _merged(inner, value) if isinstance(value, dict) and isinstance(inner, dict) else value
    return tree


def to_toml(recipe: Recipe) -> str:
    """Every key of the recipe with its value; `recipe_from_toml` gives the same recipe back."""
    tree = _plain(recipe_from_dict(_plain(recipe)))
    return toml_text(tree)


# From plain values to typed sections.


class _Unparsed(str):
    """The text of an override: what it means depends on the type its key wants."""


def _setting(text: str) -> tuple[list[str], _Unparsed]:
    name, equals, value = text.partition("=")
    keys = [key.strip() for key in name.split(".")]
    if not equals or not all(keys):
        raise UserError(f"'{text}' is not a setting; write key=value, for example training.steps=200")
    return keys, _Unparsed(value.strip())


def _toml_value(text: str) -> Any:
    """The TOML value a text spells; the text itself when it spells none."""
    try:
        tree = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return str(text)
    value = tree["value"]
    return str(text) if len(tree) > 1 or isinstance(value, (datetime.date, datetime.time)) else value


def _section(kind: Any, tree: Mapping[str, Any], where: str) -> Any:
    keys = declared(kind)
    fields = {alias: name for name, alias in ALIASES.items()}
    given = {}
    for name, value in tree.items():
        if name not in keys:
            raise UserError(f"{where or 'recipe'}: no key '{name}'{suggestion(name, keys)}")
        given[fields.get(name, name)] = _typed(keys[name], value, f"{where}.{name}" if where else name)
    return kind(**given)


def _typed(key: Key, value: Any, where: str) -> Any:
    if isinstance(value, _Unparsed):
        parsed = _toml_value(value)
        # A name such as 2024 needs no quotes on a command line where text is wanted.
        plain = key.types[0] in (str, list[str]) and not isinstance(parsed, str | list | dict)
        value = str(value) if plain else parsed
    if isinstance(value, Mapping) and dict in key.types:
        if dataclasses.is_dataclass(key.type):
            return _section(key.type, value, where)
        return check_table(key.setting.keys, value, where) if key.setting.keys else _tree(value, where)
    return _tree(check(key, value, where), where)


def check_table(keys: type, table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A copy of a free table in which every declared key has a value of its type and range."""
    known = declared(keys)
    copy = _tree({name: 0 if name in known else value for name, value in table.items()}, where)
    for name in copy.keys() & known.keys():
        copy[name] = _typed(known[name], table[name], f"{where}.{name}")
    return copy


def _tree(value: Any, where: str) -> Any:
    """A copy of a free tree, refusing what TOML could not give back or what no setting can mean."""
    if isinstance(value, _Unparsed):
        value = _toml_value(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or not key:
                raise UserError(f"{where}: {key!r} is not a key")
            _tree(key, where)
        return {key: _tree(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tree(item, where) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise UserError(f"{where}: a whole number of {value.bit_length()} bits is too large")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{where}: wants a finite number, given {value}")
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise UserError(f"{where}: {value!r} is not valid Unicode text")
    if not isinstance(value, (str, int, float, bool)):
        raise UserError(f"{where}: {shown(value)} is not text, a number, true, false, a list or a table")
    return value


# From typed sections to text.


def _plain(recipe: Recipe) -> dict[str, Any]:
    def named(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {ALIASES.get(key, key): value for key, value in pairs}

    return dataclasses.asdict(recipe, dict_factory=named)
