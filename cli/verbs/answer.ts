/**
 * Implements the verbs that answer requests about something else than consent: `answer`, `resolve` and
 * `authorize`.
 *
 * 1. Answers may be personal data: they are sent, and not printed.
 * 2. A server may ask something else at any time. An answer to its question must name the digest of the question that
 *    was read. Otherwise the current question is shown, and nothing is sent.
 *
 * One file, because the three verbs share how a request is chosen, read and answered.
 */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { RunHandle } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type {
  ApprovalRequest,
  AuthorizationInput,
  AuthorizationPause,
  Pause,
  PauseAck,
  PauseKind,
  ProvisionInput,
  ResolutionInput,
} from '../../contracts/schemas/request.ts';
import { Grant } from '../../contracts/schemas/run-spec.ts';
import { recordedHash } from '../../domain/request/outcome.ts';
import { visible } from '../../domain/text/escape.ts';
import {
  type Answer,
  answeredBefore,
  type AnswerFact,
  assertSame,
  print,
  sentUnder,
  type Told,
} from '../session/answered.ts';
import { readInput } from '../session/files.ts';
import { responsesFrom, type Words } from '../session/input-values.ts';
import { examples, repeated } from '../session/options.ts';
import { withSession } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';
import { type Answered, pauseAnswer } from '../views/input.ts';
import { withComment } from './decide.ts';
import type { DecideOptions } from './deciding.ts';
import { requestsAnswer } from './requests.ts';

interface ProvideOptions extends AnswerOptions {
  readonly set?: readonly string[];
  readonly file?: string;
  readonly accept?: boolean;
  readonly decline?: boolean;
  readonly cancel?: boolean;
}

export function addAnswer(program: Command, terminal: Terminal): void {
  const command = program
    .command('answer')
    .summary('answer what a server asks in the middle of a call')
    .description(
      'Answer what a server asks before it goes on with a call. `countersign requests` shows the questions, each with its digest; what you answer goes to the server',
    )
    .argument('<run>', 'run id')
    .argument('<call>', 'call id, such as t2.c0')
    .requiredOption('--as <id>', 'who answers')
    .option('--set <field=value>', 'a field of the form; may be given several times', repeated)
    .option('--file <path>', 'the fields as JSON or YAML; - reads standard input')
    .option('--accept', 'you have opened the page, or the form needs no field')
    .option('--decline', 'say no; the server is told so')
    .option('--cancel', 'give no answer; the server is told so');
  withAnswerOptions(
    command,
    'of the question that you have read (see `requests`); without it you are shown the question',
  )
    .addHelpText(
      'after',
      examples(
        'answer nightly-42 t2.c0 --as ann --digest 3f8a… --set name=Ann --set seats=2',
        'answer nightly-42 t2.c0 --as ann --digest 3f8a… --file answer.yaml',
        'answer nightly-42 t2.c0 --as ann --digest 3f8a… --decline',
      ),
    )
    .action(async (runId: string, callId: string, _own: unknown, used: Command) => {
      const options = used.optsWithGlobals<ProvideOptions>();
      assertOneWord(options);
      const content =
        options.file === undefined
          ? undefined
          : await readInput(options.file, { what: 'answer', code: 'DECISION_INVALID' }, terminal);
      const words: Words = {
        ...defined({ set: options.set, content, accept: options.accept }),
      };
      const answered = await withSession(
        terminal,
        options,
        async ({ countersign }) => await answerCall(countersign.run(runId), callId, words, options, terminal),
      );
      print(terminal, answeredText(runId, answered), options.json === true);
    });
}

function assertOneWord({ set, file, accept, decline, cancel }: ProvideOptions): void {
  const says = set !== undefined || file !== undefined || accept === true;
  if ([says, decline === true, cancel === true].filter(Boolean).length === 1) return;
  throw new CountersignError(
    'USAGE',
    'Say what you answer: --set, --file or --accept; or --decline; or --cancel. Nothing was sent.',
  );
}

async function answerCall(
  run: RunHandle,
  callId: string,
  words: Words,
  options: ProvideOptions,
  terminal: Terminal,
): Promise<Answered> {
  const { comment, decline, cancel } = options;
  return await answerPause(run, callId, options, {
    kind: 'input',
    asksNot: 'is asked nothing by its server',
    unread: (request) => print(terminal, requestsAnswer(run.runId, [request], { full: true }), options.json === true),
    say: ({ requests }, base): ProvisionInput => {
      const answer = { ...base, ...defined({ comment }) };
      if (decline === true) return { kind: 'decline', ...answer };
      if (cancel === true) return { kind: 'cancel', ...answer };
      return { kind: 'provide', ...answer, responses: responsesFrom(requests, words) };
    },
    send: async (said) => await run.provideInput(said),
    // The fields cannot be compared: the form that gives them their types is closed by then.
    told: (fact) => [
      [fact.answer, decline === true ? 'decline' : cancel === true ? 'cancel' : 'provide'],
      [fact.comment, comment],
    ],
  });
}

const WORDS = { provide: 'answered', decline: 'declined', cancel: 'cancelled' } as const;

function answeredText(runId: string, answered: Answered): Answer {
  const { answer } = answered.ack;
  return pauseAnswer(runId, answered, {
    // Sound: `answer` was just seen to be a key of `WORDS`.
    word: Object.hasOwn(WORDS, answer) ? WORDS[answer as keyof typeof WORDS] : answer,
    colour: answer === 'provide' ? 'green' : 'yellow',
    next: 'the server is told',
  });
}

// `countersign resolve` says what became of a call that was sent and whose answer was lost.

interface ResolveOptions extends AnswerOptions {
  readonly result?: string;
  readonly message?: string;
}

type Word =
  | { readonly kind: 'retry' }
  | { readonly kind: 'succeeded'; readonly result: string }
  | { readonly kind: 'failed'; readonly message: string };

export function addResolve(program: Command, terminal: Terminal): void {
  const command = program
    .command('resolve')
    .summary('say what became of a call whose answer was lost')
    .description(
      'Say what became of a call that was sent and whose answer was lost. Look at its server first. retry sends it again; succeeded and failed record what you found, and the model is told that you did',
    )
    .argument('<run>', 'run id')
    .argument('<call>', 'call id, such as t2.c0')
    .argument('<answer>', 'retry, succeeded or failed')
    .requiredOption('--as <id>', 'who says so')
    .option('--result <text>', 'of succeeded: told to the model as your words')
    .option('--message <text>', 'of failed: told to the model as your words');
  withAnswerOptions(command)
    .addHelpText(
      'after',
      examples(
        'resolve nightly-42 t2.c0 succeeded --as ann --result "Payment 4711 is booked."',
        'resolve nightly-42 t2.c0 failed --as ann --message "No payment is there."',
        'resolve nightly-42 t2.c0 retry --as ann --digest 3f8a…',
      ),
    )
    .action(async (runId: string, callId: string, answer: string, _own: unknown, used: Command) => {
      const options = used.optsWithGlobals<ResolveOptions>();
      const word = wordOf(answer, options);
      const resolved = await withSession(
        terminal,
        options,
        async ({ countersign }) => await resolveCall(countersign.run(runId), callId, word, options),
      );
      print(terminal, resolvedText(runId, resolved), options.json === true);
    });
}

function wordOf(answer: string, { result, message }: ResolveOptions): Word {
  if (answer === 'retry' && result === undefined && message === undefined) return { kind: 'retry' };
  if (answer === 'succeeded' && result !== undefined && message === undefined) return { kind: 'succeeded', result };
  if (answer === 'failed' && message !== undefined && result === undefined) return { kind: 'failed', message };
  throw new CountersignError(
    'USAGE',
    'Say retry, or succeeded with --result TEXT, or failed with --message TEXT. Nothing was sent.',
  );
}

async function resolveCall(run: RunHandle, callId: string, word: Word, options: ResolveOptions): Promise<Answered> {
  const { comment } = options;
  return await answerPause(run, callId, options, {
    kind: 'outcome',
    asksNot: 'does not wait to hear what became of it',
    say: (_, base): ResolutionInput => ({ ...word, ...base, ...defined({ comment }) }),
    send: async (said) => await run.resolveOutcome(said),
    told: (fact) => [
      [fact.answer, word.kind],
      [fact.comment, comment],
      [fact.recordedHash, recordedHash(word)],
    ],
  });
}

function resolvedText(runId: string, answered: Answered): Answer {
  const { answer } = answered.ack;
  return pauseAnswer(runId, answered, {
    word: answer,
    colour: answer === 'failed' ? 'red' : 'green',
    ...(answer === 'retry' ? { next: 'it is sent again' } : {}),
  });
}

// `countersign authorize` answers a server that wants another authorization for a call.

interface AuthorizeOptions extends AnswerOptions {
  readonly scope?: readonly string[];
  readonly again?: true;
  readonly ref?: string;
  readonly grantFile?: string;
  readonly decline?: string;
}

export function addAuthorize(program: Command, terminal: Terminal): void {
  const command = program
    .command('authorize')
    .summary('give what a server wants before it takes a call')
    .description(
      'Answer a call whose server wants another authorization: consent to the scopes that it names, for this call alone; or give a fresh grant in place of your own',
    )
    .argument('<run>', 'run id')
    .argument('<call>', 'call id, such as t2.c0')
    .requiredOption('--as <id>', 'who says it: an approver of the request, or whose grant it replaces')
    .option('--scope <scope>', 'consent to this scope; all that the request names, each by name', repeated)
    .option('--again', 'where no scope is named: let it be tried once more')
    .option('--ref <ref>', 'the vault entry in place of the grant')
    .option('--grant-file <file>', 'a sealed grant as JSON, {server, jwe}, or - for standard input')
    .option('--decline <reason>', 'neither: the call ends');
  withAnswerOptions(command)
    .addHelpText(
      'after',
      examples(
        'authorize nightly-42 t2.c0 --as bob --scope tickets.admin',
        'authorize nightly-42 t2.c0 --as ann --ref ann-tickets',
        "authorize nightly-42 t2.c0 --as bob --decline 'not for this run'",
      ),
    )
    .action(async (runId: string, callId: string, _own: unknown, used: Command) => {
      const options = used.optsWithGlobals<AuthorizeOptions>();
      assertOne(options);
      const answered = await withSession(terminal, options, async ({ countersign }) => {
        const run = countersign.run(runId);
        return await answerPause(run, callId, options, {
          kind: 'authorization',
          asksNot: 'waits for no authorization',
          say: async (about, base) => await answerTo(about, base, options, terminal),
          send: async (said) => await run.authorize(said),
          // The grant cannot be compared: the request, which names its server, is closed by then.
          told: (fact) => [
            [fact.answer, kindOf(options)],
            [fact.comment, options.decline ?? options.comment],
          ],
        });
      });
      print(terminal, authorizedText(runId, answered), options.json === true);
    });
}

function assertOne({ scope, again, ref, grantFile, decline, comment }: AuthorizeOptions): void {
  if ([scope, again, ref, grantFile, decline].filter((each) => each !== undefined).length !== 1)
    throw new CountersignError(
      'USAGE',
      'Say one thing: --scope (each that is named), --again, --ref, --grant-file or --decline.',
    );
  if (decline !== undefined && comment !== undefined)
    throw new CountersignError('USAGE', '--decline holds the reason; --comment goes with the others.');
}

function kindOf({ ref, grantFile, decline }: AuthorizeOptions): AuthorizationInput['kind'] {
  if (decline !== undefined) return 'decline';
  return ref === undefined && grantFile === undefined ? 'consent' : 'grant';
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
  const wanted = scopes.map((each) => `--scope ${visible(each)}`).join(' ');
  throw new CountersignError(
    'DECISION_INVALID',
    `Call ${base.callId} waits for consent to ${wanted === '' ? 'another try (--again)' : wanted}; name exactly that.`,
    { callId: base.callId },
  );
}

function authorizedText(runId: string, answered: Answered): Answer {
  const { answer } = answered.ack;
  const declined = answer === 'decline';
  return pauseAnswer(runId, answered, {
    word: answer,
    colour: declined ? 'red' : 'green',
    ...(declined ? {} : { next: 'it is sent again' }),
  });
}

// Sends one answer to a request about something else than consent, for `answer`, `resolve` and `authorize`.
//
// 1. An answer applies to the request as the run shows it now, with its digest recomputed. If the digest is named, it
//    must be that one, or nothing is sent (INV-G2).
// 2. A digest must be named if the asking server could have replaced the question that was read. A server can do so
//    within seconds and with the same words for its fields. Consent, outcomes and authorizations cannot be replaced
//    like that.
// 3. The same id sent again gets the receipt that it had, even if the call has gone on (INV-D3).

export interface AnswerOptions extends DecideOptions {
  readonly comment?: string;
}

/** @param which help text of `--digest` */
function withAnswerOptions(command: Command, which = 'answer only the request with this digest'): Command {
  return withComment(command)
    .option('--group <name>', 'a group that you belong to; may be given several times', repeated)
    .option('--digest <sha256>', which)
    .option('--decision-id <id>', 'the id of an answer whose receipt got lost: sent again, it counts once');
}

/** The fields that every answer has besides its content. */
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
  readonly told: (fact: AnswerFact & { readonly kind: (typeof FACTS)[Kind] }) => Told;
}

const FACTS = { outcome: 'outcome.resolved', input: 'input.provided', authorization: 'authorization.given' } as const;

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
  const before =
    request === undefined || options.decisionId !== undefined ? await answeredBefore(run, callId, FACTS[kind]) : [];
  const own = before.find(({ fact }) => fact.decisionId === options.decisionId);
  if (own !== undefined) {
    const { ack, fact } = own;
    const { approver, digest } = fact;
    // Sound: only facts of this kind were requested.
    const rest = told(fact as Parameters<typeof told>[0]);
    assertSame(callId, ack.decisionId, [[approver.id, options.as], [digest, options.digest ?? digest], ...rest]);
    return { ack };
  }
  if (request === undefined) throw notOpen(runId, callId, asksNot, before.at(-1)?.ack);
  const { about } = request;
  if (!isAbout(about, kind))
    throw new CountersignError(
      'DECISION_NOT_PERMITTED',
      `Call ${callId} ${asksNot}; something else is asked of it (countersign requests ${runId}). Nothing was sent.`,
      { runId, callId },
    );
  if (options.digest === undefined && unread !== undefined) {
    unread(request);
    throw new CountersignError(
      'USAGE',
      `Name the question of call ${callId} that you answer, by its --digest: its server may have asked another one since you looked. It is shown as it is now; nothing was sent.`,
      { runId, callId },
    );
  }
  if (options.digest !== undefined && options.digest !== request.digest)
    throw new CountersignError(
      'DIGEST_MISMATCH',
      `Call ${callId} now has digest ${request.digest}, not the one you named. Read it again (countersign requests ${runId}); nothing was sent.`,
      { runId, callId },
    );
  const said = await say(about, {
    decisionId: options.decisionId ?? randomUUID(),
    callId,
    digest: request.digest,
    runId: request.runId,
    approver: { id: options.as, groups: [...(options.group ?? [])] },
  });
  return { ack: await sentUnder(said, async () => await send(said)), request };
}

function isAbout<Kind extends PauseKind>(
  about: Pause | undefined,
  kind: Kind,
): about is Extract<Pause, { kind: Kind }> {
  return about?.kind === kind;
}

function notOpen(runId: string, callId: string, asksNot: string, last: PauseAck | undefined): CountersignError {
  if (last === undefined)
    return new CountersignError(
      'REQUEST_NOT_OPEN',
      `Call ${callId} of run ${runId} ${asksNot}; its ledger says how it ended (countersign ledger ${runId}). Nothing was sent.`,
      { runId, callId },
    );
  const { answer, decidedBy, decidedAt } = last;
  return new CountersignError(
    'ALREADY_DECIDED',
    `Call ${callId} was answered (${answer}) by ${decidedBy} at ${decidedAt}; nothing was changed.`,
    { runId, callId, decidedBy, decidedAt },
  );
}
