/**
 * Shows what a server asks in the middle of a call to the person who answers.
 *
 * 1. Everything is shown, even what is cut elsewhere, since nobody answers what they have not read. The server's text
 *    is made visible.
 * 2. A page is shown with its whole host first; the command never opens it.
 * 3. Labels are only ours. A server's names stand quoted behind them, and no text of a server looks like one of our
 *    lines.
 */
import type { InputPause } from '../../contracts/schemas/request.ts';
import type { FormField, InputRequest } from '../../contracts/schemas/input.ts';
import { quoted, spaced, visible } from '../../domain/text/escape.ts';

type Row = readonly [string, string | undefined];

export function inputRows({ requests, round, held }: InputPause): Row[] {
  return [
    ['asks', `the server asks before it goes on (round ${round}); what is answered goes to it, and to nobody else`],
    ['connection', held && 'open: the server waits, and is told no answer where nobody has answered by the deadline'],
    ...Object.entries(requests).flatMap(([key, request]) => requestRows(key, request)),
  ];
}

function requestRows(key: string, request: InputRequest): Row[] {
  const question: Row = ['question', `${quoted(key)}: ${spaced(request.message)}`];
  if (request.kind === 'url')
    return [
      question,
      ['host', visible(request.host)],
      ['page', `${visible(request.url)} [open it yourself where you trust its host, then answer with --accept]`],
    ];
  return [
    question,
    ...Object.entries(request.fields).map(([field, shape]): Row => [
      'field',
      `${quoted(field)}: ${fieldText(shape, request.required.includes(field))}`,
    ]),
  ];
}

function fieldText(field: FormField, isRequired: boolean): string {
  const parts = [
    isRequired ? 'required' : 'optional',
    kindText(field),
    field.title === undefined ? undefined : quoted(field.title),
    field.description === undefined ? undefined : quoted(field.description),
    field.default === undefined ? undefined : `proposed: ${proposedText(field.default)}`,
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

function proposedText(value: NonNullable<FormField['default']>): string {
  if (typeof value === 'object') return value.map(quoted).join(', ');
  return typeof value === 'string' ? quoted(value) : String(value);
}

function kindText(field: FormField): string {
  switch (field.type) {
    case 'text':
      return `${field.format ?? 'text'}${rangeText(field.minLength, field.maxLength, ' characters')}`;
    case 'number':
    case 'integer':
      return `${field.type}${rangeText(field.minimum, field.maximum, '')}`;
    case 'boolean':
      return 'true or false';
    case 'choice':
      return `one of ${optionsText(field.options)}`;
    case 'choices':
      return `some of ${optionsText(field.options)}${rangeText(field.minItems, field.maxItems, ' of them')}`;
  }
}

function rangeText(least: number | undefined, most: number | undefined, unit: string): string {
  if (least === undefined && most === undefined) return '';
  if (least === undefined) return `, at most ${most}${unit}`;
  return most === undefined ? `, at least ${least}${unit}` : `, ${least} to ${most}${unit}`;
}

function optionsText(options: readonly { readonly value: string; readonly title?: string | undefined }[]): string {
  return options
    .map(({ value, title }) => (title === undefined ? quoted(value) : `${quoted(value)} (${quoted(title)})`))
    .join(' | ');
}
