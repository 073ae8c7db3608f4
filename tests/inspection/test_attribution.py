"""Every method of attribution agrees with a computation of another kind, on every kind of model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
import torch
from inspection.test_record_text import TASKS, made_reader
from inspection.test_record_translation import LINES, SHAPES, made
from task.seers import captioner, classifier, picture, transcriber
from task.test_generate import made as made_writer
from torch import Tensor, nn
from torch.nn import functional as F

import regard
from regard.cli.inspect import content
from regard.data.input.sound import Sound
from regard.data.tokenizer.word import Word
from regard.errors import UserError
from regard.inspection.record.attribution import methods_of
from regard.inspection.record.attribution._progress import on_progress
from regard.inspection.record.attribution.integrated_gradients import integrated_gradients
from regard.inspection.trace.attribution import COMPLETE, Attribution
from regard.inspection.trace.base import CROSS, SOURCE, TARGET, Choice
from regard.inspection.trace.translation import TranslationTrace
from regard.layers import attend
from regard.task.translate import Translator
from regard.types import BEGIN, END

LINE = LINES[2]
GRADIENTS = ("input_x_gradient", "integrated_gradients", "occlusion")


@cache
def seen(shape: str) -> tuple[Translator, TranslationTrace]:
    """The first of some random models that has more to say than a word, and is not sure of all of it."""
    for seed in range(30):
        translator = made(shape, seed=seed)
        trace = translator.inspect(LINE, name=shape)
        if len(trace.target.tokens) > 3 and min(trace.probabilities) < 0.9:
            return translator, trace
    raise AssertionError("none of them says anything")


class Spelled(nn.Module):
    """A translator as a function of the vectors of its tokens: (B, S, D) and (B, T, D) -> (B, T) log-probabilities.

    Written here without what is tested: the embeddings' `forward` is replaced.
    """

    def __init__(self, translator: Translator, trace: TranslationTrace) -> None:
        super().__init__()
        self.model, self.written = translator.model, torch.tensor(trace.ids)
        self.source = torch.tensor([[*translator.encode(LINE), END]])
        self.fed = torch.tensor([[BEGIN, *trace.ids[:-1]]])
        parts = {SOURCE: (self.model.stem.embedding, self.source), TARGET: (self.model.decoder.embedding, self.fed)}
        self.vectors = {side: module.table(ids).detach() for side, (module, ids) in parts.items()}
        self.embeddings = {side: module for side, (module, _) in parts.items()}

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        given = {SOURCE: source, TARGET: target}
        with torch.enable_grad():
            try:
                for side, module in self.embeddings.items():
                    module.forward = self._embedding(module, given[side])
                logits = self.model(
                    self.source.expand(len(source), -1),
                    torch.ones(len(source), source.shape[1], dtype=torch.bool),
                    self.fed.expand(len(source), -1),
                )
            finally:
                for module in self.embeddings.values():
                    del module.forward
        return logits.log_softmax(-1)[:, torch.arange(len(self.written)), self.written]

    @staticmethod
    def _embedding(module: nn.Module, vectors: Tensor):
        position = module.position(torch.arange(vectors.shape[1]))
        return lambda ids, start=0: module.norm(vectors * module.scale + position)

    def both(self) -> tuple[Tensor, Tensor]:
        return self.vectors[SOURCE].clone(), self.vectors[TARGET].clone()

    def without(self, column: int) -> tuple[Tensor, Tensor]:
        """The vector of one token is zero."""
        source, target = self.both()
        split = source.shape[1]
        (source if column < split else target)[0, column if column < split else column - split] = 0
        return source, target


def columns(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.concatenate([source, target], -1)


@pytest.mark.parametrize("shape", SHAPES)
def test_input_x_gradient_is_the_slope_along_each_vector(shape) -> None:
    """By autograd of a model spelled out here; the sum over a row is the slope of growing all vectors, by differences."""
    translator, trace = seen(shape)
    found = trace.attribution_of(Choice(method="input_x_gradient", tokens=True))
    spelled = Spelled(translator, trace)
    source, target = (one.requires_grad_() for one in spelled.both())
    for row, value in enumerate(spelled(source, target)[0]):
        slopes = torch.autograd.grad(value, (source, target), retain_graph=True, materialize_grads=True)
        wanted = [(x * slope).sum(-1)[0].detach().numpy() for x, slope in zip((source, target), slopes)]
        np.testing.assert_allclose(found.values[row], columns(*wanted), rtol=1e-3, atol=1e-4)
    small = 1e-3
    with torch.no_grad():
        up, down = (spelled(*((1 + sign * small) * one for one in spelled.both()))[0] for sign in (1, -1))
    slopes = ((up - down) / (2 * small)).numpy()
    np.testing.assert_allclose(found.values.sum(1), slopes, rtol=0.1, atol=0.05 * np.abs(slopes).max())


@pytest.mark.parametrize("shape", SHAPES)
def test_occlusion_is_a_forward_pass_without_the_word(shape) -> None:
    translator, trace = seen(shape)
    found = trace.attribution_of(Choice(method="occlusion", tokens=True))
    spelled = Spelled(translator, trace)
    with torch.no_grad():
        whole = spelled(*spelled.both())[0]
        wanted = [(whole - spelled(*spelled.without(column))[0]).numpy() for column in range(found.values.shape[1])]
    np.testing.assert_allclose(found.values, np.stack(wanted, 1), atol=2e-4)
    np.testing.assert_allclose(found.explained, np.log(trace.probabilities), atol=1e-4)


@pytest.mark.parametrize("shape", [*SHAPES, "fixed depth"])
def test_integrated_gradients_are_complete(shape, monkeypatch) -> None:
    """A row sums to the difference between these words and no words, computed by two passes of their own.

    Where halting takes another number of steps, the output jumps, and no number of points integrates a jump: then the
    error that is stated is the one there is."""
    monkeypatch.setitem(SHAPES, "fixed depth", {**SHAPES["universal"], "halting": False})
    monkeypatch.setattr(f"{integrated_gradients.__module__}.MOST", 96 if shape == "universal" else 512)
    translator, trace = seen(shape)
    # Of a random model of fixed depth, the output that is not certain: where nothing changes, 1 % of it is nothing.
    row = int(np.argmin(trace.probabilities)) if shape == "fixed depth" else None
    found = trace.attribution_of(Choice(method="integrated_gradients", tokens=True, position=row))
    spelled = Spelled(translator, trace)
    with torch.no_grad():
        change = (spelled(*spelled.both()) - spelled(*(0 * one for one in spelled.both())))[0].numpy()
    change = change if row is None else change[row : row + 1]
    error = np.abs(found.values.sum(1) - change) / np.abs(change)
    assert found.completeness_error == pytest.approx(error.max(), rel=0.01, abs=1e-3)
    assert (found.completeness_error < COMPLETE) == (shape != "universal")


def test_what_is_not_complete_says_so(monkeypatch) -> None:
    monkeypatch.setattr(f"{integrated_gradients.__module__}.MOST", 32)
    monkeypatch.setattr(f"{integrated_gradients.__module__}.COMPLETE", 1e-12)
    translator, trace = seen("transformer")
    trace = translator.inspect(LINE)
    heard: list[tuple[int, int]] = []
    with on_progress(lambda done, most: heard.append((done, most))):
        found = trace.attribution_of(Choice(method="integrated_gradients", position=0))
    assert heard == [(8, 32), (16, 32), (24, 32), (32, 32)]
    assert found.steps == 32 and found.completeness_error > 0
    found.completeness_error = 0.031
    about = trace.view("why", method="integrated_gradients", position=0).about
    assert "Completeness error 3.1 %, which is not below 1 %, with 32 points" in about


@contextmanager
def zeroed(monkeypatch, side: str, column: int, lengths: dict[str, int]) -> Iterator[None]:
    """The kernels that sum values see a zero at one place of one side: the side is told from the lengths."""
    fused, summed = F.scaled_dot_product_attention, attend.weighted_sum

    def cut(query: Tensor, value: Tensor) -> Tensor:
        source = value.shape[-2] == lengths[SOURCE]
        assert lengths[SOURCE] != lengths[TARGET]
        if source != (side == SOURCE):
            return value
        value = value.clone()
        value[..., column, :] = 0
        return value

    with monkeypatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", lambda q, k, v, **more: fused(q, k, cut(q, v), **more))
        for place in ("_base", "local"):
            patch.setattr(
                f"regard.layers.attention.{place}.weighted_sum",
                lambda scores, values, *more: summed(scores, cut(scores, values), *more),
            )
        yield


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "none"])
def test_value_zeroing_is_a_pass_in_which_the_kernels_see_zeros(shape, monkeypatch) -> None:
    translator, trace = seen(shape)
    found = trace.attribution_of(Choice(method="value_zeroing", tokens=True))
    spelled = Spelled(translator, trace)
    lengths = {side: vectors.shape[1] for side, vectors in spelled.vectors.items()}
    with torch.no_grad():
        whole = spelled(*spelled.both())[0]
        for column, side in enumerate(found.sides):
            place = column if side == SOURCE else column - lengths[SOURCE]
            with zeroed(monkeypatch, side, place, lengths):
                without = spelled(*spelled.both())[0]
            np.testing.assert_allclose(found.values[:, column], (whole - without).numpy(), atol=2e-4)
    assert np.abs(found.values[:, [side == SOURCE for side in found.sides]]).max() > 0.01
    recurrent = shape in ("bahdanau", "luong", "ssru")
    assert recurrent == (np.abs(found.values[:, [side == TARGET for side in found.sides]]).max() < 1e-5)
    with torch.no_grad():
        assert torch.equal(spelled(*spelled.both())[0], whole), "nothing is left of the zeros"


@pytest.mark.parametrize("attention", ["local", "dot"])
def test_value_zeroing_finds_the_values_of_every_attention(attention, monkeypatch) -> None:
    monkeypatch.setitem(SHAPES, "other", {**SHAPES["luong"], "decoder": {**SHAPES["luong"]["decoder"]}})
    SHAPES["other"]["decoder"]["attention"] = attention
    if attention == "dot":
        SHAPES["other"]["encoder"] = {"kind": "recurrent", "layers": 1}
    translator = made("other")
    trace = translator.inspect(LINE)
    found = trace.attribution_of(Choice(method="value_zeroing", tokens=True))
    assert np.abs(found.values).max() > 0


@pytest.mark.parametrize("shape", ["transformer", "universal"])
def test_rollout_is_the_product_spelled_out(shape) -> None:
    """One column per token of both sides: an encoder's block and a decoder's block of one square matrix per layer."""
    _, trace = seen(shape)
    found = trace.attribution_of(Choice(method="rollout", tokens=True))
    s, t = len(trace.source.tokens), len(trace.read)
    kinds = {
        kind: [one.weights.astype(float).mean(0) for one in trace.of_kind(kind)] for kind in (SOURCE, TARGET, CROSS)
    }
    product = np.eye(s + t)
    for weights in kinds[SOURCE]:
        step = np.eye(s + t)
        step[:s, :s] = (weights + np.eye(s)) / 2
        product = step @ product
    for own, cross in zip(kinds[TARGET], kinds[CROSS], strict=True):
        itself, across = np.eye(s + t), np.eye(s + t)
        itself[s:, s:] = (own + np.eye(t)) / 2
        across[s:] /= 2
        across[s:, :s] = cross / 2
        product = across @ itself @ product
    np.testing.assert_allclose(found.values, product[s:], atol=1e-5)
    np.testing.assert_allclose(found.values.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("shape", ["transformer", "bahdanau"])
def test_captum_agrees(shape, monkeypatch) -> None:
    captum = pytest.importorskip("captum.attr")
    translator, trace = seen(shape)
    spelled = Spelled(translator, trace)
    row = int(np.argmin(trace.probabilities))

    def value(source: Tensor, target: Tensor) -> Tensor:
        return spelled(source, target)[:, row]

    given = tuple(one.requires_grad_() for one in spelled.both())
    # Completeness alone may leave errors in the columns that cancel in their sum.
    monkeypatch.setattr(f"{integrated_gradients.__module__}.COMPLETE", 1e-4)
    ours = {
        method: trace.attribution_of(Choice(method=method, position=row, tokens=True)).values[0] for method in GRADIENTS
    }
    last = given[0].shape[1] + row + 1

    def theirs(found: tuple[Tensor, ...], summed: bool = True) -> np.ndarray:
        of_tokens = [(one.sum(-1) if summed else one[..., 0])[0].detach().numpy() for one in found]
        return columns(*of_tokens)[:last]

    wanted = theirs(captum.InputXGradient(value).attribute(given))
    np.testing.assert_allclose(ours["input_x_gradient"], wanted, rtol=1e-3, atol=1e-4)
    wanted = theirs(captum.IntegratedGradients(value).attribute(given, n_steps=400))
    np.testing.assert_allclose(ours["integrated_gradients"], wanted, atol=0.01 * np.abs(wanted).max())
    windows = tuple((1, one.shape[2]) for one in given)
    wanted = theirs(captum.Occlusion(value).attribute(given, sliding_window_shapes=windows), summed=False)
    np.testing.assert_allclose(ours["occlusion"], wanted, atol=2e-4)


def test_a_bag_of_words_by_hand(tmp_path) -> None:
    """log softmax(W mean(x) + b): the gradient by a word's vector is (W_y - sum of p_k W_k) / n."""
    task = made_reader("sentiment-transformer", tmp_path, encoder="none", pooling="mean", position="none")
    text = TASKS["sentiment-transformer"]
    trace = task.inspect(text)
    found = trace.attribution_of(Choice(method="input_x_gradient", tokens=True))
    ids = task.pair.input.encode(text).tolist()
    model, scale = task.model, task.model.stem.embedding.scale
    x = model.stem.embedding.table.weight[ids].detach().double().numpy() * scale
    matrix, bias = (one.detach().double().numpy() for one in (model.head.weight, model.head.bias))
    logits = matrix @ x.mean(0) + bias
    p = np.exp(logits - logits.max())
    p /= p.sum()
    chosen = int(p.argmax())
    by_hand = x @ (matrix[chosen] - p @ matrix) / len(ids)
    np.testing.assert_allclose(found.values[0], by_hand, rtol=1e-4, atol=1e-6)
    assert found.rows == [trace.said] and found.sides == [SOURCE] * len(ids)
    names = list(task.labels.names)
    other = names[1 - chosen]
    contrast = trace.attribution_of(Choice(method="integrated_gradients", tokens=True, contrast=other))
    # The difference of two logits is linear here, so the path does not matter.
    np.testing.assert_allclose(
        contrast.values[0], x @ (matrix[chosen] - matrix[1 - chosen]) / len(ids), rtol=1e-4, atol=1e-6
    )
    assert contrast.explained[0] == pytest.approx(logits[chosen] - logits[1 - chosen], abs=1e-5)


@pytest.mark.parametrize("method", GRADIENTS)
def test_a_contrast_is_the_difference_of_two_explanations(method) -> None:
    """All of these are linear in what is explained: why one and not the other is why one, less why the other."""
    translator, trace = seen("transformer")
    row = int(np.argmin(trace.probabilities))
    other = next(one for one in trace.alternatives[row] if one.id != trace.ids[row])
    contrast = trace.attribution_of(Choice(method=method, position=row, contrast=other.token, tokens=True))
    one = trace.attribution_of(Choice(method=method, position=row, tokens=True)).values[0]
    again = translator.inspect(LINE, prefix=[*trace.ids[:row], other.id])
    two = again.attribution_of(Choice(method=method, position=row, tokens=True)).values[0]
    np.testing.assert_allclose(contrast.values[0], one - two, atol=0.03 * np.abs(one - two).max())
    with torch.no_grad():
        assert contrast.explained[0] == pytest.approx(
            np.log(trace.probabilities[row]) - np.log(other.probability), abs=1e-4
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_words_are_the_sums_of_their_tokens_and_nothing_depends_on_what_comes_later(shape) -> None:
    _, trace = seen(shape)
    tokens = trace.attribution_of(Choice(method="input_x_gradient", tokens=True))
    words = trace.attribution_of(Choice(method="input_x_gradient"))
    np.testing.assert_allclose(words.values.sum(), tokens.values.sum(), rtol=1e-3, atol=1e-4)
    assert words.rows == [*trace.target.words, *(["</s>"] if trace.finished else [])]
    written = tokens.values[:, [side == TARGET for side in tokens.sides]]
    assert (np.triu(written, k=1) == 0).all()
    one = trace.attribution_of(Choice(method="input_x_gradient", tokens=True, position=1))
    np.testing.assert_allclose(one.values[0], tokens.values[1, : one.values.shape[1]], atol=1e-4)
    size = np.abs(tokens.values).astype(float)
    source = [side == SOURCE for side in tokens.sides]
    np.testing.assert_allclose(tokens.source_shares, size[:, source].sum(1) / size.sum(1))


def test_a_model_that_ignores_its_source_is_seen_at_a_glance() -> None:
    translator = made("transformer")
    with torch.no_grad():
        for layer in translator.model.decoder.layers:
            layer.cross_attention.outward.weight.zero_()
    trace = translator.inspect(LINE)
    for method in (*GRADIENTS, "value_zeroing"):
        assert (trace.attribution_of(Choice(method=method)).source_shares < 1e-6).all()


# Every kind of model, and what is refused.


def explained(trace) -> dict[str, Attribution]:
    return {method: trace.attribution_of(Choice(method=method)) for method in trace.attribution_of(Choice()).methods}


def test_which_methods_there_are_depends_on_the_model() -> None:
    always = list(GRADIENTS[:2]) + ["occlusion"]
    offered = {shape: set(methods_of(seen(shape)[0].model)) - set(always) for shape in SHAPES}
    assert offered == {
        "transformer": {"rollout", "value_zeroing"},
        "universal": {"rollout", "value_zeroing"},
        "ssru": {"value_zeroing"},
        "bahdanau": {"value_zeroing"},
        "luong": {"value_zeroing"},
        "none": set(),
    }
    for shape, method, reason in (("none", "value_zeroing", "no attention"), ("bahdanau", "rollout", "is recurrent")):
        with pytest.raises(UserError, match=f"{method}: this model .*{reason}.*; use input_x_gradient, "):
            seen(shape)[1].attribution_of(Choice(method=method))


@pytest.mark.parametrize(
    "choice, said",
    [
        (Choice(method="gradient"), "no method 'gradient'"),
        (Choice(position=99), "position 99: the outputs are 0 to"),
        (Choice(contrast="la"), "instead of which output"),
        (Choice(method="rollout", position=0, contrast="la"), "the same for every candidate"),
    ],
)
def test_mistakes_are_one_line(choice, said) -> None:
    with pytest.raises(UserError, match=said):
        seen("transformer")[1].attribution_of(choice)


def test_the_output_is_no_contrast_to_itself() -> None:
    _, trace = seen("transformer")
    with pytest.raises(UserError, match="is the output itself"):
        trace.attribution_of(Choice(position=0, contrast=trace.target.tokens[0]))


@pytest.mark.parametrize("name", TASKS)
def test_every_reader_of_text_is_explained(name, tmp_path) -> None:
    trace = made_reader(name, tmp_path).inspect(TASKS[name])
    for found in explained(trace).values():
        assert found.rows and len(found.rows) == len(trace.guesses)
        assert found.values.shape == (len(found.rows), len(found.columns)) and not found.has_prefix
        assert np.isfinite(found.values).all() and np.abs(found.values).max() > 0
    assert "</s>" in found.columns or len(found.columns) >= len(trace.source.words)


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "universal"])
def test_language_models_explain_the_next_token(kind) -> None:
    trace = made_writer(Word.train(["a b c d e f g h"], seed=1), kind).inspect("c a f e d a")
    for found in explained(trace).values():
        assert found.rows == [trace.next.tokens[0].token] and found.columns == ["<s>", *"cafeda"]
        assert set(found.sides) == {TARGET} and np.abs(found.values).max() > 0


@pytest.mark.parametrize("class_token", [True, False])
def test_a_ViTs_label_is_explained_by_its_patches(class_token) -> None:
    """Occlusion by hand: the projection of one patch is zero. A class token is no input."""
    task, pixels = classifier(class_token=class_token), picture()
    trace = task.inspect(pixels)
    found = explained(trace)
    assert found["occlusion"].columns == trace.scene.places and found["occlusion"].rows == [trace.label]
    _, source, mask = next(iter(task.batches([pixels])))
    model, chosen = task.model, list(trace.probabilities).index(trace.label)
    with torch.no_grad():
        whole = model(source, mask).log_softmax(-1)[0].max()
        for place in range(9):

            def cut(module: nn.Module, given, out: Tensor, place: int = place) -> Tensor:
                out = out.clone()
                out[:, place] = 0
                return out

            hook = model.stem.project.register_forward_hook(cut)
            without = model(source, mask).log_softmax(-1)[0, task.labels.names.index(trace.label)]
            hook.remove()
            assert found["occlusion"].values[0, place] == pytest.approx(float(whole - without), abs=1e-4)
    assert chosen == 0
    query = 0 if class_token else None
    rolled = trace.rollout()[-1]
    wanted = rolled[query] if class_token else rolled.mean(0)
    np.testing.assert_allclose(found["rollout"].values[0], wanted[trace.scene.before :], atol=1e-5)


@pytest.mark.parametrize("made_task", [lambda: captioner("attentional"), lambda: captioner("transformer"), lambda: captioner("recurrent"), transcriber], ids=["attentional", "transformer", "recurrent", "speech"])  # fmt: skip
def test_captions_and_transcripts_are_explained_by_places_and_words(made_task) -> None:
    task = made_task()
    given = (
        Sound(np.random.default_rng(2).random(3000).astype(np.float32), 8000)
        if task.recipe.task == "transcribe"
        else picture(16, 16, 3)
    )
    trace = task.inspect(given)
    for method, found in explained(trace).items():
        assert found.sides.count(SOURCE) == len(trace.scene.places), method
        assert found.has_prefix and np.isfinite(found.values).all() and np.abs(found.values).max() > 0
        view = trace.view("why", method=method)
        assert len(view.pictures) == 2 and all("<svg" in one.svg() for one in view.pictures)


# What is drawn and written.


def test_the_picture_holds_the_values_and_the_shares() -> None:
    _, trace = seen("transformer")
    found = trace.attribution_of(Choice(method="occlusion"))
    svg = trace.svg("why", method="occlusion")
    for value in found.values.ravel():
        assert f": {value!s}</title>" in svg
    assert f"{100 * found.source_shares[0]:.0f} %" in svg and f"mean {100 * found.source_shares.mean():.0f} %" in svg
    assert svg.count('class="rust"') == 1 and "Why these words?" in svg


def test_all_four_endings_and_python(tmp_path) -> None:
    translator, trace = seen("transformer")
    choice = {"method": "occlusion", "position": 1, "contrast": "gare", "tokens": False}
    if trace.target.tokens[1] == "gare":
        choice["contrast"] = "livre"
    tree = json.loads(content(trace, ".json", "why", choice))
    (found,) = tree["attributions"]
    assert found["method"] == "occlusion" and found["contrast"] == choice["contrast"] and "search" not in tree
    assert content(trace, ".png", "why", choice).startswith(b"\x89PNG")
    assert b"<svg" in content(trace, ".svg", "why", choice)
    page = content(trace, ".html", "why", choice).decode()
    assert "and not" in page and "Occlusion: what the output" in page
    same = regard.attribute(translator, LINE, **choice)
    np.testing.assert_array_equal(np.array(found["values"], np.float32), same.values)
    assert json.loads(same.json())["values"] == found["values"]
    assert same.svg() == trace.svg("why", **choice) and "<iframe" in same._repr_html_()
