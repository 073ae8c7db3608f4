"""Layers that report intermediate values (attention weights, gates) to an observer; an editor may replace some."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

Observer = Callable[[str, Tensor], None]
Editor = Callable[[str, Tensor], Tensor]


class Observable(nn.Module):
    """A module that passes intermediate values to its observer, if it has one; without, it may use a fused kernel."""

    observer: Observer | None = None
    editor: Editor | None = None
    """Returns the gate or state to use in place of one that was computed (inspection/record/intervention_sites.py)."""

    def edited(self, what: str, value: Tensor) -> Tensor:
        return value if self.editor is None else self.editor(what, value)
