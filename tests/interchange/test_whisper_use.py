"""What an imported Whisper model is used for: files, long recordings, looking inside, fine-tuning; and damaged folders."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
import transformers
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.config import read_recipe, tiny_form
from regard.data.input.sound import read_sound, resampled, resampled_blocks
from regard.data.splitting import read_parts
from regard.errors import UserError
from regard.inspection.trace.base import CROSS, NO_WORD, SOURCE, Choice
from regard.interchange.sources import import_model
from regard.layers.capture import capture
from regard.serving.workers.tasks import transcribe as served
from regard.stem.log_mel import LogMel
from regard.studio.questions import inspect_sound
from regard.task._recordings import Segments, quietest, segments
from regard.task.transcribe import Transcriber
from regard.types import BEGIN, END
from tests.interchange.made_whisper import RATE, extractor, sound, whisper

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whisper") / "theirs"
    whisper(folder)
    return folder


@pytest.fixture(scope="module")
def folder(theirs: Path) -> Path:
    return import_model(theirs, theirs.parent / "ours")


@pytest.fixture(scope="module")
def model(folder: Path) -> Transcriber:
    return regard.load(folder, device="cpu", task="transcribe")


def wav(samples: np.ndarray, rate: int = RATE, format: str = "WAV") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=format, subtype="PCM_16")
    return file.getvalue()


# ------------------------------------------------------------------------------------------------- files


def sines(rate: int) -> np.ndarray:
    """The same sound at any rate: below 3.4 kHz there is no question what it is."""
    draw, time = np.random.default_rng(0), np.arange(round(1.5 * rate)) / rate
    parts = zip(draw.uniform(60, 3400, 200), draw.uniform(0, 0.02, 200), draw.uniform(0, 6, 200))
    return sum(size * np.sin(2 * np.pi * pitch * time + phase) for pitch, size, phase in parts)  # type: ignore[return-value]


@pytest.mark.parametrize("format,rate", [("WAV", 16_000), ("FLAC", 44_100), ("WAV", 8_000)])
def test_features_of_files_at_any_rate(model: Transcriber, tmp_path: Path, format: str, rate: int) -> None:
    """Theirs of the same sound at 16 kHz, at which there are the 16 bits of the file in common."""
    file = tmp_path / f"a.{format.lower()}"
    file.write_bytes(wav(sines(rate), rate, format))
    notes: list[str] = []
    raw = model.pair.input.read(str(file), notes.append)  # type: ignore[arg-type]
    assert raw.rate == RATE and len(raw.samples) == 1.5 * RATE and len(notes) == (rate != RATE)
    stem = model.model.stem
    found, frames = stem.spectrogram(torch.from_numpy(raw.samples)[None], torch.ones(1, len(raw.samples), dtype=bool))
    whole = extractor(type("Config", (), {"num_mel_bins": 80, "max_source_positions": 100}))
    heard = soundfile.read(io.BytesIO(wav(sines(RATE))))[0]
    wanted = whole(heard, sampling_rate=RATE, return_tensors="pt").input_features[0].T
    found = (torch.maximum(found, found.amax() - 8) + 4) / 4
    near = (found[0] - wanted).abs()[5:140, : 80 if rate == RATE else 40]
    assert near.max() < (1e-4 if rate == RATE else 5e-3)
    assert int(frames.sum()) == 150


def test_resampling_in_blocks_is_resampling() -> None:
    for rate in (44_100, 8_000, 22_051):
        whole = sound(5.0)
        blocks = (whole[start : start + 7001] for start in range(0, len(whole), 7001))
        found = np.concatenate(list(resampled_blocks(blocks, rate, RATE)))
        np.testing.assert_allclose(found, resampled(whole, rate, RATE), atol=1e-6)


def test_a_recording_may_be_long_but_not_endless() -> None:
    hours = np.zeros(8_000 * 61, np.float32)
    with pytest.raises(UserError, match="61 seconds long; 60 are the most"):
        read_sound(wav(hours, 8_000), "long.wav")
    assert len(read_sound(wav(hours, 8_000), "long.wav", seconds=61, new_rate=RATE).samples) == 61 * RATE


def test_the_command(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.wav"
    file.write_bytes(wav(sound(5.0, 5)))
    (tmp_path / "silent.wav").write_bytes(wav(np.zeros(RATE)))

    def answer(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["transcribe", str(folder), *arguments, "--device", "cpu"])

    plain = answer(str(file), str(tmp_path / "silent.wav"))
    assert plain.exit_code == 0 and len(plain.stdout.splitlines()) == 2 and plain.stdout.splitlines()[1] == ""
    assert "recording 1: the language is " in plain.stderr and "recording 2: nothing was heard" in plain.stderr
    timed = answer(str(file), "--timestamps", "--from", "de", "--to", "en")
    rows = [line.split("\t") for line in timed.stdout.splitlines()]
    assert "language" not in timed.stderr and len(rows) > 1
    starts, ends = [float(row[0]) for row in rows], [float(row[1]) for row in rows]
    assert starts == sorted(starts) and all(start <= end <= 5 for start, end in zip(starts, ends))
    tree = json.loads(answer(str(file), "--format", "json", "--from", "de").stdout)
    assert tree["language"] == "de" and len(tree["segments"]) > 1
    assert len(tree["tokens"]) > 1 and all(0 <= one["probability"] <= 1 for one in tree["tokens"])


@pytest.mark.parametrize(
    "arguments,message",
    [
        (("--from", "fr"), "this model does not have the language French (fr); it has: de, en, jv"),
        (("--to", "fr"), "this model does not translate to French (fr); it translates to English"),
        (("--n-best", "2"), "several texts are found for a recording of 2 seconds at most; this one has 5"),
    ],
)
def test_what_it_cannot_do_is_one_line(
    folder: Path, tmp_path: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.wav"
    file.write_bytes(wav(sound(5.0)))
    found = CliRunner().invoke(app, ["transcribe", str(folder), str(file), *arguments, "--device", "cpu"])
    assert found.exit_code != 0 and found.stdout == "" and message in str(found.exception or found.stderr)


# ------------------------------------------------------------------------------------------------- windows


def test_segments_of_tokens() -> None:
    """Spelled out, with times from 100 on."""
    assert segments([], 100) == Segments([(0, None, slice(0, 0))], 0, None)
    assert segments([5, 6], 100) == Segments([(0, None, slice(0, 2))], 2, None)
    assert segments([100, 5, 140], 100) == Segments([(0, 40, slice(0, 3))], 3, None)
    one_more = [100, 5, 120, 120, 6, 130, 131, 7]
    assert segments(one_more, 100) == Segments([(0, 20, slice(0, 3)), (20, 30, slice(3, 6))], 6, 30)
    both = [100, 5, 120, 120, 6, 130]
    assert segments(both, 100) == Segments([(0, 20, slice(0, 3)), (20, 30, slice(3, 6))], 6, None)


def test_without_times_a_window_ends_where_it_is_quietest(model: Transcriber) -> None:
    samples = np.ones(1000, np.float32)
    samples[820:860] = 0.01
    assert 820 <= quietest(samples, 700, 1000, 20) < 860
    one = model.transcribe((np.concatenate([sound(1.7), np.zeros(RATE * 4, np.float32), sound(1.0)]), RATE))
    assert one.segments and one.segments[-1].end <= 6.7


def test_no_speech_has_no_text(folder: Path) -> None:
    """Where the token of no speech is likely, and the text is not."""
    deaf = regard.load(folder, device="cpu", task="transcribe")
    assert deaf.speech is not None
    given = (sound(1.0), RATE)
    assert deaf.transcribe(given, source="de").ids
    with torch.no_grad():
        deaf.model.decoder.output_bias[deaf.speech.no_speech] = 1000.0
    found = deaf.transcribe(given, source="de")
    assert found.text == "" and found.ids == []
    assert deaf.transcribe((np.zeros(RATE * 5, np.float32), RATE)).text == ""


# ------------------------------------------------------------------------------------------------- looking inside


def test_watched_equals_unwatched(model: Transcriber) -> None:
    given = (sound(1.3), RATE)
    text = model.transcribe(given, source="de", target="en", max_length=8)
    trace = model.inspect(given, source="de", target="en", max_length=8)
    count = len(text.prefix)
    assert trace.target.text == text.text and trace.target.word_of[:count] == [NO_WORD] * count
    assert trace.probabilities[count:] == pytest.approx(text.token_probabilities + [1.0] * text.finished, abs=1e-4)
    assert len(trace.scene.places) == 65 and len(trace.scene.tokens) == 100  # 1.3 of 2 seconds
    source, mask = torch.from_numpy(given[0])[None], torch.ones(1, len(given[0]), dtype=torch.bool)
    fed = torch.tensor([[BEGIN, *text.prefix, *text.ids, END][: len(trace.read)]])
    with torch.inference_mode(), capture(model.model) as captured:
        model.model(source, mask, fed)
    for layer in trace.of_kind(CROSS):
        wanted = captured[f"{layer.path}.weights"][0][0].numpy()
        np.testing.assert_allclose(layer.weights, wanted, atol=1e-6)
        np.testing.assert_allclose(layer.weights.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(
        model.attention(given, text.ids, text.prefix), trace.token_matrix()[count:][: len(text.ids)], atol=1e-5
    )


def test_numbers_of_a_head(model: Transcriber) -> None:
    trace = model.inspect((sound(1.3), RATE), source="de", max_length=8)
    for kind in (CROSS, SOURCE):
        found = trace.calculation_of(Choice(attention=kind, layer=1, head=2, position=4))
        wanted = trace.of_kind(kind)[1].weights[2, 4]
        np.testing.assert_allclose(found.weights, wanted, atol=1e-5)
    for view in ("patches", "heads", "numbers", "beam", "positions", "map"):
        assert trace.svg(view).startswith("<svg")
    assert "filled up with silence" in trace.html("patches")


def test_of_a_long_window_the_encoders_attention_is_left_out(
    model: Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.inspection.record import caption

    given = (sound(1.3), RATE)
    before = model.inspect(given, source="de", max_length=8)
    monkeypatch.setattr(caption, "MOST_PLACES", 99)
    after = model.inspect(given, source="de", max_length=8)
    assert before.of_kind(SOURCE) and not after.of_kind(SOURCE) and "is not recorded" in after.scene.notes[-1]
    for one, other in zip(before.of_kind(CROSS), after.of_kind(CROSS), strict=True):
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)
    with pytest.raises(UserError, match="is 3 seconds long; at most the 2 of this model's window"):
        model.inspect((sound(3.0), RATE))


def test_the_studio_asks_for_the_attention_over_the_spectrogram(model: Transcriber) -> None:
    import base64

    about = inspect_sound.answer(model, {"model": "w"})
    assert about["spoken"][0] == ["en", "English"] and about["written"] == [["en", "English"]] and about["seconds"] == 2
    question = {"model": "w", "recording": base64.b64encode(wav(sound(1.3))).decode(), "spoken": "de"}
    found = inspect_sound.answer(model, question)
    assert len(found["scene"]["places"]) == 65 == len(found["tokens"][0]) and found["heads"] == 4
    assert found["scene"]["pixels"].startswith("data:image/png")
    assert inspect_sound.answer(model, {**question, "view": "patches"})["pictures"][0]["svg"].startswith("<svg")
    with pytest.raises(UserError, match="not valid base64"):
        inspect_sound.answer(model, {**question, "recording": "#"})


def test_it_is_served(model: Transcriber) -> None:
    import base64

    content = base64.b64encode(wav(sound(5.0, 5))).decode()
    found = served.answer(model, {"content": content, "source": "de", "timestamps": True})
    assert found["language"] == "de" and len(found["segments"]) > 1
    assert served.Answer.model_validate({"model": "w", **found})


# ------------------------------------------------------------------------------------------------- fine-tuning


def test_it_learns(folder: Path, tmp_path: Path) -> None:
    made = tiny_form(read_recipe("speech-digits"))
    recipe = replace(made, data=replace(made.data, max_length=30))
    with pytest.raises(UserError, match="say which is spoken: --from de"):
        regard.train(recipe, start_from=folder, steps=1, device="cpu", out=tmp_path / "no", quiet=True)
    run = regard.train(
        recipe,
        "source_language=de",
        "data.format.count=40",
        "training.batch_examples=8",
        "training.learning_rate=0.003",
        start_from=folder,
        steps=12,
        device="cpu",
        out=tmp_path / "run",
        quiet=True,
    )
    after = regard.load(run.folder / "model", device="cpu", task="transcribe")
    before = regard.load(folder, device="cpu", task="transcribe")
    assert after.speech == before.speech and after.speech is not None
    opening = after.speech.opening("de", False, False)
    before.pair.target.opening = opening  # type: ignore[attr-defined]
    examples = read_parts(recipe.data).test[:20]
    assert after.pair.target.opening == opening  # type: ignore[attr-defined]
    assert after.loss(examples) < before.loss(examples) - 1
    assert set(after.judge(examples).scores) == {"wer", "wrong", "loss"}
    assert set(before.judge(examples[:2]).scores) == {"wer", "wrong"}


def test_a_stem_of_its_own_reads_windows() -> None:
    """Without tokens of time a window ends at a quiet place, and nothing is lost between two."""
    from regard.task._recordings import Options, Windows

    recipe = tiny_form(read_recipe("speech-digits"))
    recipe.model |= {"stem": {"kind": "log_mel", "seconds": 1.0}}
    task = regard.train(recipe, steps=2, device="cpu", quiet=True).model
    assert isinstance(task.model.stem, LogMel) and task.speech is None
    heard: list[float] = []
    windows = Windows(task, Options("", False, False, 1, 1, 1.0, 5), heard.append)
    ((number, found),) = windows.transcribe([task.pair.input.accept((sound(3.3), RATE))])
    assert number == 0 and sum(heard) == pytest.approx(3.3) and len(heard) >= 4 and max(heard) <= 1
    assert found.segments == [] and found.language == ""


# ------------------------------------------------------------------------------------------------- damage


def changed(name: str, **values: Any) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        tree = json.loads((folder / name).read_text()) | values
        (folder / name).write_text(json.dumps({key: value for key, value in tree.items() if value is not None}))

    return damage


def without(tensor: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        del tensors[tensor]
        save_file(tensors, folder / "model.safetensors")

    return damage


def with_tensor(name: str, value: torch.Tensor) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        save_file({**load_file(folder / "model.safetensors"), name: value}, folder / "model.safetensors")

    return damage


def without_token(piece: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        text = (folder / "tokenizer.json").read_text()
        assert piece in text
        (folder / "tokenizer.json").write_text(text.replace(piece, "<|other|>"))
        config = (folder / "tokenizer_config.json").read_text()
        (folder / "tokenizer_config.json").write_text(config.replace(piece, "<|other|>"))

    return damage


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "no convolution": (without("model.encoder.conv1.weight"), "conv1.weight' is missing"),
    "no bias": (without("model.decoder.layers.1.encoder_attn.v_proj.bias"), "v_proj.bias' is missing"),
    "a bias of keys": (
        with_tensor("model.encoder.layers.0.self_attn.k_proj.bias", torch.zeros(24)),
        "is not part of this architecture",
    ),
    "another convolution": (
        with_tensor("model.encoder.conv2.weight", torch.zeros(24, 24, 5)),
        "conv2.weight' has shape (24, 24, 5) instead of (24, 24, 3)",
    ),
    "positions of another length": (
        with_tensor("model.encoder.embed_positions.weight", torch.zeros(99, 24)),
        "has shape (99, 24) instead of (100, 24)",
    ),
    "absurd width": (changed("config.json", d_model=1 << 19), "shape"),
    "absurd layers": (changed("config.json", encoder_layers=1000), "it has more layers than its weight file"),
    "absurd window": (changed("config.json", max_source_positions=1 << 19), "a whole number from 4 to 6,000"),
    "absurd bands": (changed("config.json", num_mel_bins=200), "feature_size = 80"),
    "absurd vocabulary": (changed("config.json", vocab_size=1 << 19), "the embedding has the shape"),
    "odd width": (changed("config.json", d_model=25), "an even number is needed"),
    "scaled embedding": (changed("config.json", scale_embedding=True), "scale_embedding = True"),
    "another task": (changed("config.json", architectures=["WhisperForAudioClassification"]), "architectures"),
    "a language that the tokenizer lacks": (
        without_token("<|de|>"),
        "there is no token <|de|> with the id 334, which generation_config.json names",
    ),
    "a language with another id": (
        changed("generation_config.json", lang_to_id={"<|en|>": 337}),
        "there is no token <|en|> with the id 337",
    ),
    "languages that are none": (changed("generation_config.json", lang_to_id=[1]), "a table of language tokens"),
    "no token of no times": (without_token("<|notimestamps|>"), "there is no token <|notimestamps|>"),
    "another token of no times": (
        changed("generation_config.json", no_timestamps_token_id=7),
        "no_timestamps_token_id = 7: the tokenizer's <|notimestamps|> is 341",
    ),
    "no times": (changed("config.json", max_source_positions=200), "chunk_length"),
    "suppressed tokens that are none": (changed("generation_config.json", suppress_tokens=[1 << 30]), "ids below"),
    "the beginning is the end": (
        changed("generation_config.json", decoder_start_token_id=332, eos_token_id=332),
        "it is the end, too",
    ),
    "another rate": (changed("preprocessor_config.json", sampling_rate=8000), "sampling_rate = 8000"),
    "another window": (changed("preprocessor_config.json", chunk_length=30), "chunk_length = 30"),
    "no start": (changed("generation_config.json", eos_token_id=[1, 2]), "one id below"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_line(theirs: Path, tmp_path: Path, name: str) -> None:
    damage, message = DAMAGE[name]
    copy = tmp_path / "copy"
    shutil.copytree(theirs, copy)
    damage(copy)
    with pytest.raises(UserError) as refused:
        import_model(copy, tmp_path / "ours")
    said = str(refused.value)
    assert "\n" not in said and message in said, said
    assert "cannot be imported" not in said and not (tmp_path / "ours").exists()


def test_what_is_known_but_not_applied_stands_on_the_card(theirs: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(theirs, copy)
    changed("generation_config.json", max_initial_timestamp_index=10, repetition_penalty=1.3)(copy)
    card = (import_model(copy, tmp_path / "ours") / "card.md").read_text()
    assert "- Languages: 3 (en, de, jv); translates to English" in card
    assert "max_initial_timestamp_index = 10 is not applied" in card and "repetition_penalty = 1.3" in card


def test_positions_that_were_trained_are_kept(theirs: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(theirs, copy)
    own = torch.randn(100, 24)
    with_tensor("model.encoder.embed_positions.weight", own)(copy)
    ours = regard.load(import_model(copy, tmp_path / "ours"), device="cpu")
    torch.testing.assert_close(ours.model.stem.placing.position.table.weight.detach(), own)
