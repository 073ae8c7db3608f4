"""A search with a step callback uses no CUDA graphs, which would call no Python."""

from __future__ import annotations

import torch

from regard.decoding.search import uses_cuda_graphs
from regard.decoding.step_callback import Step, on_step, step_callback


def test_a_search_with_a_callback_uses_no_cuda_graph() -> None:
    steps: list[Step] = []
    assert uses_cuda_graphs(torch.device("cuda")) and step_callback() is None
    with on_step(steps.append):
        assert not uses_cuda_graphs(torch.device("cuda")) and step_callback() is not None
    assert uses_cuda_graphs(torch.device("cuda")) and not uses_cuda_graphs(torch.device("cpu"))
