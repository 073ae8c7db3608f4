"""The peer transformers on the CPU: `generate` with the weights of one of our models, float32.

`python _transformers.py FOLDER THREADS` translates standard input, where FOLDER is what `save` wrote. The script
imports nothing of ours.
"""

from __future__ import annotations

import sys
from pathlib import Path

BATCH = 32


def save(name: str, folder: Path) -> Path:
    """Writes one of our models and its tokenizer for the script."""
    from transformers.utils import logging

    from regard.bench._marian import marian_like
    from regard.loading import find_model, read_model
    from regard.storage import read_folder

    logging.disable_progress_bar()
    _, tokenizer, model = read_model(read_folder(find_model(name)))
    marian_like(model.eval()).save_pretrained(folder)
    for file, content in tokenizer.files().items():
        Path(folder, file).write_bytes(content)
    return folder


def script(folder: Path, threads: int) -> list[str]:
    """The command that translates standard input."""
    from regard.child_process import bare_python  # here: the script imports nothing of ours

    return bare_python(__file__, str(folder), str(threads))


def translate(folder: str, threads: int) -> None:
    """Standard input, sorted by length, 32 lines at a time, with a beam of 4."""
    import sentencepiece
    import torch
    from transformers import AutoModelForSeq2SeqLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.set_num_threads(threads)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder, "tokenizer.model")))
    lines = sys.stdin.buffer.read().decode().removesuffix("\n").split("\n")
    sources = [[*ids, model.config.eos_token_id] for ids in pieces.encode(lines)]
    order = sorted(range(len(lines)), key=lambda i: len(sources[i]))
    texts = [""] * len(lines)
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        longest = max(len(sources[i]) for i in chosen)
        ids = torch.full((len(chosen), longest), model.config.pad_token_id)
        for row, i in enumerate(chosen):
            ids[row, : len(sources[i])] = torch.tensor(sources[i])
        with torch.inference_mode():
            found = model.generate(
                input_ids=ids,
                attention_mask=(ids != model.config.pad_token_id).long(),
                num_beams=4,
                do_sample=False,
                max_new_tokens=2 * longest + 20,
            )
        skipped = {model.config.pad_token_id, model.config.eos_token_id, model.config.decoder_start_token_id}
        for i, row in zip(chosen, found.tolist()):
            texts[i] = pieces.decode([token for token in row if token not in skipped])
    sys.stdout.buffer.write("".join(f"{text}\n" for text in texts).encode())


if __name__ == "__main__":
    translate(sys.argv[1], int(sys.argv[2]))
