/** Globs: `*` stands for any characters, none included. Time is bounded by the product of both lengths. */

export function globMatches(glob: string, name: string): boolean {
  let at = 0;
  let inName = 0;
  let star = -1;
  let resume = 0;
  while (inName < name.length) {
    if (glob[at] === '*') {
      star = at;
      at += 1;
      resume = inName;
    } else if (glob[at] === name[inName]) {
      at += 1;
      inName += 1;
    } else if (star === -1) {
      return false;
    } else {
      // The last star takes one more character.
      at = star + 1;
      resume += 1;
      inName = resume;
    }
  }
  while (glob[at] === '*') at += 1;
  return at === glob.length;
}

/** True if `wide` matches all that `narrow` does: a star of `narrow` becomes a character that only a star takes. */
export function globCovers(wide: string, narrow: string): boolean {
  return globMatches(wide, narrow.replaceAll('*', '\u0000'));
}

/** Splits `server/tool`: a server's name has no slash, a tool's may. */
export function splitTool(qualified: string): { readonly server: string; readonly tool: string } {
  const at = qualified.indexOf('/');
  return { server: qualified.slice(0, at), tool: qualified.slice(at + 1) };
}

/** Longest possible model name; the wanted name may be any text. */
const MOST_CHARACTERS = 64;
const MOST_EDITS = 2;
/** Bounds of the work for a hint, which is worth little: names looked at in a large catalog, and distances computed. */
const MOST_LOOKED_AT = 4_000;
const MOST_COMPARED = 500;

/** Returns the names that a model may have meant: those within two edits or sharing a word, nearest first. */
export function nearNames(wanted: string, known: readonly string[], most = 3): string[] {
  const asked = wanted.slice(0, MOST_CHARACTERS).toLowerCase();
  const words = wordsOf(asked);
  return (
    known
      .slice(0, MOST_LOOKED_AT)
      .map((name) => ({ name, isRelated: wordsOf(name).some((word) => words.includes(word)) }))
      // Names whose lengths differ by more are at least as many edits apart.
      .filter(({ name, isRelated }) => isRelated || Math.abs(name.length - wanted.length) <= MOST_EDITS)
      // In a large catalog, those that share a word come before those that are merely as long.
      .toSorted((one, other) => Number(other.isRelated) - Number(one.isRelated))
      .slice(0, MOST_COMPARED)
      .map((each) => ({ ...each, distance: editDistance(asked, each.name.toLowerCase()) }))
      .filter(({ isRelated, distance }) => isRelated || distance <= MOST_EDITS)
      .toSorted((a, b) => a.distance - b.distance)
      .slice(0, most)
      .map(({ name }) => name)
  );
}

function wordsOf(name: string): string[] {
  return name
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word.length > 2);
}

/** Returns the Levenshtein distance of the first `MOST_CHARACTERS` characters. */
function editDistance(a: string, right: string): number {
  const b = right.slice(0, MOST_CHARACTERS);
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
