"""The laws of tokenizers. Every file in data/tokenizer is held to them."""

from __future__ import annotations

import itertools
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.data.normalise import normalise
from regard.data.ragged import Sentences
from regard.data.tokenizer._base import SPECIALS, Tokenizer, spell
from regard.data.tokenizer.character import Character
from regard.data.tokenizer.letters import Letters
from regard.data.tokenizer.subword import Subword
from regard.data.tokenizer.word import Word
from regard.errors import UserError
from regard.registry import factory, kinds
from regard.types import END
from tests.data import imported_text

KINDS = kinds("data/tokenizer")
IMPORTED = ["hugging_face", "sentencepiece"]
"""The kinds that come with an imported model: never trained, and their files' own normalisation applies, not ours. What
else they must do is in test_imported_tokenizers.py."""
PROSE = [kind for kind in KINDS if kind not in ("letters", "pitches")]
"""The kinds that take any text; the others refuse what they do not know."""
SIZES = {"subword": 500}
fixture_is_fine = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
any_text = st.text(st.characters())


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest, text: list[str]) -> Tokenizer:
    if request.param in IMPORTED:
        return imported_text.tokenizer(request.param, text)
    options = {"size": SIZES[request.param]} if request.param in SIZES else {}
    return factory("data/tokenizer", request.param).train(iter(fit(request.param, text)), seed=1, **options)


def fit(kind: str, text: list[str]) -> list[str]:
    """Lines as a kind can give them back."""
    if kind == "pitches":
        return [" ".join([*(str(21 + ord(c) % 88) for c in line), "|"]) for line in text]
    return text if kind in PROSE else ["".join(c for c in line.upper() if c.isalpha()) for line in text]


def test_the_family() -> None:
    assert KINDS == ["character", "hugging_face", "letters", "pitches", "sentencepiece", "subword", "word"]


def test_known_text_comes_back(tokenizer: Tokenizer, text: list[str]) -> None:
    text = fit(tokenizer.kind, text)
    for line in text[:200]:
        assert tokenizer.decode(tokenizer.encode(line)) == line
    assert tokenizer.encode_many(text) == [tokenizer.encode(line) for line in text]


def test_ids(tokenizer: Tokenizer, text: list[str]) -> None:
    text = fit(tokenizer.kind, text)
    ids = [i for line in text for i in tokenizer.encode(line)]
    assert min(ids) > END and max(ids) < len(tokenizer)
    assert tokenizer.pieces(range(4)) == SPECIALS
    assert tokenizer.encode("") == [] == tokenizer.encode(" \n") and tokenizer.decode([]) == ""
    line = tokenizer.encode(text[0])
    assert tokenizer.decode([2, 0, *line[:3], 1, *line[3:], 3, 0]) == text[0]
    assert all(tokenizer.pieces(range(len(tokenizer))))


def test_files(tokenizer: Tokenizer, text: list[str]) -> None:
    text = fit(tokenizer.kind, text)
    again = type(tokenizer).from_files(tokenizer.files())
    assert again.files() == tokenizer.files() and len(again) == len(tokenizer)
    assert again.encode_many(text[:100]) == tokenizer.encode_many(text[:100])


def test_training_is_repeatable(tokenizer: Tokenizer, text: list[str]) -> None:
    if tokenizer.kind in IMPORTED:
        with pytest.raises(UserError, match="such a tokenizer comes with an imported model"):
            type(tokenizer).train(text, seed=1)
        return
    text = fit(tokenizer.kind, text)
    options = {"size": SIZES[tokenizer.kind]} if tokenizer.kind in SIZES else {}
    assert type(tokenizer).train(text, seed=1, **options).files() == tokenizer.files()


def test_empty_corpus(tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match="empty" if tokenizer.kind not in IMPORTED else "imported"):
        type(tokenizer).train(["", " "], seed=1)


@pytest.mark.parametrize("tokenizer", PROSE, indirect=True)
@fixture_is_fine
@given(
    words=st.lists(st.sampled_from(["ba", "!", "lé.mi", "日本", "(un)", "a😀", "\u0301", "_"]), max_size=8),
    data=st.data(),
)
def test_word_index(tokenizer: Tokenizer, words: list[str], data: st.DataObject) -> None:
    ids = tokenizer.encode(" ".join(words))
    for place in data.draw(st.lists(st.integers(0, len(ids)), max_size=3)):
        ids.insert(place, data.draw(st.integers(0, len(tokenizer) - 1)))  # what a bad model may say
    index, split = tokenizer.word_index(ids), tokenizer.decode(ids).split()
    assert len(index) == len(ids) and index == sorted(index)
    assert set(index) == set(range(len(split))) or not split
    if 1 not in ids:  # a word's tokens, decoded alone, hold all that is visible of the word
        for number, word in enumerate(split):
            own = tokenizer.decode([i for i, n in zip(ids, index, strict=True) if n == number])
            assert own.strip() == word or "\ufffd" in word or "\ufffd" in own or " " in own.strip()


@pytest.mark.parametrize("tokenizer", PROSE, indirect=True)
@pytest.mark.parametrize(
    "unit", ["a", "\u0301", "e\u0323\u0301", "([{", "中", "😀", "\x00", "ba lé ", "'", "\u0f71\u0323"]
)
def test_time_is_linear(tokenizer: Tokenizer, unit: str) -> None:
    text = unit * (250_000 // len(unit.encode()))
    started = time.process_time()
    ids = tokenizer.encode(text)
    decoded = tokenizer.decode(ids)
    assert (
        time.process_time() - started < 1
    )  # type checks of the tests included; quadratic steps would take many seconds
    if tokenizer.kind not in ("word", *IMPORTED):
        assert decoded == normalise(text)


@pytest.mark.parametrize("tokenizer", ["subword", "character"], indirect=True)
@fixture_is_fine
@given(raw=any_text | st.text("<0x4E>s/unkpad \u2581\n\u2028\u00a0"))
def test_any_text_comes_back(tokenizer: Tokenizer, raw: str) -> None:
    ids = tokenizer.encode(raw)
    assert tokenizer.decode(ids) == normalise(raw)
    assert "".join(tokenizer.surfaces(ids)).removeprefix(" ") == normalise(raw)
    assert 1 not in ids


@given(st.lists(st.text(max_size=3) | st.binary(max_size=5), max_size=6))
def test_spelling_bytes(parts: list[str | bytes]) -> None:
    flat: list[str | int] = [x for part in parts for x in (part if isinstance(part, bytes) else [part])]
    joined = b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    texts = spell(flat)
    assert len(texts) == len(flat)
    try:
        assert "".join(texts) == joined.decode()
    except UnicodeDecodeError:
        assert "\ufffd" in "".join(texts)


def test_subword_size(text: list[str]) -> None:
    assert len(Subword.train(text, seed=1, size=450)) == 450
    tiny = Subword.train(["one two three"], seed=1, size=8000)
    assert 260 < len(tiny) < 300 and tiny.decode(tiny.encode("four 日")) == "four 日"
    with pytest.raises(UserError, match=r"tokenizer\.size=40 "):
        Subword.train(text, seed=1, size=40)


def test_subword_control_names_in_the_text_are_text() -> None:
    lines = ["<s> and </s> <pad> <unk> <0x41> are here"] * 50 + ["plain words are there"] * 50
    tokenizer = Subword.train(lines, seed=1, size=330)
    assert all(tokenizer.decode(tokenizer.encode(line)) == line for line in lines)
    assert min(tokenizer.encode(lines[0])) > END


def test_subword_learns_from_a_fair_sample() -> None:
    lines = ["aaaa bbbb"] * 5000 + ["cccc dddd"] * 5000
    tokenizer = Subword.train(iter(lines), seed=1, size=300, sample_lines=500)
    assert len(tokenizer.encode("aaaa")) == len(tokenizer.encode("cccc")) < 4


def test_subword_is_quiet(text: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    Subword.train(text[:500], seed=1, size=400)
    assert capfd.readouterr() == ("", "")


def test_subword_refuses_what_is_no_model() -> None:
    for content in (b"", b"not a model", b"\x00" * 100):
        with pytest.raises(UserError, match=r"tokenizer\.model"):
            Subword(content)


def all_cuts(subword: Subword, text: str) -> list[list[int]]:
    """Every way to spell a text with pieces, by brute force."""
    ids = {piece: i for i, piece in enumerate(subword.pieces(range(len(subword)))) if i >= 260}
    if not text:
        return [[]]
    heads = [end for end in range(1, len(text) + 1) if text[:end] in ids]
    return [[ids[text[:end]], *rest] for end in heads for rest in all_cuts(subword, text[end:])]


def test_subword_sampling_follows_the_unigram_model(subword: Subword) -> None:
    alpha, draws = 0.2, 20_000
    pieces = subword.pieces(range(len(subword)))
    cuts = ((i, all_cuts(subword, pieces[i])) for i in range(260, len(subword)))
    piece, ways = next((i, ways) for i, ways in cuts if 5 < len(ways) < 16)
    log_p = np.array([sum(subword._model.get_score(i) for i in way) for way in ways])
    wanted = np.exp(alpha * log_p) / np.exp(alpha * log_p).sum()
    copies = Sentences.of_lengths(np.full(draws, piece), np.full(draws // 2, 2))  # two pieces a sentence
    drawn = subword.resample(copies, np.arange(draws // 2, dtype=np.uint64), alpha)
    # A sentence is a pair of ways: of all pairs, as often as the product of their probabilities says.
    counts = Counter(tuple(drawn[i]) for i in range(draws // 2))
    expected: Counter[tuple[int, ...]] = Counter()
    for (one, p), (other, q) in itertools.product(zip(ways, wanted, strict=True), repeat=2):
        expected[*one, *other] += p * q
    assert set(counts) <= set(expected)
    for way, probability in expected.items():
        spread = (probability * (1 - probability) / (draws // 2)) ** 0.5
        assert abs(counts[way] / (draws // 2) - probability) < 5 * spread + 2e-4


def test_resampling_many_is_resampling_each(subword: Subword, text: list[str]) -> None:
    lists = [*subword.encode_many(text[:200]), [], subword.encode("日本 ba日 " + "lémi" * 60)]
    seeds = np.random.default_rng(5).integers(0, 2**63, size=len(lists), dtype=np.uint64)
    flat = np.array(sum(lists, []), dtype=np.uint16)
    together = subword.resample(Sentences.of_lengths(flat, np.array([len(ids) for ids in lists])), seeds, 0.3)
    for i, ids in enumerate(lists):
        alone = subword.resample(
            Sentences.of_lengths(np.array(ids, dtype=int), np.array([len(ids)])), seeds[i : i + 1], 0.3
        )
        assert together[i] == alone[0] and subword.decode(together[i]) == subword.decode(ids)
    assert sum(together[i] != ids for i, ids in enumerate(lists)) > 40


@pytest.mark.parametrize("tokenizer", PROSE, indirect=True)
@fixture_is_fine
@given(raw=any_text, seed=st.integers(0, 1000))
def test_sampling_keeps_the_text(tokenizer: Tokenizer, raw: str, seed: int) -> None:
    first, again = (tokenizer.sample(raw, np.random.default_rng(seed), 0.3) for _ in range(2))
    assert first == again
    assert tokenizer.decode(first) == tokenizer.decode(tokenizer.encode(raw))
    assert tokenizer.sample(raw, np.random.default_rng(seed), 0.0) == tokenizer.encode(raw)


def test_words_of_three_sentences() -> None:
    lines = ["I like deep learning.", "I like NLP.", "I enjoy flying."]
    tokenizer = Word.train(lines, seed=0)
    assert tokenizer.pieces(range(4, len(tokenizer))) == [
        ".",
        "▁I",
        "▁like",
        "▁NLP",
        "▁deep",
        "▁enjoy",
        "▁flying",
        "▁learning",
    ]
    assert tokenizer.pieces(tokenizer.encode("I like flying, NLP")) == ["▁I", "▁like", "▁flying", "<unk>", "▁NLP"]
    assert tokenizer.decode(tokenizer.encode("I enjoy skiing.")) == "I enjoy."
    assert (
        Word.train(lines, seed=0, lowercase=True).decode(Word.train(lines, seed=0, lowercase=True).encode("I LIKE NLP"))
        == "i like nlp"
    )
    assert len(Word.train(lines, seed=0, size=7)) == 7 and len(Word.train(lines, seed=0, min_count=2)) == 7


def test_characters_by_frequency() -> None:
    tokenizer = Character.train(["aab"], seed=0)
    assert tokenizer.pieces(tokenizer.encode("a bé")) == ["a", "<0x20>", "b", "<0xC3>", "<0xA9>"]
    assert tokenizer.word_index(tokenizer.encode("a bé")) == [0, 1, 1, 1, 1]
    assert tokenizer.encode("ab") == [260, 261] and len(tokenizer) == 262
    with pytest.raises(UserError, match="261"):
        Character.train(["a"], seed=0, size=260)


def test_letters_are_those_of_an_alphabet() -> None:
    dna = Letters.train(["unread"], seed=0, alphabet="acgtN")
    assert dna.pieces(range(len(dna))) == [*SPECIALS, "A", "C", "G", "T", "N"]
    assert dna.encode("gA tt\nA") == [6, 4, 7, 7, 4] and dna.decode([2, 6, 4, 1, 7, 3]) == "GAT"
    assert Letters.train(["tag", " cat "], seed=0).pieces(range(4, 8)) == ["A", "C", "G", "T"]
    assert dna.word_index(dna.encode("AC GT")) == [0, 0, 0, 0]
    with pytest.raises(UserError, match="^letter 'x' at place 5 is not in the alphabet; allowed are A, C, G, T, N$"):
        dna.encode("AC Gx!")
    german = Letters.train(["stra\u00dfe"], seed=0)  # its capital would be two letters
    assert german.decode(german.encode("stra\u00dfe")) == "STRA\u00dfE"
    with pytest.raises(UserError, match="different letters, 1,000 are the most"):
        Letters.train(["".join(map(chr, range(0x4E00, 0x5300)))], seed=0)


@fixture_is_fine
@given(raw=any_text, seed=st.integers(0, 1000))
def test_letters_come_back_or_are_refused_by_place(raw: str, seed: int) -> None:
    known = set("ACGT")
    dna = Letters("ACGT")
    strange = [i for i, c in enumerate(raw, 1) if not c.isspace() and c.upper() not in known]
    if strange:
        with pytest.raises(UserError, match=f"at place {strange[0]} is not"):
            dna.encode(raw)
    started = time.process_time()
    bases = "".join(np.random.default_rng(seed).choice(list("acgT \n"), 2000))
    assert dna.decode(dna.encode(bases)) == "".join(bases.upper().split())
    assert time.process_time() - started < 1
