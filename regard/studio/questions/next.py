"""What a language model may write next, in every stage from its logits to what is drawn from."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.studio.questions._sampled import AskedToGoOn, check_writes

__all__ = ["Request", "answer"]


class Request(AskedToGoOn):
    count: int = Field(40, ge=1, le=200, description="Tokens that are told one by one, the likeliest first.")
    picture: bool = Field(False, description="Whether it is drawn, too, as `regard inspect` draws it.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    from regard.inspection.draw.next_token import next_sheet
    from regard.inspection.record.next_token import distribution_of
    from regard.inspection.trace.base import plain
    from regard.inspection.trace.text import last_line
    from regard.types import UNKNOWN

    check_writes(model)
    asked = Request(**request)
    ids = model.encode(asked.text)
    logits, log_probs = model.outlook(ids)
    found = distribution_of(model.tokenizer, logits, log_probs, **asked.how(), count=asked.count)
    drawn = {"svg": next_sheet(found, last_line(asked.text)).svg()} if asked.picture else {}
    return {
        **plain(found),
        **drawn,
        "vocabulary": len(model.tokenizer),
        "read": len(ids),
        "unknown": ids.count(UNKNOWN),
    }
