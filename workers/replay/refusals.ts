/**
 * Asks a run, from its history, what every build must refuse. A refused message never enters history, so a build whose
 * validators let everything pass replays every history (INV-G2).
 *
 * 1. The history gets one more workflow task, in which the messages stand admitted, as a reset leaves them: the SDK
 *    runs validators for those, without a server, in the very state in which the run waits.
 * 2. What is expected stands here as data. The rules of `domain/` are not asked: they are the code in doubt.
 * 3. A refusal counts with any code; the recorded corpus holds the codes. One answer of each open request must be
 *    taken, with the digest that an earlier build has shown, or a build that refuses everything would pass.
 * 4. Runs of trust mode `signed` are asked without signatures: that shows only that they refuse what is unsigned.
 *
 * One file, because what is asked is read beside what must be answered.
 */
import { defaultPayloadConverter } from '@temporalio/common';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_UPDATES, PENDING_MEMO, READING_QUEUE, UPDATES } from '../../contracts/names.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { ApprovalRequest, Approver, PauseKind } from '../../contracts/schemas/request.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import type { Command } from '../../workflows/interceptors/replay-inspector.ts';
import { type DeedReader, deedReader, type History, type Recorded } from './recorded-history.ts';
import { Replayer, type ReplayOptions, type ReplayOutcome } from './replay.ts';
import { AnswerLog, type Answers, commandsOf, historyOf } from './replayed-run.ts';
import { CommandLog, compareHistories, livingRunId, underRunId } from './semantics.ts';

export interface Message {
  /** Update id, by which its answer is found. */
  readonly id: string;
  readonly update: string;
  readonly input: unknown;
}

/** Numbers of temporal.api.enums.v1. */
const UPDATE_ADMITTED = 47;
const WORKFLOW_TASK_SCHEDULED = 5;
const WORKFLOW_TASK_STARTED = 6;

/**
 * Returns the history one workflow task longer, in which the messages arrive.
 * @param at epoch ms
 */
export function withMessages({ events }: History, messages: readonly Message[], at: number): History {
  let last = Number(events?.at(-1)?.eventId);
  const eventTime = { seconds: Math.floor(at / 1_000), nanos: (at % 1_000) * 1_000_000 };
  const admitted = messages.map(({ id, update, input }) => ({
    eventId: (last += 1),
    eventTime,
    eventType: UPDATE_ADMITTED,
    workflowExecutionUpdateAdmittedEventAttributes: {
      request: {
        meta: { updateId: id, identity: 'client' },
        input: { name: update, args: { payloads: [defaultPayloadConverter.toPayload(input)] } },
      },
    },
  }));
  const scheduled = { eventId: last + 1, workflowTaskScheduledEventAttributes: { attempt: 1 } };
  const started = { eventId: last + 2, workflowTaskStartedEventAttributes: { scheduledEventId: last + 1 } };
  const task = [
    { ...scheduled, eventTime, eventType: WORKFLOW_TASK_SCHEDULED },
    { ...started, eventTime, eventType: WORKFLOW_TASK_STARTED },
  ];
  // Sound: protobuf takes plain numbers where its own messages hold Long.
  return { events: [...(events ?? []), ...admitted, ...task] } as History;
}

export const TAKEN = 'accepted';

/** Returns what a run said to a message: `accepted`, or the code of its refusal. */
export function answerTo(id: string, commands: readonly Command[]): string {
  const answers = commands.flatMap(({ updateResponse }) =>
    updateResponse?.protocolInstanceId === id ? [updateResponse] : [],
  );
  const rejected = answers.find((answer) => answer.rejected)?.rejected;
  if (rejected) return rejected.applicationFailureInfo?.type ?? rejected.message ?? 'refused without a code';
  // A catalog asks the configuration first, and answers later.
  return answers.some(({ completed, accepted }) => completed || accepted) ? TAKEN : 'no answer';
}

interface Question {
  readonly name: string;
  readonly update: string;
  readonly input: unknown;
  /** Set if every build must take it. */
  readonly isRight?: true;
}

/**
 * Passes outcomes on. One of a run that waits becomes a failure if the run would take what it must refuse, or refuse
 * what it must take.
 *
 * @param outcomes only those without an error are asked, and of them only runs that wait
 * @param options `bundle` is one of `bundleForReading`
 */
export async function* withRefusals(
  outcomes: AsyncIterable<ReplayOutcome> | Iterable<ReplayOutcome>,
  options: ReplayOptions,
): AsyncGenerator<ReplayOutcome> {
  const asking = new Asking(options);
  try {
    for await (const outcome of outcomes) {
      const fault = outcome.error === undefined ? await asking.faultOf(outcome) : undefined;
      yield { ...outcome, ...defined({ error: outcome.error ?? fault }) };
    }
  } finally {
    await asking.close();
  }
}

class Asking {
  readonly #reader: DeedReader;
  readonly #log = new CommandLog();
  readonly #answers = new AnswerLog();
  readonly #replayer: Replayer;

  constructor(options: ReplayOptions) {
    const sinks = { ...options.sinks, ...this.#log.sinks, ...this.#answers.sinks };
    this.#reader = deedReader(options);
    this.#replayer = new Replayer({ ...options, name: READING_QUEUE, sinks });
  }

  async close(): Promise<void> {
    await this.#replayer.close();
  }

  /** Replays a run once to see what it waits for, and once for each round of questions. */
  async faultOf({ workflowId, history: whole }: ReplayOutcome): Promise<Error | undefined> {
    const waiting = whole && upToLastAnswer(whole);
    const runId = whole && livingRunId(whole);
    if (waiting === undefined || runId === undefined) return undefined;
    const history = await underRunId(waiting, runId, this.#reader);
    const failure = await this.#replayed(workflowId, history, []);
    if (failure !== undefined) return failure;
    const shown = await shownDigests(waiting, runId, this.#reader);
    for (const { questions, at } of roundsFor(this.#answers.last, shown, timeOf(waiting))) {
      const messages = questions.map(({ update, input }, index) => ({ id: idOf(index), update, input }));
      const fault = await this.#replayed(workflowId, withMessages(history, messages, at), questions);
      if (fault !== undefined) return fault;
    }
    return undefined;
  }

  async #replayed(workflowId: string, history: History, asked: readonly Question[]): Promise<Error | undefined> {
    const { error } = await this.#replayer.replay({ kind: 'history', name: workflowId, workflowId, history });
    const { commands } = this.#log.take();
    return error ?? faultIn(asked, commands);
  }
}

/**
 * Returns why a build may not take a run over: it does not replay the run, or answers it otherwise than every build
 * must.
 * @param options `bundle` is one of `bundleForReading`
 */
export async function takeoverFault(recorded: Recorded, options: ReplayOptions): Promise<Error | undefined> {
  if (recorded.kind === 'unreadable') throw unread(recorded);
  for await (const { error, isUnread } of withRefusals(compareHistories([recorded], options), options)) {
    if (error !== undefined && isUnread) throw unread({ ...recorded, error });
    if (error !== undefined) return error;
  }
  return undefined;
}

/** What could not be read was not replayed, and says nothing of the build. */
function unread({ workflowId, error }: Omit<Extract<Recorded, { kind: 'unreadable' }>, 'kind'>): CountersignError {
  const message = `The history of ${workflowId} could not be read, so it was not replayed: ${error.message}`;
  return new CountersignError('ENGINE_UNAVAILABLE', message, {}, { cause: error });
}

function idOf(index: number): string {
  return `asked-${index}`;
}

function faultIn(questions: readonly Question[], commands: readonly Command[]): CountersignError | undefined {
  for (const [index, { name, isRight }] of questions.entries()) {
    const answer = answerTo(idOf(index), commands);
    const isTaken = answer === TAKEN;
    if (isTaken === (isRight === true) && answer !== 'no answer') continue;
    const message = isTaken
      ? `This build takes what every build must refuse: ${name}.`
      : isRight === true
        ? `This build refuses what the run waits for, ${name}: ${answer}.`
        : `This build does not answer: ${name}.`;
    return new CountersignError('REPLAY_FAILED', message, { asked: name });
  }
  return undefined;
}

/** Returns the history up to the last task that a worker has done; undefined if it is closed, or no task was done. */
function upToLastAnswer({ events: given }: History): History | undefined {
  const events = given ?? [];
  const done = events.findLastIndex(({ workflowTaskCompletedEventAttributes: completed }) => completed);
  if (done === -1) return undefined;
  const made = commandsOf(events, done);
  const isClosed = made.some(
    (event) =>
      event.workflowExecutionCompletedEventAttributes ||
      event.workflowExecutionFailedEventAttributes ||
      event.workflowExecutionCanceledEventAttributes ||
      event.workflowExecutionContinuedAsNewEventAttributes,
  );
  const isStopped = events.some((event) => event.workflowExecutionTerminatedEventAttributes);
  return isClosed || isStopped ? undefined : historyOf(events.slice(0, done + 1 + made.length));
}

/** Returns the time of the last event, epoch ms. */
function timeOf({ events }: History): number {
  const { seconds, nanos } = events?.at(-1)?.eventTime ?? {};
  return Number(String(seconds ?? 0)) * 1_000 + Math.ceil((nanos ?? 0) / 1_000_000);
}

/** Returns the digests by call that lists showed last: what people have read before this build came. */
async function shownDigests(
  { events }: History,
  runId: string,
  reader: DeedReader,
): Promise<ReadonlyMap<string, string>> {
  const first = events?.[0]?.workflowExecutionStartedEventAttributes;
  // After a reset the memo still has the digests of the discarded run.
  if (first?.originalExecutionRunId !== runId) return new Map();
  const memos = (events ?? []).flatMap(
    ({ workflowExecutionStartedEventAttributes: started, workflowPropertiesModifiedEventAttributes: modified }) =>
      (started?.memo ?? modified?.upsertedMemo)?.fields?.[PENDING_MEMO] ?? [],
  );
  const [memo] = await reader.values(memos.slice(-1));
  const listed = isFields(memo) && Array.isArray(memo['requests']) ? memo['requests'] : [];
  return new Map(
    listed.flatMap((each: unknown) =>
      isFields(each) && typeof each['callId'] === 'string' && typeof each['digest'] === 'string'
        ? [[each['callId'], each['digest']] as const]
        : [],
    ),
  );
}

/** @param now epoch ms, at which the run was seen last @returns `at` is in epoch ms, too */
function roundsFor(
  { state, requests = [], ledger }: Answers,
  shown: ReadonlyMap<string, string>,
  now: number,
): readonly { readonly questions: readonly Question[]; readonly at: number }[] {
  if (state === undefined) return [{ questions: TO_CATALOGS, at: now }];
  const open = requests.filter(({ status, deadline }) => status === 'open' && Date.parse(deadline) > now);
  const closed = requests.filter(({ status }) => status !== 'open');
  const used = ledger?.entries.findLast(({ fact }) => fact.kind === 'decision.accepted')?.fact;
  const questions = [
    ...TO_RUNS,
    ...open.flatMap((request) => wrongAnswers(request, now)),
    ...open.slice(0, 1).flatMap((request) => (used === undefined ? [] : againstId(request, used))),
    ...closed.map((request) => ({
      ...rightAnswer(request),
      name: `an answer to the closed request ${request.callId}`,
    })),
    ...(isTaking(state)
      ? open.filter(isPlain).map((request): Question => ({
          ...rightAnswer({ ...request, digest: shown.get(request.callId) ?? request.digest }),
          isRight: true,
        }))
      : []),
  ];
  if (open.length === 0) return [{ questions, at: now }];
  const late = open.map((request) => ({
    ...rightAnswer(request),
    name: `an answer to ${request.callId} after its deadline`,
  }));
  return [
    { questions, at: now },
    { questions: late, at: Math.max(...open.map(({ deadline }) => Date.parse(deadline))) + 1_000 },
  ];
}

function isTaking({ status, endsAs, signing }: RunState): boolean {
  return status === 'waiting' && endsAs === undefined && signing === undefined;
}

/** True if one named person may answer the request at any time. */
function isPlain({ approvers, votes }: ApprovalRequest): boolean {
  const isStaged = approvers.allOf.some(({ escalate }) => escalate !== undefined);
  return !isStaged && votes === undefined && personFor(approvers) !== undefined;
}

/** What answers each kind of request, and the least that can be said by it. */
const ANSWERS: Readonly<Record<PauseKind | 'consent', { readonly update: string; readonly said: object }>> = {
  consent: { update: UPDATES.decide, said: { kind: 'approve' } },
  outcome: { update: UPDATES.resolveOutcome, said: { kind: 'failed', message: 'It did not happen.' } },
  input: { update: UPDATES.provideInput, said: { kind: 'decline' } },
  authorization: { update: UPDATES.authorize, said: { kind: 'decline', reason: 'not now' } },
};

const STRANGER: Approver = { id: 'countersign-replay', groups: ['countersign-replay'] };
const NO_RUN = '00000000-0000-4000-8000-000000000000';

function rightAnswer(request: ApprovalRequest, over: object = {}): Question {
  const { callId, digest, runId, about } = request;
  const { update, said } = ANSWERS[about?.kind ?? 'consent'];
  const kind = 'kind' in over ? String(over.kind) : 'said';
  const approver = personFor(request.approvers) ?? STRANGER;
  const decisionId = `asked-${kind}-${callId}-${Object.keys(over).join('-')}`;
  return {
    name: `the answer to ${callId}`,
    update,
    input: { decisionId, callId, digest, runId, approver, ...said, ...over },
  };
}

/** @param now epoch ms */
function wrongAnswers(request: ApprovalRequest, now: number): readonly Question[] {
  const { callId, approvers, about, votes = [] } = request;
  const wrong = (what: string, over: object): Question => ({
    ...rightAnswer(request, over),
    name: `an answer to ${callId} ${what}`,
  });
  const { update, said } = ANSWERS[about === undefined ? 'outcome' : 'consent'];
  const excluded = approvers.allOf[0]?.not?.find((id) => approvers.allOf.every(({ not }) => not?.includes(id)));
  const groups = groupsOf(approvers);
  const elsewhere = requestDigest({ ...request, runId: NO_RUN, target: request });
  return [
    wrong('with the digest of something else', { digest: '0'.repeat(64) }),
    wrong('with the digest of another run', { runId: NO_RUN }),
    wrong('made in a run that never was', { runId: NO_RUN, digest: elsewhere }),
    wrong('by a stranger', { approver: STRANGER }),
    wrong('by nobody', { approver: undefined }),
    wrong('with a field too many', { approved: true }),
    { ...wrong('by the update of other requests', said), update },
    ...(excluded === undefined ? [] : [wrong('by one who is excluded', { approver: { id: excluded, groups } })]),
    ...laterPeople(request, now).map((id) => wrong('by one who is asked later', { approver: { id, groups: [] } })),
    ...(about === undefined
      ? [
          ...wrongDecisions(request, wrong),
          ...votes.map(({ approver }) => wrong('by one who has agreed', { approver, comment: 'once more' })),
        ]
      : []),
    ...(about?.kind === 'authorization' && about.wants === 'grant'
      ? [wrong('by mere consent', { kind: 'consent', reason: undefined })]
      : []),
    ...(about?.kind === 'input'
      ? [
          wrong('that answers what nobody asked', {
            kind: 'provide',
            responses: { 'countersign-replay': { action: 'decline' } },
          }),
        ]
      : []),
  ];
}

function wrongDecisions(
  { openedAt, deadline, approvers, asItIs }: ApprovalRequest,
  wrong: (what: string, over: object) => Question,
): readonly Question[] {
  const { allOf, extendableToSeconds = 0 } = approvers;
  const may = (right: 'edit' | 'respond'): boolean =>
    asItIs !== true && allOf.every((clause) => clause.may?.includes(right) === true);
  const tooFar = Math.max(Date.parse(deadline), Date.parse(openedAt) + extendableToSeconds * 1_000) + 1_000;
  return [
    wrong('that postpones it further than its rule lets', { kind: 'extend', until: new Date(tooFar).toISOString() }),
    wrong('that rejects it without a reason', { kind: 'reject' }),
    ...(may('edit') ? [] : [wrong('with other arguments', { arguments: { by: 'countersign-replay' } })]),
    ...(may('respond') ? [] : [wrong("in the tool's place", { kind: 'respond', answer: 'Done.' })]),
    ...(allOf.every(({ remember }) => remember?.includes('tool') === true)
      ? []
      : [wrong('for all later calls', { remember: { scope: 'tool' } })]),
  ];
}

/** Returns people whom the rule names for a later time alone. */
function laterPeople({ approvers: { allOf }, openedAt }: ApprovalRequest, now: number): readonly string[] {
  const named = new Set(allOf.flatMap(({ ids }) => ids));
  return allOf.flatMap(({ escalate }) => {
    if (escalate === undefined || now >= Date.parse(openedAt) + escalate.afterSeconds * 1_000) return [];
    const { ids } = 'add' in escalate ? escalate.add : escalate.replace;
    return ids.filter((id) => !named.has(id)).slice(0, 1);
  });
}

/** Asks whether the id of an earlier decision can be used for another one. */
function againstId(request: ApprovalRequest, used: LedgerFact): readonly Question[] {
  if (used.kind !== 'decision.accepted' || request.about !== undefined) return [];
  const said = used.decision === 'reject' ? { kind: 'approve' } : { kind: 'reject', reason: 'countersign-replay' };
  const other = rightAnswer(request, { ...said, decisionId: used.decisionId });
  return [{ ...other, name: `an answer to ${request.callId} with the id of an earlier decision` }];
}

/** Returns a person who counts for each list of the rule, escalations left out. */
function personFor(rule: ApproverRule): Approver | undefined {
  const { allOf } = rule;
  const groups = groupsOf(rule);
  const id = [...allOf.flatMap(({ ids }) => ids), STRANGER.id].find((each) =>
    allOf.every((clause) => !clause.not?.includes(each) && (clause.ids.includes(each) || clause.groups.length > 0)),
  );
  return id === undefined ? undefined : { id, groups };
}

function groupsOf({ allOf }: ApproverRule): string[] {
  return [...new Set(allOf.flatMap(({ groups }) => groups))].slice(0, 100);
}

const BY = { id: STRANGER.id, groups: [] };
const NOBODY_ASKED = { decisionId: 'asked', callId: 't999999.c0', digest: '0'.repeat(64), runId: NO_RUN, approver: BY };

const TO_RUNS: readonly Question[] = [
  {
    name: 'a decision on a call that is not there',
    update: UPDATES.decide,
    input: { ...NOBODY_ASKED, kind: 'approve' },
  },
  ...[
    UPDATES.decide,
    UPDATES.say,
    UPDATES.stop,
    UPDATES.forget,
    UPDATES.resolveOutcome,
    UPDATES.provideInput,
    UPDATES.authorize,
  ].map((update) => ({ name: `a mere "yes" as ${update}`, update, input: 'yes' })),
  { name: 'an empty message', update: UPDATES.say, input: { messageId: 'asked', text: '', from: BY.id } },
  { name: 'a stop without a reason', update: UPDATES.stop, input: { by: BY.id } },
  {
    name: 'the end of a standing decision that is none',
    update: UPDATES.forget,
    input: { standing: 'countersign-replay', by: BY },
  },
];

const TO_CATALOGS: readonly Question[] = [
  CATALOG_UPDATES.connect,
  CATALOG_UPDATES.setToolPolicies,
  CATALOG_UPDATES.decide,
].map((update) => ({ name: `a mere "yes" as ${update}`, update, input: 'yes' }));
