"""Hugging Face folders of tiny models with random weights, made by transformers' own save_pretrained."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.data import imported_text

WIDTH, HEADS, INNER = 16, 2, 24
BART_SHAPE = {
    "d_model": WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": INNER,
    "decoder_ffn_dim": INNER,
    "max_position_embeddings": 128,
}
SHARP = 2.0
SCORES = re.compile(r"(\b|\.)[qk](_proj)?\.weight")
"""Small weights of queries and keys: a sharp softmax would enlarge rounding."""
T5_SHAPE = {"d_model": WIDTH, "d_kv": 6, "d_ff": INNER, "num_layers": 2, "num_heads": 3}
LANGUAGES = ["eng_Latn", "fra_Latn", "deu_Latn"]
MBART_LANGUAGES = ["de_DE", "en_XX", "fr_XX"]


def texts(count: int = 200) -> list[str]:
    """Sentences of several languages; none is split, and no two are alike."""
    return list(dict.fromkeys(imported_text.lines(count + 50, seed=5)))[:count]


def randomised(model: Any, seed: int = 3, ending: float = 0.0) -> Any:
    """Every weight is drawn anew, so that none can be left out unnoticed, and such that outputs vary.

    Of a tied table the last token's row is the likeliest next one, unless the layers say more than it; a large last
    norm makes probabilities as decided as a trained model's. `ending` raises the bias of the end, where there is one.
    """
    torch.manual_seed(seed)
    config = model.config
    deep = getattr(config, "decoder_layers", 0) - 1
    last = ("decoder.layer_norm.weight", "decoder.final_layer_norm.weight")
    names = dict(model.named_parameters())
    if not any(name.endswith(last) for name in names):
        last = (f"decoder.layers.{deep}.final_layer_norm.weight",)
    with torch.no_grad():
        for name, parameter in names.items():
            if not parameter.requires_grad:
                continue  # computed positions
            if parameter.dim() > 1:
                small = any(one in name for one in ("shared", "embed_tokens", "lm_head"))
                parameter.normal_(std=0.5 if small else 0.35 if SCORES.search(name) else 0.6)
            elif "norm" in name and name.endswith("weight"):
                parameter.normal_(1.0, 0.2)
                if name.endswith(last):
                    parameter.mul_(SHARP)
            else:
                parameter.normal_(std=0.2)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(std=0.5)
            model.final_logits_bias[0, config.eos_token_id] += ending
    return model.eval()


def save(model: Any, folder: Path, *, weights: str = "safetensors", shard: str = "1GB") -> None:
    """The folder; weights as "safetensors" or "bin", in files of at most `shard`."""
    model.save_pretrained(folder, max_shard_size=shard)
    if weights == "bin":
        for file in folder.glob("model*.safetensors*"):
            file.unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")


def marian_tokenizer(folder: Path, separate: bool = False, tags: tuple[str, ...] = ()) -> Any:
    """Two sentencepiece models and vocab.json; <pad> is its last row, as in OPUS-MT."""
    folder.mkdir(parents=True, exist_ok=True)
    source, target = imported_text.model(size=200), imported_text.model(size=190, seed=2)
    mine, other = imported_text.pieces_of(source), imported_text.pieces_of(target)
    tokens = ["</s>", "<unk>", *(mine if separate else dict.fromkeys([*mine, *other])), *tags]
    others = ["</s>", "<unk>", *other]
    if separate:  # one row of padding for both: config.json has one number for it
        size = max(len(tokens), len(others))
        tokens += [f"filler{i}" for i in range(size - len(tokens))]
        others += [f"filler{i}" for i in range(size - len(others))]
    for name, table in (("vocab.json", tokens), ("target_vocab.json", others)):
        if separate or name == "vocab.json":
            (folder / name).write_text(json.dumps({one: i for i, one in enumerate([*table, "<pad>"])}))
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    more = {"target_vocab_file": str(folder / "target_vocab.json")} if separate else {}
    made = transformers.MarianTokenizer(*files, separate_vocabs=separate, source_lang="de", target_lang="fr", **more)
    made.save_pretrained(folder)
    return made


def marian(
    folder: Path, *, separate: bool = False, tags: tuple[str, ...] = (), ending: float = 2.0, **changes: Any
) -> Any:
    tokenizer = marian_tokenizer(folder, separate, tags)
    size = len(json.loads((folder / "vocab.json").read_text()))
    saved = {key: changes.pop(key) for key in ("weights", "shard") if key in changes}
    config = transformers.MarianConfig(
        **BART_SHAPE
        | {
            "vocab_size": size,
            "pad_token_id": size - 1,
            "decoder_start_token_id": size - 1,
            "eos_token_id": 0,
            "bad_words_ids": [[size - 1]],
            "scale_embedding": True,
            "share_encoder_decoder_embeddings": not separate,
        }
        | changes
    )
    model = randomised(transformers.MarianMTModel(config), ending=ending)
    save(model, folder, **saved)
    return model, tokenizer


def pegasus(folder: Path, **changes: Any) -> Any:
    tokenizer = _t5_tokenizer(folder)
    return _saved(
        folder,
        tokenizer,
        transformers.PegasusForConditionalGeneration,
        transformers.PegasusConfig,
        BART_SHAPE | {"vocab_size": len(tokenizer), "activation_function": "relu", "scale_embedding": True},
        changes,
    )


def m2m100(folder: Path, **changes: Any) -> Any:
    """A vocab.json beside the sentencepiece model; the tags of 100 languages follow."""
    folder.mkdir(parents=True, exist_ok=True)
    model = imported_text.model("bpe", size=200)
    tokens = [*FAIRSEQ, *imported_text.pieces_of(model)]
    (folder / "vocab.json").write_text(json.dumps({one: i for i, one in enumerate(tokens)}))
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    tokenizer = transformers.M2M100Tokenizer(str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"))
    tokenizer.save_pretrained(folder)
    size = len(tokens) + 108
    return _saved(
        folder,
        tokenizer,
        transformers.M2M100ForConditionalGeneration,
        transformers.M2M100Config,
        BART_SHAPE | {"vocab_size": size},
        changes,
    )


def nllb(folder: Path, *, sentencepiece: bool = False, **changes: Any) -> Any:
    """A tokenizer.json, and with `sentencepiece` the model that it was made of."""
    tokenizer = _fairseq_tokenizer(folder, transformers.NllbTokenizer, "bpe", LANGUAGES, sentencepiece)
    return _saved(
        folder,
        tokenizer,
        transformers.M2M100ForConditionalGeneration,
        transformers.M2M100Config,
        BART_SHAPE | {"vocab_size": len(tokenizer)},
        changes,
    )


def mbart(folder: Path, *, fifty: bool = True, **changes: Any) -> Any:
    """mBART-50, whose decoder starts with </s>; or mBART, whose decoder starts with the tag of its language."""
    kind = transformers.MBart50Tokenizer if fifty else transformers.MBartTokenizer
    tokenizer = _fairseq_tokenizer(folder, kind, "unigram", MBART_LANGUAGES, False)
    start = 2 if fifty else tokenizer.convert_tokens_to_ids("fr_XX")
    return _saved(
        folder,
        tokenizer,
        transformers.MBartForConditionalGeneration,
        transformers.MBartConfig,
        BART_SHAPE | {"vocab_size": len(tokenizer), "decoder_start_token_id": start, "activation_function": "relu"},
        changes,
    )


def bart(folder: Path, **changes: Any) -> Any:
    import tokenizers as library

    folder.mkdir(parents=True, exist_ok=True)
    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = library.pre_tokenizers.ByteLevel.alphabet()
    trainer = library.trainers.BpeTrainer(
        vocab_size=330, special_tokens=list(FAIRSEQ), initial_alphabet=letters, show_progress=False
    )
    made.train_from_iterator(imported_text.lines(), trainer)
    saved = json.loads(made.to_str())["model"]
    tokenizer = transformers.BartTokenizer(saved["vocab"], [tuple(one) for one in saved["merges"]])
    tokenizer.save_pretrained(folder)
    return _saved(
        folder,
        tokenizer,
        transformers.BartForConditionalGeneration,
        transformers.BartConfig,
        BART_SHAPE | {"vocab_size": len(tokenizer)},
        changes,
    )


def t5(folder: Path, *, multilingual: bool = False, sentencepiece: bool = False, **changes: Any) -> Any:
    """T5, or mT5 with `multilingual`; rows of the table that are no tokens follow the vocabulary."""
    tokenizer = _t5_tokenizer(folder, sentencepiece)
    model, config = transformers.T5ForConditionalGeneration, transformers.T5Config
    if multilingual:
        model, config = transformers.MT5ForConditionalGeneration, transformers.MT5Config
    shape = T5_SHAPE | {"vocab_size": len(tokenizer) + 3, "decoder_start_token_id": 0}
    return _saved(folder, tokenizer, model, config, shape, changes)


FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")


def _saved(
    folder: Path, tokenizer: Any, model: Any, config: Any, shape: dict[str, Any], changes: dict[str, Any]
) -> Any:
    saved = {key: changes.pop(key) for key in ("weights", "shard") if key in changes}
    made = randomised(model(config(**shape | changes)), ending=changes.pop("ending", 2.0))
    save(made, folder, **saved)
    return made, tokenizer


def _t5_tokenizer(folder: Path, sentencepiece: bool = False) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    model = imported_text.model(size=220, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "spiece.model").write_bytes(model)
    tokenizer = transformers.T5Tokenizer.from_pretrained(str(folder), extra_ids=5)
    tokenizer.save_pretrained(folder)
    if not sentencepiece:
        (folder / "spiece.model").unlink()
    return tokenizer


def _fairseq_tokenizer(folder: Path, kind: Any, model: str, languages: list[str], sentencepiece: bool) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "sentencepiece.bpe.model"
    file.write_bytes(imported_text.model(model, size=220))
    tokenizer = kind.from_pretrained(str(folder))
    tokenizer.add_special_tokens({"additional_special_tokens": languages})
    tokenizer.save_pretrained(folder)
    if not sentencepiece:
        file.unlink()
    return tokenizer


VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "marian": (marian, {"activation_function": "swish"}),
    "marian tc-big": (
        marian,
        {"activation_function": "relu", "decoder_layers": 1, "decoder_ffn_dim": 40, "decoder_attention_heads": 4},
    ),
    "marian untied, unscaled": (marian, {"tie_word_embeddings": False, "scale_embedding": False}),
    "marian separate": (marian, {"separate": True, "weights": "bin"}),
    "marian tags": (marian, {"tags": (">>deu<<", ">>fra<<"), "shard": "20KB"}),
    "pegasus": (pegasus, {}),
    "m2m100": (m2m100, {"encoder_layers": 3}),
    "nllb": (nllb, {"activation_function": "gelu", "weights": "bin"}),
    "nllb sentencepiece": (nllb, {"sentencepiece": True, "scale_embedding": False}),
    "mbart-50": (mbart, {"scale_embedding": True}),
    "mbart": (mbart, {"fifty": False, "activation_function": "gelu"}),
    "bart": (bart, {"activation_function": "gelu_new"}),
    "t5": (t5, {"feed_forward_proj": "relu"}),
    "t5 v1.1": (
        t5,
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_decoder_layers": 1},
    ),
    "t5 sentencepiece": (
        t5,
        {"sentencepiece": True, "feed_forward_proj": "gated-silu", "relative_attention_num_buckets": 8},
    ),
    "mt5": (t5, {"multilingual": True, "relative_attention_max_distance": 40}),
}
"""Folders as they differ in the wild."""
