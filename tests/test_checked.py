"""Types and shapes in signatures are really checked in the tests: wrong arguments and wrong results raise."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from checked import jaxtyped
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from regard.layers.feed_forward import FeedForward


@jaxtyped
def product(
    x: Float[Tensor, "B D"], y: Float[Tensor, "D E"] | None = None, *, turn: bool = False
) -> Float[Tensor, "B E"]:
    """A docstring."""
    if y is None:
        return x
    return (x @ y).T if turn else x @ y


def test_a_letter_is_one_size_in_a_call_and_another_in_the_next() -> None:
    assert product(torch.ones(2, 3), torch.ones(3, 4)).shape == (2, 4)
    assert product(torch.ones(5, 6), torch.ones(6, 7)).shape == (5, 7)
    with pytest.raises(BeartypeCallHintViolation):
        product(torch.ones(2, 3), torch.ones(4, 4))
    with pytest.raises(BeartypeCallHintViolation):
        product(torch.ones(2, 3, 1), torch.ones(3, 4))
    with pytest.raises(BeartypeCallHintViolation):
        product(torch.ones(2, 3).int(), torch.ones(3, 4))


def test_the_result_has_the_letters_of_the_arguments() -> None:
    with pytest.raises(BeartypeCallHintViolation):
        product(torch.ones(2, 3), torch.ones(3, 4), turn=True)
    assert product(torch.ones(2, 3)).shape == (2, 3)  # E is free


def test_a_function_keeps_its_name_and_signature() -> None:
    assert (product.__name__, product.__doc__) == ("product", "A docstring.")
    assert list(inspect.signature(product).parameters) == ["x", "y", "turn"]
    assert isinstance(product.__annotations__["x"], str)  # as it was written


def test_plain_types_are_checked_without_shapes() -> None:
    @jaxtyped
    def doubled(x: float, name: str = "a") -> int:
        return int(2 * x) if name == "a" else name  # type: ignore[return-value]

    assert doubled(2) == 4  # an int may stand for a float
    for wrong in (("2",), (2, 3), (2, "b")):
        with pytest.raises(BeartypeCallHintViolation):
            doubled(*wrong)


def test_classes_and_generators() -> None:
    @jaxtyped
    @dataclass
    class Sized:
        size: int

        @jaxtyped
        @classmethod
        def of(cls, text: str) -> Sized:
            return cls(len(text))

        @jaxtyped
        @property
        def half(self) -> int:
            return self.size / 2  # type: ignore[return-value]

    @jaxtyped
    def counted(most: int) -> Iterator[int]:
        yield from range(most)

    assert Sized.of("ab").size == 2 and list(counted(2)) == [0, 1]
    for wrong in (lambda: Sized("2"), lambda: Sized.of(2), lambda: Sized(3).half):  # type: ignore[arg-type]
        with pytest.raises(BeartypeCallHintViolation):
            wrong()
    with pytest.raises(TypeCheckError):
        counted("2")  # type: ignore[arg-type]


def test_what_only_a_static_checker_can_resolve_may_be_anything() -> None:
    @jaxtyped
    def lenient(x: Unknown, y: int) -> Unknown:  # type: ignore[name-defined]
        return x

    assert lenient("x", 1) == "x"
    with pytest.raises(BeartypeCallHintViolation):
        lenient("x", "1")


def test_the_package_is_checked() -> None:
    layer = FeedForward(8, 16)
    assert layer(torch.ones(2, 3, 8)).shape == (2, 3, 8)
    for wrong in (torch.ones(2, 3, 8).int(), [1.0]):
        with pytest.raises(BeartypeCallHintViolation):
            layer(wrong)
