"""The tokenizer of a model in the files that transformers reads, and the order of its tokens there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sentencepiece

from regard.config import Recipe
from regard.data.tokenizer._base import SPACE, Tokenizer
from regard.data.tokenizer.hugging_face import APOSTROPHES, DROPPED
from regard.errors import UserError
from regard.interchange.write._sentencepiece_normaliser import with_normaliser
from regard.storage import Folder
from regard.types import BEGIN, END, PAD, UNKNOWN

if TYPE_CHECKING:
    from regard.interchange.write.huggingface import Plan

_FIRST = 4
_OURS, _MODEL, _SOURCE, _TARGET, _FAST = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer.source.model",
    "tokenizer.target.model",
    "tokenizer.huggingface.json",
)
_CLASSES = {
    "marian": "MarianTokenizer",
    "m2m_100": "NllbTokenizer",
    "mbart": "MBart50Tokenizer",
    "bart": "BartTokenizer",
    "t5": "T5Tokenizer",
}


def order(origin: Folder, tokenizer: Tokenizer, variant: str, merged: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """Our ids in the order of their rows, of the source's and the target's vocabulary."""
    if tokenizer.kind == "hugging_face":
        saved = json.loads(origin.read(_OURS))
        rows = [*saved["special"], *saved["order"]]
        by_row: dict[int, int] = {}
        for id, row in enumerate(rows):
            if id not in merged:
                by_row.setdefault(row, id)
        both = [by_row[row] for row in range(len(by_row))] if sorted(by_row) == list(range(len(by_row))) else []
        if not both:
            raise UserError("tokenizer.json does not number all tokens; export the model it was made of")
        # A copy that training has changed is a token of its own now.
        both += [id for id in range(_FIRST) if id not in merged and id not in both]
        return both, both
    rest = list(range(_FIRST, len(tokenizer)))
    special = [id for id in (PAD, UNKNOWN, BEGIN, END) if id not in merged]
    if tokenizer.kind == "subword":
        return [*range(len(tokenizer))], [*range(len(tokenizer))]
    if tokenizer.kind != "sentencepiece":
        raise UserError(f"a tokenizer of the kind {tokenizer.kind} has no form that transformers reads")
    if variant == "marian":
        padding = BEGIN if PAD in merged else PAD
        others = [id for id in special if id not in (END, UNKNOWN, padding)]
        if "source_vocabulary" in tokenizer.sizes():
            target = [END, UNKNOWN, padding, *others, *range(_FIRST, len(tokenizer.target))]
            return [END, UNKNOWN, PAD, *rest], target
        both = [END, UNKNOWN, *rest, *others, padding]
        return both, both
    if variant == "t5":
        both = _at(_their_places(origin, merged), special, rest)
        return both, both
    saved = json.loads(origin.read(_OURS))
    if saved["tokens"][:1] != ["<s>"]:
        raise UserError(f"a tokenizer without <s> has no form that {variant} of transformers reads")
    both = _at({1: PAD, 2: END, 3: UNKNOWN}, special, rest)
    return both, both


def _their_places(origin: Folder, merged: Mapping[int, int]) -> dict[int, int]:
    """The rows of special tokens, which a sentencepiece model of T5's numbers itself."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=origin.read(_SOURCE))
    padding = processor.pad_id() if processor.pad_id() >= 0 else processor.bos_id()
    places = {padding: PAD, processor.unk_id(): UNKNOWN, processor.eos_id(): END}
    return {row: merged.get(id, id) for row, id in places.items()}


def _at(places: Mapping[int, int], special: list[int], rest: list[int]) -> list[int]:
    """Some ids at given rows, the others in order in the rows between, and special ones without a row last."""
    following = iter(rest)
    found: list[int] = []
    for row in range(len(places) + len(rest)):
        found.append(places[row] if row in places else next(following))
    return [*found, *(id for id in special if id not in found)]


def files(origin: Folder, recipe: Recipe, tokenizer: Tokenizer, variant: str, plan: Plan) -> dict[str, bytes]:
    """The tokenizer's files by name."""
    if tokenizer.kind == "hugging_face":
        config = {"tokenizer_class": _CLASSES.get(variant, "PreTrainedTokenizerFast")}
        return _fast(origin.read(_FAST), config, recipe, plan)
    if tokenizer.kind == "subword":
        if variant == "marian":
            # With our normalisation, which also takes the space between a tag and the text.
            source, target = (
                with_normaliser(origin.read(_MODEL), plain) for plain in (recipe.data.plain_source, False)
            )
            return _marian(source, target, recipe, tokenizer, plan)
        whole = json.dumps(unigram(origin.read(_MODEL), recipe), ensure_ascii=False).encode()
        config = {"tokenizer_class": "PreTrainedTokenizerFast"}
        return {**_fast(whole, config, recipe, plan), _MODEL: origin.read(_MODEL)}
    source = origin.read(_SOURCE)
    if variant == "marian":
        target = origin.read(_TARGET) if _TARGET in origin.names else source
        return _marian(source, target, recipe, tokenizer, plan)
    tags = [str(tag) for tag in recipe.languages.tags.values()]
    stated = {
        "tokenizer_class": _CLASSES[variant],
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "model_max_length": recipe.data.max_length,
    }
    pieces = _spelled(tokenizer, plan)
    cut = len(sentencepiece.SentencePieceProcessor(model_proto=source))
    if variant == "t5":
        # What follows the sentencepiece model's pieces is added.
        added = {row: piece for row, piece in enumerate(pieces) if row >= cut and not piece.startswith("<unused_")}
        stated |= {"extra_ids": sum(piece.startswith("<extra_id_") for piece in pieces)}
        return {"spiece.model": source, **_config(stated, added)}
    if all(tag.startswith("__") for tag in tags) and tags:
        known = {
            piece: row for row, piece in enumerate(pieces) if piece not in tags and not piece.startswith("<unused_")
        }
        stated |= {"tokenizer_class": "M2M100Tokenizer", "language_codes": "m2m100", "bos_token": "<s>"}
        return {"sentencepiece.bpe.model": source, "vocab.json": _json(known), **_config(stated, {})}
    added = {row: piece for row, piece in enumerate(pieces) if row > cut and not piece.startswith("<unused_")}
    stated |= {"extra_special_tokens": list(added.values()), "additional_special_tokens": list(added.values())}
    return {"sentencepiece.bpe.model": source, **_config(stated, added)}


def _spelled(tokenizer: Tokenizer, plan: Plan, source: bool = False) -> list[str]:
    """The piece of each of their rows; special tokens have their usual names."""
    side, rows = (tokenizer, plan.source) if source else (tokenizer.target, plan.target)
    pieces = side.names(rows)
    for row, id in enumerate(rows):
        if id == END:
            pieces[row] = "</s>"
        elif id == UNKNOWN:
            pieces[row] = "<unk>"
        elif row == plan.pad or (id == PAD and source):
            pieces[row] = "<pad>"
    return pieces


def _marian(source: bytes, target: bytes, recipe: Recipe, tokenizer: Tokenizer, plan: Plan) -> dict[str, bytes]:
    separate = plan.source is not plan.target
    tables = {"vocab.json": _spelled(tokenizer, plan, source=True)}
    if separate:
        tables["target_vocab.json"] = _spelled(tokenizer, plan)
    made = {}
    for name, pieces in tables.items():
        table = {piece: row for row, piece in enumerate(pieces)}
        if len(table) < len(pieces):
            raise UserError(
                "two tokens of this model are spelled alike, so Marian of transformers cannot tell them apart"
            )
        made[name] = _json(table)
    sources = recipe.languages.source
    stated = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": recipe.source_language or (sources[0] if len(sources) == 1 else None),
        "target_lang": recipe.target_language or None,
        "separate_vocabs": separate,
        "model_max_length": recipe.data.max_length,
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    return {"source.spm": source, "target.spm": target, **made, **_config(stated, {})}


def _config(stated: Mapping[str, Any], added: Mapping[int, str]) -> dict[str, bytes]:
    entries = {
        str(row): {
            "content": piece,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": True,
        }
        for row, piece in added.items()
    }
    return {"tokenizer_config.json": _json({**stated, **({"added_tokens_decoder": entries} if entries else {})})}


def _fast(file: bytes, config: Mapping[str, Any], recipe: Recipe, plan: Plan) -> dict[str, bytes]:
    """A tokenizer.json and what its special tokens are for."""
    whole = json.loads(file)
    listed = {entry["id"]: entry["content"] for entry in whole.get("added_tokens") or []}
    vocabulary = whole["model"]["vocab"]
    spelled = {id: one for one, id in vocabulary.items()} if isinstance(vocabulary, dict) else {}
    if not spelled:
        spelled = {id: entry[0] for id, entry in enumerate(vocabulary)}
    spelled |= listed
    roles = {"pad_token": plan.pad, "eos_token": plan.end, "unk_token": plan.target.index(UNKNOWN)}
    stated = {
        **config,
        **{role: spelled[row] for role, row in roles.items() if row in spelled},
        "clean_up_tokenization_spaces": False,
        "model_max_length": recipe.data.max_length,
    }
    tags = [str(tag) for tag in recipe.languages.tags.values()]
    if tags:
        stated |= {"extra_special_tokens": tags, "additional_special_tokens": tags}
    return {"tokenizer.json": file, "tokenizer_config.json": _json(stated)}


def unigram(model: bytes, recipe: Recipe) -> dict[str, Any]:
    """Our subword tokenizer as a tokenizer.json: the same pieces and scores, and the normalisation in front of them."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(id) for id in range(len(processor))]
    end = {"SpecialToken": {"id": pieces[END], "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special_tokens(pieces[:_FIRST]),
        "normalizer": normalizer(recipe.data.plain_source),
        "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, end],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}, end],
            "special_tokens": {pieces[END]: {"id": pieces[END], "ids": [END], "tokens": [pieces[END]]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "Unigram",
            "unk_id": UNKNOWN,
            "byte_fallback": True,
            "vocab": [[piece, processor.get_score(id)] for id, piece in enumerate(pieces)],
        },
    }


def normalizer(plain_source: bool) -> dict[str, Any]:
    """What data/normalise.py does to a text."""
    replaced = [(DROPPED, ""), *([(APOSTROPHES, "'")] if plain_source else [])]
    return {
        "type": "Sequence",
        "normalizers": [
            {"type": "Replace", "pattern": {"String": SPACE}, "content": "_"},
            *({"type": "Replace", "pattern": {"Regex": pattern}, "content": by} for pattern, by in replaced),
            {"type": "NFC"},
            {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
            {"type": "Strip", "strip_left": True, "strip_right": True},
        ],
    }


def special_tokens(pieces: Sequence[str]) -> list[dict[str, Any]]:
    """The first ids as added tokens, which texts do not contain."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [{"id": id, "content": piece, **flags, "special": True} for id, piece in enumerate(pieces)]


def _json(content: Any) -> bytes:
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()
