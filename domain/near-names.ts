/** Names that a model may have meant: those within two edits or sharing a word, nearest first. */
export function nearNames(wanted: string, known: readonly string[], most = 3): string[] {
  const words = wordsOf(wanted);
  return known
    .map((name) => ({ name, distance: editDistance(wanted.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, distance }) => distance <= 2 || wordsOf(name).some((word) => words.includes(word)))
    .toSorted((a, b) => a.distance - b.distance)
    .slice(0, most)
    .map(({ name }) => name);
}

function wordsOf(name: string): string[] {
  return name
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word.length > 2);
}

/** Levenshtein distance; inputs are cut to 64 characters, the longest a model name can be. */
function editDistance(left: string, right: string): number {
  const a = left.slice(0, 64);
  const b = right.slice(0, 64);
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const cost = a[row - 1] === b[column - 1] ? 0 : 1;
      // Sound: both rows have b.length + 1 numbers, and column stays within them.
      const above = previous[column] as number;
      const diagonal = previous[column - 1] as number;
      current.push(Math.min(above + 1, (current[column - 1] as number) + 1, diagonal + cost));
    }
    previous = current;
  }
  // Sound: as above.
  return previous[b.length] as number;
}
