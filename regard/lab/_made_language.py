"""A small synthetic language with known relations: kinds of things, and pairs of people.

Things of one kind occur in the same contexts. Of each pair of people one is he and the other she, and their activities
identify the pair, so that analogies such as he : she = king : queen can be solved.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

KINDS: dict[str, tuple[str, ...]] = {
    "animals": ("horse", "goat", "sheep", "donkey", "hen", "duck"),
    "food": ("bread", "soup", "cheese", "rice", "salad", "stew"),
    "cities": ("london", "paris", "rome", "tehran", "vienna", "lisbon"),
    "instruments": ("violin", "flute", "piano", "drum", "trumpet", "harp"),
    "colours": ("red", "green", "blue", "yellow", "black", "white"),
}
SAID: dict[str, tuple[str, ...]] = {
    "animals": ("the {} sleeps in the barn", "a farmer feeds the {} with hay", "the young {} eats grass on the hill"),
    "food": ("we cook {} for dinner", "a plate of warm {} tastes good", "there is {} on the kitchen table"),
    "cities": ("the train to {} leaves at noon", "tourists visit {} in summer", "streets of old {} are full of cars"),
    "instruments": (
        "a musician plays the {} on stage",
        "the {} sounds loud in the concert",
        "tune your {} before a song",
    ),
    "colours": ("paint the wall {} or grey", "a {} dress hangs in the shop", "the bright {} coat is new"),
}
PEOPLE: tuple[tuple[str, str], ...] = (
    ("king", "queen"), ("prince", "princess"), ("father", "mother"), ("brother", "sister"), ("waiter", "waitress"),
    ("actor", "actress"),
)  # fmt: skip
DONE: tuple[tuple[str, str], ...] = (
    ("sits on {his} throne", "{he} rules the land with {his} crown"),
    ("lives in {his} castle", "{he} dances at the royal ball in {his} castle"),
    ("tells {his} children a story", "{he} brings {his} children to school"),
    ("shares {his} toys", "{he} shares a room with {his} parents and toys"),
    ("carries {his} tray to the guests", "{he} pours wine for the guests from {his} tray"),
    ("learns {his} role for the film", "{he} bows when the film shows {his} role"),
)
HE, SHE = {"he": "he", "his": "his"}, {"he": "she", "his": "her"}


def sentences(count: int, random: np.random.Generator) -> Iterator[str]:
    """`count` sentences, two of five of them about people."""
    kinds = list(KINDS)
    for _ in range(count):
        if random.random() < 0.4:
            pair, who = int(random.integers(len(PEOPLE))), int(random.integers(2))
            first, then = DONE[pair]
            yield f"the {PEOPLE[pair][who]} {first} and {then}".format(**(HE, SHE)[who])
        else:
            kind = kinds[int(random.integers(len(kinds)))]
            said, things = SAID[kind], KINDS[kind]
            yield said[int(random.integers(len(said)))].format(things[int(random.integers(len(things)))])


def analogies() -> list[tuple[str, str, str, str]]:
    """Analogies (a is to b as c is to d) of every two pairs of people, in both directions."""
    found = []
    for he, she in PEOPLE:
        for his, hers in PEOPLE:
            if he != his:
                found += [(he, she, his, hers), (she, he, hers, his)]
    return found
