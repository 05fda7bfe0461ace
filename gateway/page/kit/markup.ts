/**
 * Makes HTML from templates in which every value is escaped, unless it is HTML made here.
 *
 * 1. No template takes foreign text into a tag name, a script or a style; attributes are always quoted.
 * 2. Foreign text goes through `gateway/page/kit/faithful.ts`, which shows what a browser would hide.
 */

const made = new WeakSet<Html>();

export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
    made.add(this);
  }
}

export type Shown = Html | string | number | false | undefined | readonly Shown[];

/** Tag of a template: `markup`<p>${text}</p>``. `false` and `undefined` are left out; lists are joined. */
export function markup(parts: TemplateStringsArray, ...values: readonly Shown[]): Html {
  return new Html(parts.reduce((text, part, index) => `${text}${escaped(values[index - 1])}${part}`));
}

function escaped(value: Shown): string {
  if (value === undefined || value === false) return '';
  if (value instanceof Html) return made.has(value) ? value.text : '';
  if (typeof value === 'string') return escapeText(value);
  if (typeof value === 'number') return String(value);
  return value.map(escaped).join('');
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** A text that stands between tags, and never in an attribute: its quotes need no escape. */
export function plainText(text: string): Html {
  return new Html(text.replaceAll(/[&<>]/g, (char) => ENTITIES[char] ?? ''));
}

function escapeText(text: string): string {
  return text.replaceAll(/[&<>"']/g, (char) => ENTITIES[char] ?? '');
}
