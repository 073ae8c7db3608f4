"""An index of training examples by the states of their words, on disk, and the nearest of them to a state.

For each word the encoder's state, or the decoder's state when it wrote the word (teacher forcing), is the mean over its
tokens. Only directions count, so a vector is stored as int8 numbers. The search compares with all of them. A file
belongs to one model, whose weights' hash it holds; there are neither pickles nor code in it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.cache_folder import cache_folder
from regard.data.batching import pad, sorted_batches
from regard.errors import UserError
from regard.inspection.record.translate import words_of
from regard.inspection.trace.base import SOURCE, TARGET
from regard.layers.fast_linear import FastLinear
from regard.safetensors_header import read_header
from regard.storage import write_file
from regard.types import BEGIN, END
from regard.weights import load_tensors, save_tensors

if TYPE_CHECKING:
    from regard.directions import Marks
    from regard.task.translate import Translator

FORMAT = 1
SENTENCES = 5000
"""As many pairs as an index holds by default."""
MOST_SENTENCES = 100_000
MOST_BYTES = 2 << 30
AT_ONCE = 4096
"""Vectors that are compared at a time: no float copy of the whole index."""
_hashes: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()


@dataclass
class Side:
    """The words of one side: a vector each, and where it is."""

    vectors: np.ndarray
    """(N, D), int8"""
    sentence: np.ndarray
    word: np.ndarray
    """(N,): the index of the example, and of the word in it."""


@dataclass
class WordIndex:
    model: str
    """The hash of the model's weights (`weights_hash`)."""
    sources: list[list[str]]
    targets: list[list[str]]
    """The words of the examples."""
    sides: dict[str, Side]

    def nearest(self, side: str, vector: Float[np.ndarray, "D"], count: int) -> list[tuple[float, int, int]]:
        """(cosine similarity, example, word), nearest first; of equal ones the earlier."""
        own = self.sides[side]
        if own.vectors.shape[1] != len(vector):
            raise UserError(f"the index holds vectors of {own.vectors.shape[1]} numbers, not of {len(vector)}")
        wanted = np.asarray(vector, np.float32)
        wanted = wanted / max(float(np.linalg.norm(wanted)), 1e-30)
        parts = []
        for start in range(0, len(own.vectors), AT_ONCE):
            rows = own.vectors[start : start + AT_ONCE].astype(np.float32)
            parts.append(rows @ wanted / np.maximum(np.linalg.norm(rows, axis=1), 1e-30))
        similar = np.concatenate(parts) if parts else np.zeros(0, np.float32)
        order = np.argsort(-similar, kind="stable")[:count]
        return [(float(similar[i]), int(own.sentence[i]), int(own.word[i])) for i in order]


def weights_hash(model: nn.Module) -> str:
    """One hash of all weights by name, the same whether linear layers are packed for the CPU or not."""
    if model in _hashes:
        return _hashes[model]
    weights: dict[str, Tensor] = {}
    seen: set[int] = set()
    for path, module in model.named_modules():
        if path.endswith(".projection"):  # a faster copy of the output weight
            continue
        if isinstance(module, FastLinear):
            own = {"weight": module._weight, "bias": module._bias}
        else:
            own = dict(module.named_parameters(recurse=False))
        for name, weight in own.items():
            if weight is not None and weight.data_ptr() not in seen:
                seen.add(weight.data_ptr())
                weights[f"{path}.{name}"] = weight
    digest = hashlib.sha256()
    for name in sorted(weights):
        weight = weights[name].detach().float().cpu().contiguous()
        digest.update(f"{name} {tuple(weight.shape)}\n".encode())
        digest.update(weight.numpy().tobytes())
    _hashes[model] = digest.hexdigest()
    return _hashes[model]


def default_path(model: nn.Module) -> Path:
    """Where the index of a model is kept: in the cache, by the hash of its weights."""
    return cache_folder() / "near" / f"{weights_hash(model)[:32]}.safetensors"


def build_index(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    told: Marks | None = None,
    progress: Callable[[int], None] | None = None,
) -> WordIndex:
    """Runs the model over pairs of sentences. Repeated ones, and those that are empty or too long, are left out."""
    longest = translator.recipe.data.max_length
    marks = told or translator.marks(["?"])[0]
    output = translator.tokenizer.target
    read, written, pairs = [], [], []
    for source, target in dict.fromkeys(zip(sources, targets)):
        ids, own = translator.encode(source, marks), output.encode(target)
        if source.split() and target.split() and max(len(ids), len(own) + len(marks.prefix)) < longest - 1:
            read.append(ids)
            written.append(own)
            pairs.append((source, target))
    if not pairs:
        raise UserError("there are no pairs of sentences to index; are the files empty, or all lines too long?")
    index = WordIndex(weights_hash(translator.model), [], [], {})
    found: dict[str, list[list[np.ndarray]]] = {SOURCE: [[]] * len(pairs), TARGET: [[]] * len(pairs)}
    words: dict[str, list[list[str]]] = {SOURCE: [[]] * len(pairs), TARGET: [[]] * len(pairs)}
    lengths = [max(one, two, key=len) for one, two in zip(read, written)]
    for batch in sorted_batches(lengths, translator.default_batch_tokens()):
        states = sentence_states(translator, [read[i] for i in batch], [written[i] for i in batch], marks)
        for i, own_states in zip(batch, states):
            for side, text, ids in zip((SOURCE, TARGET), pairs[i], (read[i], written[i])):
                span = translator.text_span(ids, marks) if side == SOURCE else slice(0, len(ids))
                tokenizer = translator.tokenizer if side == SOURCE else output
                words[side][i], word_of = words_of(tokenizer, text, ids[span])
                found[side][i] = word_states(own_states[side][span], word_of, len(words[side][i]))
        if progress:
            progress(len(batch))
    index.sources, index.targets = words[SOURCE], words[TARGET]
    for side, sentences in found.items():
        vectors = [vector for one in sentences for vector in one]
        places = [(number, word) for number, one in enumerate(sentences) for word in range(len(one))]
        at = np.array(places, np.int32).reshape(-1, 2)
        index.sides[side] = Side(quantised(np.stack(vectors)), at[:, 0].copy(), at[:, 1].copy())
    return index


@torch.inference_mode()
def sentence_states(
    translator: Translator, sources: Sequence[list[int]], targets: Sequence[list[int]], told: Marks
) -> list[dict[str, Float[np.ndarray, "T D"]]]:
    """The encoder's state at each source token, and the decoder's when it wrote each target token."""
    model, device = translator.model, translator.device
    ids, mask = (tensor.to(device) for tensor in pad([translator.source_row(list(one)) for one in sources]))
    fed = [[BEGIN, *told.prefix, *one, END][:-1] for one in targets]
    memory = model.encode(ids, mask)
    hidden, _ = model.decoder.advance(pad(fed)[0].to(device), model.decoder.start(memory, 1, 0))
    first = len(told.prefix)
    return [
        {
            SOURCE: memory.states[row, : len(source)].float().cpu().numpy(),
            TARGET: hidden[row, first : first + len(target)].float().cpu().numpy(),
        }
        for row, (source, target) in enumerate(zip(sources, targets))
    ]


def word_states(states: Float[np.ndarray, "T D"], word_of: Sequence[int], words: int) -> list[np.ndarray]:
    """The mean state of each word's tokens; zeros for a word without any."""
    places = np.array(word_of[: len(states)], np.int64)
    return [
        states[: len(places)][places == word].mean(0)
        if (places == word).any()
        else np.zeros(states.shape[1], np.float32)
        for word in range(words)
    ]


def quantised(vectors: Float[np.ndarray, "N D"]) -> np.ndarray:
    """Each vector scaled so that its largest number is 127: its direction stays."""
    largest = np.maximum(np.abs(vectors).max(1, keepdims=True), 1e-30)
    return np.rint(vectors / largest * 127).astype(np.int8)


def write_index(index: WordIndex, path: Path) -> None:
    """Writes the file atomically; one that was there before stays until the new one is complete."""
    tensors = {f"{kind}.text": _text(words) for kind, words in ((SOURCE, index.sources), (TARGET, index.targets))}
    for name, side in index.sides.items():
        tensors[f"{name}.vectors"] = torch.from_numpy(side.vectors)
        tensors[f"{name}.sentence"] = torch.from_numpy(side.sentence)
        tensors[f"{name}.word"] = torch.from_numpy(side.word)
    write_file(path, save_tensors(tensors, {"format": FORMAT, "model": index.model}))


def read_index(path: Path, model: nn.Module) -> WordIndex:
    """The index in a file, if it is one of this model; every number in it is checked."""
    try:
        size = os.stat(path).st_size
    except OSError as error:
        raise UserError(f"{path}: no index there ({error.strerror}); make one: regard index MODEL") from None
    if size > MOST_BYTES:
        raise UserError(f"{path}: an index has at most {MOST_BYTES >> 30} GiB; make a smaller one with --limit")
    notes = read_header(path).notes
    if notes.get("format") != FORMAT or "model" not in notes:
        raise UserError(f"{path}: is no index of this version; make it again: regard index MODEL")
    if notes["model"] != weights_hash(model):
        raise UserError(f"{path}: is the index of another model; make one of this: regard index MODEL")
    tensors = load_tensors(path)
    try:
        sources, targets = (_words(tensors[f"{name}.text"], path) for name in (SOURCE, TARGET))
        sides = {name: _side(tensors, name, words, path) for name, words in ((SOURCE, sources), (TARGET, targets))}
    except KeyError as error:
        raise UserError(f"{path}: is damaged: {error} is missing; make it again: regard index MODEL") from None
    if len(sources) != len(targets):
        raise _damaged(path)
    return WordIndex(str(notes["model"]), sources, targets, sides)


def _side(tensors: dict[str, Tensor], name: str, words: list[list[str]], path: Path) -> Side:
    vectors, sentence, word = (tensors[f"{name}.{part}"] for part in ("vectors", "sentence", "word"))
    rows = len(vectors) if vectors.dim() == 2 else -1
    integers = vectors.dtype == torch.int8 and sentence.dtype == word.dtype == torch.int32
    if not integers or sentence.shape != (rows,) or word.shape != (rows,):
        raise _damaged(path)
    counts = np.array([len(one) for one in words], np.int64)
    at, which = sentence.numpy(), word.numpy()
    if rows and (at.min() < 0 or at.max() >= len(counts) or which.min() < 0 or (which >= counts[at]).any()):
        raise _damaged(path)
    return Side(vectors.numpy(), at, which)


def _text(sentences: Sequence[Sequence[str]]) -> Tensor:
    """Lines of words, as bytes. Words have no spaces in them."""
    lines = "\n".join(" ".join(words) for words in sentences)
    return torch.frombuffer(bytearray(lines.encode("utf-8", "replace") or b" "), dtype=torch.uint8)


def _words(text: Tensor, path: Path) -> list[list[str]]:
    if text.dtype != torch.uint8 or text.dim() != 1:
        raise _damaged(path)
    try:
        return [line.split(" ") for line in text.numpy().tobytes().decode("utf-8").split("\n")]
    except UnicodeDecodeError:
        raise _damaged(path) from None


def _damaged(path: Path) -> UserError:
    return UserError(f"{path}: is damaged; make it again: regard index MODEL")
