/**
 * Shows the questions of a server as a form, and keeps what a refused form held.
 *
 * 1. Each field says what the server's schema asks of it; whether an answer fits, the run judges.
 * 2. Names and words are the server's: foreign text, never markup.
 */
import type { CountersignError } from '../../contracts/errors.ts';
import type { FormField, InputRequest, InputRequests } from '../../contracts/schemas/input.ts';
import { visible } from '../../domain/text/escape.ts';
import { detailOf } from '../http/problem.ts';
import { bound, LINE, ranged, rowsOf } from './edit/fields.ts';
import { foreign, foreignBlock } from './kit/faithful.ts';
import { problemView, type Typed, wrongField } from './kit/layout.ts';
import { type Html, markup, type Shown } from './kit/markup.ts';

export function fieldPath(key: string, name: string): string {
  return `responses.${key}.content.${name}`;
}

/**
 * What a form of questions held. A list has all that was chosen: `Object.fromEntries` would keep the last. No field
 * that was sent may have the name of such a list.
 */
export function typedIn(form: URLSearchParams): Typed {
  const lists = new Map<string, string[]>();
  for (const [id, text] of form) {
    if (!id.startsWith('field.')) continue;
    const list = lists.get(id);
    if (list === undefined) lists.set(id, [text]);
    else list.push(text);
  }
  return {
    ...Object.fromEntries([...form].filter(([id]) => !id.endsWith('.all'))),
    ...Object.fromEntries([...lists].map(([id, list]) => [`${id}.all`, JSON.stringify(list)])),
  };
}

/** @param refusal why the form came back, if it did */
export function questionsView(requests: InputRequests, typed: Typed, refusal: CountersignError | undefined): Shown {
  return Object.entries(requests).map(([key, question], at) => questionView(key, question, at, typed, refusal));
}

function questionView(
  key: string,
  question: InputRequest,
  at: number,
  typed: Typed,
  refusal: CountersignError | undefined,
): Html {
  if (question.kind === 'url')
    return markup`<fieldset>
      <legend>${foreignBlock(question.message)}</legend>
      <p>
        It wants you to open a page of <strong>${foreign(question.host)}</strong>. Open it yourself, where you trust
        this host:
      </p>
      <p><code>${foreign(question.url)}</code></p>
      <label class="line"
        ><input type="checkbox" name="opened" value="yes" required ${typed['opened'] === 'yes' && markup` checked`} /> I
        have done what the page asks</label
      >
    </fieldset>`;
  const fields = Object.entries(question.fields).map(([name, field], index) =>
    fieldView({
      id: `field.${at}.${index}`,
      name,
      field,
      isRequired: question.required.includes(name),
      typed,
      problem: refusal !== undefined && refusal.facts.path === fieldPath(key, name) ? detailOf(refusal) : undefined,
    }),
  );
  return markup`<fieldset>
    <legend>${foreignBlock(question.message)}</legend>
    ${fields}
  </fieldset>`;
}

interface FieldOf {
  readonly id: string;
  readonly name: string;
  readonly field: FormField;
  readonly isRequired: boolean;
  readonly typed: Typed;
  readonly problem: string | undefined;
}

function fieldView(each: FieldOf): Html {
  const { id, name, field, isRequired, typed, problem } = each;
  const label = markup`<span class="field-name">${foreign(field.title ?? name)} <span class="note">${asked(field)}, ${isRequired ? 'required' : 'may stay empty'}</span></span
    >${field.description !== undefined && markup`<span class="note">${foreign(field.description)}</span>`}`;
  const wrong = wrongField(id, problem !== undefined);
  const told = problemView(id, problem);
  if (field.type !== 'choices') return markup`<label>${label}${control(each, wrong)}</label>${told}`;
  const chosen = chosenIn(typed, id, field.default ?? []);
  return markup`<fieldset${wrong}>
      <legend>${label}</legend>
      ${field.options.map((option) => markup`<label class="line"><input type="checkbox" name="${id}" value="${option.value}" ${chosen.includes(option.value) && markup` checked`} /> ${foreign(option.title ?? option.value)}</label>`)}
    </fieldset>
    ${told}`;
}

function chosenIn(typed: Typed, id: string, fresh: readonly string[]): readonly string[] {
  const all = typed[`${id}.all`];
  // A form in which nothing was chosen says nothing of the field.
  if (all === undefined) return isAnswer(typed) ? [] : fresh;
  // Sound: `typedIn` has written it.
  return JSON.parse(all) as readonly string[];
}

/** False if the form is fresh, or came back from one that held no fields, such as that of a refusal. */
function isAnswer(typed: Typed): boolean {
  return typed['kind'] === 'provide';
}

function control({ id, field, isRequired, typed }: FieldOf, wrong: Shown): Html {
  const common = markup`name="${id}"${wrong}${isRequired && markup` required`}`;
  const fresh = field.type === 'choices' || field.default === undefined ? '' : String(field.default);
  const value = typed[id] ?? (isAnswer(typed) ? '' : fresh);
  switch (field.type) {
    case 'text':
      // No `maxlength`: a browser counts UTF-16 units, and cuts what is pasted. A text never has fewer units than
      // characters.
      if (field.format === 'date') return markup`<input ${common} type="date" value="${value}" />`;
      // No `input`: it would drop line breaks, and one for mail or addresses spaces, and spell hosts anew.
      return markup`<textarea ${common} inputmode="${KEYBOARDS[field.format ?? 'text']}" rows="${rowsOf(value)}"${bound('minlength', field.minLength)}>${LINE}${value}</textarea>`;
    case 'number':
    case 'integer':
      // A browser counts steps from `min` or from what stood there first: the run checks whole numbers.
      return markup`<input ${common} type="number" step="any"${bound('min', field.minimum)}${bound('max', field.maximum)} value="${value}" />`;
    case 'boolean':
      return markup`<select ${common}><option value=""></option><option${value === 'true' && markup` selected`}>true</option><option${value === 'false' && markup` selected`}>false</option></select>`;
    case 'choice':
    case 'choices':
      return markup`<select ${common}>
        <option value=""></option>
        ${field.options.map((option) => markup`<option value="${option.value}" ${value === option.value && markup` selected`}>${visible(option.title ?? option.value)}</option>`)}
      </select>`;
  }
}

const KEYBOARDS = { text: 'text', email: 'email', uri: 'url', 'date-time': 'text' } as const;

const TEXTS = {
  email: 'e-mail address',
  uri: 'address with its scheme',
  date: 'date',
  'date-time': 'time like 2026-01-31T09:00:00Z',
} as const;

function asked(field: FormField): string {
  switch (field.type) {
    case 'text':
      return `${field.format === undefined ? 'text' : TEXTS[field.format]}${ranged(field.minLength, field.maxLength, ' characters')}`;
    case 'number':
      return `number${ranged(field.minimum, field.maximum, '')}`;
    case 'integer':
      return `whole number${ranged(field.minimum, field.maximum, '')}`;
    case 'boolean':
      return 'true or false';
    case 'choice':
      return `one of ${field.options.length}`;
    case 'choices':
      return `some of ${field.options.length}${ranged(field.minItems, field.maxItems, '')}`;
  }
}
