"""Record a captioner on an image, or a transcriber on a recording.

As with translations, the text is searched as always and then run through the model once more, captured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from regard.decoding.step_callback import Step, on_step
from regard.inspection.record.arithmetic.selection import calculator
from regard.inspection.record.attribution import Axis, TokenCandidates, attributor, written_axis
from regard.inspection.record.layers import layers_of
from regard.inspection.record.scene import MOST_PLACES, MOST_READ, copied, places_axis, scene_of
from regard.inspection.record.search import search_tree
from regard.inspection.record.translate import words_of
from regard.inspection.trace.base import NO_WORD, SOURCE, TARGET, Side
from regard.inspection.trace.image import CaptionTrace
from regard.inspection.trace.translation import Candidate
from regard.languages import name as language_name
from regard.layers.capture import capture
from regard.task._recordings import Transcript
from regard.types import BEGIN, END

if TYPE_CHECKING:
    from regard.task._writing import Writer


@torch.inference_mode()
def record_caption(
    writer: Writer,
    given: Any,
    name: str = "",
    beam: int | None = None,
    length_penalty: float | None = None,
    max_length: int | None = None,
    n_best: int = 1,
    **further: Any,
) -> CaptionTrace:
    """The trace of the text generated for one image or recording: a path, a file's bytes, or its values. `further` are
    options of the task's own."""
    scene, source, mask, raw = scene_of(writer, given, MOST_READ)
    model, tokenizer = writer.model, writer.tokenizer
    steps: list[Step] = []
    with on_step(steps.append):
        (best,) = writer.written(
            [raw], beam=beam, n_best=n_best, length_penalty=length_penalty, max_length=max_length, **further
        )
    # What it was forced to begin with is traced as well: attention to the source begins there.
    written = [*best.prefix, *best.ids, *([END] if best.finished else [])]
    fed = [BEGIN, *written[:-1]]
    read = torch.tensor([fed], device=writer.device)
    if len(scene.tokens) > MOST_PLACES:
        memory = model.encode(source, mask)
        with capture(model) as captured:
            logits = model.decoder.step(read, model.decoder.start(memory, beams=1, capacity=0))[0]
        scene.notes.append(f"the encoder's attention between {len(scene.tokens):,} places is not recorded")
    else:
        with capture(model) as captured:
            logits = model(source, mask, read)
    chosen = logits[0].float().softmax(-1).gather(1, torch.tensor(written, device=logits.device)[:, None])[:, 0]
    if isinstance(best, Transcript) and best.language_probability is not None:
        share = f"probability {best.language_probability:.2f}"
        scene.notes.append(f"the language is {language_name(best.language)} ({best.language}), {share}")
    words, word_of = words_of(tokenizer, best.text, best.ids)
    trace = CaptionTrace(
        model=name,
        scene=scene,
        target=Side(best.text, tokenizer.pieces(written), words, [NO_WORD] * len(best.prefix) + word_of),
        read=tokenizer.pieces(fed),
        probabilities=chosen.tolist(),
        log_probability=best.log_probability,
        score=best.score,
        finished=best.finished,
        **layers_of(writer, captured, {SOURCE: len(scene.tokens), TARGET: len(fed)}),
        beam=writer.recipe.decoding.beam if beam is None else beam,
        search=search_tree(steps, [*best.prefix, *best.ids], best.finished, tokenizer, best.prefix),
        candidates=[
            Candidate(one.text, one.log_probability, one.score, one.finished) for one in (best, *best.alternatives)
        ],
    )
    trace.compute_calculation = calculator(model, lambda: model(source, mask, read))

    def log_probabilities(copies: int, outputs: int) -> torch.Tensor:
        read = torch.tensor([fed[:outputs]], device=writer.device).expand(copies, -1)
        return model(*copied(source, mask, copies), read).float().log_softmax(-1)

    target = trace.target
    trace.compute_attribution = attributor(
        model,
        log_probabilities,
        written,
        {SOURCE: places_axis(scene), TARGET: written_axis(trace.read, target.words, target.word_of)},
        Axis(target.tokens, target.words, target.word_of),
        TokenCandidates(tokenizer),
    )
    return trace
