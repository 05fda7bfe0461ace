/** Small pieces of lines that people read. */
import { bounded, named, spaced, visible } from '../../domain/escape.ts';

/** Free text of people, models and servers: cut, and inert. */
export function said(text: string): string {
  return bounded(visible(text), 200);
}

/** Of a hash, as much as tells it from others. */
export function short(hash: string): string {
  return `${visible(hash.slice(0, 12))}…`;
}

/** A tool as people read it: its server has named it. */
export function toolText(server: string, tool: string): string {
  return `${named(server)}/${named(tool)}`;
}

/** The same of a memo, in which the name has been made visible already, which does nothing to it a second time, and may be cut. */
export function memoToolText(server: string, tool: string): string {
  const shown = spaced(tool);
  return `${named(server)}/${/^[^\s"\\,;()]+$/u.test(shown) ? shown : `"${shown.replaceAll('"', '\\"')}"`}`;
}

export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

/** A foreign name, cut. */
export function shortName(name: string): string {
  return bounded(named(name), 200);
}

/** Foreign names, as many as fit into a line. */
export function names(list: readonly string[], most = 20): string {
  const shown = list.slice(0, most).map(shortName).join(', ');
  return list.length > most ? `${shown}, and ${list.length - most} more` : shown;
}
