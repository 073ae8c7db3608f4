"""A language model in use: splitting of texts, perplexity and continuation."""

import math

import numpy as np
import pytest
import torch

import regard
from regard.assemble import build_model, resolve_model
from regard.config import Data, Decoding, Recipe, Training, read_recipe, tiny_form
from regard.data.examples import collate
from regard.data.format._base import Example
from regard.data.tokenizer.character import Character
from regard.data.tokenizer.subword import Subword
from regard.data.tokenizer.word import Word
from regard.decoding.rules import Forbid
from regard.decoding.sampling import sample
from regard.errors import UserError
from regard.loading import model_files, task_of
from regard.runs import prepare, resolve
from regard.states import empty_memory
from regard.storage import write_folder
from regard.task import generate
from regard.task._generated import Spelling
from regard.task._text_windows import as_ids, coded, spans
from regard.task.generate import Generator
from regard.types import BEGIN, END, PAD, UNKNOWN

TEXT = "ROMEO:\nWhat light is this?\n\nJULIET:\n\tNone.\n"
WINDOW = 16


def made(tokenizer, decoder="transformer", data=None, **more) -> Generator:
    torch.manual_seed(4)
    tree = {"kind": "language_model", "decoder": decoder, "width": 16, "layers": 2, "dropout": 0.0}
    if decoder == "transformer":
        tree |= {"heads": 2, "feed_forward": 32}
    model = build_model(tree, len(tokenizer))
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    recipe = Recipe(
        task="generate",
        model=resolve_model(tree),
        data=Data(max_length=WINDOW, **(data or {})),
        training=Training(batch_tokens=100),
        decoding=Decoding(max_length=30),
        **more,
    )
    return Generator(recipe, tokenizer, model, torch.device("cpu"))


@pytest.fixture(scope="module")
def characters():
    return Character.train([TEXT], seed=1, exact=True)


@pytest.fixture(scope="module", params=["transformer", "recurrent", "universal"])
def writer(request):
    return made(Word.train(["a b c d e f g h i j k l m n o p"], seed=1), request.param)


@pytest.fixture(scope="module")
def musician():
    return made(Word.train(["60 62 64 65 67 | 59 |"], seed=1))


# How documents are cut.


def test_every_token_is_read_once_whatever_the_first_window():
    for length in (1, 5, 16, 17, 40, 97):
        for first in (0, 1, 7, 16):
            found = spans(length, WINDOW, first)
            assert [n for _, start, stop in found for n in range(start, stop)] == list(range(length))
            assert all(begin == start and stop - begin <= WINDOW for begin, start, stop in found)
            if length <= WINDOW:
                assert len(found) == 1  # a short document is one window
            elif first:
                assert found[0][2] == first


def test_windows_overlap_where_they_are_to():
    found = spans(50, WINDOW, overlap=6)
    assert found[:3] == [(0, 0, 16), (10, 16, 26), (20, 26, 36)]
    assert [n for _, start, stop in found for n in range(start, stop)] == list(range(50))


def test_a_window_begins_and_only_the_end_ends(characters):
    (document,) = as_ids(characters, [TEXT])
    assert document[-1] == END and END not in document[:-1]
    source, target, wanted = coded(document[:5])
    assert len(source) == 0 and target.tolist() == [BEGIN, *document[:5]]
    assert wanted.tolist() == [False] + [True] * 5
    batch = collate([coded(document[:5]), coded(document[5:8])], varying=True)
    assert batch.source.shape == (2, 0) and batch.units == 8 and (batch.target[1, 4:] == PAD).all()


def test_a_window_may_begin_with_the_token_before_it(characters):
    (document,) = as_ids(characters, [TEXT])
    for preceded, first in ((True, document[4]), (False, BEGIN)):
        _, target, wanted = coded(document, 5, 9, preceded)
        assert target.tolist() == [first, *document[5:9]] and wanted.tolist() == [False] + [True] * 4
    assert coded(document, 0, 4, True).target[0] == BEGIN
    plain, preceded = made(characters), made(characters, data={"preceded": True})
    before, after = plain.surprise([document])[0], preceded.surprise([document])[0]
    assert np.array_equal(before[:WINDOW], after[:WINDOW]) and not np.isclose(before[WINDOW], after[WINDOW])
    logits = plain.model(torch.tensor([document[WINDOW - 1 : 2 * WINDOW - 1].tolist()])).log_softmax(-1)[0]
    assert after[WINDOW : 2 * WINDOW] == pytest.approx(
        [-logits[i, token].item() for i, token in enumerate(document[WINDOW : 2 * WINDOW])], abs=1e-4
    )


def prepared(tmp_path, *overrides, **data):
    recipe = Recipe(
        task="generate",
        seed=3,
        data=Data(max_length=WINDOW, **data),
        tokenizer={"kind": "character", "exact": True},
        model={"width": 16, "heads": 2},
        training=Training(batch_examples=4),
    )
    recipe = resolve(recipe)
    return prepare(recipe, tmp_path / "run"), recipe


@pytest.fixture
def running(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT * 20)
    return [str(tmp_path / "a.txt")]


def test_epochs_are_cut_elsewhere_and_can_be_resumed(tmp_path, running):
    found, recipe = prepared(tmp_path, format={"kind": "running_text"}, train=running, valid=running)
    tokenizer = found.codec
    (document,) = as_ids(tokenizer, [(TEXT * 20)[: int(len(TEXT) * 18)]])
    stream = found.stream
    epochs: dict[int, list] = {}
    batches = iter(stream)
    for _ in range(2000):
        number = stream.cursor()["epoch"]
        epochs.setdefault(number, []).append(next(batches))
        if number == 3:
            break
    firsts = []
    for number in (0, 1, 2):
        rows = [row[row != PAD].tolist() for batch in epochs[number] for row in batch.target]
        assert all(row[0] == BEGIN for row in rows)
        assert sorted(i for row in rows for i in row[1:]) == sorted(document.tolist())
        ends = [row for row in rows if row[-1] == END]
        assert len(ends) == 1
        firsts.append(sorted(map(len, rows))[0:2] + [len(ends[0])])
        assert sorted(map(len, rows))[2] == WINDOW + 1  # all but the first and the last are full
    assert len({tuple(first) for first in firsts}) > 1
    again = prepare(recipe, tmp_path / "again").stream
    cursor = {"epoch": 2, "batch": 0}
    again.seek(cursor)
    assert torch.equal(next(iter(again)).target, epochs[2][0].target)


def test_short_documents_are_one_window_each(tmp_path):
    found, _ = prepared(tmp_path, format={"kind": "made_chorales", "count": 10})
    lengths = set()
    for batch in [b for _, b in zip(range(40), found.stream)]:
        lengths |= {row[row != PAD].tolist()[-1] == END for row in batch.target}
    assert lengths == {True, False}  # characters of a piece do not fit this window ...
    recipe = Recipe(
        task="generate",
        data=Data(max_length=130, format={"kind": "made_chorales", "count": 10}),
        tokenizer={"kind": "word"},
    )
    stream = prepare(resolve(recipe), tmp_path / "words").stream
    for _, batch in zip(range(5), stream):
        for row in batch.target:
            row = row[row != PAD].tolist()
            assert (row[0], row[-1]) == (BEGIN, END)  # ... but its words do


def test_a_text_that_is_named_for_training_only_is_refused(running):
    recipe = Recipe(task="generate", data=Data(format={"kind": "running_text"}, train=running))
    with pytest.raises(UserError, match="data.valid: name the files"):
        resolve(recipe)
    with pytest.raises(UserError, match="max_length"):
        resolve(Recipe(task="generate", data=Data(max_length=1, format={"kind": "made_text"})))


# How texts are judged.


def by_hand(task: Generator, document: list[int], context: int) -> list[float]:
    """-log p of every token, each given the last `context(t)` tokens, one forward pass for each."""
    found = []
    for t in range(len(document)):
        fed = torch.tensor([[BEGIN, *document[t - context(t) : t]]])
        found.append(-float(task.model(fed)[0, -1].log_softmax(-1)[document[t]]))
    return found


@torch.no_grad()
def test_the_loss_is_what_one_finds_token_by_token(writer):
    texts = ["a b c d e f g h i j k l m n o p a b c d", "c", "d d d k a b b"]
    documents = [d.tolist() for d in as_ids(writer.tokenizer, texts)]
    costs = [by_hand(writer, document, lambda t: t % WINDOW) for document in documents]
    found = writer.judge([Example("", text) for text in texts])
    assert list(found.scores)[:2] == ["loss", "perplexity"]
    loss = sum(map(sum, costs)) / sum(map(len, costs))
    assert found.scores["loss"] == pytest.approx(loss, abs=1e-5)
    assert found.scores["perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)
    assert 1 <= len(found.samples) <= 3 and texts[0].startswith(found.samples[0][0])


@torch.no_grad()
def test_words_are_also_counted_by_their_characters():
    task = made(Word.train(["to be or not to be"], seed=1))
    text = "to  be\nor not"
    scores = task.judge([Example("", text)]).scores
    assert list(scores) == ["loss", "perplexity", "loss_per_character"]
    tokens = len(["to", "be", "or", "not"]) + 1
    assert scores["loss_per_character"] == pytest.approx(scores["loss"] * tokens / len("to be or not"))
    assert list(task.judge([Example("", "to see")]).scores) == ["loss", "perplexity"]  # unknown words are too cheap


@torch.no_grad()
def test_of_music_a_step_counts_and_the_end_does_not(musician):
    piece = "60 64 | | 59 |"
    document = as_ids(musician.tokenizer, [piece])[0].tolist()
    costs = by_hand(musician, document, lambda t: t)
    scores = musician.judge([Example("", piece), Example("", piece)]).scores
    assert next(iter(scores)) == "nll_per_step" and "loss_per_character" not in scores
    assert scores["nll_per_step"] == pytest.approx(sum(costs[:-1]) / 3, abs=1e-5)
    assert scores["loss"] == pytest.approx(sum(costs) / len(costs), abs=1e-5)


@torch.no_grad()
def test_a_score_reads_as_a_stream_does(writer, monkeypatch):
    monkeypatch.setattr(writer, "rules", [Forbid((PAD, UNKNOWN, BEGIN, END))])
    found = writer.generate("a b", length=60, seed=3)
    again = writer.score(str(found))
    assert len(again.tokens) == len(again.log_probabilities) == 62
    assert [math.exp(x) for x in again.log_probabilities[2:]] == pytest.approx(found.probabilities, abs=1e-4)
    assert again.tokens == writer.tokenizer.pieces(writer.encode(str(found)))
    assert again.loss == pytest.approx(-np.mean(again.log_probabilities))
    assert again.perplexity == pytest.approx(math.exp(again.loss))
    assert writer.score("").log_probabilities == []


# How texts are gone on with.


def test_a_stream_is_the_sample_of_its_seed(writer):
    ids = writer.encode("a b")
    (wanted,) = sample(
        writer.model.decoder,
        empty_memory(1),
        max_lengths=torch.tensor([WINDOW]),
        seed=5,
        temperature=0.8,
        top_k=9,
        rules=[Forbid()],
        prefix=torch.tensor([ids]),
    )
    pieces = list(writer.stream("a b", length=WINDOW - 2, seed=5, temperature=0.8, top_k=9))
    assert [*ids, *(p.id for p in pieces if p.id != END)] == wanted.ids
    assert "a b" + "".join(piece.text for piece in pieces) == writer.tokenizer.decode(wanted.ids)


def test_texts_that_are_written_together_are_those_written_alone(writer, monkeypatch):
    """On a GPU the continuations of one prompt are computed together; here they are, too."""
    options = {"count": 5, "length": 90, "temperature": 1.5, "repetition_penalty": 1.1, "seed": 3}
    alone = writer.generate("das Haus", **options)
    stopped = writer.generate("das Haus", stop=["e"], **options)
    monkeypatch.setattr(generate, "writes_together", lambda device: True)
    monkeypatch.setattr(generate, "TOGETHER", 3)
    together = writer.generate("das Haus", **options)
    assert writer.generate("das Haus", stop=["e"], **options) == stopped
    for one, other in zip(alone, together, strict=True):
        assert (one.text, one.tokens, one.finished, one.seed) == (other.text, other.tokens, other.finished, other.seed)
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-4)
    assert len({one.text for one in alone}) == 5


def test_it_goes_on_beyond_its_window(writer, monkeypatch):
    monkeypatch.setattr(writer, "rules", [Forbid((PAD, UNKNOWN, BEGIN, END))])
    longest = writer.generate("", length=100, seed=1)
    assert len(longest.tokens) == 100 and not longest.finished
    assert str(longest) == longest.text == writer.tokenizer.decode(writer.tokenizer.encode(longest.text))
    assert all(0 <= p <= 1 for p in longest.probabilities)
    assert longest.log_probability == pytest.approx(sum(map(math.log, longest.probabilities)), rel=1e-6)


def test_there_is_always_some_text():
    task = made(Word.train(["a b"], seed=1))
    found = [task.generate("", seed=seed) for seed in range(40)]
    assert all(one.text for one in found) and any(one.finished for one in found)
    assert "</s>" not in [one.token for one in task.next_tokens("")]
    assert "</s>" in [one.token for one in task.next_tokens("a")]


def test_the_same_seed_writes_the_same(writer):
    one, two = writer.generate("a", count=2, seed=8, length=20)
    assert [one, two] == [writer.generate("a", seed=seed, length=20) for seed in (8, 9)]
    assert one.text != two.text and (one.seed, two.seed) == (8, 9)
    likeliest = [writer.generate("a", top_k=1, seed=seed, length=20).text for seed in (1, 2)]
    assert likeliest[0] == likeliest[1]


@torch.no_grad()
def test_the_next_tokens_are_those_a_stream_draws_from(writer):
    found = writer.next_tokens("a b c", count=1000)
    ids = torch.tensor([[BEGIN, *writer.encode("a b c")]])
    log_probs = writer.model(ids)[0, -1].log_softmax(-1)
    log_probs[[PAD, UNKNOWN, BEGIN]] = -math.inf
    wanted = log_probs.softmax(-1).sort(descending=True).values.tolist()
    assert [one.probability for one in found] == pytest.approx([p for p in wanted if p > 0], abs=1e-5)
    assert writer.next_tokens("a b c", count=3) == found[:3]
    (first,) = writer.next_tokens("a b c", top_k=1)
    assert first.probability == 1 and first.token == found[0].token
    assert first.text == next(writer.stream("a b c", top_k=1)).text
    long = "k l m n o p " * 9
    assert writer.next_tokens(long, top_k=1)[0].text == next(writer.stream(long, top_k=1)).text
    hot, cold = (writer.next_tokens("a b c", temperature=t, count=1)[0].probability for t in (100, 0.01))
    assert hot < found[0].probability < cold


def test_texts_come_out_as_they_are_spelled():
    lines = ["to be or not to be", "né à Québec", "that is the question"] * 20
    for tokenizer in (
        Character.train(lines, seed=1),
        Word.train(lines, seed=1),
        Subword.train(lines, seed=1, size=290),
    ):
        for text in ("to be not", "né", "zoé 漢字 to be") if tokenizer.kind != "word" else ("to be not",):
            ids = tokenizer.encode(text)
            spelling = Spelling(tokenizer, first=True)
            pieces = [spelling.add(i) for i in ids]
            assert "".join(pieces) == text and "\ufffd" not in "".join(pieces)
            for cut in range(1, len(ids)):  # a beginning and how it goes on are the text
                spelling = Spelling(tokenizer, first=False)
                rest = "".join(spelling.add(i) for i in ids[cut:])
                head = tokenizer.decode(ids[:cut])
                assert head + rest == text or "\ufffd" in head + rest
    broken = Spelling(Character(["a"]), first=True)
    assert [broken.add(4 + byte) for byte in (0xE6, 0xE6, 0xE6, 0xE6)] == ["", "", "", "\ufffd" * 4]


def test_music_is_written_and_asked_for_as_music(musician):
    found = musician.generate("60|59 ", length=12, seed=1)
    assert found.prompt == "60 | 59" and str(found).startswith("60 | 59 ")
    assert set(str(found).split()) <= {"59", "60", "62", "64", "65", "67", "|"}
    assert musician.generate("", length=5, seed=1).text[0] != " "
    with pytest.raises(UserError, match="'hello' is no pitch"):
        musician.generate("hello")
    with pytest.raises(UserError, match="never heard pitch 61"):
        musician.generate("60 61")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": 0}, "temperature"),
        ({"temperature": 100.1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"length": -1}, "length"),
        ({"length": 10**7}, "length"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"count": 0}, "count"),
        ({"prompt": "x" * 1_000_001}, "characters"),
    ],
)
def test_refused(writer, wrong, message):
    with pytest.raises(UserError, match=message) as refused:
        writer.generate(**wrong)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("temperature", [0.01, 100.0])
def test_the_ends_of_the_range_work(writer, temperature):
    found = writer.generate("a", temperature=temperature, length=40, seed=2)
    assert found.tokens and all(math.isfinite(p) for p in found.probabilities)


def test_a_saved_model_is_the_same(characters, tmp_path):
    writer = made(characters)
    weights = {name: parameter.detach() for name, parameter in writer.model.named_parameters()}
    write_folder(tmp_path / "model", model_files(writer.recipe, writer.tokenizer, weights, "float32"))
    again = regard.load(tmp_path / "model", device="cpu", task="generate")
    assert isinstance(again, Generator) and task_of(again.recipe) is Generator
    assert again.generate("R\n\t", seed=1, length=40) == writer.generate("R\n\t", seed=1, length=40)
    with pytest.raises(UserError, match="made to generate, not to translate"):
        regard.load(tmp_path / "model", task="translate")


def test_attentional_decoders_are_refused_before_anything_is_written():
    recipe = Recipe(task="generate", data=Data(format={"kind": "made_text"}), model={"decoder": "attentional"})
    with pytest.raises(UserError, match="needs a source to attend to"):
        resolve(recipe)


def test_shipped_recipes_are_whole():
    texts = ("gpt-shakespeare", "gpt-shakespeare-small", "llama-shakespeare", "char-rnn-shakespeare")
    for name in (*texts, "music-transformer", "music-lstm"):
        recipe = read_recipe(name)
        assert recipe.task == "generate" and recipe.data.train == recipe.data.valid == recipe.data.test
        resolved = resolve(tiny_form(recipe))
        assert set(resolved.model) == {"kind", "decoder"}
