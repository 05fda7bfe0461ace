/**
 * Globs are names in which `*` stands for any characters, none included. Time is bounded by the product of both
 * lengths.
 */

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

/**
 * True if `wide` matches every name that `narrow` matches. A star of `narrow` becomes a character that only a star of
 * `wide` can take.
 */
export function globCovers(wide: string, narrow: string): boolean {
  return globMatches(wide, narrow.replaceAll('*', '\u0000'));
}

/** Splits `server/tool`: a server's name has no slash, a tool's may. */
export function splitTool(qualified: string): { readonly server: string; readonly tool: string } {
  const at = qualified.indexOf('/');
  return { server: qualified.slice(0, at), tool: qualified.slice(at + 1) };
}
