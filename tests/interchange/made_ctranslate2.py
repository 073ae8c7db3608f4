"""CTranslate2 folders for the tests: random models of transformers, and of OpenNMT-py's shape, by their converters."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import sentencepiece
import torch
import transformers
from ctranslate2 import specs
from ctranslate2.converters import TransformersConverter

from regard.interchange.read._ctranslate2_file import Variables

LINES = [
    "der alte Hund läuft über die Straße", "das Haus ist schön und groß", "wo ist der Bahnhof ?", "sie liest ein Buch.",
    "ein Mann und eine Frau gehen in den Garten", "heute regnet es, morgen nicht !", "drei kleine Katzen schlafen hier",
    "ich habe keine Zeit", "wir sehen uns am Abend", "der Zug kommt um acht Uhr", "gib mir bitte das Salz",
]  # fmt: skip
WIDTH = 16


def pieces_and_model() -> tuple[list[str], bytes]:
    """A sentencepiece model, and its pieces without <unk>, <s> and </s>."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=out, vocab_size=90, hard_vocab_limit=False, minloglevel=2
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
    return [processor.id_to_piece(i) for i in range(3, len(processor))], out.getvalue()


PIECES, SENTENCEPIECE = pieces_and_model()
CUT = sentencepiece.SentencePieceProcessor(model_proto=SENTENCEPIECE)


def sentences(count: int, seed: int = 3) -> list[str]:
    words = sorted({word for line in LINES for word in line.split()})
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(words, random.integers(1, 9))) for _ in range(count)]


class Spelling:
    """What the converter asks of a tokenizer of transformers."""

    def __init__(self, tokens: list[str], **special: str | None):
        self.tokens = tokens
        self.bos_token, self.eos_token = special.get("bos", "<s>"), special.get("eos", "</s>")
        self.unk_token, self.pad_token = special.get("unk", "<unk>"), special.get("pad", "<pad>")
        self.unk_token_id, self.special_tokens_map = tokens.index("<unk>"), {}

    def get_vocab(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def convert_ids_to_tokens(self, number: int) -> str:
        return self.tokens[number]


MARIAN = ["</s>", "<unk>", *PIECES, "<pad>"]
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>", *PIECES]
T5 = ["<pad>", "</s>", "<unk>", *PIECES]
SMALL = {
    "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64,
}  # fmt: skip
BART = {"normalize_before": False}  # the converter asks for it, and transformers states it no more
T5_SMALL = {"d_model": WIDTH, "d_ff": 32, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}


def _marian(**more: Any) -> Any:
    return transformers.MarianConfig(
        vocab_size=len(MARIAN), pad_token_id=len(MARIAN) - 1, decoder_start_token_id=len(MARIAN) - 1, eos_token_id=0,
        forced_eos_token_id=0, **{**SMALL, **more},
    )  # fmt: skip


def _fairseq(kind: Any, **more: Any) -> Any:
    return kind(
        vocab_size=len(FAIRSEQ), bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2,
        **{**SMALL, **more},
    )  # fmt: skip


def _t5(kind: Any, **more: Any) -> Any:
    return kind(vocab_size=len(T5), pad_token_id=0, eos_token_id=1, **{**T5_SMALL, "d_kv": 8, **more})


MODELS = {
    "marian": (lambda: transformers.MarianMTModel(_marian()), MARIAN),
    "marian, relu, no scale": (
        lambda: transformers.MarianMTModel(_marian(activation_function="relu", scale_embedding=False)),
        MARIAN,
    ),
    "m2m100": (lambda: transformers.M2M100ForConditionalGeneration(_fairseq(transformers.M2M100Config)), FAIRSEQ),
    "bart": (lambda: transformers.BartForConditionalGeneration(_fairseq(transformers.BartConfig, **BART)), FAIRSEQ),
    "t5": (lambda: transformers.T5ForConditionalGeneration(_t5(transformers.T5Config)), T5),
    "t5, gated, untied, narrow heads": (
        lambda: transformers.T5ForConditionalGeneration(
            _t5(transformers.T5Config, feed_forward_proj="gated-gelu", tie_word_embeddings=False, d_kv=4)
        ),
        T5,
    ),
    "mt5": (lambda: transformers.MT5ForConditionalGeneration(_t5(transformers.MT5Config)), T5),
}


def converted(name: str, place: Path, precision: str | None = None) -> Path:
    """A model of `MODELS` with random weights, as CTranslate2's converter writes it, with its sentencepiece model."""
    make, tokens = MODELS[name]
    torch.manual_seed(11)
    model = make().eval()
    with torch.no_grad():  # fresh biases and norms are zeros and ones, and fresh models say the same to everything
        for key, parameter in model.named_parameters():
            if parameter.ndim < 2:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif "embed" in key or "shared" in key or "lm_head" in key:
                parameter.normal_(std=0.5)
            else:
                parameter.normal_(std=(3 if "enc" in key else 1) * parameter.shape[1] ** -0.5)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(std=0.3)
    model.save_pretrained(place / "transformers")

    class Converter(TransformersConverter):
        def load_tokenizer(self, tokenizer_class: Any, model_name_or_path: str, **kwargs: Any) -> Any:
            return Spelling(tokens, bos=None if name.startswith("marian") else "<s>")

    out = place / f"{name} {precision}"
    Converter(str(place / "transformers")).convert(str(out), quantization=precision)
    (out / "sentencepiece.model").write_bytes(SENTENCEPIECE)
    return out


def opennmt(
    place: Path, precision: str | None = None, separate: bool = True, positions: bool = True, **config: Any
) -> Path:
    """A model of the shape that OpenNMT-py trains and Argos packs: two vocabularies, an untied output with a bias."""
    random = np.random.default_rng(5)

    def noise(*shape: int, scale: float = 0.4, around: float = 0.0) -> np.ndarray:
        return (around + scale * random.standard_normal(shape)).astype(np.float32)

    source = ["<unk>", "<blank>", "<s>", "</s>", *PIECES]
    target = ["<unk>", "<blank>", "<s>", "</s>", *reversed(PIECES[5:])] if separate else source
    spec = specs.TransformerSpec.from_config((2, 2), 2, pre_norm=True)
    columns = np.arange(WIDTH)
    angles = np.arange(100)[:, None] * 10000.0 ** (-(columns // 2 * 2) / WIDTH)
    table = np.where(columns % 2 == 0, np.sin(angles), np.cos(angles)).astype(np.float32)

    def fill(layer: Any, name: str, value: Any) -> None:
        leaf = name.rpartition("/")[2]
        shapes = {"gamma": (WIDTH,), "beta": (WIDTH,)}
        if leaf in shapes:
            setattr(layer, leaf, noise(*shapes[leaf], scale=0.1, around=float(leaf == "gamma")))
        elif leaf == "encodings":
            layer.encodings = table if positions else specs.model_spec.OPTIONAL
        elif leaf == "weight":
            rows, across = _shape(name, len(source), len(target))
            layer.weight = noise(rows, across)
            if hasattr(layer, "bias"):
                layer.bias = noise(rows, scale=0.2)

    specs.model_spec.visit_spec(spec, fill)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    for key, value in config.items():
        setattr(spec.config, key, value)
    spec.validate()
    spec.optimize(quantization=precision)
    place.mkdir(parents=True)
    spec.save(str(place))
    (place / "sentencepiece.model").write_bytes(SENTENCEPIECE)
    return place


def _shape(name: str, source: int, target: int) -> tuple[int, int]:
    if "embeddings" in name:
        return (source if name.startswith("encoder") else target), WIDTH
    if "projection" in name:
        return target, WIDTH
    if "ffn" in name:
        return (32, WIDTH) if "linear_0" in name else (WIDTH, 32)
    if "self_attention" in name:
        return (3 * WIDTH if "linear_0" in name else WIDTH), WIDTH
    return (2 * WIDTH if "linear_1" in name else WIDTH), WIDTH


SHARED = ("num_heads", "pre_norm", "activation", "embeddings_merge", "alignment_layer", "alignment_heads")


def older(folder: Path, version: int, revision: int) -> Path:
    """The same model as an older version of CTranslate2 wrote it: no config.json, types told by their width, one
    number of heads for both sides."""
    stored = Variables(folder / "model.bin")
    content = (folder / "model.bin").read_bytes()
    out = [struct.pack("<I", version), _text("TransformerSpec"), struct.pack("<I", revision), b""]
    arrays = {}
    aliases = {alias: stored._stored[name] for alias, name in stored._aliases.items()}
    for name, one in [*stored._stored.items(), *aliases.items()]:
        side, _, leaf = name.partition("/")
        if revision < 5 and leaf in SHARED:
            name = leaf
        arrays[name.replace("embeddings_0", "embeddings") if revision < 6 else name] = one
    for name, one in arrays.items():
        width = (4, 1, 2, 4, 2, 2)[one.kind]
        kind = (width, one.size // width) if version < 4 else (one.kind, one.size)
        data = content[one.offset : one.offset + one.size]
        shape = struct.pack(f"<B{len(one.shape)}I", len(one.shape), *one.shape)
        out += [_text(name), shape, struct.pack("<BI", *kind), data]
    out[3] = struct.pack("<I", len(arrays))
    if version >= 3:
        out.append(struct.pack("<I", 0))
    (folder / "model.bin").write_bytes(b"".join(out))
    if version < 6:
        (folder / "config.json").unlink()
    for path in folder.glob("*_vocabulary.json"):
        path.with_suffix(".txt").write_text("\n".join(json.loads(path.read_text())) + "\n")
        path.unlink()
    return folder


def _text(name: str) -> bytes:
    return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"


def translator(folder: Path) -> ctranslate2.Translator:
    return ctranslate2.Translator(str(folder), intra_threads=1, inter_threads=1, compute_type="float32")
