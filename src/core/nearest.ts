/** Finds the word that a typing error most likely stands for. */

/** The word that a typing error most likely stands for; undefined if none is near. */
export function nearestWord(word: string, words: readonly string[]): string | undefined {
  const [nearest] = words
    .map((one) => ({ one, distance: one.startsWith(word) ? 0.5 : editDistance(word, one) }))
    .sort((a, b) => a.distance - b.distance);
  return nearest !== undefined && nearest.distance <= Math.max(2, word.length / 3) ? nearest.one : undefined;
}

/** Number of letters to insert, delete or replace (Levenshtein). */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...b].entries()) {
      const replaced = (row[j] as number) + (letter === other ? 0 : 1);
      next.push(Math.min((next[j] as number) + 1, (row[j + 1] as number) + 1, replaced));
    }
    row = next;
  }
  return row.at(-1) as number;
}
