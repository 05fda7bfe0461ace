/**
 * Implements the verbs that decide on waiting calls: `approve`, `reject`, `respond`, `extend` and `withdraw`. One
 * person decides one call, or several calls in the same way.
 *
 * 1. A decision applies to the request as the run shows it now, with its digest recomputed (INV-G2); what else holds of
 *    one answer is said in `session/consent.ts`.
 * 2. A second decider is told who decided first, even if the run ended long ago (INV-G2).
 * 3. A batch is shown before it is sent, and sent only after a yes or with `--yes`.
 * 4. A batch takes no option that belongs to one call: an id, or other arguments. Its digest is of all its calls.
 *
 * One file, because the verbs differ in what is judged, and in nothing else.
 */
import type { BatchAnswer, RunHandle } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { JsonObject } from '../../contracts/schemas/json.ts';
import type { LedgerEntry, LedgerFact } from '../../contracts/schemas/ledger.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import {
  type ApprovalRequest,
  type DecisionAck,
  type DecisionInput,
  Remember,
} from '../../contracts/schemas/request.ts';
import { notRunSince } from '../../domain/request/decision.ts';
import { permittedTo } from '../../domain/request/permitted.ts';
import { hashOf, sha256Hex } from '../../domain/text/canonical.ts';
import { visible } from '../../domain/text/escape.ts';
import {
  answersTo,
  type Ask,
  asking,
  assertDigest,
  assertRead,
  messageIdOf,
  ownAnswer,
  sentUnder,
  type Told,
} from '../session/consent.ts';
import { readInput } from '../session/files.ts';
import * as option from '../session/options.ts';
import type { Terminal } from '../session/terminal.ts';
import { type Answer, type Given, verb } from '../session/verb.ts';
import { argumentsText } from '../views/format.ts';
import {
  batchAnswer,
  type BatchPlan,
  type Decided,
  decisionAnswer,
  planAnswer,
  requestText,
  SETTLED,
} from '../views/request.ts';

const ONE = { run: option.RUN, call: option.CALL };
const SEVERAL = { run: option.RUN, calls: option.any('call ids, such as t2.c0') };

const DECIDING = {
  group: option.DECIDER_GROUP,
  digest: option.digest('decide only what has this digest, or one that begins so (at least 32 characters)'),
  decisionId: option.text('<id>', 'id of a decision whose answer was lost; sent again under this id, it counts once'),
};

const BATCH = {
  as: option.actor('who decides'),
  all: option.flag('every call that waits and that you may decide'),
  yes: option.flag('ask nothing; an approval then needs the --digest of what you have read'),
  reveal: option.flag('show arguments that policy keeps out of lists, too'),
};

const UNTIL = 'ISO 8601 with Z or an offset';

export const APPROVE = verb({
  name: 'approve',
  summary: 'countersign waiting calls',
  description:
    'Countersign waiting calls: each then runs, once. On a terminal they are shown and you are asked; elsewhere, name the --digest of what you have read',
  args: SEVERAL,
  options: {
    ...BATCH,
    comment: option.COMMENT,
    arguments: option.text(
      '<file>',
      'send these arguments in place of those shown (JSON or YAML, - for standard input)',
    ),
    remember: option.text('<scope>', 'let later calls of this run pass, too: call, tool, or arguments:NAME,NAME'),
    rememberUntil: option.time(`end of what is remembered, ${UNTIL}`),
    ...DECIDING,
  },
  examples: [
    'approve nightly-42 t2.c0 --as ann',
    'approve nightly-42 t2.c0 --as ben --group ops --yes --digest 3f8a90c2d1e45b6c7d8e9f0a1b2c3d4e --comment "checked with Eve"',
    'approve nightly-42 t2.c0 t2.c1 --as ann',
    'approve nightly-42 --all --as ann',
    'approve nightly-42 t2.c0 --as ann --arguments changed.json',
    'approve nightly-42 t2.c0 --as ann --remember arguments:project,branch --remember-until 2026-02-01T09:00Z',
  ],
  run: async (given) => {
    const { comment, arguments: source, remember, rememberUntil } = given.options;
    if (remember === undefined && rememberUntil !== undefined)
      throw option.usage('--remember-until is the end of --remember. Name its scope too; nothing was sent.');
    return await decideSeveral(given, {
      kind: 'approve',
      ...defined({
        comment,
        arguments: source === undefined ? undefined : await argumentsIn(source, given.terminal),
        remember: remember === undefined ? undefined : rememberOf(remember, rememberUntil),
      }),
    });
  },
});

async function argumentsIn(source: string, terminal: Terminal): Promise<JsonObject> {
  const kind = { what: 'arguments', code: 'DECISION_INVALID' } as const;
  return parseAs(JsonObject, await readInput(source, kind, terminal), kind.code, kind.what);
}

export const REJECT = verb({
  name: 'reject',
  summary: 'refuse waiting calls',
  description: 'Refuse waiting calls: they do not run, and the model is told why',
  args: SEVERAL,
  options: {
    ...BATCH,
    reason: option.needed(option.text('<text>', 'told to the model, and kept in the ledger')),
    ...DECIDING,
  },
  examples: [
    'reject nightly-42 t2.c0 --as ann --reason "wrong customer"',
    'reject nightly-42 --all --as ann --reason "not on a friday" --yes',
  ],
  run: async (given) => await decideSeveral(given, { kind: 'reject', reason: given.options.reason }),
});

export const RESPOND = verb({
  name: 'respond',
  summary: 'answer one waiting call in place of its tool',
  description: 'Answer one waiting call yourself: its tool does not run, and the model is told that you answered',
  args: ONE,
  options: {
    as: option.actor('who answers'),
    answer: option.needed(option.text('<text>', 'what the model is told, as your words')),
    comment: option.COMMENT,
    ...DECIDING,
  },
  examples: ['respond nightly-42 t2.c0 --as ann --answer "Done by hand, ticket 4711."'],
  run: async (given) => {
    const { answer, comment } = given.options;
    return await decideOne(given, { kind: 'respond', answer, ...defined({ comment }) });
  },
});

export const EXTEND = verb({
  name: 'extend',
  summary: 'postpone the deadline of a waiting call',
  description: 'Postpone the deadline of a waiting call, as far as its policy permits; this is no approval',
  args: ONE,
  options: {
    as: option.actor('who postpones it; somebody who may decide'),
    until: option.needed(option.time(`the new deadline, ${UNTIL}`)),
    comment: option.COMMENT,
    ...DECIDING,
  },
  examples: [
    'extend nightly-42 t2.c0 --as ann --until 2026-02-01T09:00Z',
    'extend nightly-42 t2.c0 --as ben --group ops --until 2026-02-01T10:00+01:00 --comment "Eve is back on Monday"',
  ],
  run: async (given) => {
    const { until, comment } = given.options;
    return await decideOne(given, { kind: 'extend', until, ...defined({ comment }) });
  },
});

export const WITHDRAW = verb({
  name: 'withdraw',
  summary: 'take back your approval of a call that waits for others',
  description: 'Take back your approval, while the call waits for others to agree',
  args: ONE,
  options: { as: option.actor('who agreed'), comment: option.COMMENT, ...DECIDING },
  examples: ['withdraw nightly-42 t2.c0 --as ann', 'withdraw nightly-42 t2.c0 --as ann --comment "wrong amount"'],
  run: async (given) => await decideOne(given, { kind: 'withdraw', ...defined({ comment: given.options.comment }) }),
});

type One = Pick<Given<typeof ONE, object>, 'args' | 'session'> & { readonly options: DecideOptions };
type Several = Pick<Given<typeof SEVERAL, object>, 'args' | 'session' | 'terminal'> & {
  readonly options: BatchOptions;
};

async function decideOne(
  { args: { run: runId, call }, options, session }: One,
  judged: Judged,
  ask?: Ask,
): Promise<Answer> {
  return await session(async ({ countersign }) =>
    decisionAnswer(runId, await decideCall(countersign.run(runId), call, judged, options, ask)),
  );
}

async function decideSeveral({ args, options, session, terminal }: Several, judged: Judged): Promise<Answer> {
  const { run: runId, calls } = args;
  const [call] = calls;
  const ask = asking(terminal, options);
  if (call !== undefined && calls.length === 1 && options.all !== true) {
    const one = { args: { run: runId, call }, options, session };
    if (judged.kind !== 'approve') return await decideOne(one, judged);
    if (ask === undefined) assertRead(runId, options);
    return await decideOne(one, judged, ask);
  }
  assertForSeveral(calls, judged, options);
  return await session(async ({ countersign }) => {
    const run = countersign.run(runId);
    const plan = await planBatch(run, calls, judged, options);
    // Whoever is asked sees all that they countersign.
    const shown = planAnswer(runId, plan, options.reveal === true || ask !== undefined);
    const fault = notConfirmed(runId, plan, options, ask !== undefined);
    if (fault !== undefined) return { ...shown, fault };
    const verbed = plan.kind === 'approve' ? 'Approve' : 'Reject';
    await ask?.(shown.text, `${verbed} ${which(plan)} as ${visible(options.as)}?`);
    const answers = await run.decideAll(plan.decisions);
    return { ...batchAnswer(runId, plan, answers), fault: firstRefused(answers) };
  });
}

/** Shows the request and asks; why it cannot be approved is said by whoever refuses it. */
async function agree(request: ApprovalRequest, judged: Judged, as: string, ask: Ask): Promise<void> {
  if (request.status !== 'open' || request.about !== undefined) return;
  // Nobody can countersign what is hidden.
  const view = { full: true, reveal: true, now: Date.now() };
  const changed = judged.kind === 'approve' ? judged.arguments : undefined;
  const instead = changed ? `\n  your arguments instead: ${argumentsText(changed, true)}` : '';
  await ask(
    (paint) => `${requestText(request, view, paint)}${instead}`,
    `Approve call ${request.callId} as ${visible(as)}?`,
  );
}

type DecideOptions = { readonly as: string } & option.Values<typeof DECIDING> & option.GlobalOptions;

export type Judged<Said = DecisionInput> = Said extends DecisionInput
  ? Omit<Said, 'decisionId' | 'callId' | 'digest' | 'runId' | 'approver'>
  : never;

/** @param ask has a person agree to the request that is then sent: the run refuses it if it has changed meanwhile */
export async function decideCall(
  run: RunHandle,
  callId: string,
  judged: Judged,
  options: DecideOptions,
  ask?: Ask,
): Promise<Decided> {
  const { as: id, group = [], decisionId = messageIdOf(judged.kind, callId, id) } = options;
  const ownIn = (ledger: readonly LedgerEntry[]) =>
    ownAnswer(answersTo(callId, ledger, 'decision.accepted'), decisionId, options, toldOf(judged));
  const own = options.decisionId === undefined ? undefined : ownIn(await readableLedger(run));
  const request = (await run.requests()).find((shown) => shown.callId === callId);
  if (own !== undefined) {
    const same = request?.digest === own.fact.digest ? request : undefined;
    return { ack: ackOf(own), waits: request?.status === 'open', ...defined({ request: same }) };
  }
  const before = async (): Promise<DecisionAck> => {
    const ledger = await run.ledger();
    const first = ownIn(ledger);
    if (first === undefined) throw settledBefore(run.runId, callId, ledger);
    return ackOf(first);
  };
  if (request === undefined) return { ack: await before() };
  const { digest, runId } = request;
  assertDigest(run.runId, request, options.digest);
  if (ask !== undefined) await agree(request, judged, id, ask);
  const decision = { ...judged, decisionId, callId, digest, runId, approver: { id, groups: [...group] } };
  const facts = { callId, decisionId };
  try {
    const ack = await sentUnder(`--decision-id ${decisionId}`, facts, async () => await run.decide(decision));
    return { ack, request };
  } catch (error) {
    // A run that has gone on to another turn, or has ended, does not know how the call was settled.
    if (!(error instanceof CountersignError) || !['CALL_UNKNOWN', 'RUN_CLOSED'].includes(error.code)) throw error;
    return { ack: await before(), request };
  }
}

/** Empty if a part stands in a store that this client cannot read: the run itself knows its decisions, too. */
async function readableLedger(run: RunHandle): Promise<readonly LedgerEntry[]> {
  return await run.ledger().catch((error: unknown) => {
    if (error instanceof CountersignError && error.code === 'ARTIFACT_MISSING') return [];
    throw error;
  });
}

function settledBefore(runId: string, callId: string, ledger: readonly LedgerEntry[]): CountersignError {
  const entries = ledger.filter(({ fact }) => 'callId' in fact && fact.callId === callId);
  const decisions = answersTo(callId, entries, 'decision.accepted');
  const first = decisions.map(ackOf).findLast(({ status }) => SETTLED.includes(status));
  const closed = entries.findLast(({ fact }) => fact.kind === 'request.closed');
  // A call that was approved, asked again and then left to expire counts as expired.
  if (first !== undefined && (closed === undefined || closed.at < first.decidedAt)) {
    const { status, decidedBy, decidedAt } = first;
    const end = entries.findLast(({ fact }) => fact.kind === 'outcome')?.fact;
    const since = end?.kind === 'outcome' ? notRunSince(end.outcome) : '';
    const message = `Call ${callId} was ${status} by ${decidedBy} at ${decidedAt}; nothing was changed.${since}`;
    return new CountersignError('ALREADY_DECIDED', message, { runId, callId, decidedBy, decidedAt });
  }
  if (closed?.fact.kind === 'request.closed' && closed.fact.status === 'expired') {
    const message = `The request for call ${callId} expired at ${closed.at}; it was not run.`;
    return new CountersignError('DECISION_EXPIRED', message, { runId, callId });
  }
  if (entries.length > 0)
    return new CountersignError('REQUEST_NOT_OPEN', `Call ${callId} does not wait for a decision.`, { runId, callId });
  return new CountersignError('CALL_UNKNOWN', `Run ${runId} has no call ${callId}.`, { runId, callId });
}

type Accepted = Extract<LedgerFact, { kind: 'decision.accepted' }>;

/** Groups are not compared, because the ledger keeps only those that the request's rule names. */
function toldOf(judged: Judged): (fact: Accepted) => Told {
  const edited = judged.kind === 'approve' ? judged.arguments : undefined;
  return (fact) => [
    [fact.decision, judged.kind],
    [fact.comment, judged.kind === 'reject' ? judged.reason : judged.comment],
    [fact.until, judged.kind === 'extend' ? judged.until : undefined],
    [fact.answerHash, judged.kind === 'respond' ? sha256Hex(judged.answer) : undefined],
    [fact.remember, judged.kind === 'approve' ? judged.remember : undefined],
    [fact.edited?.to, edited === undefined ? undefined : hashOf(edited)],
  ];
}

const STATUS_OF = {
  approve: 'approved',
  reject: 'rejected',
  withdraw: 'withdrawn',
  extend: 'extended',
  respond: 'answered',
} as const;

function ackOf({ at, fact }: { readonly at: string; readonly fact: Accepted }): DecisionAck {
  const { callId, decisionId, decision, approver, counted, until, edited } = fact;
  const status = counted === true ? (edited === undefined ? 'counted' : 'edited') : STATUS_OF[decision];
  return { callId, decisionId, status, decidedBy: approver.id, decidedAt: at, ...defined({ until }) };
}

type BatchOptions = DecideOptions & option.Values<typeof BATCH>;

/**
 * Selects the requests that a batch decides.
 * @throws CountersignError `CALL_UNKNOWN`, `REQUEST_NOT_OPEN` if a named call cannot be decided
 */
export async function planBatch(
  run: RunHandle,
  callIds: readonly string[],
  judged: Judged,
  options: BatchOptions,
): Promise<BatchPlan> {
  const approver = { id: options.as, groups: [...(options.group ?? [])] };
  const shown = await run.requests();
  // Requests about something else than consent are answered one by one, by somebody who has read them.
  const open = shown.filter(({ status, about }) => status === 'open' && about === undefined);
  const now = Date.now();
  const mine = open.filter((request) => permittedTo(request, approver, now).has(judged.kind));
  const requests = options.all === true ? mine : await openNamed(run, shown, [...new Set(callIds)]);
  return {
    kind: judged.kind,
    requests,
    digest: hashOf(requests.map(({ digest }) => digest)),
    others: options.all === true ? open.filter((each) => !mine.includes(each)).map(({ callId }) => callId) : [],
    decisions: requests.map(({ callId, digest, runId }) => ({
      ...judged,
      decisionId: messageIdOf(judged.kind, callId, options.as),
      callId,
      digest,
      runId,
      approver,
    })),
  };
}

/** @throws CountersignError `USAGE` */
export function assertForSeveral(callIds: readonly string[], judged: Judged, options: BatchOptions): void {
  const fault =
    options.all === true && callIds.length > 0
      ? 'Name calls, or --all, not both.'
      : callIds.length === 0 && options.all !== true
        ? 'Name a call, several, or --all.'
        : options.decisionId !== undefined || (options.digest !== undefined && judged.kind !== 'approve')
          ? '--decision-id is of one call, and so is --digest but for an approval; name one.'
          : judged.kind === 'approve' && judged.arguments !== undefined
            ? '--arguments are of one call; name one.'
            : undefined;
  if (fault !== undefined) throw option.usage(`${fault} Nothing was sent.`);
}

async function openNamed(
  run: RunHandle,
  shown: readonly ApprovalRequest[],
  callIds: readonly string[],
): Promise<ApprovalRequest[]> {
  const requests: ApprovalRequest[] = [];
  for (const callId of callIds) {
    const request = shown.find((each) => each.callId === callId);
    if (request?.status === 'open') {
      requests.push(request);
      continue;
    }
    const { runId } = run;
    // The run shows only requests of the current turn. For an earlier turn, or a stopped run, the ledger tells.
    const wasMade =
      request !== undefined || (await run.ledger()).some(({ fact }) => 'callId' in fact && fact.callId === callId);
    const what = wasMade ? `does not wait for call ${callId} any more` : `has no request for call ${callId}`;
    const code = wasMade ? 'REQUEST_NOT_OPEN' : 'CALL_UNKNOWN';
    throw new CountersignError(code, `Run ${runId} ${what}; nothing was sent.`, { runId, callId });
  }
  return requests;
}

export function notConfirmed(
  runId: string,
  { kind, requests, digest: shown }: BatchPlan,
  { as, yes, digest }: Pick<BatchOptions, 'as' | 'yes' | 'digest'>,
  isAsked = false,
): CountersignError | undefined {
  if (requests.length === 0) {
    const message = `Nothing of run ${runId} waits that ${as} may ${kind}; nothing was sent.`;
    return new CountersignError('REQUEST_NOT_OPEN', message, { runId });
  }
  if (digest !== undefined && !shown.startsWith(digest)) {
    const message = `These calls have digest ${shown} together, not the one you named: something else waits now. Nothing was sent.`;
    return new CountersignError('DIGEST_MISMATCH', message, { runId });
  }
  const needs = kind === 'approve' ? ` --digest ${shown.slice(0, option.DIGEST_CHARACTERS)}` : '';
  if (isAsked || (yes === true && (digest !== undefined || needs === ''))) return undefined;
  return option.usage(`Nothing was sent. To decide ${which({ requests })}, add --yes${needs}.`);
}

function which({ requests }: Pick<BatchPlan, 'requests'>): string {
  return requests.length === 1 ? 'this call' : `these ${requests.length} calls`;
}

/** Returns the first refusal; where there is none, the first decision without an answer, which may count. */
export function firstRefused(answers: readonly BatchAnswer[]): CountersignError | undefined {
  const failed = answers.filter((answer) => answer.kind === 'refused');
  const refused = failed.filter(({ error }) => error.code !== 'RESULT_UNCERTAIN');
  const unanswered = failed.filter(({ error }) => error.code === 'RESULT_UNCERTAIN');
  const first = refused[0] ?? unanswered[0];
  if (first === undefined) return undefined;
  const { callId, decisionId, error } = first;
  const [lost] = unanswered;
  const parts: string[] = [];
  if (refused.length > 0)
    parts.push(
      `${refused.length} of ${answers.length} decisions were not taken, the first of call ${callId}: ${error.message}`,
    );
  if (lost !== undefined)
    parts.push(
      `Of ${unanswered.length} of ${answers.length} decisions nobody knows yet whether they count, the first of call ${lost.callId}: ${lost.error.message} Here: decide that call alone, as before, and add --decision-id ${lost.decisionId}`,
    );
  return new CountersignError(
    error.code,
    parts.join(' '),
    { ...error.facts, callId, decisionId, refused: refused.length, unanswered: unanswered.length },
    { cause: error },
  );
}

/** @param scoped how far an approval answers later calls: `call`, `tool`, or `arguments:path,owner` */
export function rememberOf(scoped: string, until: string | undefined): Remember {
  const [scope, named] = scoped.split(/:(.*)/s, 2);
  const remembered = { scope, ...defined({ names: named?.split(','), until }) };
  return parseAs(Remember, remembered, 'USAGE', 'value of --remember (call, tool, or arguments:NAME,NAME)');
}
