"""What families of language models share: the numbering of tokens, the tokenizer, the recipe and the output's bias."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from regard.config import Data, Decoding, Recipe
from regard.data import chat
from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError
from regard.interchange.families import _tokens
from regard.interchange.families._config import Config
from regard.interchange.families._entry import Entry
from regard.interchange.families._task_family import Reading, TaskFamily
from regard.interchange.families._vocabulary import NEVER, Vocabulary, renumbered
from regard.interchange.read.foreign_folder import ForeignFolder
from regard.interchange.read.stored_tensors import StoredTensors
from regard.special_tokens import END

if TYPE_CHECKING:
    from torch import Tensor

VOCABULARY, MERGES, SENTENCEPIECE = "vocab.json", "merges.txt", "tokenizer.model"
TEMPLATE = "chat_template.jinja"
TABLE, OUTPUT = "decoder.embedding.table.weight", "decoder.output.weight"
_CONTEXT = 1 << 17
"""Tokens of the largest context that a recipe may state."""
_SAMPLING: dict[str, tuple[Any, ...]] = {
    "temperature": (1, 1.0),
    "top_k": (0, 50),  # 50 is what transformers fills in
    "top_p": (1, 1.0),
    "repetition_penalty": (1, 1.0),
    "no_repeat_ngram_size": (0,),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
}
"""Generation settings that belong to a command here, and their values without effect."""


def numbering(
    config: Config, generation: Config, files: ForeignFolder, pieces: Mapping[int, str], size: int
) -> Vocabulary:
    """Padding is a copy of the end, since a text that is read from left to right never sees what follows it; a role
    that no token has is, too."""
    by_name = {piece: id for id, piece in pieces.items()}
    end = end_of_text(config, generation, by_name.get(_tokens.special_token(files, "eos_token", "")), size)
    begin = _tokens.token_id(config, generation, "bos_token_id", size, end)
    unknown = by_name.get(_tokens.special_token(files, "unk_token", ""), end)
    config.optional_integer("pad_token_id", least=-1, most=size - 1)
    return renumbered(size, end, unknown, begin, end)


def end_of_text(config: Config, generation: Config, named: int | None, size: int) -> int:
    """The end; of several the one that the tokenizer calls so."""
    for place in (generation, config):
        value = place.get("eos_token_id")
        ends = value if isinstance(value, list) else [value]
        if value is None:
            continue
        if not ends or any(type(one) is not int or not 0 <= one < size for one in ends):
            raise place.refuse("eos_token_id", f"ids below {size:,} are needed")
        return named if named in ends and named is not None else int(ends[0])
    raise UserError(f"{config.where}: eos_token_id is missing; take another copy of the folder")


def pieces_of(files: ForeignFolder, size: int) -> dict[int, str]:
    """The tokens by id, of whichever files there are."""
    if _tokens.TOKENIZER in files:
        found = _tokens.hugging_face_pieces(files)
    elif SENTENCEPIECE in files:
        _, processor = _tokens.sentencepiece_model(files, SENTENCEPIECE)
        found = dict(enumerate(_tokens.pieces_of(processor))) | _tokens.added_tokens(files)
    else:
        found = _tokens.vocabulary_file(files, VOCABULARY, size) | _tokens.added_tokens(files)
    if found and max(found) >= size:
        raise UserError(
            f"{files.path}: the tokenizer has a token with the id {max(found):,}, but the embedding has {size:,} rows; "
            "take another copy of the folder"
        )
    return found


def tokenizer(files: ForeignFolder, vocabulary: Vocabulary, pieces: Mapping[int, str]) -> Tokenizer:
    """The tokenizer of tokenizer.json or, of older folders, of tokenizer.model, or of vocab.json and merges.txt."""
    from regard.data.tokenizer.hugging_face import HuggingFace

    if _tokens.TOKENIZER not in files and SENTENCEPIECE in files:
        model, processor = _tokens.sentencepiece_model(files, SENTENCEPIECE)
        added = {piece for id, piece in pieces.items() if id >= len(processor)}
        return _tokens.sentencepiece_tokenizer(model, pieces, vocabulary, added)
    file = files.read(_tokens.TOKENIZER) if _tokens.TOKENIZER in files else of_merges(files, pieces)
    return HuggingFace(file, vocabulary.rows[4:], vocabulary.rows[:4])


def merges_of(files: ForeignFolder) -> list[list[str]]:
    try:
        lines = files.read(MERGES).decode().splitlines()
    except UnicodeDecodeError:
        raise UserError(f"{files.path / MERGES}: not UTF-8; take another copy") from None
    return [line.split(" ") for line in lines if line and not line.startswith("#version")]


def of_merges(files: ForeignFolder, pieces: Mapping[int, str]) -> bytes:
    special = _tokens.added_tokens(files) or {id: one for id, one in pieces.items() if one == "<|endoftext|>"}
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return byte_level(pieces, merges_of(files), dict.fromkeys(special, True), [split])


def byte_level(
    pieces: Mapping[int, str],
    merges: list[Any],
    added: Mapping[int, bool],
    split: list[dict[str, Any]],
    normalizer: dict[str, Any] | None = None,
    ignore_merges: bool = False,
) -> bytes:
    """A `tokenizer.json` of byte-level BPE; `added` are the tokens that are found before it, and which of them are
    special."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tree = {
        "version": "1.0",
        "added_tokens": [
            {"id": id, "content": pieces[id], **flags, "special": one} for id, one in sorted(added.items())
        ],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": split},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": ignore_merges,
            "vocab": {piece: id for id, piece in sorted(pieces.items())},
            "merges": merges,
        },
    }
    return json.dumps(tree, ensure_ascii=False).encode()


class LanguageModelFamily(TaskFamily):
    """A decoder without a source. A text begins with BEGIN, as the documents did in training."""

    table: ClassVar[str]
    """Their name of the token embedding."""
    output: ClassVar[str] = "lm_head.weight"
    tokens: ClassVar[int]
    """The tokens of a config that does not say how many."""
    tied: ClassVar[bool]
    """What a config means that does not say whether the output layer is the embedding."""

    def read(
        self,
        config: Config,
        generation: Config,
        files: ForeignFolder,
        stored: StoredTensors,
        note: Callable[[str], None],
    ) -> Reading:
        size = self._rows(config, stored)
        tie = config.flag("tie_word_embeddings", self.tied)
        if not tie and self.output not in stored:
            raise UserError(
                f"{stored.where}: tensor {self.output!r} is missing, and config.json says that it is not tied"
            )
        tie = tie and (self.output not in stored or stored.same(self.output, self.table))
        decoder, longest = self.decoder(config, tie), self.longest(config)
        pieces = pieces_of(files, size)
        vocabulary = numbering(config, generation, files, pieces, size)
        codec = tokenizer(files, vocabulary, pieces)
        entries = [*self.entries(decoder), bias(vocabulary)]
        unused = (*self.computed(decoder), *([self.output] if tie else []))
        made = recipe(decoder, longest, codec, generation, note)
        made.decoding.chat, made.decoding.system = chat_of(files, note)
        made.decoding.ends = other_ends(config, generation, codec, vocabulary)
        return Reading(made, codec, entries, vocabulary, unused)

    def _rows(self, config: Config, stored: StoredTensors) -> int:
        """The number of tokens, which the embedding confirms before anything is made of it."""
        size, shape = config.integer("vocab_size", self.tokens, least=4), stored.shape(self.table)
        if len(shape) != 2 or shape[0] != size:
            raise UserError(f"{config.where}: vocab_size = {size}: the embedding has the shape {shape}")
        return size

    @abstractmethod
    def decoder(self, config: Config, tie: bool) -> dict[str, Any]:
        """The recipe's decoder section. Refuses by name what a config states and we do not have."""

    @abstractmethod
    def longest(self, config: Config) -> int:
        """Positions that a text may have."""

    @abstractmethod
    def entries(self, decoder: Mapping[str, Any]) -> list[Entry]:
        """All parameters but the output's bias, for a decoder section with all that `decoder` states."""

    @abstractmethod
    def computed(self, decoder: Mapping[str, Any]) -> list[str]:
        """Tensors in files that hold what is computed here."""

    @abstractmethod
    def why_not(self, recipe: Recipe) -> str:
        """Why this family cannot hold a language model with this recipe exactly; empty if it can."""

    @abstractmethod
    def config(self, recipe: Recipe, rows: int, begin: int, end: int) -> dict[str, Any]:
        """Their config of a model with this recipe."""


def chat_of(files: ForeignFolder, note: Callable[[str], None]) -> tuple[str, str]:
    """The chat format and the default system message."""
    template: Any = _tokens.tokenizer_config(files).get("chat_template")
    if isinstance(template, list):  # several by name
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("default")
    if TEMPLATE in files:
        template = files.read(TEMPLATE).decode("utf-8", "replace")
    if not isinstance(template, str) or not template.strip():
        return "", ""
    found = chat.recognise(template)
    if found is None:
        note(f"its chat template is none of those known here ({', '.join(chat.FORMATS)}), so it continues texts alone")
    return found or ("", "")


def other_ends(config: Config, generation: Config, codec: Tokenizer, vocabulary: Vocabulary) -> list[str]:
    """Tokens besides END that end a text."""
    value = generation.get("eos_token_id") or config.get("eos_token_id")
    ours = vocabulary.ids()
    ids = [ours[one] for one in (value if isinstance(value, list) else []) if one in ours]
    return codec.names([id for id in ids if id > END])


def other_decoder(decoder: Mapping[str, Any], **values: object) -> str:
    """Why a decoder is no Transformer with these values of its keys; empty if it is one."""
    if decoder["kind"] != "transformer":
        return f"only a Transformer, not {decoder['kind']}"
    return next((f"only {key} = {str(v).lower()}" for key, v in values.items() if decoder[key] != v), "")


def table_of(spec: Any) -> dict[str, Any]:
    """A part of a recipe as a table with its kind."""
    return dict(spec) if isinstance(spec, dict) else {"kind": spec}


def recipe(
    decoder: dict[str, Any],
    longest: int,
    tokenizer: Tokenizer,
    generation: Config,
    note: Callable[[str], None],
) -> Recipe:
    for key, neutral in _SAMPLING.items():
        value = generation.get(key)
        if value is not None and value not in neutral:
            note(f"the generation setting {key} = {str(value)[:60]} is not applied; give it to the command")
    if longest > _CONTEXT:
        note(f"a context of {longest:,} tokens is cut to {_CONTEXT:,}")
    return Recipe(
        task="generate",
        data=Data(root="data", max_length=max(2, min(longest, _CONTEXT))),
        tokenizer={"kind": tokenizer.kind},
        model={"kind": "language_model", "decoder": decoder},
        decoding=Decoding(),
    )


def bias(vocabulary: Vocabulary) -> Entry:
    """The output's bias, which they do not have: it keeps copies of tokens out of the softmax."""

    def made() -> Tensor:
        import torch

        values = torch.zeros(len(vocabulary.rows))
        values[list(vocabulary.copies)] = NEVER
        return values

    return Entry("decoder.output_bias", (), make=made)
