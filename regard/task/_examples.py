"""Tasks over examples in memory, each an input of any kind and a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard import registry
from regard.config import Recipe
from regard.data.codec import Pair, input_class, target_class
from regard.data.examples import Coded, ExampleBatches, collate, pad_arrays
from regard.data.format._base import Example
from regard.data.input._base import Raw
from regard.data.input._checks import check_keys, check_kind
from regard.data.input.text import Text
from regard.data.splitting import Parts, check_parts, read_parts
from regard.data.target._base import check_target
from regard.data.tokenizer import resolved as resolved_tokenizer
from regard.task._base import Note, Prepared, Progress, Task
from regard.types import Batch


class ExampleTask(Task):
    """A task over examples with an input for the stem and a target."""

    target: ClassVar[str]
    """The kind of target, a file in data/target."""

    def __init__(self, recipe: Recipe, codec: Pair, model: nn.Module, device: torch.device) -> None:
        self.recipe, self.pair, self.device = recipe, codec, device
        self.model = model.to(device).eval()

    @classmethod
    def input_kind(cls, recipe: Recipe) -> str:
        return registry.factory("stem", recipe.model["stem"]["kind"], "model.stem.kind").reads  # type: ignore[attr-defined]

    @classmethod
    def codec(cls, recipe: Recipe, files: Mapping[str, bytes]) -> Pair:
        return Pair.from_files(files, cls.input_kind(recipe), cls.target)

    @classmethod
    def resolve(cls, recipe: Recipe) -> Recipe:
        check_keys(recipe.input, cls.input_kind(recipe))
        check_parts(recipe.data)
        return recipe

    @classmethod
    def tests(cls, recipe: Recipe) -> list[Example]:
        return read_parts(recipe.data).test

    @classmethod
    def prepare(cls, recipe: Recipe, place: Path, known: Mapping[str, bytes], same: bool, note: Note) -> Prepared:
        parts = read_parts(recipe.data)
        pair = cls.fit(recipe, parts, known, same)
        if known and same and any(known.get(name) != content for name, content in pair.target.files().items()):
            note("the labels of the data are not those of the model it starts from: its output layer begins anew")
        note(
            f"{len(parts.train):,} examples to train on, {len(parts.valid):,} to validate, {len(parts.test):,} to test"
        )
        stream = ExampleBatches(
            cls.epochs(recipe, pair, parts.train),
            varying=pair.input.varying,
            batch_tokens=recipe.training.batch_tokens,
            batch_examples=recipe.training.batch_examples,
            seed=recipe.seed,
        )
        return Prepared(pair, stream, parts.valid[: recipe.data.valid_limit])

    @classmethod
    def fit(cls, recipe: Recipe, parts: Parts, known: Mapping[str, bytes], same: bool) -> Pair:
        kind = cls.input_kind(recipe)
        check_kind(parts.train[0].input, kind)
        cls.check_target(recipe, parts.train[0])
        if known and same:
            pair = Pair.from_files(known, kind, cls.target)
            if all(map(pair.target.knows, parts.train)):
                return pair
        text = resolved_tokenizer(recipe.tokenizer)
        spells = registry.factory("stem", recipe.model["stem"]["kind"], "model.stem.kind").spells  # type: ignore[attr-defined]
        return Pair.fit(
            parts.train,
            input_class(kind).from_files(known) if known else kind,
            cls.target,
            seed=recipe.seed,
            input_options=(text | {"spelled": True} if spells else text) if kind == "text" else recipe.input,
            target_options=text if cls.target == "text" else {},
        )

    @classmethod
    def check_target(cls, recipe: Recipe, example: Example) -> None:
        check_target(example.target, target_class(cls.target), str(recipe.data.format.get("kind")))

    def inputs(self, valid: Sequence[Example]) -> list[Any]:
        return [example.input for example in valid]

    @classmethod
    def epochs(cls, recipe: Recipe, pair: Pair, examples: Sequence[Example]) -> Callable[[int], Sequence[Coded]]:
        """The encoded training examples of an epoch: the same every time, unless a task overrides this."""
        coded = [cls.shortened(recipe, pair, one) for one in pair.encode_all(examples)]
        return lambda epoch: coded

    @classmethod
    def coded(cls, recipe: Recipe, pair: Pair, example: Example) -> Coded:
        """An encoded example, cut to the recipe's length."""
        return cls.shortened(recipe, pair, pair.encode(example))

    @classmethod
    def shortened(cls, recipe: Recipe, pair: Pair, coded: Coded) -> Coded:
        """Cuts text after `data.max_length` tokens, not counting BEGIN of a target."""
        longest = recipe.data.max_length
        if isinstance(pair.input, Text):
            coded = coded._replace(source=pair.input.cut(coded.source, longest))
        if pair.target.kind == "text":
            coded = coded._replace(target=coded.target[: longest + 1], target_mask=coded.target_mask[: longest + 1])
        return coded

    def batches(
        self, raws: Sequence[Raw], progress: Progress | None = None
    ) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """Encoded inputs in batches of similar length: their indices, the padded tensor and its mask."""
        reader, longest = self.pair.input, self.recipe.data.max_length
        arrays = [reader.encode(raw) for raw in raws]
        if isinstance(reader, Text):
            arrays = [reader.cut(array, longest) for array in arrays]
        for indexes in self._together([len(array) for array in arrays]):
            source, mask = pad_arrays([arrays[i] for i in indexes], self.pair.input.varying)
            yield indexes, source.to(self.device), mask.to(self.device)
            if progress:
                progress(len(indexes))

    def coded_batches(self, examples: Sequence[Example]) -> Iterator[tuple[list[int], Batch]]:
        """Encoded examples in batches, with their indices."""
        coded = [self.coded(self.recipe, self.pair, example) for example in examples]
        for indexes in self._together([max(len(c.source), len(c.target)) for c in coded]):
            yield indexes, collate([coded[i] for i in indexes], self.pair.input.varying).to(self.device)

    def _together(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        settings = self.recipe.training
        order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
        start = 0
        while start < len(order):
            rows = settings.batch_examples or max(1, settings.batch_tokens // max(1, lengths[order[start]]))
            yield order[start : start + rows]
            start += rows

    @torch.inference_mode()
    def loss(self, examples: Sequence[Example]) -> float:
        """The mean loss per unit, as in training but without dropout."""
        total, units = 0.0, 0
        for _, batch in self.coded_batches(examples):
            found = self.model.loss(batch)
            total, units = total + float(found.total), units + found.units
        return total / max(1, units)

    def samples(self, shown: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
        """A few evenly spaced (input, output, reference) triples."""
        count = self.recipe.training.samples
        return list(shown[:: max(1, len(shown) // max(1, count))][:count])
