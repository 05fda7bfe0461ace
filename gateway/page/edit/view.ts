/** The page on which a person writes other arguments, by fields or as JSON, and the page that compares them. */
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import { permittedTo } from '../../../domain/request/permitted.ts';
import { canonicalJson, hashOf } from '../../../domain/text/canonical.ts';
import { diff } from '../kit/diff.ts';
import { alsoAsJson, asciiJson, foreign, foreignBlock, isObject, isPlain, tree } from '../kit/faithful.ts';
import { type Answering, binding, hidden, problemView, requestPath, wrongField } from '../kit/layout.ts';
import { writtenJson } from '../kit/json.ts';
import { type Html, markup, type Shown } from '../kit/markup.ts';
import { left } from '../kit/times.ts';
import { editFields, filledWith, lengthsIn, nameText } from './fields.ts';
import { type Problem, readEdited } from './read.ts';
import { type EditForm, editForm, type Field, type Lengths } from './schema.ts';

/** Stands for the schema in a form that was made without one. */
const NO_SCHEMA = 'values';

type Asked = Pick<Answering, 'request' | 'tool'>;

/** Names what a form is made by: it is read by the same. Its fields are numbered, by the schema and the arguments. */
export function madeBy({ request, tool }: Asked): string {
  return namedBy(request, tool.definition === undefined ? NO_SCHEMA : request.definitionHash);
}

function namedBy({ arguments: args }: ApprovalRequest, schema: string): string {
  return hashOf([schema, args]);
}

/** @returns undefined if the form was made for other arguments, or by a definition that cannot be read now */
export function sentForm({ request, tool }: Asked, typed: Readonly<Record<string, string>>): EditForm | undefined {
  const lengths = lengthsIn(typed);
  if (typed['by'] === namedBy(request, NO_SCHEMA)) return editForm(undefined, request.arguments, lengths);
  if (typed['by'] !== madeBy({ request, tool })) return undefined;
  return editForm(tool.definition?.inputSchema, request.arguments, lengths);
}

/** The form as if these arguments had been typed; as JSON, if fields cannot hold them. */
export function typedFor(asked: Asked, values: JsonObject): Readonly<Record<string, string>> {
  const { request, tool } = asked;
  const make = (lengths: Lengths): EditForm => editForm(tool.definition?.inputSchema, request.arguments, lengths);
  const typed = filledWith(make, values);
  const form = make(lengthsIn(typed));
  const read = readEdited(form, new URLSearchParams({ ...typed }));
  const isHeld = isShown(form.fields, typed) && canonicalJson(read.arguments) === canonicalJson(values);
  return { by: madeBy(asked), whole: asciiJson(values), ...typed, ...(isHeld ? {} : { as: 'json' }) };
}

/** A browser shows the texts of the fields as they are. Some characters it would change or hide. */
function isShown(fields: readonly Field[], typed: Readonly<Record<string, string>>): boolean {
  return fields.every(({ id, shape, inner }) =>
    shape.kind === 'text' ? isPlain(typed[id] ?? '') : isShown(inner, typed),
  );
}

export interface EditPage extends Answering {
  readonly problems?: ReadonlyMap<string, Problem>;
}

export function editView({ request, viewer, tool, now, typed, problems = new Map() }: EditPage): Html {
  if (!permittedTo(request, viewer, now).has('edit'))
    return markup`<section class="empty">
      <h1>Nothing can be changed here</h1>
      <p>The request is decided, or its arguments are not yours to change.</p>
      <p><a class="button" href="${requestPath(request)}">Back to the request</a></p>
    </section>`;
  const isWhole = typed?.['as'] === 'json';
  const sent = typed === undefined || isWhole ? undefined : sentForm({ request, tool }, typed);
  const form = sent ?? editForm(tool.definition?.inputSchema, request.arguments, () => undefined);
  const comment = typed?.['comment'] ?? '';
  const bound = markup`${binding(request, viewer)}${comment !== '' && hidden('comment', comment)}`;
  const action = `${requestPath(request)}/edit`;
  return markup`${headView(request, now)}
    ${sent === undefined && !isWhole && typed !== undefined && lostView(typed)}
    <div class="card edit">
      ${tool.definition === undefined && markup`<p class="note">The tool's definition cannot be read now: the fields follow the proposed values.</p>`}
      <form method="post" action="${action}" data-edit>
        <button class="default-button" tabindex="-1" aria-hidden="true">Compare</button>
        ${bound}${hidden('by', sent === undefined ? madeBy({ request, tool }) : (typed?.['by'] ?? ''))}
        ${hidden('names', JSON.stringify(namesOf(form.fields)))}
        <div class="fields">${editFields(form, sent === undefined ? {} : { typed: typed ?? {}, problems })}</div>
        <div class="actions">
          <button class="button primary" data-key="a">Compare before approving</button>
          <a class="button" href="${requestPath(request)}">Leave them as they are</a>
        </div>
      </form>
    </div>
    <details class="card fold edit" ${isWhole && markup` open`}>
      <summary>Write them as JSON</summary>
      <form method="post" action="${action}" data-edit>
        ${bound}${hidden('as', 'json')}
        <div class="field">
          <label for="whole">All arguments</label>
          <textarea id="whole" name="whole" rows="12" spellcheck="false" required ${wrongField('whole', problems.has('whole'))}>
${typed?.['whole'] ?? asciiJson(request.arguments)}</textarea>
          ${problemView('whole', problems.get('whole')?.reason)}
        </div>
        <div class="actions"><button class="button">Compare before approving</button></div>
      </form>
    </details>`;
}

const NAME_CHARACTERS = 60;

/** Names of the fields by their ids, so that what was typed can be told if the fields are others by then. */
function namesOf(fields: readonly Field[], within = ''): Readonly<Record<string, string>> {
  return Object.fromEntries(
    fields.flatMap(({ id, name, shape, inner }) => {
      const path = `${within}${nameText(name, NAME_CHARACTERS)}`;
      // A choice is sent as a number, which tells nothing.
      return shape.kind === 'choice' ? [] : [[id, path] as const, ...Object.entries(namesOf(inner, `${path}, `))];
    }),
  );
}

/** What was typed into a form for other arguments: it has no place in the fields of these. */
function lostView(typed: Readonly<Record<string, string>>): Shown {
  const read = writtenJson(typed['names'] ?? '{}');
  const names = 'value' in read && isObject(read.value) ? read.value : {};
  const told = Object.entries(typed).flatMap(([id, text]) => {
    const name = id === 'more' ? 'More arguments' : Object.hasOwn(names, id) ? names[id] : undefined;
    return typeof name === 'string' && text !== '' ? [{ name, text }] : [];
  });
  if (told.length === 0) return undefined;
  return markup`<section class="card edit" aria-labelledby="lost">
    <h2 id="lost">What you had written</h2>
    <p class="note">The arguments changed meanwhile. The form below begins anew with them; choose again what you had chosen from lists.</p>
    <dl class="tree">
      ${told.map(({ name, text }) => markup`<div class="member"><dt>${foreign(name)}</dt> <dd>${foreignBlock(text)}</dd></div>`)}
    </dl>
  </section>`;
}

function headView(request: ApprovalRequest, now: number): Html {
  return markup`<div class="head request-head">
    <p class="crumbs">
      <a href="/">Inbox</a> / <a href="${requestPath(request)}">${foreign(request.tool)}, ${request.callId}</a>
    </p>
    <h1>Approve with other arguments</h1>
    <p class="state">
      <span class="tool">${foreign(request.tool)}</span> on ${foreign(request.server)} ·
      ${left(request.deadline, now)}
    </p>
  </div>`;
}

/** Shows what would be approved in place of what was proposed; nothing is sent yet. */
export function comparedView({ request, viewer, now, typed }: Omit<Answering, 'tool'>, changed: JsonObject): Html {
  return markup`${headView(request, now)}
    <section class="card" aria-labelledby="changes">
      <h2 id="changes">What you change</h2>
      ${diff(request.arguments, changed, 'All that will be sent stands below; what was proposed, on the page of the request.')}
    </section>
    <section class="card" aria-labelledby="whole">
      <h2 id="whole">What will be sent</h2>
      ${tree(changed)}
      ${alsoAsJson(changed, 'To read them as JSON, change them again.')}
    </section>
    <form method="post" action="${requestPath(request)}" class="card">
      ${binding(request, viewer)}${hidden('kind', 'approve')}${hidden('arguments', JSON.stringify(changed))}<label
        >Comment <span class="note">(kept in the ledger)</span
        ><textarea name="comment" rows="2" maxlength="4096">${typed?.['comment'] ?? ''}</textarea>
      </label>
      <div class="actions">
        <button class="button approve" data-key="a">Approve these arguments</button>
        <button class="button" formaction="${requestPath(request)}/edit" name="as" value="again" formnovalidate>Change them again</button>
      </div>
    </form>`;
}
