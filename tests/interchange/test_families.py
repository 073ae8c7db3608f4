"""Imported Hugging Face folders agree with transformers: logits, greedy and beam texts, padded and alone.

Random weights repeat one token for ever, so both sides forbid any to come twice. For beam search the end is forbidden on
both sides: theirs considers ending only where the end is among the best continuations, ours always, so that they find
the same texts when neither can end.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from regard.assemble import build_model
from regard.decoding.rules import Rule
from regard.interchange.families._base import Text
from regard.interchange.imported import Imported
from regard.interchange.read import hugging_face
from regard.interchange.read.foreign_folder import ForeignFolder
from regard.loading import assign_weights
from regard.task import _writing
from regard.task.translate import Translator
from regard.types import BEGIN, END, PAD
from tests.interchange import made_folders
from tests.interchange.made_folders import VARIANTS

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

LONGEST = 14
LEFT_PADDED = ("m2m100", "nllb", "t5", "mt5")
"""Families whose positions transformers counts from the first token that is not padding; in the others, padding on the
left shifts all positions in transformers itself."""
PAIRS = {
    "marian tags": ("de", "fr"),
    "m2m100": ("de", "fr"),
    "nllb": ("de", "fr"),
    "nllb sentencepiece": ("de", "fr"),
    "mbart-50": ("de", "fr"),
    "mbart": ("de", "fr"),
}
FIRST = ("marian", "pegasus", "m2m100", "nllb", "mbart-50", "mbart", "bart", "t5", "mt5")
"""One variant of each family, for which more texts are compared."""


@dataclass
class Pair:
    name: str
    theirs: Any
    tokenizer: Any
    imported: Imported
    text: Text
    ours: Translator


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    maker, changes = VARIANTS[request.param]
    folder = tmp_path_factory.mktemp("folder")
    theirs, tokenizer = maker(folder, **changes)
    return made_pair(request.param, theirs, tokenizer, folder)


def made_pair(name: str, theirs: Any, tokenizer: Any, folder: Path) -> Pair:
    imported = hugging_face.read(folder)
    return Pair(name, theirs, tokenizer, imported, text_of(folder), translator(imported))


def translator(imported: Imported) -> Translator:
    model = build_model(imported.recipe.model, **imported.tokenizer.sizes())
    assign_weights(model, imported.weights, "imported")
    return Translator(imported.recipe, imported.tokenizer, model, torch.device("cpu"))


def text_of(folder: Path) -> Text:
    """The numbering of the vocabularies."""
    files = ForeignFolder(folder)
    config = hugging_face.Config(files.json("config.json"), "config.json")
    family = hugging_face._family(config)
    return family.text(config, hugging_face._generation(files, config), files, lambda note: None)


def ours_of(rows: Tensor, ids: dict[int, int], pad: int) -> Tensor:
    """Their ids as ours."""
    return torch.tensor([[ids.get(row, PAD) if row != pad else PAD for row in one] for one in rows.tolist()])


def batch_of(pair: Pair) -> tuple[Tensor, Tensor, Tensor]:
    """Random sources of theirs, padded on the right, their mask, and targets after the start."""
    config, text = pair.theirs.config, pair.text
    draw = torch.Generator().manual_seed(7)
    lengths = torch.tensor([9, 3, 12, 1, 7])
    source = torch.randint(4, text.source.size - 1, (5, 13), generator=draw)
    mask = torch.arange(13) <= lengths[:, None]
    source[torch.arange(13) == lengths[:, None]] = text.source.rows[END]
    source[~mask] = config.pad_token_id
    target = torch.randint(4, text.target.size - 1, (5, 8), generator=draw)
    target[:, 0] = text.target.rows[BEGIN]
    special = torch.tensor([config.pad_token_id])
    source[mask & torch.isin(source, special)] = 5
    target[:, 1:][torch.isin(target[:, 1:], special)] = 5
    return source, mask, target


def logits_of(pair: Pair, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
    """Our logits in their order of tokens."""
    text, pad = pair.text, pair.theirs.config.pad_token_id
    mine = ours_of(source, text.source.ids(), pad)
    wrote = ours_of(target, text.target.ids(), -1)
    wrote[:, 0] = BEGIN
    with torch.no_grad():
        found = pair.ours.model(mine, mask, wrote)
    assert (found[..., list(text.target.copies)] < -1e8).all()
    ids = text.target.ids()
    return found[..., [ids[row] for row in range(text.target.size)]]


def test_logits_agree(pair: Pair) -> None:
    source, mask, target = batch_of(pair)
    with torch.no_grad():
        theirs = pair.theirs(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target).logits
        torch.testing.assert_close(logits_of(pair, source, mask, target), theirs, atol=1e-4, rtol=1e-4)
        for row in range(len(source)):  # alone
            part = slice(row, row + 1), slice(0, int(mask[row].sum()))
            alone = logits_of(pair, source[part], mask[part], target[row : row + 1])
            torch.testing.assert_close(alone, theirs[row : row + 1], atol=1e-4, rtol=1e-4)
        if pair.name.startswith(LEFT_PADDED):
            rolled = [torch.roll(one, int((~here).sum()), 0) for one, here in zip(source, mask)]
            left, there = torch.stack(rolled), mask.flip(1)
            padded = pair.theirs(input_ids=left, attention_mask=there.long(), decoder_input_ids=target).logits
            torch.testing.assert_close(logits_of(pair, source, mask, target), padded, atol=1e-4, rtol=1e-4)


class NoRepeats(Rule):
    """No token twice, as their no_repeat_ngram_size = 1, in place of the rule against loops.

    They count the start, too: where it is the same token as the end, nothing ends. Without `ends`, nothing ever does.
    """

    def __init__(self, ends: bool) -> None:
        super().__init__()
        self.ends = ends

    def __call__(self, history: Tensor, log_probs: Tensor, written: Tensor | None = None) -> None:
        ends = log_probs[:, END].clone()
        log_probs.scatter_(1, history[:, : None if written is None else int(written)], -torch.inf)
        log_probs[:, END] = ends if self.ends else -torch.inf


def generated(pair: Pair, texts: list[str], **options: Any) -> list[str]:
    """Their outputs, in which padding, unknown and start are never written, as in ours."""
    theirs, tokenizer, text = pair.theirs, pair.tokenizer, pair.text
    never = {text.target.rows[i] for i in (0, 1, 2)} - {text.target.rows[END]}
    theirs.generation_config.forced_eos_token_id = None  # would replace the last token of what is cut off
    if pair.name in PAIRS:
        texts, more = tagged(pair, texts)
        options |= more
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    encoded.pop("token_type_ids", None)
    ids = theirs.generate(
        **encoded,
        max_new_tokens=LONGEST + ("forced_bos_token_id" in options),
        do_sample=False,
        no_repeat_ngram_size=1,
        bad_words_ids=[[row] for row in sorted(never)],
        **options,
    )
    # In text of theirs, some tags and rows that are no tokens are spelled out; in ours they are nothing.
    target, numbers = pair.ours.tokenizer.target, text.target.ids()
    unseen = [row for row, id in numbers.items() if id > END and not target.surfaces([id])[0]]
    ids[torch.isin(ids, torch.tensor(unseen))] = theirs.config.pad_token_id
    return [one.strip() for one in tokenizer.batch_decode(ids, skip_special_tokens=True)]


def tagged(pair: Pair, texts: list[str]) -> tuple[list[str], dict[str, Any]]:
    source, target = PAIRS[pair.name]
    if pair.name == "marian tags":
        return [f">>fra<< {text}" for text in texts], {}
    code = {"m2m100": ("de", "fr"), "mbart": ("de_DE", "fr_XX")}.get(pair.name.split("-")[0], ("deu_Latn", "fra_Latn"))
    pair.tokenizer.src_lang = code[0]
    if pair.name == "mbart":
        return texts, {}
    name = f"__{code[1]}__" if pair.name == "m2m100" else code[1]
    return texts, {"forced_bos_token_id": pair.tokenizer.convert_tokens_to_ids(name)}


def translated(pair: Pair, texts: list[str], **options: Any) -> list[str]:
    if pair.name in PAIRS:
        options |= dict(zip(("source", "target"), PAIRS[pair.name]))
    return [one.text for one in pair.ours.translate(texts, max_length=LONGEST, **options)]


def test_greedy_texts_agree(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = BEGIN not in pair.text.target.copies
    monkeypatch.setattr(_writing, "NoLoops", lambda *settings: NoRepeats(ends))
    texts = made_folders.texts(200 if pair.name in FIRST else 50)
    found = translated(pair, texts, beam=1)
    assert found == generated(pair, texts, num_beams=1)
    assert len(set(found)) >= len(texts) // 2 and len({word for text in found for word in text}) >= 20
    assert [translated(pair, [text], beam=1)[0] for text in texts[:5]] == found[:5]


def test_beam_texts_agree(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_writing, "NoLoops", lambda *settings: NoRepeats(ends=False))
    texts = made_folders.texts(200 if pair.name in FIRST else 50)
    found = translated(pair, texts, beam=4, length_penalty=0.0)
    assert found == generated(pair, texts, num_beams=4, length_penalty=0.0, min_new_tokens=LONGEST)
    assert len(set(found)) >= len(texts) // 2
