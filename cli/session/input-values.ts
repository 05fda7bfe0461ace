/**
 * Turns words of the command line into answers to a server's questions. It gives them their types; the run checks
 * whether they fit.
 */
import type { FormField, FormValue, InputRequests, InputResponse } from '../../contracts/schemas/input.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import { named } from '../../domain/text/escape.ts';
import { changedNumber } from '../../domain/text/written-json.ts';
import { usage } from './options.ts';

export interface Words {
  /** `field=value`, or `question.field=value` if there are several questions. */
  readonly set?: readonly string[];
  /** Content of a file: the fields of the only form, or the fields of each form by its question. */
  readonly content?: unknown;
  /** Says that pages were opened, and sends forms without a value as empty ones. */
  readonly accept?: boolean;
}

export function responsesFrom(requests: InputRequests, words: Words): Record<string, InputResponse> {
  const forms = Object.keys(requests).filter((key) => requests[key]?.kind === 'form');
  const contents = new Map<string, Record<string, FormValue>>(contentsOf(forms, words.content));
  for (const word of words.set ?? []) {
    const { key, name, value } = placed(requests, forms, word);
    const content = contents.get(key) ?? {};
    const before = content[name];
    // A repeated word adds one more value to a field of several options.
    content[name] = Array.isArray(value) && Array.isArray(before) ? [...before, ...value] : value;
    contents.set(key, content);
  }
  return Object.fromEntries(
    Object.entries(requests).flatMap(([key, { kind }]): [string, InputResponse][] => {
      const content = contents.get(key) ?? (kind === 'form' && words.accept === true ? {} : undefined);
      if (content !== undefined) return [[key, { action: 'accept', content }]];
      // A page counts as opened only if the user says so.
      return kind === 'url' && words.accept === true ? [[key, { action: 'accept' }]] : [];
    }),
  );
}

function contentsOf(forms: readonly string[], content: unknown): [string, Record<string, FormValue>][] {
  if (content === undefined) return [];
  const [only, ...others] = forms;
  if (!isFields(content)) throw usage('The file must hold an object with the fields of the form. Nothing was sent.');
  // Sound: the run refuses a value that does not fit, by the name of the field.
  const fields = (value: unknown): Record<string, FormValue> => ({ ...(value as Record<string, FormValue>) });
  const byQuestion = Object.keys(content).length > 0 && Object.keys(content).every((key) => forms.includes(key));
  if (byQuestion && Object.values(content).every(isFields))
    return Object.entries(content).map(([key, value]) => [key, fields(value)]);
  if (only !== undefined && others.length === 0) return [[only, fields(content)]];
  throw usage(
    `The file must hold the fields of each form by its question: ${forms.map(named).join(', ')}. Nothing was sent.`,
  );
}

function placed(requests: InputRequests, forms: readonly string[], word: string) {
  const at = word.indexOf('=');
  if (at < 1) throw usage('--set takes field=value. Nothing was sent.');
  const path = word.slice(0, at);
  const text = word.slice(at + 1);
  const known = forms.flatMap((key) => {
    const request = requests[key];
    return request?.kind === 'form'
      ? Object.entries(request.fields).map(([name, field]) => ({ key, name, field }))
      : [];
  });
  const found =
    known.find(({ key, name }) => path === `${key}.${name}`) ??
    known.find(({ name }) => forms.length === 1 && path === name);
  if (found !== undefined) return { key: found.key, name: found.name, value: typed(found.field, text) };
  const asked = known.map(({ key, name }) => named(`${key}.${name}`)).join(', ') || 'no fields';
  throw usage(`The server asks for no ${named(path)}; it asks for: ${asked}. Nothing was sent.`);
}

/** Converts numbers and booleans. Any other text stays text, which the run refuses by the name of the field. */
function typed(field: FormField, text: string): FormValue {
  switch (field.type) {
    case 'text':
    case 'choice':
      return text;
    case 'number':
    case 'integer':
      return text.trim() !== '' && Number.isFinite(Number(text)) && changedNumber(text) === undefined
        ? Number(text)
        : text;
    case 'boolean':
      return text === 'true' || (text === 'false' ? false : text);
    case 'choices':
      return [text];
  }
}
