"""Measures language detection by length, beside other detectors that are installed (lingua, py3langid), in one run.

    python tools/language_accuracy.py --lines en=ntrex.en-fr.tsv.gz#1 fr=ntrex.en-fr.tsv.gz#2 --words en=en-fr.tsv.gz#1

From lines, pieces of 1 to 12 words are cut; a single word may not begin with a capital, as names say nothing. Words of
a dictionary count as right in every language whose dictionary has them. All detectors choose among the languages given.
Calibration (text with one right language alone): in each bin of confidence, the mean confidence and the share right.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from regard.data.corpus.reading import read_lines
from regard.language_identification import fasttext_probabilities, one_line, probabilities_among

LENGTHS = ((1, "1 word"), (2, "2 words"), (4, "3-4 words"), (8, "5-8 words"), (10_000, "9+ words"))
CHARACTERS = ((4, "1-4 letters"), (8, "5-8"), (16, "9-16"), (32, "17-32"), (10_000, "33+"))
CUT = (1, 2, 3, 4, 5, 7, 12)
EDGES = " .,;:!?\"'«»“”„()[]–—-،؛؟"
Detector = Callable[[str], Mapping[str, float]]


class Text(NamedTuple):
    text: str
    right: frozenset[str]
    kind: str


def cut_pieces(lines: Mapping[str, list[str]], own: Mapping[str, set[str]], count: int) -> Iterator[Text]:
    chance = random.Random(5)
    for language, texts in lines.items():
        for size in CUT:
            made = 0
            while made < count:
                words = chance.choice(texts).split()
                start = chance.randrange(max(1, len(words) - size + 1))
                piece = " ".join(words[start : start + size]).strip(EDGES)
                sized = len(piece.split()) == size and all(any(map(str.isalpha, word)) for word in piece.split())
                if not sized or size == 1 and (piece[:1].isupper() or len(piece) < 2):
                    continue
                also = {code for code, known in own.items() if size == 1 and piece.lower() in known}
                yield Text(piece, frozenset({language, *also}), "lines")
                made += 1


def dictionary_words(own: Mapping[str, set[str]], count: int) -> Iterator[Text]:
    chance = random.Random(6)
    for known in own.values():
        words = sorted(word for word in known if " " not in word and len(word) > 1)
        for word in chance.sample(words, min(count, len(words))):
            yield Text(word, frozenset(code for code, others in own.items() if word in others), "dictionary")


def shares_of(found: Mapping[str, float], languages: Sequence[str]) -> dict[str, float]:
    total = sum(found.get(code, 0.0) for code in languages)
    return {code: found.get(code, 0.0) / total if total else 0.0 for code in languages}


def detectors(languages: Sequence[str]) -> Iterator[tuple[str, Detector]]:
    yield "regard", lambda text: probabilities_among(text, languages)
    yield "fastText alone", lambda text: shares_of(fasttext_probabilities(one_line(text)), languages)
    try:
        from lingua import IsoCode639_1, LanguageDetectorBuilder

        codes = [getattr(IsoCode639_1, code.upper()) for code in languages]
        lingua = LanguageDetectorBuilder.from_iso_codes_639_1(*codes).with_preloaded_language_models().build()
        yield (
            "lingua",
            lambda text: {
                one.language.iso_code_639_1.name.lower(): one.value
                for one in lingua.compute_language_confidence_values(text)
            },
        )
    except ImportError:
        pass
    try:
        from py3langid import langid

        other: Any = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
        other.set_languages(list(languages))
        yield "py3langid", lambda text: dict(other.rank(text))
    except ImportError:
        pass


def bucket(number: int, bounds: Sequence[tuple[int, str]]) -> str:
    return next(name for most, name in bounds if number <= most)


def report(name: str, detect: Detector, texts: Sequence[Text]) -> None:
    hits: dict[tuple[str, str], list[bool]] = defaultdict(list)
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    began = time.process_time()
    answers = [detect(one.text) for one in texts]
    spent = time.process_time() - began
    for one, found in zip(texts, answers, strict=True):
        best = max(found, key=lambda code: found[code], default="")
        right = best in one.right
        hits[one.kind, bucket(len(one.text.split()), LENGTHS)].append(right)
        hits["letters", bucket(len(one.text), CHARACTERS)].append(right)
        if len(one.right) == 1:
            bins[min(9, int(10 * found.get(best, 0)))].append((found.get(best, 0.0), right))
    print(f"\n{name}: {1e6 * spent / len(texts):.0f} us of processor time a text")
    for (kind, length), found_right in sorted(hits.items()):
        print(f"  {kind:11} {length:12} {len(found_right):6} {100 * sum(found_right) / len(found_right):6.1f} %")
    for _, members in sorted(bins.items()):
        mean, share = (sum(column) / len(members) for column in zip(*members))
        print(f"  confidence {mean:.2f}: {share:.2f} right of {len(members)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--lines", "--words"):
        parser.add_argument(option, nargs="+", default=[], metavar="LANGUAGE=FILE[#COLUMN]")
    parser.add_argument("--count", type=int, default=300, help="pieces of each length, and words, of each language")
    options = parser.parse_args()
    lines: dict[str, list[str]] = defaultdict(list)
    own: dict[str, set[str]] = defaultdict(set)
    for given in options.lines:
        language, _, file = given.partition("=")
        lines[language] += list(read_lines(file))
    for given in options.words:
        language, _, file = given.partition("=")
        own[language] |= {word.lower() for word in read_lines(file)}
    whole = random.Random(7)
    texts = [*cut_pieces(lines, own, options.count), *dictionary_words(own, options.count)]
    for language, known in lines.items():
        texts += [Text(one, frozenset({language}), "whole") for one in whole.sample(known, min(1000, len(known)))]
    for name, detect in detectors(sorted({*lines, *own})):
        report(name, detect, texts)


if __name__ == "__main__":
    main()
