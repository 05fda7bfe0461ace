/** The pages of one run and of its requests: what they show, and the forms by which people answer. */
import type { KnownTool } from '../catalog/definitions.ts';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { CountersignError } from '../../contracts/errors.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApprovalRequest, Approver } from '../../contracts/schemas/request.ts';
import { visible } from '../../domain/text/escape.ts';
import { codedOf } from '../http/problem.ts';
import { type Edited, readEdited, readWhole } from './edit/read.ts';
import { comparedView, type EditPage, editView, sentForm, typedFor } from './edit/view.ts';
import { partView } from './conversation.ts';
import { answerOf, objectOf } from './form.ts';
import { pageText, refusalView, type Typed } from './kit/layout.ts';
import { type Html, markup } from './kit/markup.ts';
import { asRefused, formOf, pagesOf, type PageOptions, wordsIn } from './kit/page.ts';
import type { PageSource, RunRead, Viewer } from './kit/port.ts';
import { ledgerView } from './ledger.ts';
import { typedIn } from './question.ts';
import { argumentsView, requestView } from './request.ts';
import { runView } from './run.ts';

interface RunPath {
  readonly runId: string;
}

interface CallPath extends RunPath {
  readonly callId: string;
}

/** One function, because it is one table of pages. */
export function registerRunPages(app: FastifyInstance, options: PageOptions): void {
  const { source } = options;
  const pages = pagesOf(app, options);

  pages.get<RunPath, { done?: string }>('/runs/:runId', async ({ params: { runId }, query: { done } }, viewer) => {
    const read = await source.run(viewer, runId);
    // The ledger says so, and not the link: whoever sends a link could claim it.
    const given = read.ledger.findLast(({ fact }) => isAnswerOf(viewer, fact) && fact.callId === done)?.fact;
    const isWithdrawn = given?.kind === 'decision.accepted' && given.decision === 'withdraw';
    const told =
      given &&
      markup`<p class="banner good" role="status">${isWithdrawn ? 'Your approval is taken back.' : 'Your answer counts.'} <a href="/">Back to the inbox</a></p>`;
    return runPage(read, viewer, told);
  });

  pages.get<RunPath>('/runs/:runId/ledger', async ({ params: { runId } }, viewer) => {
    const checked = await source.check(viewer, runId).catch((error: unknown) => {
      const told = codedOf(error);
      // Any other error is told as on any page.
      if (!told.code.startsWith('ARTIFACT_')) throw error;
      return told;
    });
    const main = ledgerView(runId, checked, Date.now());
    return pageText({ title: `Ledger of ${runId}`, viewer, at: 'runs', main });
  });

  pages.get<RunPath & { at: string; part: string }>(
    '/runs/:runId/messages/:at/:part',
    async ({ params: { runId, at, part } }, viewer, reply) => {
      const read = await source.run(viewer, runId);
      const main = partView(read.messages, runId, `${at}/${part}`);
      if (main !== undefined) return pageText({ title: `Words of ${runId}`, viewer, at: 'runs', main });
      void reply.code(404);
      return runPage(
        read,
        viewer,
        markup`<p class="banner warning" role="status">That is not among the newest messages any more.</p>`,
      );
    },
  );

  pages.post<RunPath>('/runs/:runId/say', async ({ params: { runId }, body }, viewer, reply) => {
    const form = formOf(body);
    return await afterTelling({ viewer, runId, form, reply }, async () => {
      await source.say(viewer, runId, wordsIn(form, 'text'), form.get('messageId') ?? undefined);
    });
  });

  pages.post<RunPath>('/runs/:runId/stop', async ({ params: { runId }, body }, viewer, reply) => {
    const form = formOf(body);
    return await afterTelling({ viewer, runId, form, reply }, async () => {
      await source.stop(viewer, runId, wordsIn(form, 'reason'));
    });
  });

  /** Leads to the run; where it is refused, the form comes back with what was typed. */
  async function afterTelling({ viewer, runId, form, reply }: Telling, tell: () => Promise<void>): Promise<unknown> {
    try {
      await tell();
    } catch (error) {
      // A run that cannot be read is told as on any page.
      const read = await source.run(viewer, runId).catch(() => undefined);
      if (read === undefined) throw error;
      const refusal = asRefused(reply, error, options);
      // Another text under this id would be refused for ever; else the id stays, so that the message counts once.
      const isSpent = refusal.facts['path'] === 'messageId';
      const kept = [...form].filter(([name]) => name !== 'messageId' || !isSpent);
      return runPage(read, viewer, refusalView(refusal), Object.fromEntries(kept));
    }
    return await reply.redirect(`/runs/${encodeURIComponent(runId)}`, 303);
  }
}

interface Telling {
  readonly viewer: Viewer;
  readonly runId: string;
  readonly form: URLSearchParams;
  readonly reply: FastifyReply;
}

/** One function, because it is one table of pages. */
export function registerRequestPages(app: FastifyInstance, options: PageOptions): void {
  const { source } = options;
  const pages = pagesOf(app, options);

  pages.get<CallPath>('/runs/:runId/requests/:callId', async ({ params: { runId, callId } }, viewer) => {
    const read = await source.run(viewer, runId);
    const request = requestIn(read, { runId, callId });
    if (request !== undefined) return requestPage(await withTool(source, viewer, { read, request }), viewer);
    return runPage(read, viewer, markup`<p class="banner warning" role="status">${endOf(read, callId)}</p>`);
  });

  pages.post<CallPath>('/runs/:runId/requests/:callId', async ({ params, body }, viewer, reply) => {
    const form = formOf(body);
    const done = `/runs/${encodeURIComponent(params.runId)}?done=${encodeURIComponent(params.callId)}`;
    const read = await source.run(viewer, params.runId);
    const request = requestIn(read, params);
    // The run knows its own answer again, but not what it was about once the call has gone on.
    if (request?.digest !== form.get('digest') && hasCounted(read, viewer, params, form.get('decisionId')))
      return await reply.redirect(done, 303);
    const found = await withTool(source, viewer, { read, request: request ?? notOpen(read, params) });
    try {
      await source.send(viewer, { runId: params.runId, ...answerOf(form, found.request) });
    } catch (error) {
      const told = asRefused(reply, error, options);
      const now = await opened(source, viewer, params).catch(() => found);
      const changed = form.get('arguments');
      if (changed === null || form.get('kind') !== 'approve') return requestPage(now, viewer, told, typedIn(form));
      return editPage(now, viewer, told, { typed: changedIn(now, form) });
    }
    return await reply.redirect(done, 303);
  });

  pages.get<CallPath>('/runs/:runId/requests/:callId/json', async ({ params }, viewer) => {
    const { request } = await opened(source, viewer, params);
    return pageText({ title: `Arguments of ${request.tool}`, viewer, at: 'inbox', main: argumentsView(request) });
  });

  pages.get<CallPath>('/runs/:runId/requests/:callId/edit', async ({ params }, viewer) =>
    editPage(await opened(source, viewer, params), viewer),
  );

  pages.post<CallPath>('/runs/:runId/requests/:callId/edit', async ({ params, body }, viewer, reply) => {
    const form = formOf(body);
    const typed = Object.fromEntries(form);
    const found = await opened(source, viewer, params);
    if (form.get('digest') !== found.request.digest) {
      void reply.code(412);
      const isCompared = form.get('as') === 'again';
      return editPage(found, viewer, CHANGED, { typed: isCompared ? changedIn(found, form) : typed });
    }
    if (form.get('as') === 'again') return editPage(found, viewer, undefined, { typed: changedIn(found, form) });
    if (form.has('add')) return editPage(found, viewer, undefined, { typed: withItem(typed) });
    const { arguments: changed, problems } = editedIn(form, found);
    if (problems.size > 0) {
      void reply.code(422);
      return editPage(found, viewer, unfit(problems), { typed, problems });
    }
    const main = comparedView({ request: found.request, viewer, now: Date.now(), typed }, changed);
    return pageText({ title: `Change ${found.request.tool}`, viewer, at: 'inbox', main });
  });
}

interface Opened {
  readonly read: RunRead;
  readonly request: ApprovalRequest;
  readonly tool: KnownTool;
}

async function withTool(source: PageSource, viewer: Viewer, found: Omit<Opened, 'tool'>): Promise<Opened> {
  return { ...found, tool: await source.tool(viewer, found.request) };
}

async function opened(source: PageSource, viewer: Viewer, at: CallPath): Promise<Opened> {
  const read = await source.run(viewer, at.runId);
  return await withTool(source, viewer, { read, request: requestIn(read, at) ?? notOpen(read, at) });
}

function requestIn({ requests }: RunRead, { callId }: CallPath): ApprovalRequest | undefined {
  return requests.find((each) => each.callId === callId);
}

function notOpen(read: RunRead, { runId, callId }: CallPath): never {
  throw new CountersignError('REQUEST_NOT_OPEN', `${endOf(read, callId)} Nothing was sent.`, { runId, callId });
}

/** True if this very form has come before, and was taken: it was sent twice, or its answer was lost. */
function hasCounted({ ledger }: RunRead, viewer: Viewer, { callId }: CallPath, decisionId: string | null): boolean {
  return ledger.some(
    ({ fact }) =>
      isAnswerOf(viewer, fact) && fact.callId === callId && 'decisionId' in fact && fact.decisionId === decisionId,
  );
}

/** Says who decided a call that waits no more, as far as the newest entries of the ledger know. */
function endOf({ ledger }: RunRead, callId: string): string {
  const decision = ledger.findLast(({ fact }) => fact.kind === 'decision.accepted' && fact.callId === callId)?.fact;
  const who =
    decision?.kind === 'decision.accepted' ? ` ${decision.approver.id} decided it: ${decision.decision}.` : '';
  return `Call ${visible(callId)} waits for nobody any more.${visible(who)}`;
}

type Answer = Extract<LedgerFact, { readonly approver: Approver }>;

function isAnswerOf({ id }: Viewer, fact: RunRead['ledger'][number]['fact']): fact is Answer {
  return 'approver' in fact && typeof fact.approver === 'object' && fact.approver.id === id;
}

/** @param typed what a refused form held */
function runPage(read: RunRead, viewer: Viewer, told?: Html, typed?: Typed): string {
  const main = markup`${told}${runView(read, viewer, Date.now(), typed)}`;
  // The typed words would count as not typed, and vanish with the next change.
  return pageText({ title: read.facts.runId, viewer, at: 'runs', live: typed === undefined, main });
}

function requestPage(found: Opened, viewer: Viewer, error?: CountersignError, typed: Typed = {}): string {
  const { request } = found;
  const view = requestView({ ...found, viewer, now: Date.now(), typed, refusal: error });
  const main = markup`${error !== undefined && refusalView(error)}${view}`;
  // The typed words would count as not typed, and vanish with the next change.
  const live = error === undefined;
  return pageText({ title: `${request.tool} on ${request.server}`, viewer, at: 'inbox', live, main });
}

const CHANGED = new CountersignError('DIGEST_MISMATCH', 'The request changed since you opened it; look at it again.');

function editPage(
  { request, tool }: Opened,
  viewer: Viewer,
  error?: CountersignError,
  filled: Pick<EditPage, 'typed' | 'problems'> = {},
): string {
  const view = editView({ request, tool, viewer, now: Date.now(), ...filled });
  const main = markup`${error !== undefined && refusalView(error)}${view}`;
  // The next change would clear the fields.
  const live = filled.typed === undefined;
  return pageText({ title: `Change ${request.tool}`, viewer, at: 'inbox', live, main });
}

/** The form as it was before its arguments were compared. */
function changedIn(found: Opened, form: URLSearchParams): Typed {
  const values = objectOf(form.get('arguments') ?? '', 'arguments');
  return { ...typedFor(found, values), comment: form.get('comment') ?? '' };
}

/** @throws CountersignError `ARTIFACT_MISSING` if the form was made by a definition that cannot be read now */
function editedIn(form: URLSearchParams, found: Opened): Edited {
  if (form.get('as') === 'json') return readWhole(form.get('whole') ?? '');
  const made = sentForm(found, Object.fromEntries(form));
  if (made !== undefined) return readEdited(made, form);
  const message = "The tool's definition cannot be read just now. Nothing was sent; send the form again.";
  throw new CountersignError('ARTIFACT_MISSING', message);
}

function withItem(typed: Typed): Typed {
  const key = `${typed['add'] ?? ''}.length`;
  return { ...typed, [key]: String(Number(typed[key] ?? 0) + 1) };
}

const SHOWN_PROBLEMS = 5;

function unfit(problems: Edited['problems']): CountersignError {
  const told = [...problems.values()].map(({ path, reason }) => `${path} ${reason}`);
  const more = told.length > SHOWN_PROBLEMS ? [`and ${told.length - SHOWN_PROBLEMS} more`] : [];
  const message = `${[...told.slice(0, SHOWN_PROBLEMS), ...more].join('; ')}. Nothing was sent.`;
  return new CountersignError('DECISION_INVALID', message);
}
