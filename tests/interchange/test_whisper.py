"""Imported Whisper models agree with transformers: log-mel, encoder, logits, greedy and beam texts, segments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.generation import GenerationMixin
from transformers.generation.logits_process import WhisperTimeStampLogitsProcessor

import regard
from regard.data.examples import pad_arrays
from regard.decoding.rules import Forbid
from regard.decoding.timestamps import Timestamps
from regard.stem.log_mel import RANGE, LogMel
from regard.task import _writing
from regard.task._recordings import segments
from regard.task.transcribe import Transcriber
from regard.types import BEGIN, END
from tests.data import imported_text
from tests.interchange.made_whisper import RATE, extractor, sound, whisper

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

VARIANTS: dict[str, dict[str, Any]] = {
    "multilingual": {},
    "english, old names": {
        "tags": (),
        "named_times": False,
        "merges": True,
        "bare": True,
        "binary": True,
        "activation_function": "relu",
    },
    "128 bands, untied": {"num_mel_bins": 128, "tie_word_embeddings": False, "encoder_layers": 1, "dropout": 0.1},
}
SOUNDS = [sound(1.3), sound(2.0, 1), sound(0.4, 2)]


@dataclass
class Pair:
    theirs: Any
    tokenizer: Any
    ours: Transcriber

    @property
    def ids(self) -> dict[int, int]:
        """Our id of each of theirs."""
        saved = self.ours.tokenizer._saved  # type: ignore[attr-defined]
        found = {theirs: ours for ours, theirs in enumerate(saved["order"], 4)}
        return found | {saved["special"][BEGIN]: BEGIN, saved["special"][END]: END}

    def theirs_of(self, ours: list[int]) -> list[int]:
        back = {mine: theirs for theirs, mine in self.ids.items()}
        return [back[id] for id in ours]

    def features(self, sounds: list[np.ndarray]) -> torch.Tensor:
        return extractor(self.theirs.config)(sounds, sampling_rate=RATE, return_tensors="pt").input_features

    def opening(self, language: str = "de", translated: bool = False, timestamps: bool = False) -> list[int]:
        assert self.ours.speech is not None
        return self.ours.speech.opening(language, translated, timestamps)

    def generated(
        self, opening: list[int], sounds: list[np.ndarray], length: int = 25, beams: int = 1
    ) -> list[list[int]]:
        """What transformers writes after this opening, by our ids and without the end."""
        settings, prompt = self.theirs.generation_config, [BEGIN, *opening]
        rules = []
        if self.ours.speech.no_timestamps not in opening:  # type: ignore[union-attr]
            rules.append(WhisperTimeStampLogitsProcessor(settings, begin_index=len(prompt)))
        written = []
        for one in sounds:
            found = GenerationMixin.generate(
                self.theirs,
                self.features([one]),
                decoder_input_ids=torch.tensor([self.theirs_of(prompt)]),
                logits_processor=transformers.LogitsProcessorList(rules),
                max_new_tokens=length,
                max_length=None,
                num_beams=beams,
                do_sample=False,
            )[0].tolist()[len(prompt) :]
            ours = [self.ids[id] for id in found]
            written.append(ours[: ours.index(END)] if END in ours else ours)
        return written


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow if name.startswith("128") else ()) for name in VARIANTS],
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    place = tmp_path_factory.mktemp("whisper")
    theirs, tokenizer = whisper(place / "theirs", **VARIANTS[request.param])
    regard.import_model(place / "theirs", place / "ours")
    assert "- Note: " not in (place / "ours" / "card.md").read_text()
    return Pair(theirs, tokenizer, regard.load(place / "ours", device="cpu", task="transcribe"))


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers has no rule against loops, and random models write little else."""
    monkeypatch.setattr(_writing, "NoLoops", lambda *settings: Forbid(()))


@pytest.mark.parametrize("mels", [80, 128])
def test_the_spectrogram_is_theirs(mels: int) -> None:
    """Of 30 seconds: shorter, exact and cut, with silence, and of silence alone."""
    theirs, stem = transformers.WhisperFeatureExtractor(feature_size=mels), LogMel(RATE, width=8, mels=mels)
    for seconds in (0.3, 30.0, 30.5):
        samples = sound(seconds)
        samples[len(samples) // 2 :][:2000] = 0.0
        for given in (samples, np.zeros_like(samples)):
            wanted = theirs(given, sampling_rate=RATE, return_tensors="pt").input_features[0].T
            found, _ = stem.spectrogram(torch.from_numpy(given)[None], torch.ones(1, len(given), dtype=torch.bool))
            found = (torch.maximum(found, found.amax() - RANGE) + 4) / 4
            torch.testing.assert_close(found[0], wanted, atol=1e-5, rtol=0)


def test_tokens_agree(pair: Pair) -> None:
    """Text that reads like a special token is text; a token of time is none."""
    for text in [*imported_text.lines(20, seed=9), *imported_text.TRICKY]:
        theirs = pair.tokenizer(text, add_special_tokens=False).input_ids
        assert pair.ours.tokenizer.encode(text) == [pair.ids[id] for id in theirs], text
        assert pair.ours.tokenizer.decode(pair.ours.tokenizer.encode(text)) == pair.tokenizer.decode(theirs), text
    assert pair.ours.speech is not None
    first, spelled = pair.ours.speech.first_time, pair.ours.tokenizer.encode("<|0.00|> <|de|>")
    assert pair.ours.tokenizer.decode([first, *spelled, first + 3]) == "<|0.00|> <|de|>"
    assert all(END < id < pair.ours.speech.text_end for id in spelled)


def test_encoder_and_logits_agree(pair: Pair) -> None:
    ours = pair.ours.model
    torch.manual_seed(1)
    ids = torch.randint(10, 250, (len(SOUNDS), 30))
    theirs = torch.tensor([pair.theirs_of(row) for row in ids.tolist()])
    with torch.inference_mode():
        wanted = pair.theirs.model.encoder(pair.features(SOUNDS)).last_hidden_state
        memory = ours.encode(*pad_arrays(SOUNDS, True))
        torch.testing.assert_close(memory.states, wanted, atol=1e-4, rtol=1e-4)
        logits = pair.theirs(input_features=pair.features(SOUNDS), decoder_input_ids=theirs).logits
        found = ours(*pad_arrays(SOUNDS, True), ids)
        rows, columns = list(pair.ids), list(pair.ids.values())
        torch.testing.assert_close(found[..., columns], logits[..., rows], atol=1e-4, rtol=1e-4)
        # Their padding and unknown tokens are the end: our copies take no part.
        assert found[..., [0, 1]].max() < -1e8
        state = ours.decoder.start(memory, beams=1, capacity=30)
        steps = []
        for column in ids.unbind(1):
            one, state = ours.decoder.step(column[:, None], state)
            steps.append(one)
        torch.testing.assert_close(torch.cat(steps, 1), found, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("translated,timestamps", [(False, False), (True, False), (False, True)])
def test_texts_agree(pair: Pair, translated: bool, timestamps: bool, loops: None) -> None:
    """Token by token, with the rules of suppressed tokens and of times; a batch says what each says alone."""
    if translated and not pair.ours.speech.languages:  # type: ignore[union-attr]
        pytest.skip("it knows English alone")
    spoken = {"source": "de" if pair.ours.speech.languages else "en"}  # type: ignore[union-attr]
    opening = pair.opening(spoken["source"], translated, timestamps)
    options: Any = {**spoken, "target": "en" if translated else None, "timestamps": timestamps, "max_length": 25}
    wanted = pair.generated(opening, SOUNDS)
    found = pair.ours.transcribe([(one, RATE) for one in SOUNDS], **options)
    for one, text in zip(found, wanted, strict=True):
        assert one.prefix == opening and one.language == spoken["source"] and one.translated == translated
        if timestamps:  # the rest may be heard in a further window
            first = segments(text, pair.ours.speech.first_time)  # type: ignore[union-attr]
            assert one.ids[: first.kept] == text[: first.kept]
        else:
            assert one.ids == text
    assert len({tuple(text) for text in wanted}) > 1
    alone = [pair.ours.transcribe((one, RATE), **options) for one in SOUNDS]
    assert [(one.ids, one.segments) for one in alone] == [(one.ids, one.segments) for one in found]
    for one, probabilities in zip(alone, [one.token_probabilities for one in found], strict=True):
        assert one.token_probabilities == pytest.approx(probabilities, abs=1e-4)


def test_the_rule_of_times_is_theirs(pair: Pair) -> None:
    """On random histories, of any length and with times anywhere."""
    settings, tokens = pair.theirs.generation_config, pair.ours.speech
    assert tokens is not None
    ids, draw = pair.ids, torch.Generator().manual_seed(5)
    theirs_first = settings.no_timestamps_token_id + 1
    rows, columns = list(ids), list(ids.values())
    for length in (0, 1, 2, 3, 5, 9) * 4:
        texts = torch.randint(10, 200, (6, length), generator=draw)
        stamps = torch.randint(0, 60, (6, length), generator=draw).sort(1).values + tokens.first_time
        history = torch.where(torch.rand(6, length, generator=draw) < 0.5, stamps, texts)
        scores = torch.randn(6, len(pair.ours.tokenizer), generator=draw) * 3
        scores[:, [0, 1]] = -torch.inf
        wanted = torch.full((6, max(rows) + 1), -torch.inf)
        wanted[:, rows] = scores[:, columns]
        prompt = torch.tensor([pair.theirs_of([BEGIN])] * 6)
        past = torch.tensor([pair.theirs_of(row) for row in history.tolist()], dtype=torch.long).reshape(6, length)
        rule = WhisperTimeStampLogitsProcessor(settings, begin_index=1)
        wanted = rule(torch.cat([prompt, past], 1), wanted)[:, rows]
        found = scores.log_softmax(-1)
        filled = torch.cat([history, torch.full((6, 4), END)], 1)  # a search has room for what is to come
        Timestamps(tokens.first_time, tokens.text_end, 0)(filled, found, torch.tensor(length))
        assert torch.equal(found[:, columns] == -torch.inf, wanted == -torch.inf), length
        assert theirs_first in rows


def test_beam_search_finds_no_worse_text(pair: Pair) -> None:
    language = "jv" if pair.ours.speech.languages else "en"  # type: ignore[union-attr]
    for one in SOUNDS[:2]:
        options: Any = {"source": language, "max_length": 6, "length_penalty": 0.0}
        greedy, best = (
            pair.ours.transcribe((one, RATE), beam=beam, n_best=n, **options) for beam, n in ((1, 1), (4, 3))
        )
        assert best.log_probability >= greedy.log_probability - 1e-4 or not greedy.finished
        assert len(best.alternatives) == 2 and best.score >= best.alternatives[0].score
        memory = pair.ours.model.encode(*pad_arrays([one], True))
        fed = torch.tensor([[BEGIN, *best.prefix, *best.ids]])
        with torch.inference_mode():
            state = pair.ours.model.decoder.start(memory, beams=1, capacity=0)
            logits = pair.ours.model.decoder.step(fed, state)[0][0, len(best.prefix) :].log_softmax(-1)
        written = [*best.ids, END] if best.finished else best.ids
        said = sum(float(row[id]) for row, id in zip(logits, written))
        assert best.log_probability == pytest.approx(said, abs=1e-3)


def test_the_language_is_detected_as_theirs(pair: Pair) -> None:
    codes = list(pair.ours.speech.languages)  # type: ignore[union-attr]
    found = pair.ours.transcribe([(one, RATE) for one in SOUNDS], max_length=2)
    if not codes:
        assert {one.language for one in found} == {"en"} and found[0].language_probability is None
        return
    theirs = pair.theirs.detect_language(pair.features(SOUNDS)).tolist()
    tags = {pair.theirs_of([id])[0]: code for code, id in pair.ours.speech.languages.items()}  # type: ignore[union-attr]
    assert [one.language for one in found] == [tags[id] for id in theirs]
    assert all(1 / len(codes) <= (one.language_probability or 0) <= 1 for one in found)


def test_a_long_recording_is_cut_as_theirs(pair: Pair, loops: None, tmp_path: Path) -> None:
    """Each window's text and segments are what transformers makes of the same samples, and where the next begins."""
    ours, language = pair.ours, "de" if pair.ours.speech.languages else "en"  # type: ignore[union-attr]
    long, first = sound(7.1, 5), ours.speech.first_time  # type: ignore[union-attr]
    at, spans, ids, heard = 0, [], [], []  # type: ignore[var-annotated]
    opening = pair.opening(language, timestamps=True)
    while at < len(long):
        window = long[at : at + ours.model.stem.longest]
        (text,) = pair.generated(opening, [window])
        parts, offset = pair.theirs._retrieve_segment(
            seek_sequence=torch.tensor(pair.theirs_of(text)),
            seek_outputs=[{}],
            time_offset=torch.tensor([at / RATE], dtype=torch.float64),
            timestamp_begin=pair.theirs.generation_config.no_timestamps_token_id + 1,
            seek_num_frames=torch.tensor([len(window) // 160]),
            time_precision=0.02,
            time_precision_features=0.01,
            input_stride=2,
            prev_idx=0,
            idx=0,
            return_token_timestamps=False,
            decoder_input_ids=torch.tensor([[0]]),
        )
        spans += [(float(one["start"]), float(one["end"])) for one in parts]
        kept = segments(text, first).kept
        ids += text[:kept]
        at += (
            max(int(offset) * 160, ours.model.stem.longest // 30)
            if int(offset) * 160 < len(window) - 160
            else len(window)
        )
    found = ours.transcribe((long, RATE), source=language, max_length=25, heard=heard.append)
    assert found.ids == ids and len(found.segments) == len(spans) > 3
    for one, (start, end) in zip(found.segments, spans):
        assert one.start == pytest.approx(min(start, 7.1), abs=0.011)
        assert one.end == pytest.approx(min(end, 7.1), abs=0.011)
    assert sum(heard) == pytest.approx(7.1)
    assert found.text == ours.tokenizer.decode(ids).strip()
