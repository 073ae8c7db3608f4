"""`regard generate`: continues a text, or writes music as MIDI."""

from __future__ import annotations

import enum
import secrets
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from regard.cli.bulk import Column, Input, Key, On, ShardCount, bulk_file, model_for
from regard.cli.options import (
    ComputedInFloat32,
    Device,
    Model,
    RepetitionPenalty,
    Seed,
    Stop,
    Temperature,
    TokenLimit,
    TopK,
    TopP,
    output_file,
    output_folder,
    own_precision,
)
from regard.cli.terminal import Precision, as_json, one_line, say, shown
from regard.cli.translate import writing_may_fail
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.bulk import Answers
    from regard.task.generate import Generated, Generator


class Form(enum.StrEnum):
    text = "text"
    json = "json"
    midi = "midi"


def generate(
    model: Model,
    prompt: Annotated[
        str, typer.Argument(metavar="TEXT", help="The prompt; without it, the model begins by itself.")
    ] = "",
    length: TokenLimit = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="Texts to write.")] = 1,
    temperature: Temperature = 1.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    repetition_penalty: RepetitionPenalty = 1.0,
    stop: Stop = None,
    seed: Seed = None,
    scores: Annotated[bool, typer.Option("--scores", help="One token per line, with its probability.")] = False,
    format: Annotated[Form, typer.Option(help="Plain text, one JSON object per text, or a MIDI file.")] = Form.text,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to this file, atomically; with --input, to this folder."
        ),
    ] = None,
    input: Input = None,
    shards: ShardCount = None,
    on: On = None,
    column: Column = None,
    key: Key = None,
    tempo: Annotated[float, typer.Option(min=10, max=1000, help="Tempo of a MIDI file, in steps per minute.")] = 90.0,
    device: Device = "auto",
    precision: ComputedInFloat32 = Precision.float32,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No hints.")] = False,
) -> None:
    """Continue a text or a piece of music.

    The text is streamed, prompt first; several texts are separated by a line of three dashes. With --input, each line
    is a prompt, whose seed is --seed (default: 0) plus the number of lines before it.
    """
    options: dict[str, Any] = {"length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    options |= {"repetition_penalty": repetition_penalty, "stop": stop or []}
    try:
        place = output_folder(output) if input else output_file(output)
    except typer.BadParameter as error:
        raise UserError(f"--output: {error.message}") from None
    if bulk := bulk_file([prompt] if prompt else None, input, place if input else None, shards, on, column, key):
        if count > 1 or scores or format is Form.midi or length == 0:
            raise UserError("--input gives one text a line: leave out --count, --scores, --format midi, --length 0")
        load = partial(load_answers, model_for(on, model), seed or 0, format, options, own_precision(precision))
        return bulk.answer(load, device, quiet, "generating")
    import regard

    whole = output is not None or format is not Form.text
    if whole and length == 0:
        raise UserError("--length 0 never ends, so nothing would ever be written whole; set a length")
    if format is Form.midi:
        _check_midi(output, count, tempo)
    task = regard.load(model, device=device, task="generate", precision=own_precision(precision))
    if format is Form.midi and task.bar is None:
        raise UserError(f"{model}: this model writes text, not music; leave out --format midi")
    first = secrets.randbelow(2**31) if seed is None else seed
    if not quiet:
        _hints(task, prompt, None if seed is not None else first)
    with writing_may_fail():
        seeds = range(first, first + count)
        if output is None and format is Form.text:
            return _write_as_it_comes(sys.stdout.buffer, task, prompt, seeds, scores, options)
        if output is None:
            for one in seeds:  # each as soon as it is whole
                found = task.generate(prompt, seed=one, **options)
                _write(sys.stdout.buffer, _content([found], format, scores, tempo))
        else:
            from regard.storage import write_file

            together = task.generate(prompt, count=count, seed=first, **options)
            write_file(output, _content(together, format, scores, tempo))


def load_answers(
    model: str, seed: int, format: Form, options: dict[str, Any], precision: str = "", *, device: str, threads: int
) -> Answers:
    """The generator of bulk work."""
    import regard
    from regard.bulk import Answers
    from regard.find_model import find_model
    from regard.storage import read_folder

    task = regard.load(model, device=device, task="generate", precision=precision)
    task.generate("", **options | {"length": 1})  # options that it refuses

    def answer(texts: list[str], first: int, warn: Callable[[str], None], progress: Callable[[int], None]) -> list[str]:
        outputs = []
        for number, text in enumerate(texts, first):
            found = task.generate(text, seed=seed + number - 1, **options)
            outputs.append(as_json(_tree(found)) if format is Form.json else one_line(str(found)))
            progress(1)
        return outputs

    folder = read_folder(find_model(model), hash_tensors=False)
    settings = {"model": folder.hash[:16], **options, "seed": seed, "format": format.value}
    return Answers(settings | ({"precision": precision} if precision else {}), answer)


def _check_midi(output: Path | None, count: int, tempo: float) -> None:
    from regard.data.midi import check_tempo

    check_tempo(tempo)
    if output is None and sys.stdout.isatty():
        raise UserError("a MIDI file is not for reading; give it a name: -o piece.mid")
    if count > 1:
        raise UserError(f"a MIDI file holds one piece, not {count}; leave out --count")


def _hints(task: Generator, prompt: str, seed: int | None) -> None:
    from regard.types import UNKNOWN

    if UNKNOWN in task.encode(prompt):
        say("the model does not know every word of the beginning; what it does not know it reads as 'unknown'")
    if seed is not None and sys.stderr.isatty():
        say(f"--seed {seed} writes the same again")


def _write_as_it_comes(
    out: BinaryIO, task: Generator, prompt: str, seeds: Iterable[int], scores: bool, options: dict[str, Any]
) -> None:
    for number, seed in enumerate(seeds):
        pieces = task.stream(prompt, seed=seed, **options)
        if number:
            _write(out, b"---\n")
        if scores:
            for piece in pieces:
                _write(out, _line(piece.token, piece.probability).encode("utf-8", "replace"))
            continue
        last = task.shown(prompt)
        _write(out, _encoded(last))
        for piece in pieces:
            if piece.text:
                _write(out, _encoded(piece.text))
                last = piece.text
        if not last.endswith("\n"):
            _write(out, b"\n")


def _content(found: list[Generated], format: Form, scores: bool, tempo: float) -> bytes:
    if format is Form.json:
        return "".join(as_json(_tree(one)) + "\n" for one in found).encode("utf-8", "replace")
    if format is Form.midi:
        from regard.data.midi import midi
        from regard.data.music import read_steps

        return midi(read_steps(str(found[0])), tempo)
    if scores:
        texts = ["".join(map(_line, one.tokens, one.probabilities)) for one in found]
    else:
        texts = [str(one).removesuffix("\n") + "\n" for one in found]
    return "---\n".join(texts).encode("utf-8", "replace")


def _tree(one: Generated) -> dict[str, Any]:
    return {
        "prompt": one.prompt,
        "text": one.text,
        "seed": one.seed,
        "log_probability": one.log_probability,
        "finished": one.finished,
        "tokens": one.tokens,
        "probabilities": one.probabilities,
    }


def _line(token: str, probability: float) -> str:
    return f"{shown(one_line(token))}\t{probability:.4f}\n"


def _encoded(text: str) -> bytes:
    return shown(text).encode("utf-8", "replace")


def _write(out: BinaryIO, content: bytes) -> None:
    """At once: whoever reads along must not wait."""
    out.write(content)
    out.flush()
