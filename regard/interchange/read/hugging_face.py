"""Reads a Hugging Face folder: config.json says the family, whose file says what its values and tensors are in ours.

Nothing in the folder is executed, and whatever cannot be honoured is refused by name.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from regard import registry
from regard.assemble import build_model, resolve_model
from regard.config import Data, Decoding, Recipe
from regard.data.codec import Codec
from regard.errors import UserError
from regard.interchange.families._base import Family, Text
from regard.interchange.families._config import GENERATION, Config
from regard.interchange.families._entry import Entry
from regard.interchange.families._task_family import Reading, TaskFamily
from regard.interchange.families._vocabulary import NEVER, Vocabulary
from regard.interchange.imported import Imported
from regard.interchange.read import pytorch_bin
from regard.interchange.read.foreign_folder import ForeignFolder
from regard.interchange.read.stored_tensors import StoredTensors, shards
from regard.layers.embedding import TokenEmbedding
from regard.loading import Bounded
from regard.terminal_text import escape_control_characters, one_line

__all__ = ["read"]

Note = Callable[[str], None]

FAMILIES = "interchange/families"
BIAS = "decoder.output_bias"
_IGNORED = ("encoder.version", "decoder.version", "model.encoder.version", "model.decoder.version")
_LICENCE = re.compile(rb"^license:[ \t]*['\"]?([\w.+-]{1,60})", re.MULTILINE)
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "repetition_penalty": (1, 1.0),
    "min_length": (0,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0, 0.0),
    "do_sample": (False,),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
}
"""Generation settings that we have no equal of, and their values without effect."""
_LONGEST_SOURCE = 4096


def read(folder: Path, note: Note = lambda text: None) -> Imported:
    """The model in a folder, in our terms."""
    files = ForeignFolder(folder)
    config = Config(files.json("config.json"), str(files.path / "config.json"))
    family = _family(config)
    generation = _generation(files, config)
    notes: list[str] = []
    if isinstance(family, TaskFamily):
        with _stored(files, note) as stored:
            stored.rename_all(family.name)
            reading = family.read(config, generation, files, stored, notes.append)
            weights = all_weights(reading, stored, config)
        return _imported(reading.recipe, reading.codec, weights, config, files, notes)
    with _stored(files, note) as stored:
        _name_alike(stored, family)
        _check_vocabulary(family, stored, config)
        text = family.text(config, generation, files, notes.append)
        share, tie = _sharing(family, stored, family.ties(config))
        model = _resolved(family.model(config, share, tie), config)
        recipe = _recipe(family, config, generation, text, model, notes)
        weights = _weights(family, stored, recipe, text, family.scaled_output(config))
    return _imported(recipe, text.tokenizer, weights, config, files, notes)


def _imported(
    recipe: Recipe, codec: Codec, weights: dict[str, Tensor], config: Config, files: ForeignFolder, notes: list[str]
) -> Imported:
    unread = (escape_control_characters(one_line(key))[:80] for key in config.unread())
    notes += [f"config.json: {key} is not known here and was ignored" for key in unread]
    return Imported(recipe, codec, weights, config.values["model_type"], _licence(files), notes)


def _resolved(tree: dict[str, Any], config: Config) -> dict[str, Any]:
    try:
        return resolve_model(tree)
    except UserError as error:
        raise UserError(f"{config.where}: {error}") from None


def _family(config: Config) -> Family | TaskFamily:
    """The file that knows this model_type; what no family has is refused."""
    variant = config.get("model_type")
    found: dict[str, type[Family] | type[TaskFamily]] = {}
    for kind in registry.kinds(FAMILIES):
        maker = cast(type[Family] | type[TaskFamily], registry.factory(FAMILIES, kind))
        found |= dict.fromkeys(maker.model_types, maker)
    if not isinstance(variant, str) or variant not in found:
        raise config.refuse("model_type", f"no such family here; there is: {', '.join(sorted(found))}")
    family = found[variant](variant)
    stated = config.get("architectures", [])
    if not isinstance(stated, list) or (stated and not any(one in family.architectures for one in stated)):
        if isinstance(family, TaskFamily):
            raise config.refuse("architectures", f"not known here; there is: {', '.join(family.architectures)}")
        raise config.refuse("architectures", "not a model that writes text")
    if isinstance(family, Family) and (
        config.get("is_encoder_decoder", True) is not True or config.get("is_decoder", False) is not False
    ):
        raise UserError(f"{config.where}: not an encoder with a decoder; only those are imported")
    for key in ("quantization_config", "per_layer_config"):
        if config.get(key):
            raise config.refuse(key, "not known here; take the model's ordinary weights")
    return family


def _generation(files: ForeignFolder, config: Config) -> Config:
    """generation_config.json; older folders have these keys in config.json."""
    name = "generation_config.json"
    if name in files:
        return Config(files.json(name), str(files.path / name))
    return Config({key: value for key, value in config.values.items() if key in GENERATION}, config.where)


@contextmanager
def _stored(files: ForeignFolder, note: Note) -> Iterator[StoredTensors]:
    """The tensors of model.safetensors or pytorch_model.bin, in one file or several."""
    for stem, ending in (("model", ".safetensors"), ("pytorch_model", ".bin")):
        whole, index = f"{stem}{ending}", f"{stem}{ending}.index.json"
        if whole in files:
            names = [whole]
        elif index in files:
            names = shards(files.json(index), ending, files.path / index)
        else:
            continue
        paths = [files.file(name) for name in names]
        with tempfile.TemporaryDirectory(prefix="regard-import-") as temporary:
            aliases: dict[str, str] = {}
            if ending == ".bin":
                note("reading pytorch_model.bin in a process of its own")
                paths, aliases = pytorch_bin.convert(paths, Path(temporary))
            with StoredTensors(paths, aliases, files.path) as stored:
                yield stored
        return
    raise UserError(f"{files.path}: no model.safetensors and no pytorch_model.bin in it")


def _name_alike(stored: StoredTensors, family: Family) -> None:
    if family.prefix and not any(name.startswith(family.prefix) for name in stored.names()):
        stored.rename(family.prefix, ("lm_head.weight", "final_logits_bias"))


def _sharing(family: Family, stored: StoredTensors, ties: bool | None) -> tuple[bool, bool]:
    """Whether source and target have one table, and whether the output layer is the target's."""
    source, target = _table(family, stored, "source"), _table(family, stored, "target")
    share, output = stored.same(source, target), family.tables.output
    if output not in stored:
        if ties is False:
            raise UserError(f"{stored.where}: tensor {output!r} is missing, and config.json says that it is not tied")
        return share, True
    return share, stored.same(output, target)


def _check_vocabulary(family: Family, stored: StoredTensors, config: Config) -> None:
    """Refuses a vocabulary of another size than its embedding, before anything is made of that size."""
    for key, side in (("vocab_size", "source"), ("decoder_vocab_size", "target")):
        shape = stored.shape(_table(family, stored, side))
        size = config.optional_integer(key)
        if size is not None and (len(shape) != 2 or shape[0] != size):
            raise UserError(f"{config.where}: {key} = {size}: the embedding has the shape {shape}")


def _table(family: Family, stored: StoredTensors, side: str) -> str:
    """The name of a side's embedding: its own, or the shared one."""
    own: str = getattr(family.tables, side)
    other = family.tables.target if side == "source" else family.tables.source
    return next((name for name in (own, family.tables.shared, other) if name in stored), family.tables.shared)


def _recipe(
    family: Family, config: Config, generation: Config, text: Text, model: dict[str, Any], notes: list[str]
) -> Recipe:
    longest = min(family.longest_source(config), text.limit or _LONGEST_SOURCE, _LONGEST_SOURCE)
    decoding = Decoding(length_factor=4.0, length_extra=50)  # theirs limits the length alone
    decoding.beam = generation.integer("num_beams", decoding.beam, least=1, most=1000)
    penalty = generation.number("length_penalty", decoding.length_penalty, least=-1e6, most=1e6)
    decoding.length_penalty = min(max(penalty, 0.0), 10.0)
    if penalty != decoding.length_penalty:
        notes.append(f"length_penalty {penalty:g} is out of range here; {decoding.length_penalty:g} is used")
    longest_output = generation.optional_integer("max_new_tokens", 1)
    if longest_output is None and (total := generation.optional_integer("max_length", 1)) is not None:
        longest_output = max(1, total - 1)  # theirs counts the start, too
    decoding.max_length = min(longest_output or decoding.max_length, 10_000)
    _note_settings(generation, text, notes)
    return Recipe(
        task="translate",
        source_language=text.source_language,
        target_language=text.target_language,
        languages=text.languages,
        data=Data(root="data", max_length=longest, plain_source=False),
        tokenizer={"kind": text.tokenizer.kind},
        model=model,
        decoding=decoding,
    )


def _note_settings(generation: Config, text: Text, notes: list[str]) -> None:
    for key, neutral in _NEUTRAL.items():
        value = generation.get(key)
        if value is not None and value not in neutral:
            notes.append(f"the generation setting {key} = {str(value)[:60]} is not applied")
    never = text.target.rows[:3]
    words = generation.get("bad_words_ids")
    if isinstance(words, list) and any(word not in [[row] for row in never] for word in words):
        notes.append("the generation setting bad_words_ids is applied to the special tokens alone")
    forced = generation.get("forced_bos_token_id")
    if forced is not None and text.languages.target_tag != "output" and not text.languages.output_token:
        notes.append(f"the generation setting forced_bos_token_id = {str(forced)[:20]} is not applied")


def _weights(
    family: Family, stored: StoredTensors, recipe: Recipe, text: Text, scaled_output: bool
) -> dict[str, Tensor]:
    entries = [one for one in family.entries(recipe.model, scaled_output) if one.ours != BIAS]
    share, tie = recipe.model["share"], recipe.model["decoder"]["tie"]
    tables = [Entry("stem.embedding.table.weight", (_table(family, stored, "source"),), rows="source")]
    if not share:
        tables.append(Entry("decoder.embedding.table.weight", (_table(family, stored, "target"),), rows="target"))
    if not tie:
        tables.append(Entry("decoder.output.weight", (family.tables.output,), rows="target"))
    entries += tables
    bias = next((one.theirs[0] for one in family.entries(recipe.model) if one.ours == BIAS), "")
    _refuse_unknown(family, stored, entries, bias, recipe)
    expected = _expected(recipe, text.tokenizer, stored)
    vocabularies = {"source": text.source, "target": text.target}
    for entry in entries:  # before anything is read
        _check_shape(entry, stored, expected, vocabularies.get(entry.rows))
    if missing := expected.keys() - {BIAS} - {entry.ours for entry in entries}:
        raise UserError(f"{stored.where}: no tensor for {min(missing)}: this is a mistake in the family's file")
    weights = {entry.ours: _made(entry, stored, vocabularies.get(entry.rows)) for entry in entries}
    weights[BIAS] = _bias(stored, bias, text.target)
    return weights


def _expected(recipe: Recipe, codec: Codec, stored: StoredTensors) -> dict[str, tuple[int, ...]]:
    """The shapes of all parameters of the model that a recipe describes."""
    try:
        with torch.device("meta"), Bounded(len(stored)):
            empty = build_model(recipe.model, **codec.sizes())
    except UserError as error:
        raise UserError(f"{stored.where}: {error}") from None
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())[:120]
        raise UserError(f"{stored.where}: its config describes no model that can be built ({why})") from error
    return {name: tuple(parameter.shape) for name, parameter in empty.named_parameters()}


def all_weights(reading: Reading, stored: StoredTensors, config: Config) -> dict[str, Tensor]:
    """The weights of a model that is no translator. The recipe's model section is resolved on the way."""
    reading.recipe.model = _resolved(reading.recipe.model, config)
    used = {name for entry in reading.entries for name in entry.theirs}
    for name in sorted(stored.names() - used):
        if not name.startswith(tuple(reading.unused)):
            raise UserError(f"{stored.where}: tensor {name[:80]!r} is not part of this architecture")
    expected = _expected(reading.recipe, reading.codec, stored)
    for entry in reading.entries:  # before anything is read
        _check_shape(entry, stored, expected, reading.vocabulary if entry.rows else None)
    if missing := expected.keys() - {entry.ours for entry in reading.entries}:
        raise UserError(f"{stored.where}: no tensor for {min(missing)}: this is a mistake in the family's file")
    return {entry.ours: _made(entry, stored, reading.vocabulary if entry.rows else None) for entry in reading.entries}


def _refuse_unknown(family: Family, stored: StoredTensors, entries: list[Entry], bias: str, recipe: Recipe) -> None:
    used = {name for entry in entries for name in entry.theirs} | {bias}
    tables = family.tables
    for name in sorted(stored.names() - used):
        if name in (tables.shared, tables.source, tables.target, tables.output):
            continue  # the same as one that is used, or one that nothing uses: see `_sharing`
        if family.computed and name.endswith(family.computed):
            _compare_positions(name, stored, recipe)
        elif name not in _IGNORED:
            raise UserError(f"{stored.where}: tensor {name[:80]!r} is not part of this architecture")


def _compare_positions(name: str, stored: StoredTensors, recipe: Recipe) -> None:
    """Positions that a file holds although they are computed must be those that are."""
    shape, spec = stored.shape(name), recipe.model["stem"]["position"]
    table = spec if isinstance(spec, dict) else {"kind": spec}
    if table["kind"] != "sinusoidal_halves" or table.get("inclusive"):
        return  # transformers does not read them either
    width = recipe.model["stem"]["width"]
    if len(shape) != 2 or shape[1] != width or shape[0] > registry.MOST:
        raise UserError(f"{stored.where}: tensor {name[:80]!r} has the shape {shape}")
    computed = TokenEmbedding(1, width, spec, dropout=0.0).position(torch.arange(shape[0]))
    if not torch.allclose(stored.read(name), computed, atol=5e-3):
        raise UserError(f"{stored.where}: tensor {name[:80]!r} holds other positions than this architecture computes")


def _check_shape(
    entry: Entry, stored: StoredTensors, expected: dict[str, tuple[int, ...]], vocabulary: Vocabulary | None
) -> None:
    if entry.ours not in expected:
        name = (entry.theirs or (entry.ours,))[0]
        raise UserError(f"{stored.where}: tensor {name!r} has no place in the model of its config")
    if not entry.theirs:
        return
    wanted = expected[entry.ours]
    rows = vocabulary.size if vocabulary else wanted[0] + entry.skip
    shapes = [stored.shape(name) for name in entry.theirs]
    for name, shape, own in zip(entry.theirs, shapes, entry.shapes):
        if shape != own:
            raise UserError(f"{stored.where}: tensor {name!r} has shape {shape} instead of {own}")
    if entry.shapes:
        return
    needed = (rows // len(shapes), *wanted[1:])
    if any(shape != needed for shape in shapes) or rows % len(shapes):
        raise UserError(f"{stored.where}: tensor {entry.theirs[0]!r} has shape {shapes[0]} instead of {needed}")


def _made(entry: Entry, stored: StoredTensors, vocabulary: Vocabulary | None) -> Tensor:
    parts = [stored.read(name) for name in entry.theirs]
    if entry.make:
        return entry.make(*parts).contiguous()
    if entry.factors:
        parts = [part * factor if factor != 1 else part for part, factor in zip(parts, entry.factors, strict=True)]
    whole = torch.cat(parts) if len(parts) > 1 else parts[0]
    whole = whole[entry.skip :]
    return whole[torch.tensor(vocabulary.rows)] if vocabulary else whole.clone() if entry.skip else whole


def _bias(stored: StoredTensors, name: str, vocabulary: Vocabulary) -> Tensor:
    """The output's bias: theirs, and for tokens that they do not have one that keeps them out of the softmax."""
    bias = torch.zeros(vocabulary.size)
    if name in stored:
        shape = stored.shape(name)
        if shape not in ((1, vocabulary.size), (vocabulary.size,)):
            raise UserError(f"{stored.where}: tensor {name!r} has shape {shape} instead of {(1, vocabulary.size)}")
        bias = stored.read(name).reshape(-1)
    bias = bias[torch.tensor(vocabulary.rows)]
    bias[list(vocabulary.copies)] = NEVER
    return bias


def _licence(files: ForeignFolder) -> str:
    """As the README's header states it."""
    if "README.md" not in files:
        return ""
    found = _LICENCE.search(files.read("README.md")[:20_000])
    return found[1].decode() if found else ""
