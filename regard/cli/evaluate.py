"""`regard evaluate`: scores of a model on labelled files, and a significance test against another."""

from __future__ import annotations

import dataclasses
import enum
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import (
    BatchTokens,
    Beam,
    ComputedIn,
    Data,
    Device,
    EngineName,
    EnsembleModels,
    From,
    JsonValue,
    LengthPenalty,
    Model,
    Quiet,
    To,
    Verbose,
)
from regard.cli.progress import progress_bar
from regard.cli.search_options import BeamGroups, CoveragePenalty, DiversityPenalty, engine_for_search, stated
from regard.cli.terminal import Engine, Format, Precision, as_json, say
from regard.errors import UserError


class Tokenize(enum.StrEnum):
    mteval = "13a"
    intl = "intl"
    char = "char"
    zh = "zh"
    none = "none"
    moses = "moses"


def evaluate(
    model: Model,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Labelled files in the format the model was trained on (data.format.KEY=VALUE says another); of a "
            "translator, a source and a target file or a .tsv. Without them, a run is tested on what its recipe names.",
        ),
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="FILE", help="Text to translate; the same as FILE.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="FILE", help="Its reference translation, line by line; a .tsv may hold both.")
    ] = None,
    data: Data = Path("data"),
    ensemble: EnsembleModels = None,
    against: Annotated[
        str | None, typer.Option(help="Another model, or a file of another system's translations, to compare with.")
    ] = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    coverage_penalty: CoveragePenalty = None,
    beam_groups: BeamGroups = None,
    diversity_penalty: DiversityPenalty = None,
    batch_tokens: BatchTokens = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    tokenize: Annotated[
        Tokenize, typer.Option(help="BLEU's tokenizer; none for text that is already tokenised.")
    ] = Tokenize.mteval,
    from_: From = None,
    to: To = None,
    device: Device = "auto",
    precision: ComputedIn = Precision.auto,
    engine: EngineName = Engine.auto,
    format: JsonValue = Format.text,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Score a model on labelled files, or a run on its own test examples.

    A translator gets BLEU and chrF with their signatures.
    """
    words = arguments or []
    settings = [word for word in words if "=" in word and not Path(word).exists()]
    files = [word for word in words if word not in settings]
    for setting in settings:
        if not setting.startswith("data.format"):
            raise UserError(f"{setting}: evaluate takes settings of data.format alone, such as data.format.text=3")
    if target is not None and source is None:
        raise UserError("--target is the reference of --source FILE; name both")
    if source is not None:
        if files:
            raise UserError("name the files as arguments or by --source and --target, not both")
        files = [source] if target is None else [source, target]

    from regard.evaluating import check_files, check_is_run, read_examples, read_texts, recipe_of

    task = recipe_of(model).task
    if settings and (task == "translate" or not files):
        why = "a translator is scored on pairs of lines" if files else "no files are named that it could be for"
        raise UserError(f"{settings[0]}: {why}; leave it out")
    ranking = stated(coverage_penalty=coverage_penalty, beam_groups=beam_groups, diversity_penalty=diversity_penalty)
    asked = {
        "--source": source,
        "--against": against,
        "--ensemble": ensemble,
        "--beam": beam,
        "--engine": None if engine is Engine.auto else engine,
        "--from": from_,
        "--to": to,
    }
    asked |= {f"--{name.replace('_', '-')}": value for name, value in ranking.items()}
    for option, value in asked.items():
        if value is not None and task != "translate":
            raise UserError(f"{option} is for translators; {model} is made to {task}: regard evaluate {model} FILE")
    engine = engine_for_search(engine, ranking)
    if not files:
        check_is_run(model)
        from regard.runs import test

        return _show(model, test(model, device), format)
    found = check_files(files, data)
    if task == "translate":
        from regard.directions import direction
        from regard.evaluation.translation import bleu_tokenizer, compare, corpus_scores

        scoring: dict[str, Any] = {"lowercase": lowercase, "tokenize": tokenize.value}
        languages = {"source": None if from_ == "auto" else from_, "target": to}
        scoring["language"] = direction(recipe_of(model), **languages)[1]
        bleu_tokenizer(scoring["tokenize"], scoring["language"])  # fails early if a package is missing
        sources, references = read_texts(found)
        others = _other_translations(against, files[0], len(references))
        options = {"beam": beam, "length_penalty": length_penalty, "batch_tokens": batch_tokens, **languages, **ranking}
        how = {
            "device": device,
            "precision": precision,
            "engine": engine,
            "note": say if verbose else lambda text: None,
        }
        outputs = _translated([model, *(ensemble or [])], sources, how, quiet, options)
        scores = corpus_scores(outputs, references, **scoring)
        result: dict[str, Any] = {
            "model": " and ".join([model, *(ensemble or [])]),
            "lines": len(sources),
            **dataclasses.asdict(scores),
        }
        if against is not None:
            if others is None:
                others = _translated([against], sources, how, quiet, options)
            compared = compare(outputs, others, references, **scoring)
            result["against"] = {"name": against}
            result["against"] |= {
                n: dataclasses.asdict(c) | {"significant": c.significant} for n, c in compared.items()
            }
        typer.echo(as_json(result) if format is Format.json else _report(result))
        return

    import regard

    used = regard.load(model, device=device)
    _show(model, used.judge(read_examples(used, found, settings)).scores, format)


def _show(model: str, scores: dict[str, float], format: Format) -> None:
    shown = "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
    typer.echo(as_json({"model": model, **scores}) if format is Format.json else shown)


def _other_translations(against: str | None, source: str, lines: int) -> list[str] | None:
    """The lines of --against if it is a file; None if it is a model."""
    if against is None:
        return None
    if not Path(against).is_file():
        from regard.evaluating import recipe_of

        task = recipe_of(against).task
        if task != "translate":
            raise UserError(f"--against: {against} is made to {task}, not to translate")
        return None
    from regard.data.corpus import read_lines

    others = list(read_lines(against, kept=True))
    if len(others) != lines:
        raise UserError(f"{against} has {len(others)} lines but {source} has {lines}; they must match")
    return others


def _translated(
    models: list[str], sources: list[str], how: dict[str, Any], quiet: bool, options: dict[str, Any]
) -> list[str]:
    from regard.cli.translation_models import load_ensemble
    from regard.engines import load_with

    one = len(models) == 1
    translator: Any = load_with(models[0], task="translate", **how) if one else load_ensemble(models, how)
    started = time.perf_counter()
    with progress_bar(len(sources), enabled=not quiet) as advance:
        found = translator.translate(sources, warn=None if quiet else say, progress=advance, **options)
    seconds = time.perf_counter() - started
    if not quiet:
        pace = f"{seconds:.1f} s on {translator.device} ({translator.engine}), {len(sources) / seconds:.1f} a second"
        say(f"{' and '.join(models)}: {len(sources):,} lines in {pace}")
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
