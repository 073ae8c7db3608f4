"""Exports a Transformer for CTranslate2, a C++ inference engine: the same weights, vocabulary and special tokens.

Search and its rules are not exported: CTranslate2 has its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.data.tokenizer._base import Tokenizer
from regard.decoder.transformer import TransformerDecoder
from regard.encoder.transformer import TransformerEncoder
from regard.errors import UserError
from regard.find_model import find_model
from regard.layers.attention.multi_head import MultiHead
from regard.layers.embedding import TokenEmbedding
from regard.loading import read_model
from regard.model.seq2seq import Seq2Seq
from regard.stem.tokens import Tokens
from regard.storage import read_folder
from regard.types import BEGIN, END, UNKNOWN

__all__ = ["export", "write"]

PRECISIONS = ("float32", "bfloat16", "float16", "int16", "int8")
POSITIONS = 1025
"""Rows of the table for unlimited positions: CTranslate2's default input limit, and END."""


def export(name: str | Path, folder: str | Path, precision: str = "int8") -> Path:
    """Writes a model and its tokenizer into a new folder that `ctranslate2.Translator` loads."""
    if Path(folder).exists():
        raise UserError(f"{folder} already exists; choose another folder")
    recipe, tokenizer, model = read_model(read_folder(find_model(name)))
    if recipe.task != "translate" or not isinstance(tokenizer, Tokenizer):
        raise UserError(f"{name}: CTranslate2 is for models that translate; this one is made to {recipe.task}")
    pieces = tokenizer.pieces(range(len(tokenizer)))
    write(model, pieces, Path(folder), precision, tokenizer.files(), str(name))
    return Path(folder)


def write(
    model: nn.Module,
    pieces: Sequence[str],
    folder: Path,
    precision: str = "float32",
    files: Mapping[str, bytes] | None = None,
    where: str = "model",
) -> None:
    """Writes a model whose token i is spelled `pieces[i]`, with further `files` beside it."""
    spec = specification(model, pieces, where)
    if precision not in PRECISIONS:
        raise UserError(f"precision '{precision}' is not known to CTranslate2; use {', '.join(PRECISIONS)}")
    spec.validate()
    spec.optimize(quantization=precision)
    with _arriving_whole(folder) as place:
        spec.save(str(place))
        for name, content in (files or {}).items():
            (place / name).write_bytes(content)


def specification(model: nn.Module, pieces: Sequence[str], where: str = "model") -> Any:
    """The model as a `ctranslate2.specs.TransformerSpec`; unsupported models are refused."""
    try:
        from ctranslate2 import specs
    except ImportError:
        raise UserError("this needs the package ctranslate2; install it with: pip install ctranslate2") from None

    if not isinstance(model, Seq2Seq):
        raise UserError(f"{where}: CTranslate2 runs models that read and write; this is a {type(model).__name__}")
    stem, encoder, decoder = cast(Any, model.stem), cast(Any, model.encoder), cast(Any, model.decoder)
    for part, kind in ((stem, Tokens), (encoder, TransformerEncoder), (decoder, TransformerDecoder)):
        if type(part) is not kind:
            raise UserError(f"{where}: CTranslate2 runs Transformers alone; this model has a {type(part).__name__}")
    if len(set(pieces)) < len(pieces):
        raise UserError(f"{where}: two tokens of this model are spelled alike, so CTranslate2 cannot tell them apart")

    reader = specs.TransformerEncoderSpec(
        **_shape(encoder, where), layernorm_embedding=isinstance(stem.embedding.norm, nn.LayerNorm)
    )
    _set_embedding(reader, reader.embeddings[0], stem.embedding)
    if isinstance(stem.embedding.norm, nn.LayerNorm):
        _set(reader.layernorm_embedding, stem.embedding.norm)
    _set_layers(reader, encoder)

    writer = specs.TransformerDecoderSpec(**_shape(decoder, where))
    _set_embedding(writer, writer.embeddings, decoder.embedding)
    writer.projection.weight = _values(decoder.output_weight())
    _set_layers(writer, decoder)
    for ours, theirs in zip(decoder.layers, writer.layer):
        _set_cross_attention(theirs.attention, ours.cross_attention)
        _set(theirs.attention.layer_norm, ours.around_cross_attention.norm)

    spec = specs.TransformerSpec(reader, writer)
    spec.register_source_vocabulary(list(pieces))
    spec.register_target_vocabulary(list(pieces))
    spec.config.unk_token, spec.config.eos_token = pieces[UNKNOWN], pieces[END]
    spec.config.bos_token = spec.config.decoder_start_token = pieces[BEGIN]
    spec.config.add_source_eos = True  # our sources end with END
    return spec


def _shape(part: Any, where: str) -> dict[str, Any]:
    from ctranslate2.specs import common_spec

    first = part.layers[0]
    activation = first.feed_forward.activation
    if isinstance(activation, nn.ReLU):
        theirs = common_spec.Activation.RELU
    elif isinstance(activation, nn.GELU):
        tanh = activation.approximate == "tanh"
        theirs = common_spec.Activation.GELUTanh if tanh else common_spec.Activation.GELU
    else:
        raise UserError(f"{where}: CTranslate2 has no {type(activation).__name__} activation; it has relu and gelu")
    return {
        "num_layers": len(part.layers),
        "num_heads": first.attention.heads,
        "pre_norm": first.around_attention.first,
        "activation": theirs,
    }


def _set_embedding(side: Any, table: Any, ours: TokenEmbedding) -> None:
    table.weight = _values(ours.table.weight)
    side.scale_embeddings = ours.scale != 1.0
    limit = ours.position.limit
    # CTranslate2 would put all sines before all cosines; ours alternate as in the paper. So it gets a table.
    positions = torch.arange(POSITIONS if limit is None else limit, device=ours.table.weight.device)
    side.position_encodings.encodings = _values(ours.position(positions))


def _set_layers(side: Any, part: Any) -> None:
    """Self-attention, feed-forward and, of a pre-norm stack, the final norm."""
    for ours, theirs in zip(part.layers, side.layer):
        _set(theirs.self_attention.linear[0], ours.attention.inward)
        _set(theirs.self_attention.linear[1], ours.attention.outward)
        _set(theirs.self_attention.layer_norm, ours.around_attention.norm)
        _set(theirs.ffn.linear_0, ours.feed_forward.inward)
        _set(theirs.ffn.linear_1, ours.feed_forward.outward)
        _set(theirs.ffn.layer_norm, ours.around_feed_forward.norm)
    if isinstance(part.norm, nn.LayerNorm):
        _set(side.layer_norm, part.norm)


def _set_cross_attention(theirs: Any, ours: MultiHead) -> None:
    """CTranslate2 stores the query projection separately from that of keys and values."""
    query, both, outward = theirs.linear
    weight, bias = _values(ours.inward.weight), _values(ours.inward.bias)
    query.weight, query.bias = weight[: ours.width], bias[: ours.width]
    both.weight, both.bias = weight[ours.width :], bias[ours.width :]
    _set(outward, ours.outward)


def _set(theirs: Any, ours: nn.Module) -> None:
    weight, bias = _values(ours.weight), _values(ours.bias)  # type: ignore[arg-type]
    if isinstance(ours, nn.LayerNorm):
        theirs.gamma, theirs.beta = weight, bias
    else:
        theirs.weight, theirs.bias = weight, bias


def _values(tensor: Tensor) -> Tensor:
    """A copy, because CTranslate2 quantises in place."""
    return tensor.detach().to("cpu", torch.float32, copy=True).contiguous()


@contextmanager
def _arriving_whole(folder: Path) -> Iterator[Path]:
    """A temporary folder that gets its final name when all files are on the disk."""
    place = folder.parent / f".{folder.name}.{os.getpid()}.tmp"
    try:
        place.mkdir(parents=True)
        yield place
        for path in place.iterdir():
            with path.open("r+b") as file:
                os.fsync(file.fileno())
        os.rename(place, folder)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}; choose another folder") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
