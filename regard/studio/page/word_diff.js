// A word diff: which words of a text are new.

const MOST = 400; // words; longer texts are not compared

/** The words of `now`, and the spaces between them, as [{text, fresh}]; `fresh` words are not in `before`. */
export function diffWords(before, now) {
  const parts = now.split(/(\s+)/).filter((part) => part !== "");
  const words = parts.filter((part) => part.trim());
  const old = before === null ? null : before.split(/\s+/).filter(Boolean);
  const kept = old && old.length <= MOST && words.length <= MOST ? common(old, words) : null;
  let at = 0;
  return parts.map((text) => ({ text, fresh: Boolean(text.trim()) && kept !== null && !kept[at++] }));
}

/** For each word, whether it is part of the longest common subsequence. */
function common(old, words) {
  const lengths = Array.from({ length: old.length + 1 }, () => new Uint16Array(words.length + 1));
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = words.length - 1; j >= 0; j--)
      lengths[i][j] = old[i] === words[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  const kept = words.map(() => false);
  for (let i = 0, j = 0; i < old.length && j < words.length; ) {
    if (old[i] === words[j]) [kept[j], i, j] = [true, i + 1, j + 1];
    else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++;
    else j++;
  }
  return kept;
}
