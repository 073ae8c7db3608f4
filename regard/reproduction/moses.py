"""Multi30k as published translators read it: lower-cased, with normalised punctuation, tokenised as Moses does.

Written once as plain files into the folder of data sets, so that training needs no more than these, on any machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from regard.data.corpus.reading import check_file, read_lines
from regard.errors import UserError
from regard.storage import write_file

PARTS = {"train": "train", "val": "val", "test": "test_2016_flickr"}
LANGUAGES = ("en", "de", "fr")
FOLDER = "multi30k_moses"


def prepare(root: Path, note: Callable[[str], None]) -> None:
    """Writes `FOLDER/PART.LANGUAGE` below the folder of data sets, unless they are there."""
    missing = [(p, lang) for p in PARTS for lang in LANGUAGES if not (root / FOLDER / f"{p}.{lang}").is_file()]
    if not missing:
        return
    for part, language in missing:
        check_file(root / "multi30k" / f"{PARTS[part]}.{language}.gz")
    prepared = {language: tokenised(language) for language in {language for _, language in missing}}
    note(f"writing Multi30k in Moses' tokens to {root / FOLDER}")
    for part, language in missing:
        lines = read_lines(str(root / "multi30k" / f"{PARTS[part]}.{language}.gz"), kept=True)
        try:
            (root / FOLDER).mkdir(exist_ok=True)
            text = "".join(f"{prepared[language](line)}\n" for line in lines)
            write_file(root / FOLDER / f"{part}.{language}", text.encode())
        except OSError as error:
            raise UserError(f"cannot write to {root / FOLDER}: {error.strerror}; choose another --data") from None


def tokenised(language: str) -> Callable[[str], str]:
    """Lower-cases, normalises punctuation and tokenises a line; apostrophes and brackets are not escaped."""
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError:
        raise UserError("this row needs the package sacremoses; type: pip install 'regard[moses]'") from None
    normaliser, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)

    def prepared(line: str) -> str:
        return str(tokenizer.tokenize(normaliser.normalize(line.lower()), return_str=True, escape=False))

    return prepared
