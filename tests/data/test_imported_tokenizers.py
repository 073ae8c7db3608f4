"""Tokenizers of imported models: the same ids and texts as transformers' own, and damaged files refused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import transformers

from regard.data import tokenizer as tokenizers
from regard.data.tokenizer import _charsmap
from regard.data.tokenizer._base import Tokenizer
from regard.data.tokenizer.hugging_face import HuggingFace
from regard.data.tokenizer.sentencepiece import SentencePiece
from regard.errors import UserError
from regard.special_tokens import END
from tests.data import imported_text
from tests.data.imported_text import TRICKY, lines, model, pieces_of

TEXTS = [*TRICKY, *lines(60, seed=7)]


def agrees(theirs: Any, ours: Tokenizer, number: Mapping[int, int]) -> None:
    """Ids of texts, and texts of ids, made by a model or at random. `number` maps their ids to ours."""
    encoded = [ours.encode(text) for text in TEXTS]
    assert encoded == [[number[i] for i in theirs(text, add_special_tokens=False).input_ids] for text in TEXTS]
    assert ours.encode_many(TEXTS) == encoded
    back = {mine: foreign for foreign, mine in number.items()}
    draw = random.Random(3)
    visible = [i for i in range(4, len(ours.target)) if ours.target.surfaces([i])[0]]
    drawn = [draw.choices(visible, k=draw.randrange(12)) for _ in range(100)]
    for ids in [*drawn, *ours.target.encode_many(TEXTS)]:
        decoded = theirs.decode([back[i] for i in ids], skip_special_tokens=True)
        assert ours.target.decode(ids).strip() == decoded.strip()
        surfaces = ours.target.surfaces(ids)
        text = "".join(surfaces)
        assert (text.removeprefix(" ") if ours.target.drops_first_space else text) == ours.target.decode(ids)


def renumbered(ids: Mapping[int, int], unknown: int) -> dict[int, int]:
    return {**ids, unknown: 1}


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Any, SentencePiece, dict[int, int]]]:
    def make(separate: bool) -> tuple[Any, SentencePiece, dict[int, int]]:
        folder = tmp_path_factory.mktemp("marian")
        source, target = model(size=330), model(size=320, seed=2)
        known = [one for i, one in enumerate(pieces_of(source)) if i % 17]  # some of its pieces are not in vocab.json
        first = ["</s>", "<unk>", "<pad>", *known]
        texts = list(dict.fromkeys(first if separate else [*first, *pieces_of(target), ">>deu<<", ">>fra<<"]))
        other = ["</s>", "<unk>", "<pad>", *pieces_of(target)]
        for name, tokens in (("vocab.json", texts), ("target_vocab.json", other)):
            (folder / name).write_text(json.dumps({one: i for i, one in enumerate(tokens)}))
        (folder / "source.spm").write_bytes(source)
        (folder / "target.spm").write_bytes(target)
        files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json", "target_vocab.json")]
        theirs = transformers.MarianTokenizer(*files, separate_vocabs=separate)
        ours = SentencePiece(
            source,
            texts[3:],
            target_model=target,
            target_tokens=other[3:] if separate else None,
            hidden=[">>deu<<", ">>fra<<"],
            specials=["<pad>", "<unk>", "<pad>", "</s>"],
        )
        return theirs, ours, renumbered({i: i + 1 for i in range(3, max(len(texts), len(other)))}, 1)

    return make


@pytest.mark.parametrize("separate", [False, True])
def test_marian(separate: bool, marian: Callable[..., Any]) -> None:
    theirs, ours, number = marian(separate)
    agrees(theirs, ours, number)
    assert ours.target is not ours and ours.pieces(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
    if separate:
        assert ours.sizes() == {"vocabulary": len(ours.target), "source_vocabulary": len(ours)}
        assert len(ours.target) != len(ours)
    else:
        assert ours.sizes() == {"vocabulary": len(ours)}
        assert ours.target.pieces(range(len(ours))) == ours.pieces(range(len(ours)))
    again = tokenizers.from_files(ours.files())
    assert again.files() == ours.files() and again.target.encode_many(TEXTS) == ours.target.encode_many(TEXTS)
    assert again.sizes() == ours.sizes()


def test_m2m100(tmp_path: Path) -> None:
    spm = model("bpe", size=330)
    texts = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(spm)]
    (tmp_path / "vocab.json").write_text(json.dumps({one: i for i, one in enumerate(texts)}))
    (tmp_path / "spm").write_bytes(spm)
    theirs = transformers.M2M100Tokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "spm"))
    order = [i for i in range(len(texts) + 100) if i not in (1, 2, 3)]
    names = theirs.convert_ids_to_tokens(order)
    tags = [name for name in names if name.startswith("__")]
    ours = SentencePiece(spm, names, hidden=tags, specials=["<pad>", "<unk>", "</s>", "</s>"])
    agrees(theirs, ours, renumbered({i: k for k, i in enumerate(order, 4)}, 3))
    assert ours.pieces(range(5)) == ["<pad>", "<unk>", "<begin>", "</s>", "<s>"]  # both <s> and a second </s> exist
    assert ours.id_of("__de__") == len(texts) + 1 + theirs.get_lang_id("de") - len(texts)
    text = ours.encode("__de__ Haus")
    assert ours.id_of("__de__") not in text and "d" in ours.pieces(text)


@pytest.fixture(scope="module", params=["NllbTokenizer", "MBart50Tokenizer", "T5Tokenizer", "BartTokenizer"])
def fast(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, HuggingFace, Any]:
    """transformers' tokenizer of a family, and ours made of the tokenizer.json that it saves."""
    folder, family = tmp_path_factory.mktemp("fast"), getattr(transformers, request.param)
    if request.param == "BartTokenizer":
        theirs, special = family(*_byte_level()), [1, 3, 2, 2]
    elif request.param == "T5Tokenizer":
        special = [0, 2, 0, 1]
        (folder / "spiece.model").write_bytes(model(size=330, pad_id=0, eos_id=1, unk_id=2, bos_id=-1))
        theirs = family.from_pretrained(str(folder))
    else:
        special = [1, 3, 2, 2]
        kind = "bpe" if request.param == "NllbTokenizer" else "unigram"
        (folder / "sentencepiece.bpe.model").write_bytes(model(kind, size=330))
        theirs = family.from_pretrained(str(folder))
        theirs.add_special_tokens({"additional_special_tokens": ["deu_Latn", "de_DE"]})
    theirs.save_pretrained(folder / "saved")
    order = [i for i in range(len(theirs)) if i not in special]
    file = (folder / "saved" / "tokenizer.json").read_bytes()
    ours = HuggingFace(file, order, special)
    return theirs, ours, renumbered({i: k for k, i in enumerate(order, 4)}, special[1])


def _byte_level() -> tuple[dict[str, int], list[tuple[str, str]]]:
    import tokenizers as library

    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = library.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        lines(),
        library.trainers.BpeTrainer(
            vocab_size=450, special_tokens=special, initial_alphabet=letters, show_progress=False
        ),
    )
    saved = json.loads(made.to_str())["model"]
    return saved["vocab"], [tuple(one) for one in saved["merges"]]


def test_files_of_the_library_tokenizers(fast: tuple[Any, HuggingFace, Mapping[int, int]]) -> None:
    theirs, ours, number = fast
    agrees(theirs, ours, number)
    assert len(set(ours.pieces(range(len(ours))))) == len(ours)
    again = tokenizers.from_files(ours.files())
    assert again.files() == ours.files() and again.encode_many(TEXTS) == ours.encode_many(TEXTS)


def test_byte_level_tokens_are_displayed_as_text() -> None:
    names = ["Ġword", "naÃ¯ve", "ĠâĤ", "¬", "Ċĉ", "âĸģ", "Ġ"]
    tree = {
        "model": {"type": "BPE", "vocab": {one: i for i, one in enumerate(["<end>", *names])}, "merges": []},
        "added_tokens": [{"id": 0, "content": "<end>", "special": True}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
    }
    tokenizer = HuggingFace(json.dumps(tree).encode(), range(1, 8), [0, 0, 0, 0])
    ids = range(4, 11)
    shown = ["▁word", "naïve", "▁<0xE2><0x82>", "<0xAC>", "<0x0A><0x09>", "<0xE2><0x96><0x81>", "▁"]
    assert tokenizer.pieces(ids) == shown and tokenizer.names(ids) == names
    assert [tokenizer.id_of(one) for one in shown] == [tokenizer.id_of(one) for one in names] == [*ids]
    assert tokenizer.decode([*ids]) == " wordnaïve €\n\t▁ " and tokenizer.id_of("<end>") == END


def test_text_like_a_special_token_is_text(fast: tuple[Any, HuggingFace, Any], marian: Callable[..., Any]) -> None:
    """In transformers such text is the token itself."""
    special = "a </s> b <s> <pad> <unk> deu_Latn de_DE <extra_id_0> >>deu<< end"
    for ours in (fast[1], marian(False)[1]):
        ids = ours.encode(special)
        assert min(ids) >= 1 and not {0, 2, 3} & {*ids}
        hidden = {i for i in range(4, len(ours)) if not ours.surfaces([i])[0]}
        assert not hidden & {*ids}
        assert {"d", "e", "n"} & {*ours.decode(ids)}


@pytest.mark.parametrize("text", ["我们去学校", "私は学生です 我们", "السلام عليكم", "Über die Straße"])
def test_words_for_alignment(text: str, fast: tuple[Any, HuggingFace, Any], marian: Callable[..., Any]) -> None:
    for ours in (fast[1], marian(False)[1]):
        ids = ours.encode(text)
        index = ours.word_index(ids)
        assert set(index) == set(range(len(text.split()))) and index == sorted(index)
        assert len(ours.surfaces(ids)) == len(ours.pieces(ids)) == len(ids)


def test_bytes_of_unseen_characters() -> None:
    spm = model(size=500, byte_fallback=True)
    ours = SentencePiece(spm, pieces_of(spm))
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    for text in ("😀 x", "ⴰⴱ", "a \u16a0"):
        assert ours.decode(ours.encode(text)) == processor.decode(processor.encode(text)) == text
        assert 1 not in ours.encode(text)


def test_lone_surrogates_and_nul(fast: tuple[Any, HuggingFace, Any], marian: Callable[..., Any]) -> None:
    for ours in (fast[1], marian(False)[1]):
        assert ours.encode("Haus \ud800 x") == ours.encode("Haus \ufffd x")
        assert ours.decode(ours.encode("a\x00b")).startswith("a")


def changed(file: bytes, **parts: Any) -> bytes:
    return json.dumps(json.loads(file) | parts).encode()


def replacing(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"model": {}}, "its vocabulary cannot be read"),
        ({"model": None}, "is not a file of the library"),
        ({"model": {"type": "Neural", "vocab": {}}}, "model 'Neural' is not supported"),
        ({"model": {"type": "BPE", "vocab": {"a": "b"}, "merges": []}}, "not one of texts with ids"),
        ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["x y"]}}, "cannot be used|is not the id"),
        ({"normalizer": {"type": "Bert"}}, "normalizer 'Bert' is not supported"),
        ({"normalizer": replacing({"String": "a"}, "a" * 100)}, "more than 16 times as long"),
        ({"normalizer": {"type": "Sequence", "normalizers": [replacing({"String": "a"}, "aa")] * 9}}, "16 times"),
        ({"normalizer": replacing({"Regex": "(a+)+b"}, "")}, r"replaces '\(a\+\)\+b', which is not supported"),
        ({"normalizer": replacing({"String": ""}, "x")}, "not supported"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "!"}}, "is not a file of the library"),
        (
            {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}}},
            r"texts are split at .*, which is not supported",
        ),
        ({"pre_tokenizer": {"type": "Metaspace", "replacement": 5}}, "cannot be used"),
        ({"added_tokens": [{"id": -1, "content": "x", "special": True}]}, "not one of texts with ids"),
        ({"added_tokens": [{"id": 10, "content": ["x"], "special": True}]}, "not one of texts with ids"),
        ({"added_tokens": "x"}, "its vocabulary cannot be read"),
    ],
)
def test_absurd_files(parts: dict[str, Any], message: str) -> None:
    file = imported_text.tokenizer_json(lines(20), 150)
    with pytest.raises(UserError, match=message) as error:
        HuggingFace(changed(file, **parts), range(2, 100), [0, 1, 0, 0])
    assert "\n" not in str(error.value)


def test_a_table_of_characters_that_makes_texts_long() -> None:
    import base64

    table = base64.b64encode(b"\x04\x00\x00\x00" + bytes(4) + b"x" * 5000 + b"\0").decode()
    file = changed(
        imported_text.tokenizer_json(lines(20), 150),
        normalizer={"type": "Precompiled", "precompiled_charsmap": table},
    )
    with pytest.raises(UserError, match="more than 16 times as long"):
        HuggingFace(file, range(2, 100), [0, 1, 0, 0])


def test_a_sentencepiece_model_that_makes_texts_long() -> None:
    """The table of characters of such a model, with a long string added, is refused; as it is, it is short."""
    spm = model(size=250)
    (table,) = _charsmap.tables(spm)
    assert _charsmap.is_bounded(table) and len(table) > 100_000
    longer = table + b"x" * 5000 + b"\0"
    spec = b"\x12" + _varint(len(longer)) + longer  # field 2 of the normaliser, which is field 3
    made = spm + b"\x1a" + _varint(len(spec)) + spec
    assert longer in _charsmap.tables(made)
    with pytest.raises(UserError, match="many times as long"):
        SentencePiece(made, pieces_of(spm))


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


@pytest.mark.parametrize(
    ("order", "special", "hidden", "message"),
    [
        ([2, 3, 3], [0, 1, 0, 0], [], "two ids"),
        ([2, 3, 0], [0, 1, 0, 0], [], "two ids"),
        ([2, 10**9], [0, 1, 0, 0], [], "1000000000 is not the id of a token"),
        ([2, -1], [0, 1, 0, 0], [], "-1 is not the id"),
        ([2, True], [0, 1, 0, 0], [], "'order' is not a list of token ids"),
        ([2, "x"], [0, 1, 0, 0], [], "'order' is not a list of token ids"),
        ([2, 3], [0, 1], [], "has 2 ids, not 4"),
        ([2, 3], [0, 1, 0, None], [], "'special' is not a list of token ids"),
        ([2, 3], [0, 1, 0, 0], [10**9], "is not the id of a token"),
        ("abc", [0, 1, 0, 0], [], "'order' is not a list"),
    ],
)
def test_ids_out_of_range(order: Any, special: Any, hidden: Any, message: str) -> None:
    saved = {"kind": "hugging_face", "order": order, "special": special, "hidden": hidden}
    file = imported_text.tokenizer_json(lines(20), 150)
    with pytest.raises(UserError, match=message) as error:
        tokenizers.from_files({"tokenizer.json": json.dumps(saved).encode(), "tokenizer.huggingface.json": file})
    assert "\n" not in str(error.value)


def test_rows_without_a_token_are_hidden() -> None:
    """Models have more rows than tokens, to reach a round number."""
    file = imported_text.tokenizer_json(lines(20), 150)
    size = max(json.loads(file)["model"]["vocab"].values()) + 1
    ours = HuggingFace(file, range(2, size + 5), [0, 1, 0, 0])
    assert ours.pieces([len(ours) - 1]) == [f"<unused {size + 4}>"]
    assert ours.decode([5, len(ours) - 1]) == ours.decode([5])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": ["a", "b", "a"]}, "has the token 'a' twice"),
        ({"tokens": ["a", ""]}, "without a name"),
        ({"tokens": "abc"}, "'tokens' is not a list of texts"),
        ({"tokens": [1, 2]}, "'tokens' is not a list of texts"),
        ({"tokens": [str(i) for i in range(2**20)]}, "1,048,576 are the most"),
        ({"hidden": None}, "'hidden' is not a list"),
        ({"special": ["<pad>"]}, "names 1 special tokens, not 4"),
        ({"target_tokens": [None]}, "'target_tokens' is not a list"),
    ],
)
def test_damaged_vocabularies(change: dict[str, Any], message: str) -> None:
    spm = model(size=250)
    files = SentencePiece(spm, pieces_of(spm)).files()
    saved = json.loads(files["tokenizer.json"]) | change
    with pytest.raises(UserError, match=message) as error:
        tokenizers.from_files(files | {"tokenizer.json": json.dumps(saved).encode()})
    assert "\n" not in str(error.value)


def test_damaged_models() -> None:
    spm = model(size=250)
    files = SentencePiece(spm, pieces_of(spm), target_model=model(size=250, seed=2)).files()
    for name in ("tokenizer.source.model", "tokenizer.target.model"):
        for content in (b"", b"nonsense", b"\x00" * 100, spm[: len(spm) // 2] + b"\xff" * 50):
            with pytest.raises(UserError, match=name if name.count("source") else "model") as error:
                tokenizers.from_files({**files, name: content})
            assert "\n" not in str(error.value)
    with pytest.raises(UserError, match=r"tokenizer\.source\.model is missing"):
        tokenizers.from_files({"tokenizer.json": files["tokenizer.json"]})


def test_without_the_library() -> None:
    code = (
        "import sys; sys.modules['tokenizers'] = None\n"
        "from regard.data.tokenizer.hugging_face import HuggingFace\n"
        "try: HuggingFace(sys.stdin.buffer.read(), range(2, 100), [0, 1, 0, 0])\n"
        "except Exception as error: print(error)"
    )
    file = imported_text.tokenizer_json(lines(20), 150)
    done = subprocess.run([sys.executable, "-c", code], input=file, capture_output=True, check=True)
    assert b"pip install 'regard[hub]'" in done.stdout
