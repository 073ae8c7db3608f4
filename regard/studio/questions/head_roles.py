"""Every self-attention head: its mean attention weight on the previous token, the same token and the next one."""

from __future__ import annotations

from typing import Any

from regard.studio.questions._trace_cache import TextRequest, cached_trace

__all__ = ["Request", "answer"]


class Request(TextRequest):
    pass


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """`heads` are those of the encoder, or of a language model where there is none."""
    import numpy as np

    from regard.inspection.trace.base import KINDS, SOURCE, TARGET, plain

    trace = cached_trace(model, request)
    kind = SOURCE if trace.of_kind(SOURCE) else TARGET
    heads = []
    for number, layer in enumerate(trace.of_kind(kind)):
        for head, weights in enumerate(layer.weights):
            means = {
                name: np.diagonal(weights, offset).mean(dtype=np.float32)
                if len(weights) > abs(offset)
                else np.float32(0)
                for name, offset in (("previous", -1), ("same", 0), ("next", 1))
            }
            heads.append({"layer": number, "head": head, **{name: float(mean) for name, mean in means.items()}})
    return {"attention": kind, "called": KINDS[kind], "heads": plain(heads)}
