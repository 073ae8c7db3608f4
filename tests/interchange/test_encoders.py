"""Imported BERTs, DistilBERTs and RoBERTas agree with transformers: tokens, logits, answers, and back again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import regard
from regard.inspection.trace.base import NO_WORD, Choice
from regard.layers.capture import capture
from regard.serving.workers.tasks import fill as served
from tests.data import imported_text
from tests.interchange.made_encoders import LABELS, LONGEST, TAGS, VARIANTS, Variant, make

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

TEXTS = ["das Haus", "Läuft schön über die Straße!", "我们去学校 x", "tôi yêu tiếng Việt,  l'eau"]
CLASSES = {"fill": "AutoModelForMaskedLM", "classify": "AutoModelForSequenceClassification"}
CLASSES |= {"tag": "AutoModelForTokenClassification"}
CLASSIFYING = [name for name in VARIANTS if "classifier" in name]
TAGGING = [name for name in VARIANTS if "tagger" in name]
FILLING = [name for name in VARIANTS if name not in (*CLASSIFYING, *TAGGING)]


@dataclass
class Pair:
    name: str
    variant: Variant
    theirs: Any
    tokenizer: Any
    folder: Path
    ours: Any

    @property
    def rows(self) -> list[int]:
        """Their id of each of ours."""
        saved = self.ours.pair.input.tokenizer._saved
        return [*saved["special"], *saved["order"]]

    def ours_of(self, theirs: list[int]) -> list[int]:
        ids = {row: id for id, row in enumerate(self.rows)}
        return [ids[row] for row in theirs]

    def logits(self, texts: list[str]) -> list[torch.Tensor]:
        """Theirs, in our order, without those of padding."""
        read = self.tokenizer(texts, padding=True, return_tensors="pt", truncation=True, max_length=LONGEST)
        with torch.no_grad():
            found = self.theirs(**read)
        found = found.prediction_logits if "prediction_logits" in found else found.logits
        if found.dim() == 2:
            return list(found)
        columns = self.rows if self.ours.recipe.task == "fill" else slice(None)
        return [row[mask.bool()][:, columns] for row, mask in zip(found, read.attention_mask)]

    def ours_logits(self, texts: list[str]) -> list[torch.Tensor]:
        found: dict[int, torch.Tensor] = {}
        for indexes, source, mask in self.ours.batches(texts):
            with torch.no_grad():
                logits = self.ours.model(source, mask)
            for index, row, real in zip(indexes, logits, mask):
                found[index] = row[real] if logits.dim() == 3 else row
        return [found[index] for index in range(len(texts))]


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    variant = VARIANTS[request.param]
    folder = tmp_path_factory.mktemp("folder")
    theirs, tokenizer = make(folder, variant)
    place = tmp_path_factory.mktemp("ours") / "model"
    regard.import_model(folder, place)
    return Pair(request.param, variant, theirs, tokenizer, place, regard.load(place, device="cpu"))


def agree(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_tokens_agree(pair: Pair) -> None:
    reader = pair.ours.pair.input
    for text in [*imported_text.lines(60, seed=9), *imported_text.TRICKY]:
        theirs = pair.tokenizer(text).input_ids
        if len(theirs) > 2:  # a text without tokens is an unknown word here
            assert reader.encode(text).tolist() == pair.ours_of(theirs), text


@pytest.mark.slow
def test_tokens_of_ten_thousand_lines_agree(pair: Pair) -> None:
    lines = imported_text.lines(10_000, seed=11)
    theirs = pair.tokenizer(lines, add_special_tokens=False).input_ids
    ids = {row: id for id, row in enumerate(pair.rows)}
    assert pair.ours.pair.input.tokenizer.encode_many(lines) == [[ids[row] for row in line] for line in theirs]


def test_logits_agree_in_a_batch_and_alone(pair: Pair) -> None:
    """Also of a text that fills all positions, and of one that is cut to them."""
    texts = [*TEXTS, "das Haus " * LONGEST]
    wanted = pair.logits(texts)
    agree(pair.ours_logits(texts), wanted)
    agree([pair.ours_logits([text])[0] for text in texts], wanted)


@pytest.mark.parametrize("pair", FILLING, indirect=True)
def test_blanks_are_filled_as_the_mask_token(pair: Pair) -> None:
    mask = pair.tokenizer.mask_token
    text = f"das {mask} läuft über {mask}, {mask}!"
    read = pair.tokenizer(text, return_tensors="pt")
    ids, places = pair.ours.hidden(text)
    assert ids == pair.ours_of(read.input_ids[0].tolist())
    assert places == (read.input_ids[0] == pair.tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    assert pair.ours.fill(text) == pair.ours.fill("das _ läuft über _, _!")
    wanted = pair.logits([text])[0][places].softmax(-1)
    surfaces = [pair.ours.tokenizer.surfaces([id])[0] for id in range(len(pair.rows))]
    for row, blank in zip(wanted, pair.ours.fill(text).blanks):
        for one in blank:
            same = [id for id, surface in enumerate(surfaces) if surface.strip() == one.word]
            assert any(abs(float(row[id]) - one.probability) < 1e-5 for id in same)
    assert [one["text"] for one in served.answer(pair.ours, {"text": text})["answers"]] == [pair.ours.fill(text).text]
    with pytest.raises(regard.UserError, match="1,001 blanks exceed the limit"):
        served.answer(pair.ours, {"text": mask * 1001})
    with pytest.raises(regard.UserError, match=r"the text has \d+ tokens, but this model reads 22"):
        pair.ours.fill("das Haus _ " * LONGEST)
    with pytest.raises(regard.UserError, match="there is no blank"):
        pair.ours.fill("das Haus")


@pytest.mark.parametrize("pair", CLASSIFYING, indirect=True)
def test_labels_have_the_names_of_the_config(pair: Pair) -> None:
    assert pair.ours.labels.names == LABELS
    for text, logits in zip(TEXTS, pair.logits(TEXTS)):
        found = pair.ours.classify(text)
        assert found.label == LABELS[int(logits.argmax())]
        for name, wanted in zip(LABELS, logits.softmax(-1)):
            assert found.probabilities[name] == pytest.approx(float(wanted), abs=1e-5)


def word_ids(pair: Pair, text: str) -> list[int]:
    """Their ids of a text that is read word by word."""
    return [pair.rows[id] for id in pair.ours.pair.input.encode(text.split())]


@pytest.mark.parametrize("pair", [*TAGGING, "roberta classifier"], indirect=True)
def test_words_are_read_as_in_a_text(pair: Pair) -> None:
    """Also where a space is part of a token, and the first word has none."""
    for text in TEXTS:
        assert word_ids(pair, text) == pair.tokenizer(" ".join(text.split())).input_ids


@pytest.mark.parametrize("pair", TAGGING, indirect=True)
def test_words_are_tagged_as_their_first_tokens(pair: Pair) -> None:
    """A text of more tokens than positions is tagged in pieces."""
    assert pair.ours.names == TAGS
    words = ["Läuft", "das", "schön", "!"]
    read = pair.tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        logits = pair.theirs(**read).logits[0]
    first = [read.word_ids().index(number) for number in range(len(words))]
    assert pair.ours.pair.input.word_positions(words).tolist() == first
    (found,) = pair.ours.tag([words])
    assert found.tags == [TAGS[int(row.argmax())] for row in logits[first]]
    assert found.probabilities == pytest.approx(logits[first].softmax(-1).max(-1).values.tolist(), abs=1e-5)
    assert len(pair.ours.tag("das Haus " * LONGEST).tags) == 2 * LONGEST


def test_what_is_inspected_is_what_transformers_computes(pair: Pair) -> None:
    text = "das Haus [MASK] über".replace("[MASK]", "_" if pair.ours.recipe.task == "fill" else "läuft")
    theirs = text.replace("_", str(pair.tokenizer.mask_token))
    trace = pair.ours.inspect(text)
    pair.theirs.set_attn_implementation("eager")
    with torch.no_grad():
        wanted = pair.theirs(**pair.tokenizer(theirs, return_tensors="pt"), output_attentions=True)
    pair.theirs.set_attn_implementation("sdpa")
    assert len(trace.attention) == len(wanted.attentions) == pair.theirs.config.num_hidden_layers
    for ours, attention in zip(trace.attention, wanted.attentions):
        torch.testing.assert_close(torch.as_tensor(ours.weights), attention[0], atol=1e-5, rtol=1e-4)
    assert len(trace.source.tokens) == wanted.attentions[0].shape[-1] == len(trace.source.word_of) + 1
    assert [word for word in trace.source.word_of if word >= 0][0] == 0 and trace.source.word_of[0] == NO_WORD
    ids = torch.tensor([pair.ours_of(pair.tokenizer(theirs).input_ids)])
    with torch.no_grad():
        alone = pair.ours.model(ids, torch.ones_like(ids, dtype=torch.bool))
        with capture(pair.ours.model):
            watched = pair.ours.model(ids, torch.ones_like(ids, dtype=torch.bool))
    torch.testing.assert_close(watched, alone, atol=1e-5, rtol=1e-5)
    for head in (0, 3):
        found = trace.calculation_of(Choice(layer=1, head=head, position=2))
        assert found.difference < 1e-5
    with pytest.raises(regard.UserError, match="tokens, but this model reads"):
        pair.ours.inspect("das Haus _ " * LONGEST)


def test_it_goes_back_to_transformers_as_it_came(pair: Pair, tmp_path: Path) -> None:
    regard.export(pair.folder, tmp_path / "back", format="huggingface")
    maker = getattr(transformers, CLASSES[pair.ours.recipe.task])
    theirs = maker.from_pretrained(tmp_path / "back")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert theirs.config.model_type == pair.variant.family
    back = Pair(pair.name, pair.variant, theirs, tokenizer, tmp_path, pair.ours)
    for text in [*TEXTS, *imported_text.lines(20, seed=4)]:
        assert tokenizer(text).input_ids == pair.tokenizer(text).input_ids
    agree(back.logits(TEXTS), pair.logits(TEXTS))
    if pair.ours.recipe.task == "fill":
        assert tokenizer.mask_token == pair.tokenizer.mask_token
    else:
        assert theirs.config.id2label == pair.theirs.config.id2label
    again = regard.load(regard.import_model(tmp_path / "back", tmp_path / "again"), device="cpu")
    mine, other = pair.ours.model.state_dict(), again.model.state_dict()
    assert mine.keys() == other.keys() and all(torch.equal(mine[name], other[name]) for name in mine)
    assert again.recipe.model == pair.ours.recipe.model
    assert again.recipe.data.max_length == pair.ours.recipe.data.max_length
