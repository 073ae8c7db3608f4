"""torch's recurrent kernels (cuDNN's on a GPU, oneDNN's or its own on a CPU), for our cells and padded batches.

Lays out weights, lengths and states as those kernels expect them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

if TYPE_CHECKING:
    from regard.layers.cell._base import Cell, CellState
from regard.layers.precision import computed_in


def fused(
    cells: Sequence[Cell],
    directions: int,
    x: Float[Tensor, "B T I"],
    mask: Bool[Tensor, "B T"] | None,
    states: Sequence[CellState],
    dropout: float = 0.0,
    backwards: bool = False,
) -> tuple[Float[Tensor, "B T O"], list[CellState]]:
    """A whole stack in one call: layers bottom up; with two `directions`, each layer forwards, then backwards."""
    kernel, dtype = getattr(torch, str(cells[0].kernel)), computed_in(x)
    trains = torch.is_grad_enabled() or dropout > 0  # only then it applies dropout or saves what the gradient needs
    with torch.autocast(x.device.type, enabled=False):
        options = (_flat_weights(cells, dtype), True, len(cells) // directions, dropout, trains, directions == 2)
        x, stacked = x.to(dtype), [torch.stack(part).to(dtype) for part in zip(*states)]
        if mask is None or (x.device.type == "cpu" and mask.all()):  # a GPU would wait
            x = x.flip(1) if backwards else x
            outputs, *finals = kernel(x, _one_or_all(stacked), *options, True)
            outputs = outputs.flip(1) if backwards else outputs
        else:
            lengths = mask.sum(1).clamp(min=1)
            x = _reversed(x, lengths) if backwards else x
            packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
            order, restored = cast(Tensor, packed.sorted_indices), cast(Tensor, packed.unsorted_indices)
            first = _one_or_all([part.index_select(1, order) for part in stacked])
            data, *finals = kernel(packed.data, packed.batch_sizes, first, *options)
            again = PackedSequence(data, packed.batch_sizes, order, restored)
            outputs, _ = pad_packed_sequence(again, batch_first=True, total_length=x.shape[1])
            outputs = _reversed(outputs, lengths) if backwards else outputs
            # In an example of only padding the kernel read one position: it outputs zero and keeps its state.
            outputs, real = outputs * mask[..., None], mask.any(1)[:, None]
            ends = [part.index_select(1, restored) for part in finals]
            finals = [torch.where(real, after, before) for after, before in zip(ends, stacked)]
    return outputs, list(zip(*(part.unbind(0) for part in finals)))


def _one_or_all(parts: list[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """The LSTM's kernel takes a tuple of two states, the others' a single tensor."""
    return parts[0] if len(parts) == 1 else tuple(parts)


def _flat_weights(cells: Sequence[Cell], dtype: torch.dtype) -> list[Tensor]:
    """U, W, b and a second bias of zero for each cell: the kernels have two biases, one is enough."""
    four = [(cell.inward, cell.recurrent, cell.bias, torch.zeros_like(cell.bias)) for cell in cells]
    if cells[0].bias.device.type != "cuda":
        return [weight.to(dtype) for weights in four for weight in weights]
    # cuDNN wants one block of memory, all matrices, then all biases. Made here, it does not copy them itself.
    parts = [w for weights in four for w in weights[:2]] + [b for weights in four for b in weights[2:]]
    pieces = torch.cat([part.flatten() for part in parts]).to(dtype).split([part.numel() for part in parts])
    views = [piece.view_as(part) for piece, part in zip(pieces, parts)]
    matrices, biases = views[: 2 * len(cells)], views[2 * len(cells) :]
    return [w for i in range(0, 2 * len(cells), 2) for w in (*matrices[i : i + 2], *biases[i : i + 2])]


def _reversed(x: Float[Tensor, "B T D"], lengths: Int[Tensor, "B"]) -> Float[Tensor, "B T D"]:
    """The first `length` positions of each example reversed, the rest unchanged."""
    positions = torch.arange(x.shape[1], device=x.device)[None]
    turned = torch.where(positions < lengths[:, None], lengths[:, None] - 1 - positions, positions)
    return x.gather(1, turned[..., None].expand_as(x))
