"""What BERT, DistilBERT and RoBERTa share: a Transformer encoder over tokens, and the three heads that are known here.

The use of a model follows from its class: to fill blanks, to classify texts, or to tag words.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.config import Data, Recipe
from regard.data.codec import Pair
from regard.data.input.text import Text
from regard.data.target._base import Target
from regard.data.target.masked import Masked
from regard.data.target.tags import Tags
from regard.data.tokenizer.hugging_face import HuggingFace
from regard.errors import UserError
from regard.interchange.families import _encoder_tokens, _tokens
from regard.interchange.families._base import THEIR_ACTIVATIONS
from regard.interchange.families._config import Config
from regard.interchange.families._encoder_layout import Names, Shape
from regard.interchange.families._entry import SOURCE, Entry
from regard.interchange.families._labels import labels_of, refuse_other_problems
from regard.interchange.families._language_model import table_of
from regard.interchange.families._task_family import Reading, TaskFamily
from regard.interchange.families._vocabulary import renumbered
from regard.interchange.read.foreign_folder import ForeignFolder
from regard.interchange.read.stored_tensors import StoredTensors

FILL, CLASSIFY, TAG = "fill", "classify", "tag"
ENCLOSING = 2
"""Positions that the tokens around a text take."""


class EncoderFamily(TaskFamily):
    """A text stands between two tokens, CLS and SEP. Of two segments only the first is known here: its vector is added
    to those of the positions."""

    heads: ClassVar[Mapping[str, str]]
    """The task of each of their classes."""
    names: ClassVar[Names]
    tokenizer: ClassVar[str]
    unused: ClassVar[tuple[str, ...]]
    """Beginnings of the names of tensors that no task here needs."""
    head_activation: ClassVar[str]
    """Of the dense layer of a classifier."""

    @abstractmethod
    def shape(self, config: Config) -> Shape:
        """Refuses by name what a config states and we do not have."""

    @abstractmethod
    def head_dropout(self, config: Config, task: str) -> float: ...

    @abstractmethod
    def fill_activation(self, encoder: str) -> str:
        """The activation in the head that fills blanks, for the one of the encoder."""

    def read(
        self,
        config: Config,
        generation: Config,
        files: ForeignFolder,
        stored: StoredTensors,
        note: Callable[[str], None],
    ) -> Reading:
        task = self._task(config)
        for key, value in (
            ("is_decoder", False),
            ("add_cross_attention", False),
            ("position_embedding_type", "absolute"),
        ):
            config.must_be(key, value)
        if config.get("pruned_heads"):
            raise config.refuse("pruned_heads", "not known here; all heads are needed")
        table = f"{self.names.embeddings}.word_embeddings.weight"
        size, rows = config.integer("vocab_size", least=8), stored.shape(table)
        if len(rows) != 2 or rows[0] != size:
            raise UserError(f"{config.where}: vocab_size = {size}: the embedding has the shape {rows}")
        shape = self.shape(config)
        found = _encoder_tokens.read(config, files, size, self.tokenizer)
        vocabulary = renumbered(size, *(found.special[role] for role in ("pad", "unk", "cls", "sep")))
        hidden = {found.special["mask"]} - set(vocabulary.rows[:4]) if "mask" in found.special else set()
        reader = Text(HuggingFace(found.file, vocabulary.rows[4:], vocabulary.rows[:4], hidden), found.enclosed)
        target: Target
        if task == FILL:
            if "mask" not in found.special:
                raise UserError(f"{files.path}: the tokenizer has no mask_token; take another copy")
            target = Masked(mask=vocabulary.ids()[found.special["mask"]])
        else:
            if task == CLASSIFY:
                refuse_other_problems(config)
            labels = labels_of(config, least=2)
            target = Tags(labels) if task == TAG else labels
        tie = task == FILL and self._tied(config, stored)
        model = self._model(config, task, shape, tie)
        longest = shape.positions - shape.skip - ENCLOSING
        if stated := _tokens.limit(files):
            longest = min(longest, stated - (ENCLOSING if found.enclosed else 0))
        if longest < 1:
            raise UserError(f"{config.where}: max_position_embeddings leaves no room for a text")
        recipe = Recipe(
            task=task,
            data=Data(root="data", max_length=longest),
            tokenizer={"kind": reader.tokenizer.kind},
            model=model,
        )
        entries = list(self.entries(model, shape, self._output_bias(stored, tie)))
        unused = [*self.unused]
        if task == FILL:  # a tied layer and a bias may be stored twice
            unused += [self.names.output_bias, f"{self.names.output}.{'' if tie else 'bias'}"]
        return Reading(recipe, Pair(reader, target), entries, vocabulary, unused)

    def _task(self, config: Config) -> str:
        """Of the first of their classes that is known here."""
        stated = [one for one in config.get("architectures", []) if one in self.heads]
        if not stated:
            raise UserError(f"{config.where}: architectures is missing; name one of {', '.join(self.heads)}")
        return self.heads[stated[0]]

    def _tied(self, config: Config, stored: StoredTensors) -> bool:
        table, output = f"{self.names.embeddings}.word_embeddings.weight", f"{self.names.output}.weight"
        tie = config.flag("tie_word_embeddings", True)
        if not tie and output not in stored:
            raise UserError(f"{stored.where}: tensor {output!r} is missing, and config.json says that it is not tied")
        return output not in stored or stored.same(output, table)

    def _output_bias(self, stored: StoredTensors, tie: bool) -> str:
        """Files have it under one name or two; an output layer that is not tied has its own."""
        usual, own = self.names.output_bias, f"{self.names.output}.bias"
        if own not in stored:
            return usual
        if tie and usual in stored and not stored.same(usual, own):
            raise UserError(
                f"{stored.where}: tensors {usual!r} and {own!r} are one bias, but differ; take another copy"
            )
        return own

    def _model(self, config: Config, task: str, shape: Shape, tie: bool) -> dict[str, Any]:
        attention: Any = "multi_head"
        if shape.attention_dropout:
            attention = {"kind": "multi_head", "dropout": shape.attention_dropout}
        common = {"width": shape.width, "norm_epsilon": shape.epsilon, "dropout": shape.dropout}
        stem = {
            "kind": "tokens",
            **common,
            "position": {"kind": "learned", "length": shape.positions - shape.skip},
            "scale": False,
            "embedding_norm": True,
        }
        encoder = {
            "kind": "transformer",
            **common,
            "layers": shape.layers,
            "heads": shape.heads,
            "feed_forward": shape.feed_forward,
            "norm": "post",
            "activation": shape.activation,
            "attention": attention,
        }
        parts: dict[str, Any] = {"stem": stem, "encoder": encoder}
        if task == FILL:
            activation = self.fill_activation(shape.activation)
            return {
                "kind": "masked_language_model",
                **parts,
                "activation": activation,
                "norm_epsilon": shape.epsilon,
                "tie": tie,
            }
        dropped = {"head_dropout": self.head_dropout(config, task)}
        if task == TAG:
            return {"kind": "tagger", **parts, **dropped}
        head = {"pooling": "first", "head_activation": self.head_activation}
        return {"kind": "classifier", **parts, **head, **dropped}

    def entries(self, model: Mapping[str, Any], shape: Shape, output_bias: str = "") -> Iterator[Entry]:
        """All parameters of a model with this section."""
        names = self.names
        yield Entry("stem.embedding.table.weight", (f"{names.embeddings}.word_embeddings.weight",), rows=SOURCE)
        yield self._positions(shape)
        yield from _linear("stem.embedding.norm", f"{names.embeddings}.LayerNorm")
        for number in range(shape.layers):
            ours, theirs = f"encoder.layers.{number}", names.layer.format(number)
            *inward, outward = (f"{theirs}.{name}" for name in names.attention)
            for part in ("weight", "bias"):
                yield Entry(f"{ours}.attention.inward.{part}", tuple(f"{name}.{part}" for name in inward))
            yield from _linear(f"{ours}.attention.outward", outward)
            yield from _linear(f"{ours}.around_attention.norm", f"{theirs}.{names.attention_norm}")
            yield from _linear(f"{ours}.feed_forward.inward", f"{theirs}.{names.feed_forward[0]}")
            yield from _linear(f"{ours}.feed_forward.outward", f"{theirs}.{names.feed_forward[1]}")
            yield from _linear(f"{ours}.around_feed_forward.norm", f"{theirs}.{names.feed_forward_norm}")
        if model["kind"] == "masked_language_model":
            yield from _linear("dense", names.fill[0])
            yield from _linear("norm", names.fill[1])
            yield Entry("bias", (output_bias or names.output_bias,), rows=SOURCE)
            if not model["tie"]:
                yield Entry("output.weight", (f"{names.output}.weight",), rows=SOURCE)
        elif model["kind"] == "classifier":
            yield from _linear("dense", names.classify[0])
            yield from _linear("head", names.classify[1])
        else:
            yield from _linear("head", names.tag)

    def _positions(self, shape: Shape) -> Entry:
        ours, theirs = "stem.embedding.position.table.weight", f"{self.names.embeddings}.position_embeddings.weight"
        if not shape.kinds:
            return Entry(ours, (theirs,))
        kinds = f"{self.names.embeddings}.token_type_embeddings.weight"
        skip = shape.skip

        def make(positions: Tensor, segments: Tensor) -> Tensor:
            return positions[skip:] + segments[0]

        def split(table: Tensor) -> tuple[Tensor, ...]:
            zeros = table.new_zeros
            return torch.cat([zeros(skip, shape.width), table]), zeros(shape.kinds, shape.width)

        shapes = ((shape.positions, shape.width), (shape.kinds, shape.width))
        return Entry(ours, (theirs, kinds), shapes=shapes, make=make, split=split)

    def why_not(self, recipe: Recipe) -> str:
        """Why this family cannot hold a model with this recipe exactly; empty if it can."""
        model = recipe.model
        stem, encoder = model["stem"], model["encoder"]
        if (why := _other(stem, "stem", kind="tokens", scale=False, embedding_norm=True)) or (
            why := _other(
                encoder,
                "encoder",
                kind="transformer",
                norm="post",
                norm_kind="layer",
                gated=False,
                bias=True,
            )
        ):
            return why
        position, attention = table_of(stem["position"]), table_of(encoder["attention"])
        if position["kind"] != "learned":
            return f"only learned positions, not {position['kind']}"
        if table_of(encoder["relative_position"])["kind"] != "none":
            return "only positions that are added to the tokens"
        if attention["kind"] != "multi_head" or attention.keys() - {"kind", "dropout"}:
            return "only the attention multi_head, with as many keys as queries"
        if encoder["head_width"] not in (0, encoder["width"] // encoder["heads"]):
            return "only heads that share the width"
        if encoder["activation"] not in THEIR_ACTIVATIONS:
            return f"no activation {encoder['activation']}"
        epsilons = {one["norm_epsilon"] for one in (stem, encoder, model) if "norm_epsilon" in one}
        if len(epsilons) > 1:
            return "only one norm_epsilon"
        return self._other_head(model) or self.other_sizes(recipe)

    def _other_head(self, model: Mapping[str, Any]) -> str:
        if model["kind"] == "masked_language_model":
            wanted = self.fill_activation(model["encoder"]["activation"])
            return "" if model["activation"] == wanted else f"only model.activation = {wanted}"
        if model["kind"] == "classifier":
            return _other(model, "model", pooling="first", head_activation=self.head_activation)
        return "" if model["kind"] == "tagger" else f"only a tagger, not a {model['kind']}"

    def other_sizes(self, recipe: Recipe) -> str:
        """Why the sizes of a model do not fit; empty if they do."""
        return ""

    @abstractmethod
    def shape_of(self, recipe: Recipe, pad: int) -> Shape:
        """The sizes of their config of a model with this recipe, whose padding has the id `pad`."""

    @abstractmethod
    def config(self, recipe: Recipe, shape: Shape) -> dict[str, Any]:
        """The keys of their config for these sizes and the head."""


def _linear(ours: str, theirs: str) -> Iterator[Entry]:
    for part in ("weight", "bias"):
        yield Entry(f"{ours}.{part}", (f"{theirs}.{part}",))


def _other(section: Mapping[str, Any], where: str, **values: object) -> str:
    """Why a section of a recipe has other values; empty if it has these."""
    for key, value in values.items():
        if section[key] != value:
            return f"only {where}.{key} = {str(value).lower()}, not {str(section[key]).lower()}"
    return ""
