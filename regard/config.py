"""Recipes: what to train and how, as data. TOML in, dotted overrides on top, typed sections out.

A recipe is short: it names only what differs from the defaults below. What is saved beside a model is complete.
Nothing here knows what a key is for, and nothing in a recipe is ever imported or run.
The `model` and `tokenizer` sections are trees whose keys are checked against the constructors they name (assemble.py).
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import UserError, suggestion
from regard.regular_files import read_regular

PRESETS: dict[str, dict[str, Any]] = {
    "base": {"layers": 6, "width": 512, "feed_forward": 2048, "heads": 8, "dropout": 0.1},
    "small": {"layers": 3, "width": 256, "feed_forward": 1024, "heads": 4},
    "tiny": {"layers": 4, "width": 128, "feed_forward": 256, "heads": 4, "dropout": 0.3},
}
"""What `model.preset` stands for; keys that are spelled out win over it. Without a preset it is small."""


@dataclass
class Data:
    """Where the data are. A file may end in .gz, .xz or .zst; `pairs.tsv#2` means the second column of a .tsv.

    Translation reads pairs of lines from `source` and `target`. All other tasks read examples from `train`, `valid` and
    `test`, by `format`.
    """

    root: str = "data"
    """Relative paths below start here."""
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    valid_source: list[str] = field(default_factory=list)
    valid_target: list[str] = field(default_factory=list)
    format: dict[str, Any] = field(default_factory=dict)
    """What reads the examples: its kind (a file in data/format), and its keys."""
    train: list[str] = field(default_factory=list)
    valid: list[str] = field(default_factory=list)
    """When empty, some of `train` are held out."""
    test: list[str] = field(default_factory=list)
    folds: int = 0
    """Cross-validation: the training examples are dealt into this many piles, of which pile `fold` is the test."""
    fold: int = 0
    hold_out: list[str] = field(default_factory=list)
    """Which of `source` the held-out pairs are taken from; all of them when empty."""
    hold_out_valid: int = -1
    """Pairs or examples held out for validation, besides the valid files; -1 means 1,000 (of examples a tenth at most)
    if no such files are named, else none."""
    hold_out_test: int = 0
    """Pairs held out and written to RUN/held_out/test.source and test.target, never trained on."""
    valid_limit: int = 2000
    """Validation scores at most this many pairs, spread evenly."""
    max_length: int = 128
    """Longer pairs (in tokens) are dropped from training; when translating, longer sentences are split."""
    max_ratio: float = 4.0
    """Pairs whose token counts differ by more than this factor are dropped (with a grace of 5 tokens)."""
    drop_duplicates: bool = True
    drop_identical: bool = True
    """Pairs whose two sides are the same text (longer than 3 words)."""
    drop_wrong_script: bool = True
    """Pairs a side of which is mostly in another script than that side's usual one."""
    plain_source: bool = True
    """Typographic apostrophes of the source become ASCII, in training and in use."""
    part: int = 131072
    """Lines that are tokenised at a time. A corpus of more than 16 such parts is trained on while it is being read: its
    first 2 parts give the held-out pairs and the tokenizer, and the first epoch goes from part to part."""
    window: int = 262144
    """Pairs that are shuffled together and sorted by length into batches."""
    workers: int = 1
    """Threads that prepare batches ahead; they never change the order. 0 prepares in the training thread."""


@dataclass
class Training:
    steps: int = 20000
    minutes: float = 0.0
    """Stop after this much time even if steps are left, the schedule having followed the time; 0 means no limit."""
    batch_tokens: int = 4096
    """A batch holds as many pairs as fit this many padded target tokens, and source tokens likewise."""
    batch_examples: int = 0
    """A batch holds so many examples instead; for inputs that are not made of tokens."""
    accumulate: int = 1
    """Batches whose gradients make one step, of all processes together; torchrun's processes have one each at least."""
    shard: bool = False
    """With several processes (torchrun): each keeps only its share of weights, gradients and optimizer."""
    learning_rate: float = 0.0
    """The peak; 0 means automatic: 1e-3, or 1e-4 for fine-tuning."""
    schedule: str = "inverse_square_root"
    warmup: int = -1
    """Steps until the peak; -1 means automatic: a tenth of the steps, at most 1,000, or 100 for fine-tuning."""
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    clip: float = 1.0
    """Gradient norm above which gradients are scaled down; 0 turns it off."""
    label_smoothing: float = 0.1
    precision: str = "auto"
    """auto (bf16 where the GPU has it), float32 or bfloat16."""
    compile: str = "auto"
    """Whether layers are compiled: always, never or auto, which is on a CUDA GPU from 2,000 steps on."""
    ema: float = 0.0
    """Decay of an exponential moving average of the weights, used for validation and the final model; 0 is off."""
    average: int = 5
    """The final model averages the weights of this many checkpoints: the best and those just before it; 1 is off."""
    validate_every: int = 1000
    save_every: int = 1000
    log_every: int = 50
    keep: int = 5
    """Checkpoints kept, besides the best."""
    metric: str = ""
    """What the best is chosen by; empty means the first score that validation gives (for translation, bleu)."""
    patience: int = 0
    """Stop after this many validations without improvement; 0 never does."""
    bad_steps: int = 10
    """Steps with a non-finite loss or gradient are skipped; this many in a row stop the run."""
    device: str = "auto"
    samples: int = 3
    """Outputs shown at each validation."""
    start_from: str = ""
    """A model or run to fine-tune (`training.from` in a recipe): its weights and tokenizer are taken over. From a model
    for another task only what reads is taken, its stem and encoder."""


@dataclass
class Decoding:
    """How a trained model is used unless the caller says otherwise."""

    beam: int = 4
    length_penalty: float = 1.0
    """The exponent of ((5 + length) / 6) that a hypothesis' log-probability is divided by. With less, models that are
    unsure end long sentences early."""
    max_length: int = 256
    length_factor: float = 2.0
    """An output is at most length_factor * source tokens + length_extra long, and at most max_length."""
    length_extra: int = 20
    batch_tokens: int = 4096


@dataclass
class Recipe:
    task: str = "translate"
    name: str = ""
    seed: int = 1
    source_language: str = ""
    target_language: str = ""
    data: Data = field(default_factory=Data)
    tokenizer: dict[str, Any] = field(default_factory=lambda: {"kind": "subword"})
    input: dict[str, Any] = field(default_factory=dict)
    """How an input that is not text is read: the size of pictures, say."""
    model: dict[str, Any] = field(default_factory=dict)
    training: Training = field(default_factory=Training)
    decoding: Decoding = field(default_factory=Decoding)
    tiny: dict[str, Any] = field(default_factory=dict)
    """What changes in a form of seconds on data the package makes itself, which anybody can try: any keys of the other
    sections, and `beats`, the scores that it must do better than to have learnt anything."""


KEYS = {"start_from": "from"}
"""Fields whose key in a recipe is another word, because Python keeps that word for itself."""
RANGES: dict[str, tuple[int, int]] = {
    "data.max_length": (1, 1 << 17),
    "training.batch_tokens": (1, 1 << 24),
    "training.batch_examples": (0, 1 << 20),
    "decoding.beam": (1, 1000),
    "decoding.max_length": (1, 10_000),
    "decoding.length_factor": (0, 1000),
    "decoding.length_extra": (0, 10_000),
    "decoding.batch_tokens": (1, 1 << 18),
}
"""Limits of the settings that decide how much a model takes when it is used: a model may come from anybody. What its
`model` section asks for is limited by its weight file (assemble.py)."""
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
    if not path.is_file():
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
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                raise UserError(f"{'.'.join(keys)}: '{'.'.join(keys[:depth])}' is a value and has no keys")
        node[keys[-1]] = value
    return recipe_from_dict(tree)


def tiny_form(recipe: Recipe) -> Recipe:
    """The recipe as its `[tiny]` section changes it: on data that need no files."""
    if not recipe.tiny:
        raise UserError("tiny: this recipe has no tiny form; train it on its data")
    tree, changes = _plain(recipe), _tree(recipe.tiny, "tiny")
    changes.pop("beats", None)
    for name, value in tree["data"].items():
        if isinstance(value, list) or name.startswith("hold_out"):
            tree["data"][name] = _plain(Recipe())["data"][name]
    for whole in ("format",):  # another kind takes none of the keys of the first
        if whole in changes.get("data", {}):
            tree["data"][whole] = {}
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
    return "\n".join(_lines(tree, [])) + "\n"


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
    names = {KEYS.get(item.name, item.name): item.name for item in dataclasses.fields(kind)}
    types = typing.get_type_hints(kind)
    given = {}
    for key, value in tree.items():
        if key not in names:
            raise UserError(f"{where or 'recipe'}: no key '{key}'{suggestion(key, names)}")
        given[names[key]] = _typed(types[names[key]], value, f"{where}.{key}" if where else key)
    return kind(**given)


WANTED = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list[str]: "a list of texts"}


def _typed(kind: Any, value: Any, where: str) -> Any:
    if isinstance(value, _Unparsed):
        parsed = _toml_value(value)
        # A name such as 2024 needs no quotes on a command line where text is wanted.
        value = str(value) if kind in (str, list[str]) and not isinstance(parsed, (str, list)) else parsed
    free = typing.get_origin(kind) is dict
    if free or dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise UserError(f"{where}: wants a table of keys, given {_shown(value)}")
        return _tree(value, where) if free else _section(kind, value, where)
    value = _tree(value, where)
    if kind is float and type(value) is int:
        value = float(value)
    if kind == list[str]:
        value = [value] if isinstance(value, str) else value
        good = isinstance(value, list) and all(isinstance(item, str) for item in value)
    else:
        good = type(value) is kind  # and not isinstance: True is no number here
    if not good:
        raise UserError(f"{where}: wants {WANTED[kind]}, given {_shown(value)}")
    if where in RANGES:
        low, high = RANGES[where]
        if not low <= value <= high:
            raise UserError(f"{where}: must be between {low:,} and {high:,}, given {_shown(value)}")
    return value


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
        raise UserError(f"{where}: {_shown(value)} is not text, a number, true, false, a list or a table")
    return value


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


# From typed sections to text.


def _plain(recipe: Recipe) -> dict[str, Any]:
    def named(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {KEYS.get(key, key): value for key, value in pairs}

    return dataclasses.asdict(recipe, dict_factory=named)


def _lines(tree: Mapping[str, Any], path: list[str]) -> list[str]:
    """A table as lines: its own values first, then the tables in it under headings, as TOML wants it."""
    lines = [f"{_key(key)} = {_value(value)}" for key, value in tree.items() if not isinstance(value, dict)]
    for key, value in tree.items():
        if isinstance(value, dict):
            below = [*path, key]
            lines += ["", f"[{'.'.join(map(_key, below))}]", *_lines(value, below)]
    return lines


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        one_line = "[" + ", ".join(map(_value, value)) + "]"
        return one_line if len(one_line) < 100 else "[\n" + "".join(f"    {_value(item)},\n" for item in value) + "]"
    if isinstance(value, str):
        # JSON's escapes are all TOML's; only DEL must be escaped here and need not be there.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)
