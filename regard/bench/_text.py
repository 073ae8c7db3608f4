"""The French text that benchmarks translate: a user's, or a generated one of lines of 4 to about 60 words."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from regard.errors import UserError

SUBJECTS = (
    "le maire",
    "notre voisine",
    "mon frère",
    "la directrice de l'école",
    "un ingénieur du port",
    "le vieux jardinier",
    "la commission",
    "cette étudiante",
    "le médecin du village",
    "ma tante",
    "le gouvernement",
    "une amie de Lyon",
)
VERBS = (
    "a vu",
    "cherche",
    "a perdu",
    "décrit",
    "voulait acheter",
    "n'a jamais compris",
    "montre",
    "a vendu",
    "doit réparer",
    "préfère garder",
)
OBJECTS = (
    "la maison",
    "le rapport sur l'eau",
    "un livre très court",
    "les clés du bureau",
    "la nouvelle route",
    "une photo de son père",
    "le projet des habitants",
    "deux billets de train",
    "la machine",
    "les résultats du vote",
    "un tableau de Rouen",
    "la lettre du ministre",
)
PLACES = ("à Paris", "dans la cuisine", "près de la gare", "au marché", "en Italie", "sous la pluie", "à la mairie")
TIMES = ("hier soir", "en 2019", "chaque matin", "la semaine dernière", "pendant les vacances", "à sept heures")
REASONS = (
    "il n'y avait plus de temps",
    "tout le monde en parlait",
    "le prix avait encore augmenté",
    "personne ne voulait attendre",
    "la loi vient de changer",
    "les routes étaient fermées",
)


class TextFile:
    """A file of lines, translated by several commands."""

    def __init__(self, folder: Path, lines: Sequence[str]):
        self.lines = len(lines)
        self.path = folder / f"{self.lines}.txt"
        self.path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_lines(path: Path) -> list[str]:
    """The lines of a user's text that are not blank."""
    try:
        found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as text ({error})") from None
    if not found:
        raise UserError(f"{path}: holds no sentences")
    return found


def sample(lines: Sequence[str], count: int) -> Sequence[str]:
    """At most `count` of the lines, at equal distances."""
    return lines if len(lines) <= count else [lines[i * len(lines) // count] for i in range(count)]


def made_lines(count: int) -> list[str]:
    """`count` different lines, the same ones in every run."""
    draw = random.Random(0)
    found: dict[str, None] = {}
    while len(found) < count:
        found[_line(draw)] = None
    return list(found)


def _line(draw: random.Random) -> str:
    """One to three clauses, each with or without time, place and reason; some lines are questions."""
    if draw.random() < 0.1:
        return f"Pourquoi {draw.choice(SUBJECTS)} {draw.choice(VERBS)} {draw.choice(OBJECTS)} ?"
    clauses = [_clause(draw) for _ in range(draw.choice((1, 1, 1, 2, 2, 3)))]
    line = ", mais ".join(clauses) if len(clauses) < 3 else f"{clauses[0]}, {clauses[1]} et {clauses[2]}"
    return f"{line[0].upper()}{line[1:]}."


def _clause(draw: random.Random) -> str:
    words = f"{draw.choice(SUBJECTS)} {draw.choice(VERBS)} {draw.choice(OBJECTS)}"
    if draw.random() < 0.5:
        words = f"{words} {draw.choice(PLACES)}"
    if draw.random() < 0.3:
        words = f"{draw.choice(TIMES)}, {words}"
    return f"{words}, parce que {draw.choice(REASONS)}" if draw.random() < 0.3 else words
