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
from regard.inspection.record.scene import copied, places_axis, scene_of
from regard.inspection.record.search import search_tree
from regard.inspection.record.translate import words_of
from regard.inspection.trace.base import SOURCE, TARGET, Side
from regard.inspection.trace.image import CaptionTrace
from regard.inspection.trace.translation import Candidate
from regard.layers.capture import capture
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
) -> CaptionTrace:
    """The trace of the text generated for one image or recording: a path, a file's bytes, or its values."""
    scene, source, mask, raw = scene_of(writer, given)
    model, tokenizer = writer.model, writer.tokenizer
    steps: list[Step] = []
    with on_step(steps.append):
        (best,) = writer.written([raw], beam=beam, n_best=n_best, length_penalty=length_penalty, max_length=max_length)
    written = [*best.ids, END] if best.finished else best.ids
    fed = [BEGIN, *written[:-1]]
    with capture(model) as captured:
        logits = model(source, mask, torch.tensor([fed], device=writer.device))
    chosen = logits[0].float().softmax(-1).gather(1, torch.tensor(written, device=logits.device)[:, None])[:, 0]
    trace = CaptionTrace(
        model=name,
        scene=scene,
        target=Side(best.text, tokenizer.pieces(written), *words_of(tokenizer, best.text, best.ids)),
        read=tokenizer.pieces(fed),
        probabilities=chosen.tolist(),
        log_probability=best.log_probability,
        score=best.score,
        finished=best.finished,
        **layers_of(writer, captured, {SOURCE: len(scene.tokens), TARGET: len(fed)}),
        beam=writer.recipe.decoding.beam if beam is None else beam,
        search=search_tree(steps, best.ids, best.finished, tokenizer),
        candidates=[
            Candidate(one.text, one.log_probability, one.score, one.finished) for one in (best, *best.alternatives)
        ],
    )
    trace.compute_calculation = calculator(
        model, lambda: model(source, mask, torch.tensor([fed], device=writer.device))
    )

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
