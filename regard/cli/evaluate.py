"""`regard evaluate`: how good are a model's translations, and is it better than another's by more than chance?"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.models import model_names
from regard.cli.progress import progress_bar
from regard.cli.terminal import Format, Precision, as_json, say
from regard.errors import UserError, suggestion


def evaluate(
    model: Annotated[str, typer.Argument(help="A shipped model, a model folder or a run.", autocompletion=model_names)],
    source: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Text to translate; without it, a run is tested on what its recipe names."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="FILE", help="Its reference translation, line by line; a .tsv may hold both.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Another model, or a file of another system's translations, to compare with.")
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept while searching; 1 is greedy.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="0 favours short output, 1 long output.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Tokens translated together.")] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Score without regard to case.")] = False,
    tokenize: Annotated[str, typer.Option(help="BLEU's tokenizer; none for text that is tokenised already.")] = "13a",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    precision: Annotated[
        Precision, typer.Option(help="What translators compute in; auto is the fastest on the device.")
    ] = Precision.auto,
    format: Annotated[Format, typer.Option(help="Plain text, or one JSON object.")] = Format.text,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar or warnings.")] = False,
) -> None:
    """Score a model: a translator's BLEU and chrF with their signatures, a run of any task by its own test examples."""
    if source is None:
        return _tested(model, device, format)
    from regard.data.corpus import read_lines, read_pairs
    from regard.evaluation.translation import TOKENIZERS, compare, corpus_scores

    if tokenize not in TOKENIZERS:  # before minutes of translation
        raise UserError(f"--tokenize: BLEU has no tokenizer '{tokenize}'{suggestion(tokenize, TOKENIZERS)}")
    sources, references = map(list, zip(*read_pairs([source], [target] if target else [], kept=True), strict=True))
    others: list[str] | None = None
    if against is not None and not Path(against).is_file():
        _check_translator(against)
    elif against is not None:
        others = list(read_lines(against, kept=True))
        if len(others) != len(references):
            raise UserError(f"{against} has {len(others)} lines but {source} has {len(sources)}; they must match")
    options = {"beam": beam, "length_penalty": length_penalty, "batch_tokens": batch_tokens}
    outputs = _translated(model, sources, device, precision, quiet, options)
    scores = corpus_scores(outputs, references, lowercase=lowercase, tokenize=tokenize)
    result: dict[str, Any] = {"model": model, "lines": len(sources), **dataclasses.asdict(scores)}
    if against is not None:
        if others is None:
            others = _translated(against, sources, device, precision, quiet, options)
        found = compare(outputs, others, references, lowercase=lowercase, tokenize=tokenize)
        result["against"] = {"name": against}
        result["against"] |= {n: dataclasses.asdict(c) | {"significant": c.significant} for n, c in found.items()}
    typer.echo(as_json(result) if format is Format.json else _report(result))


def _check_translator(name: str) -> None:
    """Refuses what is no file and no translator either, before anything is translated."""
    from regard.assemble import find_model, read_recipe_of
    from regard.storage import read_folder

    try:
        task = read_recipe_of(read_folder(find_model(name))).task
    except UserError as error:
        raise UserError(f"--against: there is no such file, and {error}") from None
    if task != "translate":
        raise UserError(f"--against: {name} is made to {task}, not to translate")


def _tested(run: str, device: str, format: Format) -> None:
    from regard.runs import test

    scores = test(run, device)
    shown = "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
    typer.echo(as_json({"model": run, **scores}) if format is Format.json else shown)


def _translated(
    model: str, sources: list[str], device: str, precision: str, quiet: bool, options: dict[str, Any]
) -> list[str]:
    import regard

    translator = regard.load(model, device=device, task="translate", precision=precision)
    started = time.perf_counter()
    with progress_bar(len(sources), wanted=not quiet) as advance:
        found = translator.translate(sources, warn=None if quiet else say, progress=advance, **options)
    seconds = time.perf_counter() - started
    if not quiet:
        pace = f"{seconds:.1f} s on {translator.device}, {len(sources) / seconds:.1f} a second"
        say(f"{model}: {len(sources):,} lines in {pace}")
    return [translation.text for translation in found]


def _report(result: dict[str, Any]) -> str:
    lines = [
        f"BLEU {result['bleu']:.2f}  ({result['bleu_signature']})",
        f"chrF {result['chrf']:.2f}  ({result['chrf_signature']})",
    ]
    for name, title in (("bleu", "BLEU"), ("chrf", "chrF")):
        if "against" in result:
            found = result["against"][name]
            verdict = "significant" if found["significant"] else "not significant"
            low, high = found["second_interval"]
            lines.append(
                f"{title} of {result['against']['name']}: {found['second']:.2f} [{low:.2f}, {high:.2f}], "
                f"p = {found['p_value']:.4f}: {verdict}  ({found['signature']})"
            )
    return "\n".join(lines)
