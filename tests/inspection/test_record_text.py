"""What is seen of models that read one text is what they do; and gradients are those of the chain rule."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from inspection.test_record_translation import LINES, RECURRENT, made
from task.test_generate import made as made_writer
from torch import Tensor, nn

import regard
from regard.assemble import build_model
from regard.cli.inspect import content
from regard.config import read_recipe, tiny_form
from regard.data.tokenizer.character import Character
from regard.data.tokenizer.word import Word
from regard.errors import UserError
from regard.inspection.record.next_token import distribution_of
from regard.inspection.trace.base import SOURCE, TARGET
from regard.inspection.trace.text import LanguageModelTrace, TextTrace
from regard.layers.capture import capture
from regard.layers.fast_linear import PackedLinear, packing_is_possible, replace_linears
from regard.loading import model_files, task_of
from regard.runs import prepare, resolve
from regard.storage import write_folder
from regard.task.generate import Generator
from regard.types import BEGIN, END

ALPHABET = "a b c d e f g h i j k l m n o p"
TEXT = "c a f e d a"


@pytest.fixture(scope="module", params=["transformer", "recurrent", "universal"])
def writer(request) -> Generator:
    return made_writer(Word.train([ALPHABET], seed=1), request.param)


@pytest.fixture(scope="module")
def seen(writer) -> LanguageModelTrace:
    return writer.inspect(TEXT, name="some", temperature=0.7, top_k=5, top_p=0.8)


# Language models.


def test_every_token_has_the_probability_that_a_softmax_by_hand_gives_it(writer, seen):
    """Each position by a pass over what stands before it, and nothing else."""
    ids = writer.encode(TEXT)
    pieces = writer.tokenizer.pieces(range(len(writer.tokenizer)))
    assert seen.read == ["<s>", *writer.tokenizer.pieces(ids)] and len(seen.guesses) == len(ids)
    for t, guess in enumerate(seen.guesses):
        with torch.inference_mode():
            logits = writer.model(torch.tensor([[BEGIN, *ids[:t]]]))[0, -1].double().numpy()
        by_hand = np.exp(logits - logits.max())
        by_hand /= by_hand.sum()
        assert guess.probability == pytest.approx(by_hand[ids[t]], rel=1e-4)
        best = np.argsort(-by_hand)[:5]
        assert [one.token for one in guess.others] == [pieces[i] for i in best]
        assert [one.probability for one in guess.others] == pytest.approx(by_hand[best], rel=1e-4)


@pytest.mark.parametrize("temperature,top_k,top_p", [(1.0, 0, 1.0), (0.7, 5, 0.8), (100.0, 3, 1.0), (0.01, 0, 0.5)])
def test_the_stages_are_those_of_a_distribution_made_by_hand(writer, temperature, top_k, top_p):
    found = writer.inspect(TEXT, temperature=temperature, top_k=top_k, top_p=top_p).next
    with torch.inference_mode():
        logits = writer.model(torch.tensor([[BEGIN, *writer.encode(TEXT)]]))[0, -1].double().numpy()
    pieces = writer.tokenizer.pieces(range(len(logits)))
    own = np.exp(logits - logits.max())
    own /= own.sum()
    allowed = np.ones(len(logits), bool)
    allowed[:END] = False  # PAD, UNKNOWN and BEGIN are never written
    tempered = np.where(allowed, np.exp((logits - logits[allowed].max()) / temperature), 0.0)
    tempered /= tempered.sum()
    order = np.argsort(-tempered, kind="stable")
    kept = tempered.copy()
    if top_k:
        kept[order[top_k:]] = 0.0
    kept /= kept.sum()
    drawn = kept.copy()
    drawn[order[np.cumsum(kept[order]) - kept[order] >= top_p]] = 0.0
    drawn /= drawn.sum()
    assert found.others == 0 and len(found.tokens) == len(logits)
    for one in found.tokens:
        i = pieces.index(one.token)
        assert one.logit == pytest.approx(logits[i], abs=1e-4)
        expected = [own[i], tempered[i], kept[i], drawn[i]]
        told = [one.probability, one.tempered, one.within_k, one.drawn]
        assert told == pytest.approx(expected, rel=2e-3, abs=1e-6)
        assert (one.drawn > 0) == (drawn[i] > 0)


def test_what_is_shown_is_what_is_drawn_from(writer, seen):
    options = {"temperature": 0.7, "top_k": 5, "top_p": 0.8}
    likely = {one.token: one.probability for one in writer.next_tokens(TEXT, **options)}
    assert {one.token: one.drawn for one in seen.next.tokens if one.drawn > 0} == likely
    drawn = [writer.generate(TEXT, length=1, seed=seed, **options).tokens[0] for seed in range(60)]
    assert set(drawn) == set(likely)


def test_one_token_at_a_time_is_the_same_text_as_all_at_once(writer):
    """So that whoever draws one, and one more, sees what going on would have written."""
    whole = writer.generate(TEXT, length=6, seed=3)
    text = TEXT
    for _ in whole.tokens:
        one = writer.generate(text, length=1, seed=3)
        text += one.text
    assert text == TEXT + whole.text


@pytest.mark.parametrize("temperature", [0.01, 0.2, 1.0, 37.0, 100.0])
@pytest.mark.parametrize("kind", ["large", "none", "nothing known"])
def test_R21_no_temperature_and_no_logits_break_it(temperature, kind):
    tokenizer = Word.train([ALPHABET], seed=1)
    size = len(tokenizer)
    logits = torch.linspace(-1e4, 1e4, size)
    log_probs = logits.log_softmax(-1)
    if kind == "none":
        log_probs = torch.full((size,), -torch.inf)
    elif kind == "nothing known":
        logits = torch.full((size,), -torch.inf)
        log_probs = logits.log_softmax(-1)
    for top_k, top_p in [(0, 1.0), (3, 1.0), (0, 0.01), (1, 0.5)]:
        found = distribution_of(tokenizer, logits, log_probs, temperature, top_k, top_p, count=7)
        for stage in ("tempered", "within_k", "drawn"):
            values = [getattr(one, stage) for one in found.tokens]
            assert all(0 <= value <= 1 for value in values)
            assert sum(values) + found.rest[stage] == pytest.approx(1, abs=1e-5)
        assert found.others == size - 7


@pytest.mark.parametrize("wrong", [{"temperature": 0.009}, {"temperature": 101}, {"top_k": -1}, {"top_p": 0.0}])
def test_what_cannot_be_is_refused(writer, wrong):
    with pytest.raises(UserError, match="temperature|top_"):
        writer.inspect(TEXT, **wrong)


def test_heads_and_gates_are_those_of_a_pass_of_its_own(writer, seen):
    fed = torch.tensor([[BEGIN, *writer.encode(TEXT)]])
    with torch.inference_mode(), capture(writer.model) as other:
        writer.model(torch.cat([fed, torch.tensor([[7, 8, 9]])], 1))  # what comes later changes nothing before it
    size = fed.shape[1]
    for layer in seen.attention:
        assert layer.kind == TARGET and layer.weights.shape[1:] == (size, size)
        np.testing.assert_allclose(layer.weights.sum(-1), 1, atol=1e-5)
        assert (np.triu(layer.weights, 1) == 0).all()
        if writer.recipe.model["decoder"]["kind"] == "transformer":
            told = other[f"{layer.path}.weights"][0][0].numpy()
            np.testing.assert_allclose(told[:, :size, :size], layer.weights, atol=1e-5)
    for one in seen.gates:
        for name, values in one.values.items():
            np.testing.assert_allclose(torch.cat(other[f"{one.path}.{name}"], -2)[0, :size], values, atol=1e-5)
    assert bool(seen.attention) == bool(seen.positions) != bool(seen.gates)


def test_a_space_at_the_end_counts_and_an_empty_text_is_a_beginning():
    task = made_writer(Character.train(["To be or not to be"], seed=1, exact=True))
    assert len(task.inspect("To be ").read) == len(task.inspect("To be").read) + 1
    nothing = task.inspect("")
    assert nothing.read == ["<s>"] and not nothing.guesses and nothing.outputs() == [nothing.next.tokens[0].token]
    nothing.svg("next")


def test_a_text_that_is_longer_than_the_window_is_refused(writer):
    long = " ".join("a" for _ in range(writer.window + 3))
    if not writer.forgets:
        assert len(writer.inspect(long).read) == writer.window + 4
        return
    with pytest.raises(UserError, match="reads at most 15"):
        writer.inspect(long)


# Other tasks.

TASKS = {
    "sentiment-transformer": "a good film , not a bad one",
    "sentiment-bilstm": "a good film , not a bad one",
    "entities-bilstm": "Yesterday, Harry Potter met Hermione Granger.",
    "entities-transformer": "Yesterday, Harry Potter met Hermione Granger.",
    "bert-english": "the _ cat sees the _ .",
}


@pytest.fixture(scope="module", params=list(TASKS))
def reader(request, tmp_path_factory) -> tuple[object, str]:
    return made_reader(request.param, tmp_path_factory.mktemp(request.param)), TASKS[request.param]


def made_reader(name: str, place: Path, **model: str) -> object:
    """The tiny form of a recipe, with random weights."""
    torch.manual_seed(3)
    recipe = tiny_form(read_recipe(name))
    recipe.model |= model
    recipe = resolve(recipe)
    codec = prepare(recipe, place).codec
    made = build_model(recipe.model, **codec.sizes())
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(1.5)
    return task_of(recipe)(recipe, codec, made, torch.device("cpu"))


def test_a_look_says_what_the_task_says(reader):
    task, text = reader
    found = task.inspect(text, name="some")
    assert isinstance(found, TextTrace) and len(found.read) == len(found.source.tokens)
    kind = task.recipe.task
    if kind == "classify":
        (answer,) = task.classify([text])
        (guess,) = found.guesses
        assert (guess.given, found.said) == (answer.label, answer.label)
        assert {one.token: one.probability for one in guess.others} == pytest.approx(answer.probabilities, abs=1e-6)
    elif kind == "tag":
        (answer,) = task.tag([text])
        assert [guess.about for guess in found.guesses] == answer.words
        assert [guess.given for guess in found.guesses] == answer.tags
        assert [guess.probability for guess in found.guesses] == pytest.approx(answer.probabilities, abs=1e-5)
        assert all(
            sum(one.probability for one in guess.others) == pytest.approx(1, abs=1e-4) for guess in found.guesses
        )
    else:
        (answer,) = task.fill([text])
        assert [guess.given for guess in found.guesses] == [blank[0].word for blank in answer.blanks]
        assert found.said == answer.text and found.read.count("_") == 2
    for layer in found.attention:
        assert layer.kind == SOURCE and layer.weights.shape[1:] == (len(found.read), len(found.read))
    for one in found.gates:
        assert {len(values) for values in one.values.values()} == {len(found.read)}
    assert bool(found.attention) != bool(found.gates)
    for view in ("answer", "heads" if found.attention else "gates", "gradients"):
        assert found.svg(view)
    assert len(content(found, ".png", "answer", {})) > 1000
    tree = json.loads(found.json())
    assert [guess["given"] for guess in tree["guesses"]] == [guess.given for guess in found.guesses]


def test_the_gradients_of_an_answer_are_of_its_log_probability(reader):
    task, text = reader
    found = task.inspect(text)
    for place, guess in enumerate(found.guesses):
        gradients = found.gradients_of(place)
        assert gradients.token == guess.given
        assert math.exp(gradients.log_probability) == pytest.approx(guess.probability, rel=1e-4)
        assert {track.side for track in gradients.tracks} == {SOURCE}
        assert all(len(track.norms) == len(found.read) for track in gradients.tracks)
    with pytest.raises(UserError, match="the outputs are 0 to"):
        found.gradients_of(len(found.guesses))


def test_nothing_and_too_much_are_refused(reader):
    task, _ = reader
    for text in ("", " \n"):
        with pytest.raises(UserError, match="empty|no blank"):
            task.inspect(text)
    with pytest.raises(UserError, match="tokens, but this model reads"):
        task.inspect("cat _ " * 2000)


# Gradients through time.


@pytest.fixture
def precise():
    """Differences of float32 would be noise."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def differences(model: nn.Module, path: str, told: Callable[[int], Tensor], length: int, small: float) -> np.ndarray:
    """The length of the gradient by each token's vector, without any: a row of one batch for each number that is moved
    up a little, and one for each that is moved down. `told(rows)` is the output of each of so many equal rows."""
    module = model.get_submodule(path)
    moves = length * module.table.embedding_dim

    def shift(_: nn.Module, given: object, out: Tensor) -> Tensor:
        moved = torch.cat([torch.eye(moves), -torch.eye(moves)]) * small
        return torch.cat([out[:, :length] + moved.view(2 * moves, length, -1), out[:, length:]], 1)

    hook = module.register_forward_hook(shift)
    with torch.no_grad():
        up, down = told(2 * moves).chunk(2)
    hook.remove()
    return ((up - down) / (2 * small)).view(length, -1).norm(dim=-1).numpy()


@pytest.mark.parametrize("kind,small", [("transformer", 1e-4), ("recurrent", 1e-4), ("universal", 1e-3)])
def test_gradients_by_a_language_models_tokens_are_what_differences_say(kind, small, precise):
    task = made_writer(Word.train([ALPHABET], seed=1), kind)
    ids = task.encode(TEXT)
    look = task.inspect(TEXT)
    for position in (2, len(ids)):
        found = look.gradients_of(position)
        (track,) = [one for one in found.tracks if one.what == "vector"]
        wanted = ids[position] if position < len(ids) else int(task.outlook(ids)[1].argmax())
        fed = torch.tensor([[BEGIN, *ids[:position]]])

        def told(rows: int, fed: Tensor = fed, wanted: int = wanted) -> Tensor:
            return task.model(fed.expand(rows, -1))[:, -1].log_softmax(-1)[:, wanted]

        by_hand = differences(task.model, "decoder.embedding", told, position + 1, small)
        assert track.side == TARGET and len(track.norms) == position + 1
        np.testing.assert_allclose(track.norms, by_hand, rtol=5e-3, atol=1e-3 * by_hand.max())
        assert found.token == look.outputs()[position]


@pytest.mark.parametrize("shape,small", [("transformer", 1e-4), ("bahdanau", 1e-3), ("luong", 1e-3), ("none", 1e-4)])
def test_gradients_by_both_sides_of_a_translation_are_what_differences_say(shape, small, precise):
    """Weights of a recurrent attention are float32 whatever the model is, so that differences must be larger there."""
    drawn = (
        (translator, translator.inspect(LINES[0], beam=1)) for translator in (made(shape, seed=s) for s in range(50))
    )
    # Where a model is sure, there is nothing to see.
    translator, look = next(
        (task, look) for task, look in drawn if len(look.outputs()) > 1 and min(look.probabilities) < 0.9
    )
    position = int(np.argmin(look.probabilities))
    found = look.gradients_of(position)
    pieces = translator.tokenizer.pieces(range(len(translator.tokenizer)))
    written = [pieces.index(token) for token in look.target.tokens]
    source = torch.tensor([[*translator.encode(LINES[0]), END]])
    fed = torch.tensor([[BEGIN, *written[:-1]]])

    def told(rows: int) -> Tensor:
        mask = torch.ones(rows, source.shape[1], dtype=torch.bool)
        logits = translator.model(source.expand(rows, -1), mask, fed.expand(rows, -1))
        return logits[:, position].log_softmax(-1)[:, written[position]]

    with torch.no_grad():
        assert found.log_probability == pytest.approx(float(told(1)), abs=1e-5)
    vectors = {track.side: track for track in found.tracks if track.what == "vector"}
    for side, path in ((SOURCE, "stem.embedding"), (TARGET, "decoder.embedding")):
        by_hand = differences(translator.model, path, told, len(vectors[side].norms), small)
        np.testing.assert_allclose(vectors[side].norms, by_hand, rtol=5e-3, atol=1e-3 * by_hand.max())
    recurrent = [track for track in found.tracks if track.what == "hidden"]
    assert bool(recurrent) == (shape != "transformer")
    if shape in ("bahdanau", "luong"):
        read = [(track.layer, track.backwards) for track in recurrent if track.side == SOURCE]
        assert read == [(0, False), (0, True), (1, False), (1, True)]
        assert RECURRENT["direction"] == "both"


def test_gradients_by_states_are_those_of_equations_written_here(precise):
    """An LSTM unrolled with torch alone, its weights copied: dlog p / dh_t and / dc_t at every step."""
    task = made_writer(Word.train([ALPHABET], seed=1), "recurrent")
    ids, decoder = task.encode(TEXT), task.model.decoder
    found = task.inspect(TEXT).gradients_of(len(ids) - 1)
    vectors = decoder.embedding(torch.tensor([[BEGIN, *ids[:-1]]]))[0].detach()
    states: dict[tuple[int, str], list[Tensor]] = {}
    for layer, cell in enumerate(decoder.recurrence.cells):
        h = c = torch.zeros(cell.width)
        outputs = []
        for x in vectors:
            i, f, g, o = (cell.inward @ x + cell.recurrent @ h + cell.bias).chunk(4)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            states.setdefault((layer, "hidden"), []).append(h)
            states.setdefault((layer, "cell"), []).append(c)
            outputs.append(h)
        vectors = torch.stack(outputs)
    value = (decoder.output_weight() @ vectors[-1]).log_softmax(-1)[ids[-1]]
    assert found.log_probability == pytest.approx(float(value.detach()), abs=1e-6)
    tracks = {(track.layer, track.what): track.norms for track in found.tracks if track.what != "vector"}
    assert tracks.keys() == states.keys() and len(tracks) == 4
    for key, steps in states.items():
        gradients = torch.autograd.grad(value, steps, retain_graph=True)
        np.testing.assert_allclose(tracks[key], [float(one.norm()) for one in gradients], rtol=1e-4)


def test_each_direction_counts_only_what_it_has_read(tmp_path):
    """A tag at word p: forwards nothing after it can count, from the end nothing before it."""
    task = made_reader("entities-bilstm", tmp_path, kind="tagger")
    found = task.inspect(TASKS["entities-bilstm"])
    places = np.arange(len(found.read))
    for position in (0, 3):
        states = [track for track in found.gradients_of(position).tracks if track.what != "vector"]
        assert {track.backwards for track in states} == {False, True}
        for track in states:
            counts = places >= position if track.backwards else places <= position
            assert (track.norms[counts] > 0).all() and (track.norms[~counts] == 0).all()


@pytest.mark.skipif(not packing_is_possible(), reason="this build of torch packs no weights")
def test_a_model_made_fast_for_use_has_the_same_gradients():
    plain, fast = made("transformer"), made("transformer")
    replace_linears(fast.model, PackedLinear)
    one, other = (task.inspect(LINES[0], beam=1).gradients_of() for task in (plain, fast))
    assert one.token == other.token
    for track, same in zip(one.tracks, other.tracks, strict=True):
        np.testing.assert_allclose(track.norms, same.norms, rtol=1e-5)


def test_looking_back_leaves_no_trace():
    task = made_writer(Word.train([ALPHABET], seed=1), "recurrent")
    look = task.inspect(TEXT)
    before = task.generate(TEXT, length=5, seed=1)
    look.gradients_of()
    cell = task.model.decoder.recurrence.cells[0]
    assert cell.observer is None and "step" not in vars(cell)
    assert all(weight.grad is None for weight in task.model.parameters())
    assert task.generate(TEXT, length=5, seed=1) == before


def test_from_a_folder_by_name_and_into_files(tmp_path: Path):
    task = made_writer(Character.train(["KING: the old cats"], seed=1, exact=True), "recurrent")
    weights = {name: weight.detach() for name, weight in task.model.named_parameters()}
    write_folder(tmp_path / "run", model_files(task.recipe, task.tokenizer, weights, "float32"))
    found = regard.inspect(tmp_path / "run", "KING: the", temperature=0.01, top_k=3)
    assert found.model == "run" and sum(one.drawn > 0 for one in found.next.tokens) <= 3
    assert "<iframe" in found._repr_html_()
    tree = json.loads(content(found, ".json", "gradients", {"position": 1}))
    (gradients,) = tree["gradients"]
    assert gradients["position"] == 1 and len(gradients["tracks"][0]["norms"]) == 2 and "next" not in tree
    with pytest.raises(UserError, match="beam: the task generate has no such option"):
        regard.inspect(tmp_path / "run", "KING", beam=3)
