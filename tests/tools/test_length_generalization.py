"""Both models are trained and asked for strings of every length."""

from tools import length_generalization


def test_it_prints_a_row_for_each_model(capsys):
    assert length_generalization.main(["--tasks", "copy", "--steps", "2", "--count", "3"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[:2] for row in rows] == [["copy", "transformer"], ["copy", "universal"]]
    shares = [float(cell) for row in rows for cell in row.split()[2:7]]
    assert len(shares) == 2 * len(length_generalization.LENGTHS) and all(0 <= share <= 1 for share in shares)
    assert 1 < float(rows[1].split()[7]) <= 5  # of at most four steps, and what was left
