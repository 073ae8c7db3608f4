"""Whisper (Radford et al. 2022): a log-mel spectrogram in, text out; pre-norm, with BART's names.

What a model of several languages writes is told by the first tokens of its output; a model for English alone has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from regard.config import Data, Decoding, Languages, Recipe
from regard.data.codec import Pair
from regard.data.input.sound import LONG_SECONDS, SoundInput
from regard.data.target.text import Text
from regard.data.tokenizer._base import Tokenizer
from regard.data.tokenizer.hugging_face import HuggingFace
from regard.errors import UserError
from regard.interchange.families import _language_model, _tokens
from regard.interchange.families._base import ACTIVATIONS
from regard.interchange.families._config import Config
from regard.interchange.families._entry import Entry
from regard.interchange.families._language_model import TABLE, bias
from regard.interchange.families._task_family import Reading, TaskFamily
from regard.interchange.families._vocabulary import Vocabulary, renumbered
from regard.interchange.read.foreign_folder import ForeignFolder
from regard.interchange.read.stored_tensors import StoredTensors
from regard.layers.position.sinusoidal_halves import SinusoidalHalves
from regard.stem.log_mel import HOP, WINDOW
from regard.task._speech_tokens import NO_SPEECH, NO_TIMESTAMPS, TIME_STEP, TRANSCRIBE, TRANSLATE

__all__ = ["Whisper"]

RATE = 16_000
_PREFIX, _OUTPUT = "model.", "proj_out.weight"
_TABLE, _PLACES = "model.decoder.embed_tokens.weight", "model.encoder.embed_positions.weight"
_TAG = re.compile(r"<\|([a-z]{2,3})\|>")
_MULTILINGUAL = 51865
"""Tokens from which a model of a folder that does not say so has several languages."""
_OLDER = {"jw": "jv"}
"""A code of theirs that is no longer used."""
_LATEST_START = 50
_UNUSED = ["use_weighted_layer_sum", "classifier_proj_size", "apply_spec_augment", "median_filter_width", "init_std"]
_UNUSED += [f"mask_{axis}_{what}" for axis in ("time", "feature") for what in ("prob", "length", "min_masks")]
_PREPROCESSOR = {"sampling_rate": RATE, "n_fft": round(WINDOW * RATE), "hop_length": round(HOP * RATE)}
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "no_repeat_ngram_size": (0,),
    "repetition_penalty": (1, 1.0),
    "do_sample": (False,),
    "temperature": (0, 0.0, 1, 1.0),
    "condition_on_prev_tokens": (False,),
    "max_initial_timestamp_index": (_LATEST_START,),
}
"""Generation settings that we have no equal of, and their values without effect."""


class Whisper(TaskFamily):
    """Files of the bare model leave out the prefix of the names."""

    model_types = ("whisper",)
    architectures = ("WhisperForConditionalGeneration", "WhisperModel")

    def name(self, theirs: str) -> str:
        return theirs if theirs.startswith((_PREFIX, "proj_out.")) else _PREFIX + theirs

    def read(
        self,
        config: Config,
        generation: Config,
        files: ForeignFolder,
        stored: StoredTensors,
        note: Callable[[str], None],
    ) -> Reading:
        size, shape = config.integer("vocab_size", _MULTILINGUAL, least=8), stored.shape(_TABLE)
        if len(shape) != 2 or shape[0] != size:
            raise UserError(f"{config.where}: vocab_size = {size}: the embedding has the shape {shape}")
        tie = config.flag("tie_word_embeddings", True)
        if not tie and _OUTPUT not in stored:
            raise UserError(f"{stored.where}: tensor {_OUTPUT!r} is missing, and config.json says that it is not tied")
        tie = tie and (_OUTPUT not in stored or stored.same(_OUTPUT, _TABLE))
        model = self.model(config, tie)
        _check_preprocessor(files, model["stem"]["mels"], model["stem"]["seconds"])
        if _PLACES in stored and not _computed(stored, model):
            model["stem"]["position"] = "learned"
        vocabulary, tokenizer, languages = _text(config, generation, files, size, model["stem"]["seconds"])
        ours = vocabulary.ids()
        spelled = {
            key: tokenizer.pieces([ours[row] for row in _rows(generation, config, key, size)])
            for key in ("suppress_tokens", "begin_suppress_tokens")
        }
        for key, neutral in _NEUTRAL.items():
            value = generation.get(key)
            if value is not None and value not in neutral:
                note(f"the generation setting {key} = {str(value)[:60]} is not applied")
        positions = model["decoder"]["position"]["length"]
        longest = generation.integer("max_length", positions, least=2) - 1  # theirs counts the start, too
        recipe = Recipe(
            task="transcribe",
            source_language="" if languages.tags else "en",
            languages=languages,
            data=Data(root="data", max_length=positions - 1),
            tokenizer={"kind": tokenizer.kind},
            model=model,
            decoding=Decoding(
                beam=generation.integer("num_beams", 1, least=1, most=1000),
                max_length=max(1, min(longest, positions - 1)),
                suppress=spelled["suppress_tokens"],
                suppress_first=spelled["begin_suppress_tokens"],
            ),
        )
        codec = Pair(SoundInput(RATE, LONG_SECONDS), Text(tokenizer))
        unused = (*([_OUTPUT] if tie else []), *([_PLACES] if model["stem"]["position"] != "learned" else []))
        return Reading(recipe, codec, [*_entries(model), bias(vocabulary)], vocabulary, unused)

    def model(self, config: Config, tie: bool) -> dict[str, Any]:
        """The recipe's model section."""
        for key in (*_UNUSED, "forced_decoder_ids", "is_encoder_decoder"):
            config.get(key)
        config.number("activation_dropout", 0.0)  # matters for training alone, and ours has none
        width = config.integer("d_model", 384, least=4)
        if width % 2:
            raise config.refuse("d_model", "an even number is needed")
        places = config.integer("max_source_positions", 1500, least=4, most=6000)
        both = {"width": width, "dropout": config.dropout("dropout", 0.0)}
        dropped = config.dropout("attention_dropout", 0.0)
        activation = config.choice("activation_function", "gelu", ACTIVATIONS)

        def stack(side: str) -> dict[str, Any]:
            return {
                "kind": "transformer",
                **both,
                "layers": config.integer(f"{side}_layers", 4, least=1, most=1000),
                "heads": config.integer(f"{side}_attention_heads", 6, least=1),
                "feed_forward": config.integer(f"{side}_ffn_dim", 1536, least=1),
                "norm": "pre",
                "activation": activation,
                "attention": {"kind": "multi_head", "dropout": dropped} if dropped else "multi_head",
            }

        config.must_be("scale_embedding", False)
        return {
            "kind": "seq2seq",
            "share": False,
            "stem": {
                "kind": "log_mel",
                **both,
                "mels": config.integer("num_mel_bins", 80, least=1, most=256),
                "seconds": places * TIME_STEP,
                "position": {"kind": "sinusoidal_halves", "inclusive": True},
            },
            "encoder": stack("encoder"),
            "decoder": {
                **stack("decoder"),
                "position": {"kind": "learned", "length": config.integer("max_target_positions", 448, least=8)},
                "tie": tie,
                "scale": False,
                "output_bias": True,
            },
        }


def _check_preprocessor(files: ForeignFolder, mels: int, seconds: float) -> None:
    """Refuses a folder whose sound is prepared in another way than ours."""
    stated = Config(files.json_if_there("preprocessor_config.json"), str(files.path / "preprocessor_config.json"))
    for key, value in (_PREPROCESSOR | {"feature_size": mels, "dither": 0.0, "padding_value": 0.0}).items():
        if stated.get(key, value) != value:
            raise stated.refuse(key, f"the model of config.json needs {value:g}")
    if (length := stated.get("chunk_length")) is not None and length != round(seconds, 6):
        raise stated.refuse("chunk_length", f"the model of config.json reads {seconds:g} seconds")


def _computed(stored: StoredTensors, model: Mapping[str, Any]) -> bool:
    """Whether the encoder's positions are the sinusoids that they are made as; a file holds them all the same."""
    width, rows = model["stem"]["width"], round(model["stem"]["seconds"] / TIME_STEP)
    if stored.shape(_PLACES) != (rows, width):
        raise UserError(
            f"{stored.where}: tensor {_PLACES!r} has shape {stored.shape(_PLACES)} instead of {(rows, width)}"
        )
    return torch.allclose(stored.read(_PLACES), SinusoidalHalves(width, inclusive=True)(torch.arange(rows)), atol=5e-3)


def _rows(generation: Config, config: Config, key: str, size: int) -> list[int]:
    """The ids that a setting lists; generation_config.json comes first, as in transformers."""
    for place in (generation, config):
        value = place.get(key)
        if value is None:
            continue
        if not isinstance(value, list) or any(type(one) is not int or not -1 <= one < size for one in value):
            raise place.refuse(key, f"ids below {size:,} are needed")
        return sorted({one for one in value if one >= 0})
    return []


def _text(
    config: Config, generation: Config, files: ForeignFolder, size: int, seconds: float
) -> tuple[Vocabulary, Tokenizer, Languages]:
    """The numbering, the tokenizer and the languages. Rows behind the end of text are no text, with a name or not."""
    pieces = _language_model.pieces_of(files, size)
    by_name = {piece: row for row, piece in pieces.items()}
    end = _tokens.token_id(config, generation, "eos_token_id", size)
    begin = _tokens.token_id(config, generation, "decoder_start_token_id", size)
    if begin == end:
        raise config.refuse("decoder_start_token_id", "it is the end, too")
    where = files.path / _tokens.TOKENIZER if _tokens.TOKENIZER in files else files.path
    for piece in (NO_TIMESTAMPS, TRANSCRIBE):
        if piece not in by_name:
            raise UserError(f"{where}: there is no token {piece}; take another copy of the folder")
    silent = by_name[NO_TIMESTAMPS]
    if generation.get("no_timestamps_token_id", silent) != silent:
        raise generation.refuse("no_timestamps_token_id", f"the tokenizer's {NO_TIMESTAMPS} is {silent}")
    times = round(seconds / TIME_STEP) + 1
    if size - silent - 1 < times or end > silent or begin > silent:
        raise UserError(
            f"{where}: {NO_TIMESTAMPS} has the id {silent} of {size:,}; {times:,} tokens of time must follow it"
        )
    languages = _languages(generation, pieces, by_name, size, where)
    for role in (TRANSCRIBE, TRANSLATE, *NO_SPEECH, *languages.tags.values()):
        if not end < by_name.get(role, silent) <= silent:
            raise UserError(f"{where}: {role} must stand between the end of text and {NO_TIMESTAMPS}")
    vocabulary = renumbered(size, end, end, begin, end)
    hidden = {row for row in vocabulary.rows[4:] if row > end}
    file = files.read(_tokens.TOKENIZER) if _tokens.TOKENIZER in files else _language_model.of_merges(files, pieces)
    return vocabulary, HuggingFace(file, vocabulary.rows[4:], vocabulary.rows[:4], hidden), languages


def _languages(
    generation: Config, pieces: Mapping[int, str], by_name: Mapping[str, int], size: int, where: object
) -> Languages:
    """The languages by our codes; none in a model for English alone."""
    stated, multilingual = generation.get("lang_to_id"), generation.get("is_multilingual")
    if multilingual is None:
        multilingual = bool(stated) or size >= _MULTILINGUAL
    if multilingual is not True and multilingual is not False:
        raise generation.refuse("is_multilingual", "true or false is needed")
    if not multilingual:
        return Languages()
    if stated is None:
        stated = {piece: row for row, piece in sorted(pieces.items()) if _TAG.fullmatch(piece)}
    if not isinstance(stated, dict) or not stated:
        raise generation.refuse("lang_to_id", "a table of language tokens is needed")
    for tag, row in stated.items():
        if not _TAG.fullmatch(tag) or by_name.get(tag) != row:
            raise UserError(
                f"{where}: there is no token {tag[:40]} with the id {str(row)[:20]}, which "
                f"{generation.where.rpartition('/')[2]} names; take another copy of the folder"
            )
    tags = _tokens.by_language((_OLDER.get(code := tag[2:-2], code), tag) for tag in stated)
    if missing := set(stated) - set(tags.values()):
        raise UserError(f"{where}: the language {min(missing)} is not known here")
    ordered = dict(sorted(tags.items(), key=lambda pair: by_name[pair[1]]))
    return Languages(source=list(ordered), target=["en"] if TRANSLATE in by_name else [], tags=ordered)


def _entries(model: Mapping[str, Any]) -> Iterator[Entry]:
    """All parameters but the output's bias."""
    width = model["stem"]["width"]
    for number in range(2):
        yield from _same(f"stem.convolutions.{number}", f"model.encoder.conv{number + 1}")
    if model["stem"]["position"] == "learned":
        yield Entry("stem.placing.position.table.weight", (_PLACES,))
    yield Entry(TABLE, (_TABLE,), rows="target")
    if not model["decoder"]["tie"]:
        yield Entry("decoder.output.weight", (_OUTPUT,), rows="target")
    yield Entry("decoder.embedding.position.table.weight", ("model.decoder.embed_positions.weight",))
    for side in ("encoder", "decoder"):
        yield from _same(f"{side}.norm", f"model.{side}.layer_norm")
        for number in range(model[side]["layers"]):
            yield from _layer(f"{side}.layers.{number}", f"model.{side}.layers.{number}", width, side == "decoder")


def _layer(ours: str, theirs: str, width: int, decoder: bool) -> Iterator[Entry]:
    attentions = {"attention": "self_attn"} | ({"cross_attention": "encoder_attn"} if decoder else {})
    for mine, other in attentions.items():
        yield from _attention(f"{ours}.{mine}", f"{theirs}.{other}", width)
        yield from _same(f"{ours}.around_{mine}.norm", f"{theirs}.{other}_layer_norm")
    for mine, other in (("inward", "fc1"), ("outward", "fc2")):
        yield from _same(f"{ours}.feed_forward.{mine}", f"{theirs}.{other}")
    yield from _same(f"{ours}.around_feed_forward.norm", f"{theirs}.final_layer_norm")


def _attention(ours: str, theirs: str, width: int) -> Iterator[Entry]:
    """Their keys have no bias. It would add the same to all scores of a query, so that it has no effect: ours is 0."""
    yield Entry(f"{ours}.inward.weight", tuple(f"{theirs}.{one}_proj.weight" for one in "qkv"))
    biases = tuple(f"{theirs}.{one}_proj.bias" for one in "qv")

    def made(query: Tensor, value: Tensor) -> Tensor:
        return torch.cat([query, torch.zeros_like(query), value])

    yield Entry(f"{ours}.inward.bias", biases, shapes=((width,), (width,)), make=made)
    yield from _same(f"{ours}.outward", f"{theirs}.out_proj")


def _same(ours: str, theirs: str) -> Iterator[Entry]:
    for kind in ("weight", "bias"):
        yield Entry(f"{ours}.{kind}", (f"{theirs}.{kind}",))
