"""Between which languages `regard translate` translates each line where no option says so.

The language of a line is detected among those of the model. It is translated to English; if it is English, to the
language of the user's locale. What no model could translate well stays as it is, and is never lost: a line in a
language that the model does not have, one in the target language already, one without words (emoji, a URL, numbers),
and one whose translation would be empty.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from regard.checks import findings
from regard.config import Recipe
from regard.directions import direction, directions, is_multilingual
from regard.errors import UserError
from regard.language_identification import identified, is_another_language, is_identifiable, likeliest
from regard.languages import internal, is_known, name
from regard.setting import shown
from regard.task._translation import Translation, joined
from regard.text.alignment import AlignedText
from regard.text.language_runs import language_runs, main_language, sentence_languages
from regard.text.placeholders import PendingSentences
from regard.text.segments import PlainText
from regard.text.untranslatable import has_emoji
from regard.text.word_confidences import Confidences

ENGLISH = "en"
FEW_WORDS = 2
"""So few may look like the target language and yet be in another one."""
_PUNCTUATION = ".,;:!?…\"'«»“”()"
LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The first of these variables that is set says the user's language."""
Warn = Callable[[str], None]


def locale_language(environment: Mapping[str, str] = os.environ) -> str:
    """The language of the user's locale, by our code; empty for C and POSIX."""
    stated = next((value for variable in LOCALE if (value := environment.get(variable))), "")
    code = re.split("[.@]", stated)[0]
    known = internal(code) if is_known(internal(code)) else internal(code.split("_")[0])
    return known if is_known(known) else ""


def usual_target(recipe: Recipe, source: str, locale: str, text: str = "") -> str:
    """What a model for several languages translates a text in `source` to; empty if it is clear without a rule.

    Raises a UserError for English text if the locale does not say.
    """
    targets = [to for one, to in directions(recipe) if one == source] if source else _targets(recipe)
    if not is_multilingual(recipe) or len(set(targets)) < 2 or ENGLISH not in _targets(recipe):
        return ""
    if source != ENGLISH:
        return ENGLISH if ENGLISH in targets else ""
    if locale in targets:
        return locale
    listed = ", ".join(sorted(set(targets))[:12])
    what = shown(text) if text else "the text"
    raise UserError(f"{what} is in English; name the language to translate it to with --to: {listed}")


def check_direction(recipe: Recipe, source: str | None, target: str | None, locale: str) -> None:
    """Refuses languages that the model does not have, before it is loaded."""
    if source and not target:
        target = usual_target(recipe, internal(source), locale) or None
    elif not target and is_multilingual(recipe) and ENGLISH in _targets(recipe):
        return
    direction(recipe, source, target)


Direction = tuple[str, str]


class LanguageChoice:
    """A translator or a chain whose `translate` chooses the languages of each text, or of each run of its sentences."""

    def __init__(
        self, translator: Any, model: str, source: str | None, target: str | None, *, alone: bool = True
    ) -> None:
        """`source` and `target` are what the user asked for. Of a chain (not `alone`) the languages are its own."""
        self.translator, self.model = translator, model
        self.recipe, self.engine = translator.recipe, translator.engine
        self.source, self.target = internal(source or ""), internal(target or "")
        self.locale = locale_language()
        self._alone = alone
        self._sources = sorted({one for one, _ in directions(self.recipe)}) if alone and not self.source else []
        self._sources = [code for code in self._sources if is_identifiable(code)]

    def translate(
        self, texts: Sequence[str], *, warn: Warn = lambda message: None, progress: Any = None, **options: Any
    ) -> list[Translation]:
        """Messages to `warn` begin with the number of a text, as those of a translator."""
        runs = [self._runs(text) for text in texts]
        if all(len(one) == 1 for one in runs):
            return self._translate(texts, [None] * len(texts), warn, progress, options)
        owners = [number for number, one in enumerate(runs, 1) for _ in one]
        flat = [run for one in runs for run in one]
        found = self._translate(
            [text for text, _ in flat],
            [direction for _, direction in flat],
            lambda message: warn(renumbered(message, owners)),
            None,
            options,
        )
        if progress:
            progress(len(texts))
        parts = iter(with_alternatives(found, options.get("n_best", 1)))
        return [joined(text, [next(parts) for _ in one]) for text, one in zip(texts, runs, strict=True)]

    def _runs(self, text: str) -> list[tuple[str, Direction | None]]:
        """The runs of sentences in one language, if there are several, with their direction; else the text."""
        whole: list[tuple[str, Direction | None]] = [(text, None)]
        if not self._sources or len(parts := PlainText(text).sentences) < 2:
            return whole
        languages = [*self._sources, *(code for code in [self._only_target()] if is_identifiable(code))]
        runs = language_runs(text, dict.fromkeys(languages))
        if len(runs) < 2:
            return whole
        main = main_language(parts, sentence_languages(parts, dict.fromkeys(languages)))
        try:
            target = self._only_target() or usual_target(self.recipe, main, self.locale, text)
        except UserError:  # most is English, and nothing says what that is to become: it stays, and the rest joins it
            target = ENGLISH
        able = {one for one, to in directions(self.recipe) if to == target}
        return [(run.strip(), (code if code in able or not code else target, target)) for run, code in runs]

    def _translate(
        self,
        texts: Sequence[str],
        chosen: Sequence[Direction | None],
        warn: Warn,
        progress: Any,
        options: dict[str, Any],
    ) -> list[Translation]:
        """`chosen` are the directions of runs; that of a whole text is chosen here."""
        found: dict[int, Translation] = {}
        foreign: defaultdict[str, list[int]] = defaultdict(list)
        unsaid: list[int] = []  # English, and nothing says what it is to become
        groups: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            if not _has_words(text):  # nothing to translate
                found[number] = _unchanged(text, options)
            elif (known := chosen[number]) and known[0]:
                groups[known].append(number)
            elif self._is_foreign(text):
                foreign[identified(text)].append(number)
                found[number] = _unchanged(text, options)
            else:
                try:
                    groups[self._direction(text)].append(number)
                except UserError:
                    if len(texts) == 1:
                        raise
                    unsaid.append(number)
                    found[number] = _unchanged(text, options)
        if progress and found:
            progress(len(found))
        for language, numbers in foreign.items():
            if language != self._only_target():
                self._warn_foreign(warn, language, numbers)
        if unsaid:
            more = f" (and {len(unsaid) - 1} more)" if len(unsaid) > 1 else ""
            warn(f"text {unsaid[0] + 1}{more} is in English and stays as it is; --to says what to translate it to")
        for (source, target), numbers in groups.items():
            if source and source == target:
                found |= {number: _unchanged(texts[number], options) for number in numbers}
                continue
            stated = {key: code for key, code in (("source", source), ("target", target)) if code}
            answers = self._answers(
                [texts[number] for number in numbers],
                **{**options, **stated},
                warn=lambda message, numbers=numbers: warn(renumbered(message, [number + 1 for number in numbers])),
                progress=progress,
            )
            for number, answer in zip(numbers, answers, strict=True):
                if not answer.text.strip():
                    warn(f"text {number + 1} has an empty translation; it is left as it is")
                    answer = _unchanged(texts[number], options)
                found[number] = answer
        return [found[number] for number in range(len(texts))]

    def _answers(self, texts: list[str], **options: Any) -> list[Translation]:
        """Models garble emoji: they are hidden from it and put back, as on the server."""
        several = options.get("n_best", 1) > 1 or options.get("alignment")
        hidden = [] if several else [number for number, text in enumerate(texts) if has_emoji(text)]
        shown = [number for number in range(len(texts)) if number not in set(hidden)]
        warn = options.pop("warn")
        found = dict(
            zip(
                shown,
                self.translator.translate(
                    [texts[number] for number in shown],
                    warn=lambda message: warn(renumbered(message, [number + 1 for number in shown])),
                    **options,
                ),
            )
        )
        pending, progress = PendingSentences([texts[number] for number in hidden]), options.pop("progress")
        while asked := pending.next_inputs():
            for n_best, inputs in asked.items():
                best = self.translator.translate(inputs, **{**options, "n_best": n_best})
                pending.answer(n_best, [[_as_edited(one) for one in (row, *row.alternatives)] for row in best])
        if progress and hidden:
            progress(len(hidden))
        made = {n: _from_edited(texts[n], row[0], options) for n, row in zip(hidden, pending.results())}
        return [(found | made)[number] for number in range(len(texts))]

    def direction_of_document(self, beginning: str, document: str) -> dict[str, str]:
        """What the translator is told, the same for all of a document. Refuses one in another language."""
        if self._is_foreign(beginning):
            language = identified(beginning)
            what = f"in {language} ({name(language)})" if language else "in none of the languages"
            raise UserError(
                f"{document} is {what}, but {self.model} translates from {', '.join(self._sources[:12])}; "
                "choose another model, or say with --from that it is not"
            )
        source, target = self._direction(beginning)
        if source and source == target:
            raise UserError(
                f"{document} is in {name(source)} already; name another language with --to, or its own with --from"
            )
        return {key: code for key, code in (("source", source), ("target", target)) if code}

    def usual_direction(self) -> dict[str, str]:
        """Some direction that the translator can be tried with."""
        target = self.target or (usual_target(self.recipe, self.source, self.locale) if self._alone else "")
        return {key: code for key, code in (("source", self.source), ("target", target)) if code}

    def depends_on(self) -> dict[str, str]:
        """What chooses the target of a line, besides the options."""
        return {"locale": self.locale} if self._alone and is_multilingual(self.recipe) and self.locale else {}

    def _is_foreign(self, text: str) -> bool:
        """Whether a text is clearly in none of the source languages (nor in the target, which is no reason to warn)."""
        return bool(self._sources) and is_another_language(text, *self._sources)

    def _only_target(self) -> str:
        targets = set(_targets(self.recipe))
        return self.target or (targets.pop() if len(targets) == 1 else "")

    def _direction(self, text: str) -> tuple[str, str]:
        """The languages that the translator is told; empty where it needs none."""
        if not self._alone:
            return self.source, self.target
        source = self.source
        if self._sources and is_multilingual(self.recipe):
            source = self._detected(text)
        return source, self.target or usual_target(self.recipe, source, self.locale, text)

    def _detected(self, text: str) -> str:
        """The language of a text, among the sources and the target.

        A word or two that look like the target language ("Non.") are translated all the same, unless it is clear.
        """
        found = likeliest(text, dict.fromkeys([*self._sources, *filter(None, [self.target])]))
        english_goes_on = any(one == ENGLISH and to == self.locale for one, to in directions(self.recipe))
        goal = self.target or ("" if english_goes_on else ENGLISH)
        others = [code for code in self._sources if code != goal]
        if found == goal and others and len(text.split()) <= FEW_WORDS and not is_another_language(text, *others):
            return likeliest(text, others)
        return found

    def _warn_foreign(self, warn: Warn, language: str, numbers: list[int]) -> None:
        more = f" (and {len(numbers) - 1} more)" if len(numbers) > 1 else ""
        what = f"in {language} ({name(language)})" if language else "in none of the languages"
        has = ", ".join(self._sources[:12])
        warn(
            f"text {numbers[0] + 1}{more} is {what}, but {self.model} translates from {has}; it is left as it is "
            "(--from overrides this)"
        )


def with_alternatives(found: Sequence[Translation], n_best: int) -> list[Translation]:
    """A run that stays as it is has as many alternatives as the others, so that they can be joined."""
    return [one if one.alternatives else replace(one, alternatives=[one] * (n_best - 1)) for one in found]


def renumbered(message: str, numbers: Sequence[int]) -> str:
    """Replaces the number of a text in its batch."""
    return re.sub(r"^text (\d+)", lambda found: f"text {numbers[int(found[1]) - 1]}", message)


def _targets(recipe: Recipe) -> list[str]:
    return [target for _, target in directions(recipe)]


def _as_edited(one: Translation) -> AlignedText:
    return AlignedText(
        one.text, None, None if one.confidence is None else Confidences(one.confidence, tuple(one.words))
    )


def _from_edited(text: str, found: AlignedText, options: Mapping[str, Any]) -> Translation:
    made = Translation(text, found.text)
    if options.get("doubt") and found.confidences:
        made.confidence, made.words = found.confidences.whole, list(found.confidences.words)
        made.warnings = findings(text, found.text, options.get("target") or "", options.get("source") or "")
    return made


def _has_words(text: str) -> bool:
    if any(word.strip(_PUNCTUATION).isalpha() for word in text.split()):  # most texts: this takes no patterns
        return True
    from regard.text.untranslatable import has_words

    return has_words(text)


def _unchanged(text: str, options: Mapping[str, Any]) -> Translation:
    return Translation(text, text if text.strip() else "", alignment=[] if options.get("alignment") else None)
