"""An imported model trained further on one's own text, and exported back."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import transformers

import regard
from regard.interchange.read import hugging_face
from regard.task import _writing
from tests.data import imported_text
from tests.interchange.made_folders import VARIANTS
from tests.interchange.test_families import NoRepeats
from tests.interchange.test_huggingface_export import saved

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def corpus(folder: Path, count: int = 300) -> tuple[Path, Path]:
    """German words, and for each a French one."""
    draw = random.Random(2)
    pairs = list(zip(imported_text.WORDS["de"], imported_text.WORDS["fr"]))
    chosen = [draw.choices(pairs, k=draw.randint(2, 5)) for _ in range(count)]
    for side, name in enumerate(("a.de", "b.fr")):
        (folder / name).write_text("".join(" ".join(pair[side] for pair in line) + "\n" for line in chosen))
    return folder / "a.de", folder / "b.fr"


@pytest.mark.parametrize("name", ["marian", pytest.param("marian tags", marks=pytest.mark.slow), "nllb sentencepiece"])
def test_it_learns_and_goes_back(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker, changes = VARIANTS[name]
    maker(tmp_path / "theirs", **changes)
    imported = hugging_face.read(tmp_path / "theirs")
    start = saved(imported, tmp_path / "start")
    source, target = corpus(tmp_path)
    run = regard.train(
        None,
        "training.learning_rate=0.003",
        "training.precision=float32",
        "training.label_smoothing=0",
        "data.hold_out_valid=20",
        "source_language=de",
        "target_language=fr",
        source=[source],
        target=[target],
        start_from=start,
        steps=25,
        device="cpu",
        out=tmp_path / "tuned",
        quiet=True,
    )
    languages: dict[str, Any] = {"source": "de", "target": "fr"}
    pairs = list(zip(source.read_text().splitlines(), target.read_text().splitlines()))[:50]
    before, after = regard.load(start, engine="torch"), regard.load(run.folder / "model", engine="torch")
    before.recipe = after.recipe
    assert after.loss(pairs) < before.loss(pairs) - 0.5
    assert after.recipe.languages == imported.recipe.languages
    assert after.tokenizer.files() == imported.tokenizer.files()
    folder = regard.export(run.folder / "model", tmp_path / "back", format="huggingface")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    monkeypatch.setattr(_writing, "NoLoops", lambda *settings: NoRepeats(ends=True))
    texts = [text for text, _ in pairs]
    tagged, forced = texts, {}
    if name == "marian tags":
        tagged = [f">>fra<< {text}" for text in texts]
    elif name.startswith("nllb"):
        tokenizer.src_lang = "deu_Latn"
        forced = {"forced_bos_token_id": tokenizer.convert_tokens_to_ids("fra_Latn")}
    ids = model.generate(
        **tokenizer(tagged, padding=True, return_tensors="pt"),
        num_beams=1,
        max_new_tokens=8 + len(forced),
        **forced,
        no_repeat_ngram_size=1,
        bad_words_ids=model.generation_config.bad_words_ids,
        forced_eos_token_id=None,
    )
    found = [one.strip() for one in tokenizer.batch_decode(ids, skip_special_tokens=True)]
    assert [one.text for one in after.translate(texts, beam=1, max_length=8, **languages)] == found
    assert len(set(found)) > 10
