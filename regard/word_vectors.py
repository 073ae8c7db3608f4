"""Initialises token embeddings with word vectors from files (`model.stem.vectors`, `model.decoder.vectors`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.assemble import PARTS, VECTORS
from regard.data.codec import Codec, Pair
from regard.data.tokenizer._base import Tokenizer
from regard.data.vectors.file import width_of
from regard.data.vectors.matching import match
from regard.decoder._base import Decoder
from regard.errors import UserError
from regard.stem._base import Stem

WORDS_OF = "words_of"
"""A key of the word tokenizer: a file of vectors whose words join its vocabulary."""


def vectors_of(model: dict[str, Any]) -> dict[str, str]:
    """The word-vector file of each part of a resolved `model` section that names one."""
    return {part: model[part][VECTORS] for part in PARTS if model.get(part, {}).get(VECTORS)}


def check_vectors(model: nn.Module, files: dict[str, str]) -> None:
    """Refuses a missing file or one with vectors of another width; reads only its first lines."""
    for part, file in files.items():
        width, own = width_of(Path(file)), _table(model, part).shape[1]
        if width != own:
            raise UserError(
                f"model.{part}.{VECTORS}: {file} has vectors of {width} numbers, but the embedding is {own} wide; "
                f"set its width to {width} or learn vectors of {own}"
            )


def begin_with_vectors(model: nn.Module, files: dict[str, str], codec: Codec, note: Callable[[str], None]) -> None:
    """Copies word vectors into the embeddings of their parts; tokens without a vector keep their random one.

    All are scaled by one factor to the magnitude of the vectors they replace: cosine similarities do not change, and
    the layers above get inputs of the expected scale.
    """
    check_vectors(model, files)
    for part, file in files.items():
        table, found = _table(model, part), match(Path(file), _tokenizer(codec, part))
        if not len(found.ids):
            raise UserError(f"model.{part}.{VECTORS}: none of the {found.words:,} words of the vocabulary is in {file}")
        with torch.no_grad():
            values = torch.from_numpy(found.values).to(table)
            spread = values.square().mean().sqrt()
            table[torch.from_numpy(found.ids)] = values * (table.square().mean().sqrt() / spread.clamp(min=1e-12))
        share = len(found.ids) / found.words
        note(f"model.{part}: {len(found.ids):,} of {found.words:,} words ({share:.0%}) have a vector in {file}")


def _tokenizer(codec: Codec, part: str) -> Tokenizer:
    """The tokenizer of a part: one for both sides, or that of the source or the target."""
    if isinstance(codec, Pair):
        return (codec.input if part == "stem" else codec.target).tokenizer  # type: ignore[union-attr]
    return cast(Tokenizer, codec)


def _table(model: nn.Module, part: str) -> Tensor:
    found = model.get_submodule(part)
    embedding = found.embedding if isinstance(found, Decoder) else cast(Stem, found).token_embedding
    if embedding is None:
        raise UserError(f"model.{part}.{VECTORS}: this part has no token embedding")
    return embedding.table.weight
