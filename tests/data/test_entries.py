"""`[[data.pairs]]`: reading entries, refusing mistakes in one line, holding sentences out of all entries, packing."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.config import Recipe, apply_overrides, recipe_from_dict
from regard.data import tokenizer as tokenizers
from regard.data.batching import Batches
from regard.data.corpus.copies import OFTEN, Copies
from regard.data.corpus.entries import DirectedPair, check_entries, read_entry, with_stated_languages
from regard.data.corpus.hold_out import text_hash
from regard.data.corpus.mixture import Mixture, Section
from regard.data.corpus.preparing_entries import balanced, limited, prepare_entries
from regard.data.tokenizer.subword import Subword
from regard.errors import UserError
from regard.runs import prepare, resolve
from regard.training.resume_settings import refuse_fixed_changes

from .test_batching import rows

PERSIAN = [f"من می\u200cروم به خانه {i} ۱۲۳" for i in range(300)]
FRENCH = [f"je vais à la maison {i}" for i in range(300)]
ENGLISH = [f"I go to the house {i}" for i in range(300)]
GERMAN = [f"ich gehe nach Hause {i}" for i in range(300)]


def write(file: Path, *columns: list[str]) -> str:
    text = "".join("\t".join(cells) + "\n" for cells in zip(*columns, strict=True))
    file.write_bytes(gzip.compress(text.encode()) if file.suffix == ".gz" else text.encode())
    return str(file)


def recipe_of(entries: list[dict[str, Any]], **data: Any) -> Recipe:
    tree = {
        "data": {"pairs": entries, "hold_out_valid": 0, **data},
        "tokenizer": {"size": 420, "sample_lines": 600},
        "model": {"width": 16, "heads": 2, "layers": 1},
    }
    return recipe_from_dict(tree)


@pytest.fixture
def three(tmp_path: Path) -> list[dict[str, Any]]:
    fa = write(tmp_path / "fa.tsv.gz", ENGLISH, PERSIAN)
    fr = write(tmp_path / "fr.tsv", FRENCH, ENGLISH)
    de = write(tmp_path / "de.txt", GERMAN), write(tmp_path / "en.txt", ENGLISH)
    return [
        {"from": "en", "to": "fa", "source": fa, "kind": "talk"},
        {"from": "en", "to": "fr", "source": f"{fr}#2", "target": f"{fr}#1"},
        {"from": "de", "to": "en", "source": de[0], "target": de[1], "both": False},
    ]


def prepared(recipe: Recipe, place: Path) -> tuple[list[str], Any]:
    notes: list[str] = []
    ready = with_stated_languages(recipe)
    return notes, prepare_entries(ready, place, {}, notes.append)


# Reading


def test_columns_serve_both_directions_and_most_is_spread_evenly(three: list[dict[str, Any]]) -> None:
    three[0] |= {"most": 7}
    data = recipe_of(three).data
    taken = [int(source.split()[-1]) for source, _ in read_entry(data, 1)]
    assert taken == [42, 85, 128, 171, 214, 257, 299]
    assert list(read_entry(data, 2))[3] == (ENGLISH[3], FRENCH[3])
    assert len(list(read_entry(data, 3))) == 300


def test_lines_are_left_out_by_their_origin(tmp_path: Path) -> None:
    origins = ["a", "b", "c"] * 100
    file = write(tmp_path / "x.tsv", ENGLISH, FRENCH, origins)
    entry = {"from": "en", "to": "fr", "source": file, "without": ["b", "c"]}
    assert [pair[0] for pair in read_entry(recipe_of([entry]).data, 1)] == ENGLISH[::3]
    assert len(list(read_entry(recipe_of([entry | {"most": 10}]).data, 1))) == 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"from": ""}, "data.pairs.1.from: say which language it is, such as fr"),
        ({"to": "Persian"}, "data.pairs.1.to: 'Persian' is no language code; write fa"),
        ({"to": "eng"}, "data.pairs.1: from and to are both en; name two languages"),
        ({"kind": "Small talk"}, "data.pairs.1.kind: 'Small talk' is no name"),
        ({"source": []}, "data.pairs.1 (en-fa, talk): names no text; give its files as source and target"),
        ({"source": "no.tsv"}, "data.pairs.1 (en-fa, talk): no.tsv does not exist"),
        ({"target": ["a", "b"]}, "data.pairs.1 (en-fa, talk): 1 source files but 2 target files"),
        ({"source": [], "valid_target": "x"}, "data.pairs.1 (en-fa, talk): names no source"),
    ],
)
def test_mistakes_are_one_line(three: list[dict[str, Any]], change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        check_entries(recipe_of([three[0] | change]).data)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_entries_that_only_validate_are_not_enough(three: list[dict[str, Any]]) -> None:
    entry = {"from": "en", "to": "fa", "valid_source": three[0]["source"]}
    with pytest.raises(UserError, match="no entry names text to train on"):
        check_entries(recipe_of([entry]).data)


def test_the_old_keys_do_not_mix_with_entries(three: list[dict[str, Any]]) -> None:
    for key in ("source", "valid_source", "hold_out"):
        with pytest.raises(UserError, match=f"data.{key}: with data.pairs, each entry names its own"):
            resolve(recipe_of(three, **{key: ["x"]}))


def test_another_task_refuses_entries(three: list[dict[str, Any]]) -> None:
    with pytest.raises(UserError, match=r"data\.pairs: a model to classify does not read it"):
        resolve(apply_overrides(recipe_of(three), ["task=classify"]))


# Languages and tags


def test_languages_and_tags_are_filled_in(three: list[dict[str, Any]]) -> None:
    three[1]["tag"] = "<bt>"
    stated = with_stated_languages(recipe_of(three))
    assert stated.languages.source == ["en", "fa", "fr", "de"] and stated.languages.target == ["fa", "en", "fr"]
    assert stated.languages.target_tag == "source"
    assert stated.languages.tags == {"fa": ">>fa<<", "en": ">>en<<", "fr": ">>fr<<"}
    assert stated.tokenizer["tags"] == [">>fa<<", ">>en<<", ">>fr<<", "<bt>"]
    kept = apply_overrides(recipe_of(three), ["languages.tags.fa=<2fa>", "languages.target_tag=output"])
    assert with_stated_languages(kept).languages.tags == {"fa": "<2fa>", "en": ">>en<<", "fr": ">>fr<<"}


def test_one_target_language_needs_no_tag(three: list[dict[str, Any]]) -> None:
    stated = with_stated_languages(recipe_of(three[2:]))
    assert stated.languages.target_tag == "none" and not stated.languages.tags and "tags" not in stated.tokenizer


def test_a_tokenizer_without_tags_is_refused(three: list[dict[str, Any]]) -> None:
    with pytest.raises(UserError, match=r"tokenizer.kind: word has no tokens for tags.*; use subword"):
        with_stated_languages(apply_overrides(recipe_of(three), ["tokenizer.kind=word"]))


def test_no_text_is_a_tag_and_no_tag_is_text() -> None:
    tags = ["<2de>", ">>fa<<", "<bt>"]
    made = Subword.train([*ENGLISH, *PERSIAN, "<2de> is a tag"] * 2, seed=1, size=400, tags=tags)
    ids = [made.id_of(tag) for tag in tags]
    assert ids == [4, 5, 6] and len({made.pieces([i])[0] for i in range(len(made))}) == len(made)
    for text in ("<2de> hello <bt>", "</s>>>fa<<", PERSIAN[0], "ژاپن 日本 \u200d", *tags):
        assert not {0, 1, 2, 3, 4, 5, 6} & set(made.encode(text))
        assert made.decode(made.encode(text)) == text
    assert made.decode([4, *made.encode("I go"), 6]) == "I go" and made.surfaces([4]) == [""]
    again = tokenizers.from_files(made.files())
    assert again.pieces(ids) == tags and again.encode("<2de>") == made.encode("<2de>")  # type: ignore[arg-type]
    drawn = made.sample("I go to the house", np.random.default_rng(1), 0.2)
    assert made.decode(drawn) == "I go to the house"


def test_a_rare_digit_has_its_siblings_in_the_vocabulary() -> None:
    made = Subword.train([*ENGLISH, "در سال ۱۴ بود"], seed=1, size=400, coverage=0.99)
    assert [made.id_of(digit) is not None for digit in "۰۱۲۳۴۵۶۷۸۹٠"] == [True] * 10 + [False]
    assert made.decode(made.encode("سال ۱۳۹۸")) == "سال ۱۳۹۸"


@pytest.mark.parametrize("tag", ["a b", "", "<s>", "x" * 41, "é>", "<0x41>", "a,b"])
def test_what_cannot_be_a_tag(tag: str) -> None:
    with pytest.raises(UserError, match=r"tokenizer.tags: "):
        Subword.train(ENGLISH, seed=1, size=300, tags=[tag])


def test_the_sample_for_the_tokenizer_is_balanced() -> None:
    texts = (
        [("en", f"e{i}") for i in range(1000)]
        + [("fa", f"f{i}") for i in range(50)]
        + [("de", f"d{i}") for i in range(500)]
    )
    found = Counter(text[0] for text in balanced(texts, 300, seed=1))
    assert found == {"f": 50, "d": 125, "e": 125}
    assert balanced(texts, 300, 1) == balanced(texts, 300, 1) != balanced(texts, 300, 2)
    assert len(balanced(texts, 10_000, 1)) == 1550


# Held-out text


def test_a_held_out_sentence_is_in_no_entry(three: list[dict[str, Any]], tmp_path: Path) -> None:
    three[1] |= {"hold_out_valid": 20, "hold_out_test": 10}
    shouted = write(tmp_path / "shouted.tsv", [text.upper() for text in ENGLISH], GERMAN)
    three.append({"from": "en", "to": "de", "source": shouted})
    _, (tokenizer, pack, _, valid) = prepared(recipe_of(three), tmp_path / "run")
    assert Counter((one.start, one.to) for one in valid) == {("en", "fr"): 20, ("fr", "en"): 20}
    files = {path.name: path.read_text().splitlines() for path in (tmp_path / "run/held_out").iterdir()}
    assert sorted(files) == [f"{part}.2.en-fr.{side}" for part in ("test", "valid") for side in ("source", "target")]
    held = {text_hash(text) for lines in files.values() for text in lines}
    assert len(held) == 60
    texts = [tokenizer.decode(side) for i in range(len(pack)) for side in pack.pair(i)]
    assert not held & set(map(text_hash, texts))
    assert pack.dropped["held_out"] == (30 + 30) * 2 + 30 + 30 * 2  # everywhere, in all directions
    # A second start chooses the same.
    _, (_, _, _, again) = prepared(recipe_of(three), tmp_path / "run")
    assert again == valid


def test_valid_files_of_an_entry_are_kept_out_of_the_others(three: list[dict[str, Any]], tmp_path: Path) -> None:
    news = write(tmp_path / "news.tsv", ENGLISH[:25], [f"nouvelle {i}" for i in range(25)])
    three.append({"from": "en", "to": "fr", "valid_source": news, "kind": "news"})
    _, (_, pack, _, valid) = prepared(recipe_of(three, valid_limit=10), tmp_path / "run")
    assert Counter((one.start, one.to, one.kind) for one in valid) == {
        ("en", "fr", "news"): 10,
        ("fr", "en", "news"): 10,
    }
    assert len(pack) == 275 * 5


def test_the_limit_is_spread_over_kinds_and_evenly() -> None:
    pairs = [DirectedPair(str(i), "", "en", "fr", "news") for i in range(100)]
    pairs += [DirectedPair("x", "", "fr", "en"), DirectedPair("y", "", "en", "fr", "talk")]
    assert [pair.source for pair in limited(pairs, 5)] == ["y", "0", "25", "50", "75", "x"]
    assert sorted(limited(pairs, 1000)) == sorted(pairs)


# Packing


def test_sections_hold_each_direction_with_its_tag(three: list[dict[str, Any]], tmp_path: Path) -> None:
    three[2]["tag"] = "<bt>"
    three[1]["source"], three[1]["target"] = three[1]["target"], three[1]["source"]
    three[1] |= {"from": "fr", "to": "en"}
    _, (tokenizer, pack, _, _) = prepared(recipe_of(three), tmp_path / "run")
    sections = pack.about["sections"]
    assert [one["direction"] for one in sections] == [
        ["en", "fa"],
        ["fa", "en"],
        ["fr", "en"],
        ["en", "fr"],
        ["de", "en"],
    ]
    expected = [(">>fa<<", ENGLISH, PERSIAN), (">>en<<", PERSIAN, ENGLISH), (">>en<<", FRENCH, ENGLISH)]
    expected += [(">>fr<<", ENGLISH, FRENCH), (">>en<< <bt>", GERMAN, ENGLISH)]
    for section, (tag, sources, targets) in zip(sections, expected, strict=True):
        ((first, count),) = section["ranges"]
        assert count == 300
        for i in (0, 150, 299):
            source, target = pack.pair(first + i)
            tags = tag.split()
            assert tokenizer.pieces(source[: len(tags)]) == tags
            assert source[len(tags) :] == tokenizer.encode(sources[i]) and target == tokenizer.encode(targets[i])


@pytest.mark.parametrize("plain_source", [True, False])
@pytest.mark.parametrize("plain_target", [True, False])
def test_apostrophes_of_each_side(plain_source: bool, plain_target: bool, tmp_path: Path) -> None:
    """Text that serves on both sides of an entry has each side's form."""
    one, two = [f"l’ami d'Anne {i}" for i in range(60)], [f"Anne’s friend {i}" for i in range(60)]
    entry = {"from": "fr", "to": "en", "source": write(tmp_path / "fr.tsv", one, two)}
    recipe = recipe_of([entry], plain_source=plain_source, plain_target=plain_target)
    _, (tokenizer, pack, _, _) = prepared(recipe, tmp_path / "run")
    form = {True: lambda text: text.replace("’", "'"), False: str}
    for section, sources, targets in zip(pack.about["sections"], (one, two), (two, one), strict=True):
        ((first, _),) = section["ranges"]
        source, target = pack.pair(first + 7)
        assert source[1:] == tokenizer.encode(form[plain_source](sources[7]))
        assert target == tokenizer.encode(form[plain_target](targets[7]))


def test_persian_among_latin_scripts_is_not_dropped(three: list[dict[str, Any]], tmp_path: Path) -> None:
    """The first chunk of the whole corpus is all Latin; each entry has its own usual scripts."""
    notes, (_, pack, _, _) = prepared(recipe_of(three[::-1]), tmp_path / "run")
    assert not pack.dropped["wrong_script"] and len(pack) == 1500
    assert not [note for note in notes if note.startswith("warning")]


def test_a_filter_that_drops_much_of_an_entry_is_loud(three: list[dict[str, Any]], tmp_path: Path) -> None:
    mixed = [text if i % 15 else f"я иду домой сегодня {i}" for i, text in enumerate(PERSIAN)]
    three[0]["source"] = write(tmp_path / "mixed.tsv", ENGLISH, mixed)
    doubled = write(tmp_path / "double.tsv", FRENCH[:200] + FRENCH[:100], ENGLISH[:200] + ENGLISH[:100])
    three[1] |= {"source": f"{doubled}#2", "target": f"{doubled}#1"}
    recipe = recipe_of(three)
    notes, (_, pack, _, _) = prepared(recipe, tmp_path / "run")
    warnings = [note for note in notes if note.startswith("warning")]
    assert warnings == [
        "warning: data.pairs.1 (en-fa, talk): the filter wrong_script dropped 20 of 300 pairs (7 %), such as "
        "'I go to the house 0' -> 'я иду домой сегодня 0'",
        "warning: data.pairs.2 (en-fr): the filter duplicate dropped 100 of 300 pairs (33 %), such as "
        "'I go to the house 0' -> 'je vais à la maison 0'",
    ]
    again, _ = prepared(recipe, tmp_path / "run")  # also when the pack is used again
    assert [note for note in again if note.startswith("warning")] == warnings
    assert pack.about["read"] == 1500 and len(pack) + sum(pack.dropped.values()) == 1500


def test_pairs_of_another_entry_are_duplicates_whichever_way_round(three: list[dict[str, Any]], tmp_path: Path) -> None:
    turned: dict[str, Any] = {"from": "fr", "to": "en", "source": three[1]["target"], "target": three[1]["source"]}
    turned |= {"both": False}
    more = write(tmp_path / "more.tsv", ["une autre phrase"], ["another sentence"])
    turned["source"], turned["target"] = [turned["source"], f"{more}#1"], [turned["target"], f"{more}#2"]
    _, (_, pack, _, _) = prepared(recipe_of([*three, turned]), tmp_path / "run")
    assert pack.dropped["duplicate"] == 300 and len(pack) == 1501
    # Another direction is other text: two one-way dictionaries may have the same words.
    back = {"from": "en", "to": "de", "source": three[2]["target"], "target": three[2]["source"], "both": False}
    _, (_, pack, _, _) = prepared(recipe_of([three[2], back]), tmp_path / "other")
    assert pack.dropped["duplicate"] == 0 and len(pack) == 600


def test_an_entry_of_which_nothing_is_left(three: list[dict[str, Any]], tmp_path: Path) -> None:
    three[1] |= {
        "source": (file := write(tmp_path / "same.txt", [text + " a b c" for text in ENGLISH])),
        "target": file,
    }
    with pytest.raises(
        UserError, match=r"data.pairs.2 \(en-fr\): no pairs left to train on, of 300 read \(identical 300"
    ):
        prepared(recipe_of(three), tmp_path / "run")
    assert not (tmp_path / "run/pack").exists()


def test_weights_do_not_pack_again_but_text_does(three: list[dict[str, Any]], tmp_path: Path) -> None:
    def stamp() -> int:
        return (tmp_path / "run/pack/pack.json").stat().st_mtime_ns

    _, (_, _, first, _) = prepared(recipe_of(three), tmp_path / "run")
    before = stamp()
    three[0] |= {"weight": 3.0, "kind": "x"}
    _, (_, _, second, _) = prepared(recipe_of(three, temperature=5.0), tmp_path / "run")
    assert stamp() == before and first.draws != second.draws
    three[0] |= {"most": 100}
    prepared(recipe_of(three), tmp_path / "run")
    assert stamp() != before


def test_untrained_directions_are_named(three: list[dict[str, Any]], tmp_path: Path) -> None:
    notes, _ = prepared(recipe_of(three), tmp_path / "run")
    assert notes[-1].startswith("no pairs for fa-fr, fr-fa, de-fa, de-fr: the model is not trained")


# Drawing


def made_sections() -> list[Section]:
    return [
        Section(("a", "b"), 1.0, [(0, 60), (100, 40)]),
        Section(("b", "a"), 0.5, [(60, 40)]),
        Section(("a", "b"), 2.0, [(140, 50)]),
    ]


def test_weights_and_temperature_decide_the_draws() -> None:
    assert Mixture(made_sections(), 1.0, seed=1).draws == [100, 20, 100]
    mixture = Mixture(made_sections(), 2.0, seed=1)
    share = 200**0.5 / (200**0.5 + 20**0.5)
    assert mixture.shares()[("a", "b")] == pytest.approx(share, abs=0.01) and abs(len(mixture) - 220) <= 2
    assert mixture.draws[0] == mixture.draws[2]
    assert Mixture(made_sections(), 100.0, seed=1).shares()[("b", "a")] == pytest.approx(0.5, abs=0.02)


def test_each_epoch_goes_on_where_the_last_ended() -> None:
    mixture = Mixture(made_sections(), 1.0, seed=3)
    epochs = [mixture.rows(np.arange(len(mixture)), epoch) for epoch in range(4)]
    first, third = {*range(60), *range(100, 140)}, set(range(140, 190))
    for drawn in epochs:
        counts = Counter(drawn.tolist())
        assert {row for row in counts if row in first} == first  # 100 of 100
        assert all(counts[row] == 2 for row in third)  # 100 of 50
        assert sum(row in range(60, 100) for row in drawn) == 20  # 20 of 40: half of them
    for pair in (epochs[:2], epochs[2:]):
        assert sorted(row for drawn in pair for row in drawn.tolist() if 60 <= row < 100) == list(range(60, 100))
    # Any place is computed by itself.
    places = np.array([219, 0, 110, 150, 7], dtype=np.uint64)
    assert mixture.rows(places, 2).tolist() == epochs[2][places.astype(int)].tolist()
    assert Mixture(made_sections(), 1.0, seed=4).rows(places, 2).tolist() != epochs[2][places.astype(int)].tolist()


def test_batches_of_a_mixture_resume_to_the_bit(three: list[dict[str, Any]], tmp_path: Path) -> None:
    three[0]["weight"] = 0.3
    _, (_, pack, mixture, _) = prepared(recipe_of(three, temperature=2.0), tmp_path / "run")

    def stream() -> Batches:
        return Batches(pack, batch_tokens=400, seed=5, window=300, workers=0, mixture=mixture)

    whole = stream()
    found, cursors = [], []
    iterator = iter(whole)
    while whole.cursor()["epoch"] < 2:
        found.append(rows(next(iterator)))
        cursors.append(whole.cursor())
    for at in (0, 3, len(found) // 2):
        resumed = stream()
        resumed.seek(cursors[at])
        one = iter(resumed)
        assert [rows(next(one)) for _ in range(5)] == found[at + 1 : at + 6]
    drawn = sum(len(batch) for batch, cursor in zip(found, cursors) if cursor["epoch"] == 0)
    assert abs(drawn - len(mixture)) <= 40
    shared = [stream() for _ in range(2)]
    for rank, one in enumerate(shared):
        one.share(rank, 2, 2)
    turns = [iter(one) for one in shared]
    for number in range(6):
        both = [next(turn) for turn in turns]
        assert rows(both[number % 2]) == found[number] and len(both[1 - number % 2]) == 0


# Copies


def test_copies_are_rare_words_of_both_sides() -> None:
    copies = Copies()
    copies.see([("Saint-Étienne has 1.234 people, says Tom.", "Tom: Saint-Étienne a 1.234 habitants, http://x.org")])
    copies.see([("see http://x.org now", "voir http://x.org")])
    copies.see([("Paris is big", "Paris est grand")] * (OFTEN + 1))
    assert copies.words() == ["1.234", "Saint-Étienne", "Tom", "http://x.org"]


def test_copies_have_their_share_in_every_direction(three: list[dict[str, Any]], tmp_path: Path) -> None:
    _, (tokenizer, pack, mixture, _) = prepared(recipe_of(three, copies=0.1), tmp_path / "run")
    made = [one for one in pack.about["sections"] if one["entry"] == 0]
    assert [one["direction"] for one in made] == [["en", "fa"], ["fa", "en"], ["en", "fr"], ["fr", "en"], ["de", "en"]]
    first, count = made[2]["ranges"][0]
    for row in range(first, first + count):
        source, target = pack.pair(row)
        assert tokenizer.pieces(source[:1]) == [">>fr<<"] and source[1:] == target
        assert tokenizer.decode(target).isdecimal()
    copied = sum(draws for one, draws in zip(mixture.sections, mixture.draws) if one.copies)
    assert copied / len(mixture) == pytest.approx(0.1, abs=0.01)
    off = Mixture(mixture.sections, 1.0, 1)
    assert len(off) == 1500


# Runs


def test_fingerprints_name_every_file_of_every_entry(three: list[dict[str, Any]], tmp_path: Path) -> None:
    ready = resolve(apply_overrides(recipe_of(three), ["training.device=cpu"]))
    prepare(ready, tmp_path / "run")
    known = json.loads((tmp_path / "run/data.json").read_text())
    assert sorted(known) == ["pairs.1.source", "pairs.2.source", "pairs.2.target", "pairs.3.source", "pairs.3.target"]
    assert [entry["column"] for entry in known["pairs.2.source"]] == [2]
    write(tmp_path / "en.txt", ENGLISH[::-1])
    with pytest.raises(UserError, match=r"en.txt was changed"):
        prepare(ready, tmp_path / "run", resume=True)


def test_a_resumed_run_keeps_its_entries_but_not_the_places_of_files(
    three: list[dict[str, Any]], tmp_path: Path
) -> None:
    begun = recipe_of(three)
    refuse_fixed_changes(tmp_path, begun, apply_overrides(begun, ["data.pairs.3.source=elsewhere/de.txt"]))
    with pytest.raises(UserError, match=r"data.pairs.2.weight was 1.0 when"):
        refuse_fixed_changes(tmp_path, begun, apply_overrides(begun, ["data.pairs.2.weight=2"]))
    with pytest.raises(UserError, match=r"data.temperature was 1.0"):
        refuse_fixed_changes(tmp_path, begun, apply_overrides(begun, ["data.temperature=2"]))
