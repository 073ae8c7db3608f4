"""Settings: every recipe key declares its range, and a value outside it is refused in one line before any work."""

from __future__ import annotations

import inspect
import json
import math
import tomllib
import typing
from pathlib import Path

import jsonschema_rs
import pytest

from regard import part_settings, registry
from regard.assemble import GIVEN, PARTS, VECTORS, build_model
from regard.config import Recipe, apply_overrides, read_recipe, recipe_from_dict, shipped_recipes
from regard.data.format import made_algorithm, made_clips
from regard.data.format._base import Format
from regard.data.splitting import make_format
from regard.decoder import attentional
from regard.errors import UserError
from regard.layers import bridge, feed_forward, pooling, recurrence, residual
from regard.layers.attention import local, multiplicative
from regard.model import forecaster
from regard.setting import Key, all_keys, declared
from regard.settings_reference import completions, json_schema, page, rows
from tools.settings_page import ROOT

KEYS = dict(all_keys(Recipe))
NUMBERS = {path: key for path, key in KEYS.items() if {int, float} & set(key.types)}


def refusal(action, *arguments) -> str:
    with pytest.raises(UserError) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def tree(path: str, value: object) -> dict:
    for name in reversed(path.split(".")):
        value = {name: value}
    return value  # type: ignore[return-value]


def beyond(key: Key) -> dict[str, float]:
    """A value just below and one just above the range, where there is such a limit."""
    limits, step = key.setting, 1 if int in key.types else 0.5
    found = {"below": limits.gt if limits.ge is None else limits.ge - step}
    found["above"] = limits.lt if limits.le is None else limits.le + step
    return {name: value for name, value in found.items() if value is not None}


# Every key


@pytest.mark.parametrize("path", KEYS)
def test_a_value_of_the_wrong_type_is_one_line_that_names_the_key(path):
    key = KEYS[path]
    wrong = [True, "many"] if path in NUMBERS else [3] if key.types != (dict,) or key.section else ["text"]
    for value in [*wrong, None, math.nan, math.inf, -math.inf]:
        if value == "many" and list[str] in key.types:  # one text is a list of one
            continue
        assert refusal(recipe_from_dict, tree(path, value)).startswith(f"{path}: ")


@pytest.mark.parametrize("path", [path for path, key in NUMBERS.items() if not key.setting.choices])
def test_a_number_out_of_range_is_one_line_with_key_value_and_range(path):
    key = NUMBERS[path]
    assert beyond(key), "every number has a limit"
    for value in beyond(key).values():
        message = refusal(
            apply_overrides, Recipe(), [f"{path}={[value] if list in map(_origin, key.types) else value}"]
        )
        assert message.startswith(f"{path}: wants ") and key.setting.range in message
        assert message.endswith((f"given {value}", f"given [{value}]"))
    for text in ("nan", "inf", "-inf", "much", "''", "true"):
        if list[str] not in key.types:
            assert refusal(apply_overrides, Recipe(), [f"{path}={text}"]).startswith(f"{path}: wants ")


def _origin(kind):
    return typing.get_origin(kind)


@pytest.mark.parametrize("path", [path for path, key in KEYS.items() if key.setting.options])
def test_a_name_that_is_no_choice_is_refused_by_its_own_key(path):
    options = KEYS[path].setting.options
    wrong = str(max(map(int, options)) + 1) if path in NUMBERS else options[0] + "x"
    assert refusal(apply_overrides, Recipe(), [f"{path}={wrong}"]).startswith(
        (f"{path}: no kind", f"{path}: no '", f"{path}: no {wrong};")
    )


def test_the_limits_themselves_and_the_defaults_are_allowed():
    for path, key in NUMBERS.items():
        for value in (key.setting.ge, key.setting.le):
            if value is not None:
                whole = value if list not in map(_origin, key.types) or int in key.types else [value]
                recipe_from_dict(tree(path, whole))
    for name in shipped_recipes():
        read_recipe(name)


def test_a_wrong_part_is_blamed_on_its_own_key_and_the_right_one_suggested():
    message = refusal(apply_overrides, read_recipe("luong"), ["model.encoder.cell=gruu"])
    assert message == "model.encoder.cell: no kind 'gruu'; did you mean 'gru'?"


def test_a_model_section_from_python_is_checked_too():
    message = refusal(build_model, {"encoder": {"dropout": -0.5}}, 8)
    assert message == "model.encoder.dropout: wants a number of at least 0 and below 1, given -0.5"


class Elsewhere(Format):
    def __init__(self, colour: bool = False, sieve: int = 3, names: tuple = ()) -> None: ...

    def read(self, files, part): ...


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sieve": "x"}, "data.format.sieve: wants a whole number from 1 to 1,048,576, given 'x'"),
        ({"names": {}}, "data.format.names: wants a list, given {}"),
    ],
)
def test_undeclared_keys_of_other_packages_are_checked_by_their_default(monkeypatch, options, message):
    monkeypatch.setattr(registry, "factory", lambda *_: Elsewhere)
    assert refusal(make_format, Recipe().data.__class__(format={"kind": "elsewhere", **options})) == message


# The declarations and what they describe


FAMILIES = {"stem": part_settings.Stem, "encoder": part_settings.Encoder, "decoder": part_settings.Decoder}
FAMILIES |= {"model": part_settings.Model, "data/format": part_settings.Format}
FAMILIES |= {"layers/attention": part_settings.Attention, "layers/position": part_settings.Position}
FAMILIES |= {"layers/relative_position": part_settings.RelativePosition}
FAMILIES |= {"training/schedule": part_settings.Schedule}


def parameters(family: str) -> dict[str, list[inspect.Parameter]]:
    """What the constructors of our own kinds take, by name."""
    found: dict[str, list[inspect.Parameter]] = {}
    for kind in registry.kinds(family):
        for name, parameter in registry.keywords(registry.factory(family, kind)).items():
            given = {"width", "memory_width"} if family.startswith("layers") else {*GIVEN, *PARTS, "label_smoothing"}
            given |= {"learning_rate", "warmup", "steps"} if family == "training/schedule" else set()
            given |= {"heads", "causal", "head_width"} if family == "layers/relative_position" else set()
            if name not in given or family == "data/format":
                found.setdefault(name, []).append(parameter)
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_every_keyword_of_a_constructor_is_declared_and_its_default_allowed(family):
    taken, keys = parameters(family), declared(FAMILIES[family])
    own = set(taken) | {"kind"} | ({VECTORS} if family in ("stem", "decoder") else set())
    if family == "model":
        own |= {"preset", *PARTS} | {name for part in PARTS for name in declared(FAMILIES[part])}
    assert own == set(keys)
    where = {"data/format": "data.format", "layers/attention": "model.attention", "layers/position": "model.position"}
    where["training/schedule"] = "training.schedule"
    where["layers/relative_position"] = "model.relative_position"
    for name, several in taken.items():
        for parameter in several:
            if parameter.default not in (inspect.Parameter.empty, None):
                value = list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
                recipe_from_dict(
                    tree(f"{where.get(family, 'model' if family == 'model' else f'model.{family}')}.{name}", value)
                )


def test_every_key_of_tokenizers_and_inputs_is_declared():
    tokenizers = {
        n
        for k in registry.kinds("data/tokenizer")
        for n in registry.keywords(registry.factory("data/tokenizer", k).train)
    }
    assert tokenizers - {"lines", "seed"} | {"kind", "path"} == set(declared(part_settings.Tokenizer))
    inputs = {n for k in registry.kinds("data/input") for n in registry.keywords(registry.factory("data/input", k).fit)}
    assert inputs - {"raws", "seed", "options", "unknown"} == set(declared(part_settings.Input))


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("model.encoder.direction", recurrence.DIRECTIONS),
        ("model.encoder.activation", feed_forward.ACTIVATIONS),
        ("model.encoder.norm_kind", residual.NORMS),
        ("model.decoder.bridge", bridge.BRIDGES),
        ("model.decoder.order", attentional.ORDERS),
        ("model.decoder.attention.score", multiplicative.SCORES),
        ("model.decoder.attention.alignment", local.ALIGNMENTS),
        ("model.pooling", pooling.POOLINGS),
        ("model.head", forecaster.HEADS),
        ("model.centre", forecaster.CENTRES),
        ("data.format.task", made_algorithm.TASKS),
        ("data.format.target", made_clips.TARGETS),
    ],
)
def test_choices_are_those_of_the_code(path, known):
    assert set(KEYS[path].setting.choices) == set(known)


# What is made of them


def test_the_page_is_current():
    assert (ROOT / "docs/settings.md").read_text(encoding="utf-8") == page(), "python tools/settings_page.py writes it"


def test_every_key_is_in_the_reference():
    listed = {row.key for row in rows()}
    assert {path for path, key in KEYS.items() if not (key.types == (dict,) and key.section)} == listed
    assert all(row.description.endswith(".") for row in rows())
    assert [row.key for row in rows("training.beta1")] == ["training.beta1"]
    assert refusal(rows, "trainin") == "no section 'trainin' of recipes; did you mean 'training'?"


def test_the_schema_takes_every_shipped_recipe_and_refuses_what_the_check_refuses():
    schema = jsonschema_rs.validator_for(json_schema())
    for name, path in shipped_recipes().items():
        assert list(schema.iter_errors(tomllib.loads(path.read_text()))) == [], name
    assert not schema.is_valid({"training": {"step": 3}})
    for path, key in NUMBERS.items():
        if int not in key.types or list[str] not in key.types:
            for value in beyond(key).values():
                listed = list in map(_origin, key.types)
                assert not schema.is_valid(tree(path, [value] if listed else value)), path


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("training.lea", ["training.learning_rate="]),
        ("traini", ["training."]),
        ("training.schedule=co", ["training.schedule=constant", "training.schedule=cosine"]),
        ("model.encoder.cell=", ["model.encoder.cell=gru", "model.encoder.cell=lstm", "model.encoder.cell=rnn"]),
        ("training.shard=", ["training.shard=true", "training.shard=false"]),
        ("training.steps=", []),
        ("nothing.like.it", []),
    ],
)
def test_completion(typed, offered):
    assert [word for word, _ in completions(typed)] == offered


# The command line


@pytest.fixture
def answer(monkeypatch, run_regard, tmp_path):
    """What a command writes to stdout; or, refused, the one line that says why."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)

    def run(*words: str, code: int = 2) -> str:
        out, err = run_regard(*words, code=code)
        assert code == 0 or (err.count("\n") == 1 and out == "")
        return out if code == 0 else err

    return run


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("training.learning_rate=-1", "training.learning_rate: wants a number from 0 to 10, given -1"),
        ("model.dropout=2", "model.dropout: wants a number of at least 0 and below 1, given 2"),
        ("training.steps=0", "training.steps: wants a whole number of at least 1, given 0"),
        ("training.steps=-5", "training.steps: wants a whole number of at least 1, given -5"),
        ("decoding.beam=0", "decoding.beam: wants a whole number from 1 to 1,000, given 0"),
        ("training.schedule=cosin", "training.schedule: no kind 'cosin'; did you mean 'cosine'?"),
        ("training.precision=fp8", "training.precision: no 'fp8'; use auto, float32 or bfloat16"),
        ("training.compile=yes", "training.compile: no 'yes'; use auto, always or never"),
        ("--device=cuda:99", "device 'cuda:99' is not on this machine; use auto or cpu"),
        ("training.device=gpu", "device 'gpu' is not known; use auto, cpu, cuda, cuda:1 or mps"),
        ("training.metric=bleu", "training.metric: validation gives no 'bleu'; there is: accuracy, f1, loss"),
        ("data.format.count=x", "data.format.count: wants a whole number from 1 to 1,000,000,000, given 'x'"),
        ("data.format.columns=3", "data.format: MadeReviews takes no 'columns'; did you mean 'count'?"),
    ],
)
def test_a_wrong_value_is_one_line_and_leaves_nothing_behind(answer, words, message):
    assert answer("train", "sst2-lstm", "--tiny", words) == f"regard: {message}\n"
    assert list(Path().iterdir()) == []


def test_too_few_positions_are_known_before_the_data_are_read(answer, monkeypatch):
    monkeypatch.setattr("regard.runs.training_run.prepare", lambda *_: pytest.fail("the data were read"))
    told = answer("train", "sst2-lstm", "--tiny", "model.stem.position={kind='learned', length=5}")
    assert "5 positions are too few for data.max_length=64" in told


def test_a_start_that_fails_over_its_data_leaves_no_folder(answer, tmp_path):
    Path("s").write_text("a b\nc d\ne f\n")
    before = {path.name for path in tmp_path.iterdir()}
    assert "no pairs left to train on" in answer("train", "--source=s", "--target=s", "data.max_length=1", "-q")
    assert [path for path in tmp_path.rglob("*") if path.is_dir() and path.name != "runs"] == []
    Path("mine").mkdir()
    Path("mine/notes").write_text("x")
    answer("train", "--source=s", "--target=s", "data.max_length=1", "-q", "--output=mine")
    assert Path("mine/notes").read_text() == "x" and before == {"s"}


def test_missing_data_are_named_with_the_command_that_gets_them(answer, monkeypatch, tmp_path):
    told = answer("train", "fr-en")
    assert f"{tmp_path}/data/europarl_en_de_fr/train.fr.xz does not exist" in told
    assert told.endswith("get the data with: regard data get europarl_en_de_fr; regard data get tatoeba_en_fr\n")
    assert answer("train", "sst2-lstm", "data.root=there").endswith(": regard data get sst2 --data there\n")
    assert "/there" not in answer("train", "sst2-lstm")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "there"))  # one place for all commands
    assert answer("train", "sst2-lstm").startswith(f"regard: {tmp_path}/there/sst2/train.tsv.gz does not exist")
    assert f"not in {tmp_path}/there/sst2" in answer("recipes", "sst2-lstm", code=0)
    assert answer("train", "sst2-lstm", "data.root=else").startswith(f"regard: {tmp_path}/else/sst2")
    assert list(tmp_path.iterdir()) == []


def test_the_keys_and_the_schema_come_from_a_command(answer):
    header, *lines = answer("recipes", "--keys", "decoding", code=0).splitlines()
    assert header.split() == ["KEY", "TYPE", "RANGE", "DEFAULT", "DESCRIPTION"]
    assert [line.split()[0] for line in lines] == [row.key for row in rows("decoding")]
    assert json.loads(answer("recipes", "--keys", "training.steps", "--json", code=0)) == [
        {"key": "training.steps", "type": "integer", "range": "of at least 1", "default": "20000"}
        | {"description": "Optimizer steps."}
    ]
    assert json.loads(answer("recipes", "--schema", code=0)) == json_schema()
    assert (
        answer("recipes", "--keys", "decodin") == "regard: no section 'decodin' of recipes; did you mean 'decoding'?\n"
    )
