"""Writes music as a MIDI file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

from regard.data.music import Step
from regard.errors import UserError

TICKS = 480
"""MIDI ticks per step."""
LOUDNESS = 80
SLOWEST, FASTEST = 10, 1000


class Note(NamedTuple):
    """A pitch that sounds from step `start` up to, but not including, `stop`."""

    pitch: int
    start: int
    stop: int


def notes(steps: Sequence[Step]) -> list[Note]:
    """Merges a pitch in successive steps into one note: the data do not tell a held note from a repeated one."""
    found: list[Note] = []
    sounding: dict[int, int] = {}
    for time, step in enumerate([*steps, ()]):
        found += [Note(pitch, sounding.pop(pitch), time) for pitch in sorted(sounding.keys() - set(step))]
        sounding |= {pitch: time for pitch in step if pitch not in sounding}
    return sorted(found, key=lambda note: (note.start, note.pitch))


def midi(steps: Sequence[Step], tempo: float = 90.0) -> bytes:
    """The bytes of a MIDI file with one track. `tempo` is in steps per minute."""
    from mido import Message, MetaMessage, MidiFile, MidiTrack, bpm2tempo

    check_tempo(tempo)
    events = [(note.stop * TICKS, False, note.pitch) for note in notes(steps)]
    events += [(note.start * TICKS, True, note.pitch) for note in notes(steps)]
    track = MidiTrack([MetaMessage("set_tempo", tempo=bpm2tempo(tempo))])
    now = 0
    for time, begins, pitch in sorted(events):  # note_off before note_on at the same time
        kind = "note_on" if begins else "note_off"
        track.append(Message(kind, note=pitch, velocity=LOUDNESS if begins else 0, time=time - now))
        now = time
    track.append(MetaMessage("end_of_track", time=len(steps) * TICKS - now))
    file = io.BytesIO()
    MidiFile(type=0, ticks_per_beat=TICKS, tracks=[track]).save(file=file)
    return file.getvalue()


def check_tempo(tempo: float) -> None:
    if not SLOWEST <= tempo <= FASTEST:
        raise UserError(f"tempo {tempo} is out of range; use {SLOWEST} to {FASTEST} steps a minute")
