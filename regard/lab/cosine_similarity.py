"""Dot product and cosine of two vectors: what they measure, and the range of the cosine.

A slide says 0 to 1. That holds for vectors without negative entries, such as rows of counts, which are the control
here, but not in general: vectors in opposite directions have a cosine of -1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from regard.data.vectors.near import cosine, dot
from regard.lab._drawing import PALETTE, label_ends, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict
from regard.lab.co_occurrence import WORDS, counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CosineSimilarity"]

PAIRS = {"tiny": 200, "small": 5000, "full": 50_000}
WIDTHS = (2, 3, 10, 100)
LENGTHS = (0.01, 0.5, 3.0, 1000.0)
"""Factors that show what depends on the length of a vector."""
EXACT = 1e-9


class CosineSimilarity(Experiment):
    claim = "The cosine says how alike two vectors point, whatever their lengths, and lies between 0 and 1."
    lecture = "F7"
    threshold = (
        "Multiplying either vector by 0.01 to 1000 changes no cosine by more than 1e-9 (the dot product by as much as "
        "the vector); a vector has cosine 1 with itself and 0 with one at a right angle; and all cosines are between 0 "
        "and 1. Rows of counts, which are never negative, are the control: for them all of this must be so."
    )
    code = ("regard.data.vectors.near.dot", "regard.data.vectors.near.cosine")

    def run(self, size: str, setting: Setting) -> Numbers:
        random = np.random.default_rng(setting.seed)
        groups = []
        for done, width in enumerate(WIDTHS, 1):
            pairs = [(random.standard_normal(width), random.standard_normal(width)) for _ in range(PAIRS[size])]
            groups.append({"vectors": f"random, {width} wide"} | measured(pairs))
            setting.progress(done, len(WIDTHS), "multiplying")
        rows = np.array(counted(window=1))
        pairs = [(rows[i], rows[j]) for i in range(len(rows)) for j in range(i)]
        groups.append({"vectors": "counts of words"} | measured(pairs))
        like, enjoy = rows[WORDS.index("like")], rows[WORDS.index("enjoy")]
        turned = [2 * math.pi * step / 72 for step in range(37)]
        return {
            "groups": groups,
            "like_and_enjoy": {"dot": dot(like, enjoy), "cosine": cosine(like, enjoy)},
            "turned": {
                "degrees": [5 * step for step in range(37)],
                "cosine": [round(cosine(np.array([1.0, 0.0]), _at(angle, 1.0)), 6) for angle in turned],
                "dot": [round(dot(np.array([1.0, 0.0]), _at(angle, 1.8)), 6) for angle in turned],
            },
        }

    def table(self, numbers: Numbers) -> list[list[str]]:
        rows = [["vectors", "pairs", "least cosine", "greatest", "negative", "changed by length", "with itself, off 1"]]
        for group in numbers["groups"]:
            rows.append(
                [
                    group["vectors"],
                    f"{group['pairs']:,}",
                    f"{group['least']:.3f}",
                    f"{group['greatest']:.3f}",
                    f"{group['negative']:.0%}",
                    f"{group['changed']:.1e}",
                    f"{group['itself']:.1e}",
                ]
            )
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        groups = numbers["groups"]
        exact = all(group[key] <= EXACT for group in groups for key in ("changed", "dot_scales", "itself", "across"))
        least, greatest = (f(group[k] for group in groups) for f, k in ((min, "least"), (max, "greatest")))
        within = least >= -EXACT and greatest <= 1 + EXACT
        (control,) = [group for group in groups if group["vectors"] == "counts of words"]
        return Verdict(
            exact and within and control["least"] >= -EXACT and control["greatest"] <= 1 + EXACT,
            f"lengths change {'nothing' if exact else 'something'}; the cosines of all vectors go from {least:.2f} to "
            f"{greatest:.2f}, those of counts, which are never negative, from {control['least']:.2f} to "
            f"{control['greatest']:.2f}" + ("" if within else ": a cosine lies between -1 and 1, not between 0 and 1"),
        )

    def remark(self, numbers: Numbers) -> str:
        example = numbers["like_and_enjoy"]
        return (
            "In the counts of the three sentences (`regard lab co-occurrence`) the rows of like and enjoy have the "
            f"dot product {example['dot']:g} and the cosine {example['cosine']:.3f}."
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, (turned, spread) = panels(columns=2, width=4.8, height=3.6)
        known = numbers["turned"]
        turned.plot(known["degrees"], known["cosine"], color=PALETTE[0])
        turned.plot(known["degrees"], known["dot"], color=PALETTE[1])
        turned.axhspan(0, 1, color="#f2f0fa", zorder=0)
        turned.set(title="A vector that is turned away", xlabel="degrees between the two", xlim=(0, 180))
        turned.set_xticks([0, 45, 90, 135, 180])
        label_ends(
            turned,
            [(known["cosine"][-1], "cosine", PALETTE[0]), (known["dot"][-1], "dot product,\none 1.8 long", PALETTE[1])],
        )
        places = range(len(numbers["groups"]))
        for place, group in zip(places, numbers["groups"]):
            spread.plot(
                [group["least"], group["greatest"]],
                [place, place],
                color=PALETTE[0],
                linewidth=5,
                solid_capstyle="butt",
            )
        spread.axvspan(0, 1, color="#f2f0fa", zorder=0)
        spread.set_yticks(list(places), [group["vectors"] for group in numbers["groups"]])
        spread.set(title="All cosines", xlabel="from the least to the greatest", xlim=(-1.05, 1.05))
        spread.invert_yaxis()
        return figure


def measured(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Numbers:
    """The smallest and largest cosine of many pairs, and the worst violation of each law."""
    cosines = [cosine(a, b) for a, b in pairs]
    changed = dot_scales = itself = across = 0.0
    for (a, b), usual in zip(pairs[:1000], cosines):
        for factor in LENGTHS:
            changed = max(changed, abs(cosine(factor * a, b) - usual), abs(cosine(a, factor * b) - usual))
            product = factor * dot(a, b)
            dot_scales = max(dot_scales, abs(dot(factor * a, b) - product) / (abs(product) or 1))
        itself = max(itself, abs(cosine(a, a) - 1) if a.any() else 0)
        straight = b - a * (dot(a, b) / (dot(a, a) or 1))  # the component of b orthogonal to a
        if math.sqrt(dot(straight, straight)) > 1e-6:
            across = max(across, abs(cosine(a, straight)))
    return {
        "pairs": len(pairs),
        "least": round(min(cosines), 6),
        "greatest": round(max(cosines), 6),
        "negative": round(sum(c < 0 for c in cosines) / len(cosines), 4),
        "changed": changed,
        "dot_scales": dot_scales,
        "itself": itself,
        "across": across,
    }


def _at(angle: float, length: float) -> np.ndarray:
    return length * np.array([math.cos(angle), math.sin(angle)])
