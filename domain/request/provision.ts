/**
 * A person's answers to a server's questions: which are asked, and what an answer does.
 *
 * 1. Answers are data for the server and no consent: the call leaves again with the consent that it had (INV-G1).
 * 2. Answers may be personal data: the ledger has their hash, and they are dropped together with the call.
 */
import { defined } from '../../contracts/defined.ts';
import type { InputAnswer, InputResponse } from '../../contracts/schemas/input.ts';
import type { InputPause, PauseAck, SignedProvision } from '../../contracts/schemas/request.ts';
import type { InputProgress, Provided } from '../../contracts/wire/carry.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { backInFlight } from '../legacy-2025/open-question.ts';
import {
  type Change,
  move,
  notSent,
  replaceCall,
  type Run,
  type RunIds,
  type Sendable,
  type WaitingForAnswer,
} from '../state/run.ts';
import { byteLength, canonicalJson, hashOf } from '../text/canonical.ts';
import { visible } from '../text/escape.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { tellDue } from './deadline.ts';
import { requestOpenedFact } from './digest.ts';
import {
  ANSWER_ROOM_BYTES,
  answersTo,
  askedBytes,
  MOST_ASKED_BYTES,
  problemInResponses,
  withAnswers,
} from './input.ts';
import { answerFact, type Paused, paused, type Pausing, remembering, resumed } from './pause.ts';
import { endedBy } from './transitions.ts';

type Asked = Extract<DispatchResult, { kind: 'input' }>;

/** Bytes of all answers of one call as canonical JSON: they are carried as long as the call is open. */
const MOST_PROVIDED_BYTES = 65_536;

/** Opens a request for the questions of a server. Questions with an answer that may be given again are not asked. */
export function askedForInput(run: Run, callId: string, asked: Asked, pausing: Pausing, ids: RunIds): Change {
  return move(run, callId, ['in-flight'], (state) => {
    const provided = state.input?.provided ?? [];
    const { missing } = answersTo(asked.requests, answersOf(provided), asked.used);
    const about: InputPause = {
      kind: 'input',
      round: asked.round,
      requests: Object.fromEntries(Object.entries(asked.requests).filter(([key]) => missing.includes(key))),
    };
    const next = { ...paused(state, about, pausing), input: { leg: legOf(asked), provided } };
    if (askedBytes(replaceCall(run, next)) <= MOST_ASKED_BYTES)
      return { call: next, facts: [requestOpenedFact(next, ids)] };
    const message = `Servers have asked for more than this run can keep (${MOST_ASKED_BYTES} bytes), and this one has not said whether anything was done. Find out at the server before anything is done again.`;
    return endedBy(state, { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message });
  });
}

function legOf({ round, requests, used, state }: Asked): InputProgress['leg'] {
  const hashes = Object.entries(requests).map(([key, { hash }]) => [key, { hash }] as const);
  return { round, requests: Object.fromEntries(hashes), used, ...defined({ state }) };
}

export function answersOf(
  provided: readonly { readonly provision: SignedProvision; readonly about: InputPause }[] | readonly Provided[],
): readonly InputAnswer[] {
  return provided.reduce<readonly InputAnswer[]>((answers, each) => {
    const about = 'about' in each ? each.about : each.request.about;
    return withAnswers(answers, about.requests, responsesOf(each.provision, about));
  }, []);
}

/** A declined or cancelled request answers each of its questions so. */
function responsesOf(provision: SignedProvision, { requests }: InputPause): Readonly<Record<string, InputResponse>> {
  if (provision.kind === 'provide') return provision.responses;
  const { kind: action } = provision;
  return Object.fromEntries(Object.keys(requests).map((key) => [key, { action }]));
}

export function refuseProvision(
  run: Run,
  { request, input }: Paused<InputPause>,
  provision: SignedProvision,
): Refusal | undefined {
  const { callId } = provision;
  if (provision.kind !== 'provide') return undefined;
  const problem = problemInResponses(request.about.requests, provision.responses);
  if (problem !== undefined) {
    const path = problem.path === '' ? 'responses' : `responses.${problem.path}`;
    return refuse('DECISION_INVALID', `${visible(path)} ${problem.reason}; nothing was changed.`, { callId, path });
  }
  const bytes = byteLength(canonicalJson([input?.provided.map((each) => each.provision) ?? [], provision]));
  const all = askedBytes(run) + byteLength(canonicalJson(provision));
  if (bytes <= MOST_PROVIDED_BYTES && all <= MOST_ASKED_BYTES + ANSWER_ROOM_BYTES) return undefined;
  return refuse(
    'LIMIT_REACHED',
    bytes > MOST_PROVIDED_BYTES
      ? `What was answered in call ${callId} would have ${bytes} bytes; ${MOST_PROVIDED_BYTES} are allowed. Answer more shortly, or decline.`
      : `What was asked and answered in all open calls would have ${all} bytes, more than the run can keep. Answer more shortly, decline, or answer other calls first.`,
    { callId, limit: 'input' },
  );
}

/** Records an admitted answer: the call may be sent again, or goes on by its open connection. @param at epoch ms */
export function provide(
  run: Run,
  asked: Paused<InputPause>,
  provision: SignedProvision,
  at: number,
): Change & { readonly ack: PauseAck } {
  const due = tellDue(asked, at);
  const { state } = due;
  const { definitionHash } = state.judgement.target;
  const fresh: Provided = { provision, decidedAt: at, request: state.request, definitionHash };
  const next =
    state.status === 'asking-on-connection'
      ? backInFlight(state, { kind: 'answered', provided: fresh }, at)
      : withProvided(state, fresh);
  const hash = defined({ responsesHash: responsesHash(provision) });
  return {
    ...remembering(replaceCall(run, next), 'input', provision, at),
    facts: [...due.facts, { kind: 'input.provided', ...answerFact(state, provision), ...hash }],
  };
}

function withProvided(state: WaitingForAnswer<InputPause>, fresh: Provided): Sendable {
  const sendable = resumed(state);
  const { input } = state;
  // Sound: only `askedForInput` opens such a request, and it sets `input`.
  if (input === undefined) throw new Error('nothing is known of what the server asked');
  const answered = new Set(Object.values(fresh.request.about.requests).map(({ hash }) => hash));
  // Earlier provisions stay as long as they answer a question that the fresh one does not.
  const kept = input.provided.filter(({ request }) =>
    Object.values(request.about.requests).some(({ hash }) => !answered.has(hash)),
  );
  return { ...sendable, input: { ...input, provided: [...kept, fresh] } };
}

export function responsesHash(provision: SignedProvision): string | undefined {
  return provision.kind === 'provide' ? hashOf(provision.responses) : undefined;
}

/** Drops all answers and starts the call anew: the answers no longer hold, and the server does not know them. */
export function forgotten(run: Run, callId: string): Change {
  return move(run, callId, ['in-flight'], ({ input: _, ...begins }) => ({ call: notSent(begins), facts: [] }));
}
