/** Words of commands that we print: people copy them into a shell. */
import { visible } from './escape.ts';

/** Writes a foreign name as one word of a shell, since people copy what we print (POSIX.1 §2.2.2). */
export function shellWord(text: string): string {
  const shown = visible(text);
  return /^[\w@%+=:,./-]+$/.test(shown) ? shown : `'${shown.replaceAll("'", "'\\''")}'`;
}

/** Writes it as the last word of a command: one that begins with a dash would be taken for an option. */
export function lastWord(text: string): string {
  return `${text.startsWith('-') ? '-- ' : ''}${shellWord(text)}`;
}
