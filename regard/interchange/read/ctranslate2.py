"""Reads a CTranslate2 folder: model.bin, its vocabularies, config.json, and the tokenizer's files, if they are there.

Such a folder holds numbers and the spelling of tokens, and says nothing of languages. CTranslate2 adds START to a
target and perhaps </s> to a source; both become our BEGIN and END. Rows that ours need and theirs lack are written as
tokens that a search can never choose.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.assemble import resolve_model
from regard.config import Data, Recipe
from regard.data.tokenizer._base import SPECIALS, Tokenizer
from regard.engines.ctranslate2.limits import ACTIVATIONS
from regard.errors import UserError
from regard.interchange.families._tokens import hugging_face_pieces
from regard.interchange.imported import Imported
from regard.interchange.read._ctranslate2_file import SPECIFICATIONS, Variables
from regard.interchange.read._ctranslate2_languages import languages_of
from regard.interchange.read._ctranslate2_positions import recognised
from regard.interchange.read.foreign_folder import ForeignFolder
from regard.special_tokens import BEGIN, END, PAD, UNKNOWN

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["read"]

SENTENCEPIECE = ("sentencepiece.model", "spm.model", "sentencepiece.bpe.model", "spiece.model", "tokenizer.model")
"""Names of a sentencepiece model of both languages, in the order in which they are looked for."""
SIDES = (("source.spm", "target.spm"), ("source.model", "target.model"))
"""Names of one for each language."""
OWN = tuple(f"tokenizer.{end}" for end in ("json", "model", "source.model", "target.model", "huggingface.json"))
"""Files of our own tokenizers."""
LONGEST = 512
"""Tokens of the longest text that is translated in one piece, unless the table of positions ends before."""
NEVER = -1e9
"""Output bias of a row that the model does not have: its probability is zero."""
_MOST_TOKENS = 2_000_000
_MOST_LAYERS = 1000
_PADS = ("<pad>", "<blank>")
_ADVICE = frozenset({"alignment_layer", "alignment_heads", "alibi_use_positive_positions", "scale_alibi"})
"""Scalars that change nothing that is computed here."""
_BY_NUMBER = {number: name for name, number in ACTIVATIONS.items()}
_OTHER_ACTIVATIONS = {4: "gelu by a sigmoid", 6: "sigmoid"}


def read(folder: Path, note: Callable[[str], None]) -> Imported:
    """The model of a CTranslate2 folder."""
    files = ForeignFolder(folder)
    variables = Variables(files.file("model.bin"))
    config = files.json_if_there("config.json")  # older versions wrote none
    source, target = _vocabularies(files)
    tokenizer = _our_own(files, source, target)
    ours = tokenizer is not None
    special = _Special(config, variables, files.path)
    if ours:
        rows_of_target = _Rows(list(range(len(target))), target, len(target))
        rows_of_source = rows_of_target if source is target else _Rows(list(range(len(source))), source, len(source))
    else:
        rows_of_target = special.rows(target, "target", start=True)
        rows_of_source = rows_of_target if source is target else special.rows(source, "source", start=False)
    model = _Model(variables, config, rows_of_source, rows_of_target, special.start_from_zero)
    weights = model.weights()
    if (extra := variables.leftover(_ADVICE)) is not None:
        raise variables.refused(f"{extra[:80]!r} belongs to a part that Regard does not have")
    languages, tags = languages_of(source)
    if tokenizer is None:
        tokenizer = _tokenizer(files, rows_of_source, rows_of_target, tags)
    recipe = Recipe(
        languages=languages,
        tokenizer={"kind": tokenizer.kind},
        model=resolve_model(model.tree()),
        data=Data(max_length=min(LONGEST, model.longest), plain_source=ours, source_end=special.source_end),
    )
    return Imported(recipe, tokenizer, weights, "ctranslate2", notes=special.notes)


# ------------------------------------------------------------------------------------------- configuration, vocabulary


def _vocabularies(files: ForeignFolder) -> tuple[list[str], list[str]]:
    """The spelling of every token of the source and of the target; one list if they share it."""
    shared = _vocabulary(files, "shared_vocabulary")
    if shared is not None:
        return shared, shared
    source, target = (_vocabulary(files, f"{side}_vocabulary") for side in ("source", "target"))
    if source is None or target is None:
        raise UserError(
            f"{files.path}: there is no shared_vocabulary.json, nor source_vocabulary.json and "
            "target_vocabulary.json; take a complete copy of the folder"
        )
    return source, source if source == target else target


def _vocabulary(files: ForeignFolder, name: str) -> list[str] | None:
    for file in (f"{name}.json", f"{name}.txt"):
        if file not in files:
            continue
        content, where = files.read(file), files.path / file
        try:
            found = json.loads(content) if file.endswith(".json") else _lines(content)
        except (ValueError, RecursionError):
            raise UserError(f"{where}: cannot be read as a list of tokens; take another copy") from None
        if not isinstance(found, list) or not all(isinstance(token, str) for token in found):
            raise UserError(f"{where}: is not a list of tokens; take another copy")
        if not 4 <= len(found) <= _MOST_TOKENS:
            raise UserError(f"{where}: has {len(found):,} tokens; 4 to {_MOST_TOKENS:,} can be read")
        return found
    return None


def _lines(content: bytes) -> list[str]:
    """One token per line; only LF ends a line, as other characters of the kind may be tokens."""
    return content.decode().removesuffix("\n").split("\n")


@dataclass
class _Rows:
    """Which of their rows each of our tokens has (None: a row that they do not have), and how it is spelled."""

    theirs: list[int | None]
    pieces: list[str]
    size: int
    """The number of their rows."""


class _Special:
    """Which of their tokens are ours: PAD, UNKNOWN, BEGIN and END."""

    def __init__(self, config: Mapping[str, Any], variables: Variables, folder: Path):
        self._folder = folder
        self.notes: list[str] = []
        self.unknown = self._name(config, "unk_token", "<unk>")
        self.end = self._name(config, "eos_token", "</s>")
        begin = self._name(config, "bos_token", "<s>")
        old = variables.number("with_target_bos", 1) != 0
        self.start = self._name(config, "decoder_start_token", begin if old else self.end)
        self.start_from_zero = variables.number("decoder/start_from_zero_embedding", 0) != 0
        if self._flag(config, "add_source_bos", variables, "with_source_bos"):
            raise UserError(
                f"{folder}: its sources begin with {begin!r} (add_source_bos), which Regard's never do; "
                "import the model that it was made from"
            )
        self.source_end = self._flag(config, "add_source_eos", variables, "with_source_eos")
        variables.number("user_decoder_start_tokens", 0)

    def _name(self, config: Mapping[str, Any], key: str, default: str) -> str:
        found = config.get(key, default)
        if found is None:
            if key == "decoder_start_token":
                raise UserError(
                    f"{self._folder}: its target has no fixed first token (decoder_start_token); "
                    "import the model that it was made from"
                )
            return default
        if not isinstance(found, str):
            raise UserError(f"{self._folder}/config.json: {key} is not the spelling of a token")
        return found

    def _flag(self, config: Mapping[str, Any], key: str, variables: Variables, old: str) -> bool:
        found = config.get(key, variables.number(old, 0) != 0)
        if not isinstance(found, bool):
            raise UserError(f"{self._folder}/config.json: {key} is neither true nor false")
        return found

    def rows(self, tokens: Sequence[str], side: str, start: bool) -> _Rows:
        ids: dict[str, int] = {}
        for number, token in enumerate(tokens):
            ids.setdefault(token, number)  # as CTranslate2 does where two are spelled alike
        for name in (self.end, *([self.start] if start else [])):
            if name not in ids:
                raise UserError(f"{self._folder}: the {side} vocabulary has no {name[:40]!r}, which config.json names")
        found: dict[int, int | None] = {END: ids[self.end], UNKNOWN: ids.get(self.unknown)}
        begin = ids.get(self.start)
        # The row of END serves as BEGIN, too, so ours has two. A zero vector is nobody's row.
        own = begin is not None and begin not in found.values() and not (start and self.start_from_zero)
        found[BEGIN] = begin if own else None
        found[PAD] = next((i for i in map(ids.get, _PADS) if i is not None and i not in found.values()), None)
        if start:
            self._begin = ids[self.start]
            if not self.source_end:
                self.source_end = self._written_by_user(ids)
        taken = {number for number in found.values() if number is not None}
        rest = [number for number in range(len(tokens)) if number not in taken]
        rows: list[int | None] = [found[number] for number in (PAD, UNKNOWN, BEGIN, END)]
        pieces = [tokens[row] if row is not None else "" for row in rows]
        names = _distinct(tokens)
        used = set(names)
        for number, row in enumerate(rows):
            if row is None:
                pieces[number] = _free(SPECIALS[number], used)
                if number == BEGIN and start and not self.start_from_zero:
                    rows[number] = -1 - self._begin  # a copy, which is never written
        return _Rows([*rows, *rest], [*pieces, *(names[number] for number in rest)], len(tokens))

    def _written_by_user(self, ids: Mapping[str, int]) -> bool:
        """Whether users of CTranslate2 put </s> behind a source of this model, which no file of the folder says.

        Converters of transformers leave it to them. Models of OpenNMT-py have no </s> there, and know <blank>
        instead of <pad>.
        """
        ends = "<blank>" not in ids and ("<pad>" in ids or self.start_from_zero)
        self.notes.append(
            "config.json does not say whether a source ends with </s>; judged by the vocabulary it "
            + ("does." if ends else "does not.")
        )
        return ends


def _distinct(tokens: Sequence[str]) -> list[str]:
    """The tokens, of which those spelled like an earlier one, or not at all, get a name that no text contains."""
    used, found = {""}, []
    known = set(tokens)
    for number, token in enumerate(tokens):
        name = token
        while name in used or (name != token and name in known):
            name = f"<{name or number}>"
        used.add(name)
        found.append(name)
    return found


def _free(name: str, used: set[str]) -> str:
    while name in used:
        name = f"{name[:-1]}_>"
    used.add(name)
    return name


# ----------------------------------------------------------------------------------------------------------- the model


class _Model:
    """Our recipe and weights, made from their variables."""

    def __init__(
        self, variables: Variables, config: Mapping[str, Any], source: _Rows, target: _Rows, start_from_zero: bool
    ):
        self._variables, self._source, self._target = variables, source, target
        self._start_from_zero = start_from_zero
        self._encoder_table = variables.first("encoder/embeddings_0/weight", "encoder/embeddings/weight")
        self._decoder_table = "decoder/embeddings/weight"
        shape = variables.shape(self._decoder_table)
        if len(shape) != 2 or not shape[1]:
            raise variables.refused(f"{self._decoder_table!r} has shape {shape} instead of two dimensions")
        self.width = shape[1]
        self._share = source is target and variables.same(self._encoder_table, self._decoder_table)
        self._tie = variables.same("decoder/projection/weight", self._decoder_table)
        self._epsilon = config.get("layer_norm_epsilon")
        if self._epsilon is not None and (
            isinstance(self._epsilon, bool) or not isinstance(self._epsilon, (int, float)) or not 0 < self._epsilon < 1
        ):
            raise variables.refused("config.json beside it states a layer_norm_epsilon that is not a small number")
        self._parts = {side: self._part(side) for side in ("encoder", "decoder")}
        self._weights: dict[str, np.ndarray] = {}
        self.longest = LONGEST
        self._extra = any(row is None or row < 0 for row in target.theirs)
        self._output_bias = self._extra or "decoder/projection/bias" in variables
        merge = variables.first("encoder/embeddings_merge", "embeddings_merge")
        if (variables.number(merge, 0) or "encoder/embeddings_1/weight" in variables) or (
            variables.number("decoder/alibi", 0)
        ):
            raise variables.refused("source factors and ALiBi belong to models that Regard does not have")

    def _part(self, side: str) -> dict[str, Any]:
        """The keys of encoder or decoder."""
        find = self._variables
        layers = 0
        while f"{side}/layer_{layers}/ffn/linear_0/weight" in find and layers < _MOST_LAYERS:
            layers += 1
        first = f"{side}/layer_0"
        if not layers:
            raise find.refused(f"its {side} has no layers")

        def setting(name: str, default: float) -> float:
            return find.number(find.first(f"{side}/{name}", name), default)

        heads = int(setting("num_heads", SPECIFICATIONS[find.specification]))
        if heads < 1 or setting("multi_query_attention", 0):
            raise find.refused(f"its {side} has {heads} heads, or heads that share keys, which Regard does not have")
        rows = find.shape(f"{first}/self_attention/linear_0/weight")[0]
        if rows % (3 * heads):
            raise find.refused(f"the {rows} rows of query, key and value cannot be divided among {heads} heads")
        activation = int(setting("activation", 0))
        name = _BY_NUMBER.get(activation)
        if name is None:
            shown = _OTHER_ACTIVATIONS.get(activation, f"number {activation}")
            raise find.refused(f"its activation, {shown}, is none that Regard has")
        rms = f"{first}/ffn/layer_norm/beta" not in find
        pre = setting("pre_norm", 1) != 0
        if pre != (f"{side}/layer_norm/gamma" in find):
            raise find.refused(f"its {side} is {'pre' if pre else 'post'}-norm, but its last norm says otherwise")
        part: dict[str, Any] = {
            "width": self.width,
            "layers": layers,
            "heads": heads,
            "feed_forward": find.shape(f"{first}/ffn/linear_1/weight")[-1],
            "norm": "pre" if pre else "post",
            "activation": name,
            "dropout": 0.1,
        }
        bias = any(f"{first}/{linear}/bias" in find for linear in ("self_attention/linear_0", "ffn/linear_0"))
        relative = f"{first}/self_attention/relative_attention_bias"
        epsilon = self._epsilon if self._epsilon is not None else 1e-6 if rms else 1e-5
        head_width = rows // 3 // heads
        part |= {"norm_kind": "rms"} if rms else {}
        part |= {"norm_epsilon": epsilon} if epsilon != 1e-5 else {}
        part |= {"gated": True} if f"{first}/ffn/linear_0_noact/weight" in find else {}
        part |= {"bias": False} if not bias else {}
        part |= {"head_width": head_width} if head_width * heads != self.width else {}
        if relative in find:
            distance = int(find.number(f"{first}/self_attention/relative_attention_max_distance", 128))
            part["relative_position"] = {"kind": "buckets", "buckets": find.shape(relative)[0], "distance": distance}
        return part

    def tree(self) -> dict[str, Any]:
        """The model section of a recipe; `weights` was called before."""
        stem = {"kind": "tokens", "width": self.width, "dropout": 0.1, **self._embedding["encoder"]}
        if "encoder/layernorm_embedding/gamma" in self._variables:
            stem["embedding_norm"] = True
        decoder = {"kind": "transformer", **self._parts["decoder"], **self._embedding["decoder"], "tie": self._tie}
        if "decoder/layernorm_embedding/gamma" in self._variables:
            decoder["embedding_norm"] = True
        if self._output_bias:
            decoder["output_bias"] = True
        return {
            "kind": "seq2seq",
            "share": self._share,
            "stem": stem,
            "encoder": {"kind": "transformer", **self._parts["encoder"]},
            "decoder": decoder,
        }

    def weights(self) -> dict[str, Tensor]:
        import torch

        self._embedding: dict[str, dict[str, Any]] = {}
        self._embed("encoder", "stem.embedding", self._encoder_table, self._source)
        self._embed("decoder", "decoder.embedding", self._decoder_table, self._target)
        self._stack("encoder")
        self._stack("decoder")
        self._projection()
        return {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in self._weights.items()}

    def _embed(self, side: str, here: str, table: str, rows: _Rows) -> None:
        find = self._variables
        factor = self._factor(side, table)
        if side == "encoder" or not self._share:
            values = _gathered(find.array(table, rows.size, self.width), rows)
            if self._start_from_zero and side == "decoder":
                values[BEGIN] = 0
            self._weights[f"{here}.table.weight"] = values
        settings: dict[str, Any] = {"scale": factor, "position": "none"}
        encodings = f"{side}/position_encodings/encodings"
        if encodings in find:
            if len(find.shape(encodings)) != 2 or find.shape(encodings)[1] != self.width:
                raise find.refused(
                    f"{encodings!r} has shape {find.shape(encodings)}, and the model is {self.width} wide"
                )
            values = find.array(encodings)
            self.longest = min(self.longest, len(values))
            settings["position"] = recognised(values)
            if settings["position"] is None:
                settings["position"] = {"kind": "learned", "length": len(values)}
                self._weights[f"{here}.position.table.weight"] = values
        elif "relative_position" not in self._parts[side]:  # OpenNMT-tf's, which are computed
            settings["position"] = {"kind": "sinusoidal_halves", "offset": 1, "inclusive": True}
        if f"{side}/layernorm_embedding/gamma" in find:
            if self._parts[side].get("norm_epsilon", 1e-5) != 1e-5:
                raise find.refused("the norm after its embedding has a layer_norm_epsilon other than 1e-05")
            self._norm(f"{side}/layernorm_embedding", f"{here}.norm", {})
        self._embedding[side] = settings

    def _factor(self, side: str, table: str) -> bool:
        """Whether the embedding is scaled by the root of its width."""
        find = self._variables
        old = table.removesuffix("weight") + "multiply_by_sqrt_depth"
        name = find.first(f"{side}/scale_embeddings", old)
        value = find.number(name, 1)
        if name not in find or find.is_integer(name):
            return value != 0
        if math.isclose(value, math.sqrt(self.width), rel_tol=1e-3):
            return True
        if value == 1:
            return False
        raise find.refused(f"{name!r} is {value:g}; an embedding is scaled by the root of its width or not at all")

    def _stack(self, side: str) -> None:
        find, part = self._variables, self._parts[side]
        inner, width, heads = part["feed_forward"], self.width, part["heads"]
        across = heads * part.get("head_width", width // heads)
        if part["norm"] == "pre":
            self._norm(f"{side}/layer_norm", f"{side}.norm", part)
            if side == "decoder":
                self._scale_outputs()
        for number in range(part["layers"]):
            there, here = f"{side}/layer_{number}", f"{side}.layers.{number}"
            self._attention(f"{there}/self_attention", f"{here}.attention", (3 * across,), part)
            self._norm(f"{there}/self_attention/layer_norm", f"{here}.around_attention.norm", part)
            if side == "decoder":
                self._attention(f"{there}/attention", f"{here}.cross_attention", (across, 2 * across), part)
                self._norm(f"{there}/attention/layer_norm", f"{here}.around_cross_attention.norm", part)
            if part.get("gated"):
                self._linear(f"{there}/ffn/linear_0", f"{here}.feed_forward.gate", inner, width, part)
                self._linear(f"{there}/ffn/linear_0_noact", f"{here}.feed_forward.inward", inner, width, part)
            else:
                self._linear(f"{there}/ffn/linear_0", f"{here}.feed_forward.inward", inner, width, part)
            self._linear(f"{there}/ffn/linear_1", f"{here}.feed_forward.outward", width, inner, part)
            self._norm(f"{there}/ffn/layer_norm", f"{here}.around_feed_forward.norm", part)
            self._relative(side, f"{there}/self_attention", number, part)
        if "relative_position" in part:
            table = find.array(f"{side}/layer_0/self_attention/relative_attention_bias")
            if table.shape != (part["relative_position"]["buckets"], heads):
                raise find.refused(f"the relative positions of its {side} have shape {table.shape}")
            self._weights[f"{side}.relative_position.table.weight"] = table

    def _relative(self, side: str, there: str, number: int, part: Mapping[str, Any]) -> None:
        """One table of relative positions serves all layers of a stack."""
        find = self._variables
        name, first = f"{there}/relative_attention_bias", f"{side}/layer_0/self_attention/relative_attention_bias"
        if (name in find) != ("relative_position" in part):
            raise find.refused(f"relative positions are missing in some layers of its {side}")
        if name not in find:
            return
        distance = find.number(f"{there}/relative_attention_max_distance", 128)
        if distance != part["relative_position"]["distance"] or not find.same(name, first):
            raise find.refused(f"the layers of its {side} have relative positions of their own; ours share one table")

    def _attention(self, there: str, here: str, rows: tuple[int, ...], part: Mapping[str, Any]) -> None:
        """Query, key and value are one matrix in ours; CTranslate2 multiplies queries by a number of its own."""
        find, width = self._variables, self.width
        across = sum(rows) // 3
        inward = np.concatenate(
            [find.array(f"{there}/linear_{number}/weight", count, width) for number, count in enumerate(rows)]
        )
        head_width = across // part["heads"]
        usual = (find.number(f"{there}/head_dim", 0) or width / part["heads"]) ** -0.5
        factor = find.number(f"{there}/queries_scale", usual) * math.sqrt(head_width)
        if not math.isclose(factor, 1, rel_tol=1e-6):
            inward[:across] *= np.float32(factor)
        self._weights[f"{here}.inward.weight"] = inward
        if part.get("bias", True):
            bias = np.concatenate([self._bias(f"{there}/linear_{i}", count) for i, count in enumerate(rows)])
            if not math.isclose(factor, 1, rel_tol=1e-6):
                bias[:across] *= np.float32(factor)
            self._weights[f"{here}.inward.bias"] = bias
        self._linear(f"{there}/linear_{len(rows)}", f"{here}.outward", width, across, part)

    def _linear(self, there: str, here: str, outputs: int, inputs: int, part: Mapping[str, Any]) -> None:
        self._weights[f"{here}.weight"] = self._variables.array(f"{there}/weight", outputs, inputs)
        if part.get("bias", True):
            self._weights[f"{here}.bias"] = self._bias(there, outputs)

    def _bias(self, there: str, length: int) -> np.ndarray:
        name = f"{there}/bias"
        return self._variables.array(name, length) if name in self._variables else np.zeros(length, np.float32)

    def _norm(self, there: str, here: str, part: Mapping[str, Any]) -> None:
        find = self._variables
        if find.number(f"{there}/layer_norm_use_residual", 0):
            raise find.refused(f"{there!r} adds one to its weight, which Regard's norms do not")
        self._weights[f"{here}.weight"] = find.array(f"{there}/gamma", self.width)
        if part.get("norm_kind") != "rms":
            self._weights[f"{here}.bias"] = find.array(f"{there}/beta", self.width)

    def _scale_outputs(self) -> None:
        """What the output is multiplied by goes into the decoder's last norm."""
        factor = np.float32(self._variables.number("decoder/scale_outputs", 1))
        for name in ("decoder.norm.weight", "decoder.norm.bias"):
            if factor != 1 and name in self._weights:
                self._weights[name] = self._weights[name] * factor

    def _projection(self) -> None:
        find, rows = self._variables, self._target
        if not self._tie:
            self._weights["decoder.output.weight"] = _gathered(
                find.array("decoder/projection/weight", rows.size, self.width), rows
            )
        if self._output_bias:
            bias = self._bias("decoder/projection", rows.size)
            self._weights["decoder.output_bias"] = np.array(
                [NEVER if row is None or row < 0 else bias[row] for row in rows.theirs], np.float32
            )


def _gathered(values: np.ndarray, rows: _Rows) -> np.ndarray:
    """Their rows in our order; a missing one is zero, and a negative number a copy."""
    index = np.array([0 if row is None else -1 - row if row < 0 else row for row in rows.theirs])
    gathered = values[index]
    gathered[[row is None for row in rows.theirs]] = 0
    return gathered


# ------------------------------------------------------------------------------------------------------- the tokenizer


def _tokenizer(files: ForeignFolder, of_source: _Rows, of_target: _Rows, tags: set[str]) -> Tokenizer:
    """The tokenizer whose files lie in the folder."""
    from regard.data.tokenizer.sentencepiece import SentencePiece

    separate = of_source is not of_target
    specials = of_source.pieces[: len(SPECIALS)]
    tokens = of_source.pieces[len(SPECIALS) :]
    others = of_target.pieces[len(SPECIALS) :] if separate else None
    hidden = (tags | {*SPECIALS, "<blank>"}) & {*tokens, *(others or ())}
    for one, other in SIDES:
        if one in files and other in files:
            both = files.read(one), files.read(other)
            return SentencePiece(
                both[0], tokens, target_model=both[1], target_tokens=others, hidden=hidden, specials=specials
            )
    for name in SENTENCEPIECE:
        if name in files:
            return SentencePiece(files.read(name), tokens, target_tokens=others, hidden=hidden, specials=specials)
    if "tokenizer.json" in files and not separate:
        from regard.data.tokenizer.hugging_face import HuggingFace

        order = _order(files, of_source)
        secret = {order[number] for number, piece in enumerate(of_source.pieces) if piece in hidden}
        return HuggingFace(files.read("tokenizer.json"), order[len(SPECIALS) :], order[: len(SPECIALS)], secret)
    raise UserError(
        f"{files.path}: nothing in it takes texts apart into tokens; put the model's sentencepiece.model into it, "
        "source.spm and target.spm, or tokenizer.json"
    )


def _our_own(files: ForeignFolder, source: list[str], target: list[str]) -> Tokenizer | None:
    """The tokenizer of a folder that `regard export` wrote: it spells all tokens as the vocabularies do."""
    from regard.data import tokenizer as tokenizers

    known = {name: files.read(name) for name in OWN if name in files}
    if not known:
        return None
    try:
        found = tokenizers.from_files(known)
        sides = ((found, source), (found.target, target))
        return found if all(side.names(range(len(side))) == tokens for side, tokens in sides) else None
    except (UserError, AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError):
        return None  # another library's file of this name


def _order(files: ForeignFolder, rows: _Rows) -> list[int]:
    """The id that each of our tokens has in a file of the tokenizers library; further ones for rows of no text."""
    known = {piece: number for number, piece in hugging_face_pieces(files).items()}
    unnamed = itertools.count(1 + max(known.values(), default=0))
    return [known[piece] if piece in known else next(unnamed) for piece in rows.pieces]
