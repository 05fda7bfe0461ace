/**
 * Shows the form by which a person approves other arguments.
 *
 * 1. Names and words of a schema are the server's: shown as foreign text, never as markup.
 * 2. A value stands in its field exactly, or as JSON with escapes.
 * 3. Everything works without JavaScript: another item of a list is a form that comes back with one more field.
 */
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { visible } from '../../../domain/text/escape.ts';
import { own } from '../kit/diff.ts';
import { asciiJson, foreign, foreignBlock, isObject } from '../kit/faithful.ts';
import { hidden, problemView } from '../kit/layout.ts';
import { type Html, markup, type Shown } from '../kit/markup.ts';
import type { Problem } from './read.ts';
import { type EditForm, type Field, type Lengths, MOST_ITEMS } from './schema.ts';
import { MOST_LEVELS } from './shapes.ts';

export interface Filled {
  /** What was typed, by the names of fields; absent in a form that is fresh. */
  readonly typed?: Readonly<Record<string, string>>;
  readonly problems?: ReadonlyMap<string, Problem>;
}

export function lengthsIn(typed: Readonly<Record<string, string | undefined>>): Lengths {
  return (id) => {
    const text = typed[`${id}.length`];
    return text !== undefined && /^\d{1,3}$/.test(text) ? Number(text) : undefined;
  };
}

export function editFields({ fields, isOpen }: EditForm, filled: Filled): Html {
  const shown = fields.filter((field) => field.before !== undefined || field.isRequired);
  const absent = fields.filter((field) => field.before === undefined && !field.isRequired);
  const view = new View(filled);
  const isOpened = absent.some((field) => view.isTouched(field));
  return markup`${shown.map((field) => view.field(field, true))}
  ${
    absent.length > 0 &&
    markup`<details class="fold" ${isOpened && markup` open`}>
      <summary>${absent.length} more that may stay out</summary>
      <div class="fields">${absent.map((field) => view.field(field, false))}</div>
    </details>`
  }
  ${isOpen && view.more()}`;
}

/**
 * Fills the form with other arguments: those that a run has refused.
 * @param make makes the form with so many items in its lists
 */
export function filledWith(make: (lengths: Lengths) => EditForm, values: JsonObject): Readonly<Record<string, string>> {
  let typed: Readonly<Record<string, string>> = {};
  // Each pass finds the lengths of the lists one level deeper.
  for (let level = 0; level < MOST_LEVELS; level += 1) typed = fillOnce(make(lengthsIn(typed)), values);
  return typed;
}

function fillOnce({ fields }: EditForm, values: JsonObject): Readonly<Record<string, string>> {
  const names = new Set(fields.map(({ name }) => name));
  const more = Object.fromEntries(Object.entries(values).filter(([name]) => !names.has(name)));
  const typed: [string, string][] = fields.flatMap((field) => entriesOf(field, own(values, field.name)));
  return { ...Object.fromEntries(typed), ...(Object.keys(more).length > 0 ? { more: asciiJson(more) } : {}) };
}

function entriesOf(field: Field, value: JsonValue | undefined): [string, string][] {
  const { id, shape, inner } = field;
  if (value === undefined && field.isOmissible) return [[`${id}.omit`, 'on']];
  if (shape.kind === 'object')
    return inner.flatMap((each) => entriesOf(each, isObject(value) ? own(value, each.name) : undefined));
  if (shape.kind === 'list') {
    const items: readonly JsonValue[] = Array.isArray(value) ? value : [];
    return [[`${id}.length`, String(items.length)], ...inner.flatMap((each, index) => entriesOf(each, items[index]))];
  }
  return [[id, textOf(field, value)]];
}

function textOf({ shape, before }: Field, value: JsonValue | undefined): string {
  if (value === undefined || (value === null && shape.isNullable === true)) return '';
  if (shape.kind === 'choice') {
    const at = shape.options.findIndex((option) => isSame(option.value, value));
    if (at >= 0) return String(at);
    return before !== undefined && isSame(before, value) ? 'as proposed' : '';
  }
  if (shape.kind === 'text' && typeof value === 'string') return value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : asciiJson(value);
}

function isSame(one: JsonValue, other: JsonValue): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

class View {
  readonly #typed: Readonly<Record<string, string>> | undefined;
  readonly #problems: ReadonlyMap<string, Problem>;

  constructor({ typed, problems = new Map() }: Filled) {
    this.#typed = typed;
    this.#problems = problems;
  }

  /** True if something was typed into a field that was empty, or does not fit there. */
  isTouched({ id, inner }: Field): boolean {
    return this.#problems.has(id) || (this.#typed?.[id] ?? '') !== '' || inner.some((each) => this.isTouched(each));
  }

  /** @param isNeeded false inside of an object that may stay out */
  field(field: Field, isNeeded: boolean): Html {
    const { id, shape } = field;
    if (shape.kind === 'object' || shape.kind === 'list')
      return markup`<fieldset class="field"${this.#described(id, hasHelp(shape))}>
        <legend>${this.#name(field)}</legend>
        ${this.#help(field)} ${shape.kind === 'list' ? this.#items(field) : this.#members(field, isNeeded)}
        ${problemView(id, this.#problems.get(id)?.reason)} ${this.#omit(field)}
      </fieldset>`;
    return markup`<div class="field">
      <label for="${id}">${this.#name(field)}</label>
      ${this.#help(field)} ${this.#control(field, isNeeded && field.isRequired)} ${problemView(id, this.#problems.get(id)?.reason)}
      ${this.#omit(field)}
    </div>`;
  }

  more(): Html {
    return markup`<div class="field">
      <label for="more"><span class="field-name">More arguments</span> <span class="note">JSON object, may stay empty</span></label>
      <textarea id="more" name="more" rows="1"${this.#described('more', false)}>${LINE}${this.#typed?.['more'] ?? ''}</textarea>
      ${problemView('more', this.#problems.get('more')?.reason)}
    </div>`;
  }

  #name({ name, shape, isRequired, before }: Field): Html {
    return markup`<span class="field-name">${foreign(nameText(name))}</span>
      <span class="note"
        >${shape.title !== undefined && shape.title !== name && [foreign(shape.title), ', ']}${kindWords(shape)}${isRequired ? ', required' : before === undefined && ', may stay out'}</span
      >`;
  }

  #help({ id, shape }: Field): Shown {
    if (!hasHelp(shape)) return undefined;
    const { description, notes } = shape;
    return markup`<div class="help" id="${id}.help">
      ${description !== undefined && foreignBlock(description)}${notes.map((note) => markup`<p>${foreign(note)}</p>`)}
    </div>`;
  }

  #described(id: string, isHelped: boolean): Html {
    const isWrong = this.#problems.has(id);
    const by = [...(isHelped ? [`${id}.help`] : []), ...(isWrong ? [`${id}.problem`] : [])].join(' ');
    return markup`${by !== '' && markup` aria-describedby="${by}"`}${isWrong && markup` aria-invalid="true"`}`;
  }

  #omit({ id, isOmissible, name }: Field): Shown {
    if (!isOmissible) return undefined;
    return markup`<label class="line omit"><input type="checkbox" name="${id}.omit" aria-label="leave out ${shownName(name)}" ${this.#typed?.[`${id}.omit`] === 'on' && markup` checked`} />
      leave out</label>`;
  }

  #members({ inner, before, isRequired }: Field, isNeeded: boolean): Html {
    const isThere = isNeeded && (before !== undefined || isRequired);
    return markup`<div class="fields">${inner.map((each) => this.field(each, isThere))}</div>`;
  }

  #items({ id, inner, name }: Field): Html {
    return markup`${hidden(`${id}.length`, inner.length)}
      <div class="fields">${inner.map((each) => this.field(each, false))}</div>
      ${
        inner.length < MOST_ITEMS &&
        markup`<button class="button small" name="add" value="${id}" formnovalidate aria-label="Add an item to ${shownName(name)}">Add an item</button>`
      }`;
  }

  /** One function, because it is one table of kinds. */
  #control(field: Field, isRequired: boolean): Html {
    const { id, shape, before } = field;
    const text = this.#typed?.[id] ?? (this.#typed === undefined ? textOf(field, before) : '');
    const needed = isRequired && shape.isNullable !== true && before !== '' && markup` required`;
    const common = markup`id="${id}" name="${id}"${this.#described(id, hasHelp(shape))}`;
    switch (shape.kind) {
      case 'number':
        // A browser counts steps from `min`, which a schema does not: the server checks them.
        return markup`<input ${common} type="number" step="any"${bound('min', shape.least)}${bound('max', shape.most)} value="${text}"${needed} />`;
      case 'boolean':
        if (typeof before !== 'boolean')
          return markup`<select ${common}${needed}>
            <option value=""></option>
            ${['true', 'false'].map((word) => markup`<option${text === word && markup` selected`}>${word}</option>`)}
          </select>`;
        return markup`<span class="line"
          >${hidden(id, 'false')}<input ${common} type="checkbox" value="true" ${text === 'true' && markup` checked`} />
          yes</span
        >`;
      case 'choice':
        return markup`<select ${common}${needed}>
          ${(before === undefined || shape.isNullable === true) && markup`<option value=""></option>`}
          ${textOf(field, before) === 'as proposed' && markup`<option value="as proposed"${text === 'as proposed' && markup` selected`}>${optionText(before)} (as proposed)</option>`}
          ${shape.options.map((option, index) => markup`<option value="${index}"${text === String(index) && markup` selected`}>${option.title === undefined ? optionText(option.value) : visible(option.title)}</option>`)}
        </select>`;
      case 'text':
        // No `input`: it would drop line breaks, and one for mail or addresses spaces, and spell hosts anew. No
        // lengths: a browser counts UTF-16 units, and cuts what is pasted. The server counts characters.
        return markup`<textarea ${common} inputmode="${shape.keyboard}" rows="${rowsOf(text)}"${needed}>${LINE}${text}</textarea>`;
      case 'json':
      case 'object':
      case 'list':
        return markup`<textarea ${common} rows="${rowsOf(text)}" spellcheck="false"${needed}>${LINE}${text}</textarea>`;
    }
  }
}

function hasHelp({ description, notes }: Pick<Field['shape'], 'description' | 'notes'>): boolean {
  return description !== undefined || notes.length > 0;
}

const NAME_CHARACTERS = 120;

export function nameText(name: string, most = NAME_CHARACTERS): string {
  return name.length <= most ? name : `${name.slice(0, most)}…`;
}

function shownName(name: string): string {
  return visible(nameText(name));
}

/** A browser drops the first line break of a text field: this one, and not the text's own. */
export const LINE = '\n';
const MOST_ROWS = 8;
const LINE_CHARACTERS = 48;

export function rowsOf(text: string): number {
  const rows = text.split('\n').reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / LINE_CHARACTERS)), 0);
  return Math.min(MOST_ROWS, rows);
}

export function bound(name: 'min' | 'max' | 'minlength', value: number | undefined): Shown {
  // Sound: the name is one of ours.
  return value !== undefined && markup` ${name}="${value}"`;
}

function optionText(value: JsonValue | undefined): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value ?? null);
  return shownName(text) || '(empty)';
}

function kindWords(shape: Field['shape']): string {
  const beside = shape.isNullable === true ? ' or null' : '';
  switch (shape.kind) {
    case 'text':
      return `text${ranged(shape.least, shape.most, ' characters')}${beside}`;
    case 'number':
      return `${shape.isWhole ? 'whole number' : 'number'}${ranged(shape.least, shape.most, '')}${shape.above === undefined ? '' : `, more than ${shape.above}`}${shape.below === undefined ? '' : `, less than ${shape.below}`}${beside}`;
    case 'boolean':
      return `yes or no${beside}`;
    case 'choice':
      return `one of ${shape.options.length}${beside}`;
    case 'object':
      return 'object';
    case 'list':
      return `list${ranged(shape.least, shape.most, ' items')}`;
    case 'json':
      return 'JSON';
  }
}

export function ranged(least: number | undefined, most: number | undefined, unit: string): string {
  if (least !== undefined && most !== undefined) return `, ${least} to ${most}${unit}`;
  if (least !== undefined) return `, at least ${least}${unit}`;
  return most === undefined ? '' : `, at most ${most}${unit}`;
}
