/**
 * Implements the verbs that answer requests about something else than consent: `answer`, `resolve` and `authorize`.
 *
 * 1. Answers may be personal data: they are sent, and not printed.
 * 2. An answer applies to the request as the run shows it now, with its digest recomputed (INV-G2); what else holds of
 *    one answer is said in `session/consent.ts`.
 * 3. A digest must be named if the asking server could have replaced the question that was read. A server can do so
 *    within seconds and with the same words for its fields. Otherwise the current question is shown, and nothing is
 *    sent. Outcomes and authorizations cannot be replaced like that.
 */
import type { RunHandle } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type {
  ApprovalRequest,
  AuthorizationInput,
  AuthorizationPause,
  Pause,
  PauseAck,
  PauseKind,
  ProvisionInput,
} from '../../contracts/schemas/request.ts';
import { Grant } from '../../contracts/schemas/run-spec.ts';
import { recordedHash } from '../../domain/request/outcome.ts';
import { lastWord, shellWord } from '../../domain/text/shell-word.ts';
import { answersTo, assertDigest, messageIdOf, ownAnswer, sentUnder, type Told } from '../session/consent.ts';
import { readInput } from '../session/files.ts';
import { responsesFrom } from '../session/input-values.ts';
import * as option from '../session/options.ts';
import type { Terminal } from '../session/terminal.ts';
import { print, verb } from '../session/verb.ts';
import { type Answered, pauseAnswer } from '../views/request.ts';
import { requestsAnswer } from './requests.ts';

const PLACE = { run: option.RUN, call: option.CALL };

const ANSWERING = {
  comment: option.COMMENT,
  group: option.several('<name>', 'a group that you belong to'),
  digest: option.digest('answer only the request with this digest'),
  decisionId: option.text('<id>', 'id of an answer whose receipt was lost; sent again under this id, it counts once'),
};

const WORDS = new Map([
  ['provide', 'answered'],
  ['decline', 'declined'],
  ['cancel', 'cancelled'],
]);

export const ANSWER = verb({
  name: 'answer',
  summary: 'answer what a server asks in the middle of a call',
  description:
    'Answer what a server asks before it goes on with a call. `countersign requests` shows the questions, each with its digest; what you answer goes to the server',
  args: PLACE,
  options: {
    as: option.actor('who answers'),
    set: option.several('<field=value>', 'a field of the form'),
    file: option.text('<path>', 'the fields as JSON or YAML; - reads standard input'),
    accept: option.flag('say that you opened the page, or send the form without a value'),
    decline: option.flag('refuse to answer; the server is told that you did'),
    cancel: option.flag('close the question without an answer; the server is told that you did'),
    ...ANSWERING,
    digest: option.digest(
      'digest of the question that you have read (see `requests`); without it, the question is only shown',
    ),
  },
  examples: [
    'answer nightly-42 t2.c0 --as ann --digest 3f8a90c2d1e45b6c7d8e9f0a1b2c3d4e --set name=Ann --set seats=2',
    'answer nightly-42 t2.c0 --as ann --digest 3f8a90c2d1e45b6c7d8e9f0a1b2c3d4e --file answer.yaml',
    'answer nightly-42 t2.c0 --as ann --digest 3f8a90c2d1e45b6c7d8e9f0a1b2c3d4e --decline',
  ],
  run: async ({ args: { run: runId, call }, options, terminal, session }) => {
    const { set, file, accept, decline, cancel, comment, json } = options;
    const says = set !== undefined || file !== undefined || accept === true;
    if ([says, decline === true, cancel === true].filter(Boolean).length !== 1) {
      const message = 'Say what you answer: --set, --file or --accept; or --decline; or --cancel. Nothing was sent.';
      throw option.usage(message);
    }
    const kind: ProvisionInput['kind'] = decline === true ? 'decline' : cancel === true ? 'cancel' : 'provide';
    const input = { what: 'answer', code: 'DECISION_INVALID' } as const;
    const content = file === undefined ? undefined : await readInput(file, input, terminal);
    const answered = await session(async ({ countersign }) => {
      const run = countersign.run(runId);
      return await answerPause(run, call, options, {
        kind: 'input',
        asksNot: 'is asked nothing by its server',
        unread: (request) => print(terminal, requestsAnswer(runId, [request], { full: true }), json === true),
        say: ({ requests }, given) => {
          const base = { ...given, ...defined({ comment }) };
          if (kind !== 'provide') return { kind, ...base };
          return { kind, ...base, responses: responsesFrom(requests, defined({ set, content, accept })) };
        },
        send: async (said) => await run.provideInput(said),
        // The fields cannot be compared: the form that gives them their types is closed by then.
        told: (fact) => [
          [fact.answer, kind],
          [fact.comment, comment],
        ],
      });
    });
    const { answer } = answered.ack;
    return pauseAnswer(runId, answered, {
      word: WORDS.get(answer) ?? answer,
      colour: answer === 'provide' ? 'green' : 'yellow',
      next: 'the server is told',
    });
  },
});

export const RESOLVE = verb({
  name: 'resolve',
  summary: 'say what became of a call whose answer was lost',
  description:
    'Say what became of a call that was sent and whose answer was lost. Look at its server first. retry sends it again; succeeded and failed record what you found, and the model is told that you did',
  args: { ...PLACE, answer: option.one('retry, succeeded or failed') },
  options: {
    as: option.actor('who says so'),
    result: option.text('<text>', 'with succeeded: the result, told to the model as your words'),
    message: option.text('<text>', 'with failed: the reason, told to the model as your words'),
    ...ANSWERING,
  },
  examples: [
    'resolve nightly-42 t2.c0 succeeded --as ann --result "Payment 4711 is booked."',
    'resolve nightly-42 t2.c0 failed --as ann --message "No payment is there."',
    'resolve nightly-42 t2.c0 retry --as ann --digest 3f8a90c2d1e45b6c7d8e9f0a1b2c3d4e',
  ],
  run: async ({ args: { run: runId, call, answer }, options, session }) => {
    const { comment } = options;
    const word = wordOf(answer, options);
    const resolved = await session(async ({ countersign }) => {
      const run = countersign.run(runId);
      return await answerPause(run, call, options, {
        kind: 'outcome',
        asksNot: 'does not wait to hear what became of it',
        say: (_, base) => ({ ...word, ...base, ...defined({ comment }) }),
        send: async (said) => await run.resolveOutcome(said),
        told: (fact) => [
          [fact.answer, word.kind],
          [fact.comment, comment],
          [fact.recordedHash, recordedHash(word)],
        ],
      });
    });
    const { answer: recorded } = resolved.ack;
    return pauseAnswer(runId, resolved, {
      word: recorded,
      colour: recorded === 'failed' ? 'red' : 'green',
      ...(recorded === 'retry' ? { next: 'it is sent again' } : {}),
    });
  },
});

type Word = Parameters<typeof recordedHash>[0];

function wordOf(answer: string, { result, message }: { readonly result?: string; readonly message?: string }): Word {
  if (answer === 'retry' && result === undefined && message === undefined) return { kind: 'retry' };
  if (answer === 'succeeded' && result !== undefined && message === undefined) return { kind: 'succeeded', result };
  if (answer === 'failed' && message !== undefined && result === undefined) return { kind: 'failed', message };
  throw option.usage('Say retry, or succeeded with --result TEXT, or failed with --message TEXT. Nothing was sent.');
}

const AUTHORIZING = {
  as: option.actor('who says it: an approver of the request, or whose grant it replaces'),
  scope: option.repeated('<scope>', 'consent to this scope; every scope that the request names must be given'),
  again: option.flag('if the request names no scope: let the call be tried once more'),
  ref: option.text('<ref>', 'replace the grant by this vault entry'),
  grantFile: option.text('<file>', 'a sealed grant as JSON, {server, jwe}, or - for standard input'),
  decline: option.text('<reason>', 'refuse, for this reason; the call ends'),
  ...ANSWERING,
} satisfies option.OptionRows;

export const AUTHORIZE = verb({
  name: 'authorize',
  summary: 'answer a server that wants another authorization for a call',
  description:
    'Answer a call whose server wants another authorization: consent to the scopes that it names, for this call alone; or give a fresh grant in place of your own',
  args: PLACE,
  options: AUTHORIZING,
  examples: [
    'authorize nightly-42 t2.c0 --as bob --scope tickets.admin',
    'authorize nightly-42 t2.c0 --as ann --ref ann-tickets',
    "authorize nightly-42 t2.c0 --as bob --decline 'not for this run'",
  ],
  run: async ({ args: { run: runId, call }, options, terminal, session }) => {
    assertOne(options);
    const { comment, decline, ref, grantFile } = options;
    const kind = decline !== undefined ? 'decline' : ref === undefined && grantFile === undefined ? 'consent' : 'grant';
    const answered = await session(async ({ countersign }) => {
      const run = countersign.run(runId);
      return await answerPause(run, call, options, {
        kind: 'authorization',
        asksNot: 'waits for no authorization',
        say: async (about, base) => await answerTo(about, base, options, terminal),
        send: async (said) => await run.authorize(said),
        // The grant cannot be compared: the request, which names its server, is closed by then.
        told: (fact) => [
          [fact.answer, kind],
          [fact.comment, decline ?? comment],
        ],
      });
    });
    const { answer: word } = answered.ack;
    if (word === 'decline') return pauseAnswer(runId, answered, { word, colour: 'red' });
    return pauseAnswer(runId, answered, { word, colour: 'green', next: 'it is sent again' });
  },
});

type AuthorizeOptions = option.Values<typeof AUTHORIZING>;

function assertOne({ scope, again, ref, grantFile, decline, comment }: AuthorizeOptions): void {
  if ([scope, again, ref, grantFile, decline].filter((each) => each !== undefined).length !== 1)
    throw option.usage('Say one thing: --scope (each that is named), --again, --ref, --grant-file or --decline.');
  if (decline !== undefined && comment !== undefined)
    throw option.usage('--decline holds the reason; --comment goes with the others.');
}

async function answerTo(
  { server, scopes = [] }: AuthorizationPause,
  base: AnswerBase,
  { scope = [], ref, grantFile, decline, comment }: AuthorizeOptions,
  terminal: Terminal,
): Promise<AuthorizationInput> {
  if (decline !== undefined) return { kind: 'decline', ...base, reason: decline };
  const noted = { ...base, ...defined({ comment }) };
  if (ref !== undefined) return { kind: 'grant', ...noted, grant: { server, ref } };
  if (grantFile !== undefined) {
    const given = await readInput(grantFile, { what: 'grant', code: 'GRANT_INVALID' }, terminal);
    return { kind: 'grant', ...noted, grant: parseAs(Grant, given, 'GRANT_INVALID', 'grant') };
  }
  if (scopes.length === new Set(scope).size && scopes.every((each) => scope.includes(each)))
    return { kind: 'consent', ...noted };
  const wanted = scopes.map((each) => `--scope ${shellWord(each)}`).join(' ');
  const message = `Call ${base.callId} waits for consent to ${wanted === '' ? 'another try (--again)' : wanted}; name exactly that.`;
  throw new CountersignError('DECISION_INVALID', message, { callId: base.callId });
}

export type AnswerOptions = { readonly as: string } & option.Values<typeof ANSWERING> & option.GlobalOptions;

type AnswerBase = Pick<ApprovalRequest, 'callId' | 'digest' | 'runId'> & {
  readonly decisionId: string;
  readonly approver: { readonly id: string; readonly groups: string[] };
};

interface PauseVerb<Kind extends PauseKind, Said> {
  readonly kind: Kind;
  /** Completes "Call t1.c0 …" if the call has no open request of this kind. */
  readonly asksNot: string;
  /** Set if the digest must be named: shows the current request to a person who names none. */
  readonly unread?: (request: ApprovalRequest) => void;
  readonly say: (about: Extract<Pause, { kind: Kind }>, base: AnswerBase) => Said | Promise<Said>;
  readonly send: (said: Said) => Promise<PauseAck>;
  /** Pairs the recorded answer with the one given now, as far as ledger and options have the same fields. */
  readonly told: (fact: PauseFact & { readonly kind: (typeof FACTS)[Kind] }) => Told;
}

const FACTS = { outcome: 'outcome.resolved', input: 'input.provided', authorization: 'authorization.given' } as const;

type PauseFact = Extract<LedgerFact, { kind: (typeof FACTS)[PauseKind] }>;

export async function answerPause<
  Kind extends PauseKind,
  Said extends { readonly callId: string; readonly decisionId: string },
>(
  run: RunHandle,
  callId: string,
  options: AnswerOptions,
  { kind, asksNot, unread, say, send, told }: PauseVerb<Kind, Said>,
): Promise<Answered> {
  const { runId } = run;
  const request = (await run.requests()).find((shown) => shown.callId === callId && shown.status === 'open');
  // After an answer the call waits for something else, or for nothing; the answer then stands only in the ledger.
  const isInLedger = request === undefined || options.decisionId !== undefined;
  const before = isInLedger ? answersTo(callId, await run.ledger(), FACTS[kind]) : [];
  const own = ownAnswer(before, options.decisionId, options, told);
  if (own !== undefined) return { ack: ackOf(own) };
  if (request === undefined) throw notOpen(runId, callId, asksNot, before.map(ackOf).at(-1));
  const { about } = request;
  if (!isAbout(about, kind)) {
    const message = `Call ${callId} ${asksNot}; something else is asked of it (countersign requests ${lastWord(runId)}). Nothing was sent.`;
    throw new CountersignError('DECISION_NOT_PERMITTED', message, { runId, callId });
  }
  if (options.digest === undefined && unread !== undefined) {
    unread(request);
    throw option.usage(
      `Name the question of call ${callId} that you answer, by its --digest: its server may have asked another one since you looked. It is shown as it is now; nothing was sent.`,
      { runId, callId },
    );
  }
  assertDigest(runId, request, options.digest);
  const { decisionId = messageIdOf(kind, callId, options.as) } = options;
  const facts = { callId, decisionId };
  const said = await say(about, {
    ...facts,
    digest: request.digest,
    runId: request.runId,
    approver: { id: options.as, groups: [...(options.group ?? [])] },
  });
  return { ack: await sentUnder(`--decision-id ${decisionId}`, facts, async () => await send(said)), request };
}

function ackOf({ at, fact }: { readonly at: string; readonly fact: PauseFact }): PauseAck {
  const { callId, decisionId, answer, approver } = fact;
  return { callId, decisionId, answer, decidedBy: approver.id, decidedAt: at };
}

function isAbout<Kind extends PauseKind>(
  about: Pause | undefined,
  kind: Kind,
): about is Extract<Pause, { kind: Kind }> {
  return about?.kind === kind;
}

function notOpen(runId: string, callId: string, asksNot: string, last: PauseAck | undefined): CountersignError {
  if (last === undefined) {
    const message = `Call ${callId} of run ${runId} ${asksNot}; its ledger says how it ended (countersign ledger ${lastWord(runId)}). Nothing was sent.`;
    return new CountersignError('REQUEST_NOT_OPEN', message, { runId, callId });
  }
  const { answer, decidedBy, decidedAt } = last;
  const message = `Call ${callId} was answered (${answer}) by ${decidedBy} at ${decidedAt}; nothing was changed.`;
  return new CountersignError('ALREADY_DECIDED', message, { runId, callId, decidedBy, decidedAt });
}
