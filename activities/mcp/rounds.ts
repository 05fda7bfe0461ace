/**
 * Sends a call that a server answers with questions, leg after leg, until there is a result or a question without an
 * answer (MCP 2026-07-28, multi round-trip requests).
 *
 * It owns the order of legs, and what follows if the server no longer takes its state. It does not own a leg
 * (`tool-call.ts`), nor which questions are understood (`activities/mcp/input-round.ts`).
 * 1. A leg is one `tools/call` of such a call, and is sent once (INV-X1). The next one is sent only if the server
 *    itself has said that the last answer is not a result.
 * 2. If the server refuses its state, the call begins anew, once. People's answers are given again, each once, to the
 *    same questions.
 * 3. All legs together have the time of one call, and are bounded in number.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { answersTo, MOST_ROUNDS } from '../../domain/request/input.ts';
import { type Asked, readAsked } from './input-round.ts';
import type { Scrubber } from '../kit/scrubber.ts';
import { halfway, INVALID_PARAMS, type Names, saysAfterwards, type Trace, unfinished } from './classify-failure.ts';
import type { CallEnding, Leg, ToolCall, ToolInput } from './port.ts';
import type { RawAnswer } from './transport.ts';

/** One leg for each answer, the one whose state was refused, and some that a server only wants repeated. */
const MOST_LEGS = MOST_ROUNDS + 6;
/** Pause in ms before a leg without answers: the server wants to be asked again, but not at once. */
const PACE_MS = 500;
/** Characters of an error that are searched for its subject. */
const MOST_HEARD = 500;
/** The reason in the error's data, in the form of the TypeScript SDK's server. */
const STATE_REASON = 'invalid_request_state';

export interface LegParts {
  readonly names: Names;
  /** Scrubs the connection's secrets and these. */
  readonly scrubberWith: (secrets: readonly string[]) => Scrubber;
  readonly send: (call: ToolCall) => Promise<CallEnding | Trace>;
  readonly now?: () => number;
}

/** How the last leg ended, and its secrets besides the connection's own. */
export interface LastLeg {
  readonly ended: CallEnding | Trace;
  readonly states: readonly string[];
}

/** Sends the legs of one call, as far as the given answers go. */
export async function sendLegs(
  call: ToolCall,
  { names, scrubberWith, send, now = Date.now }: LegParts,
): Promise<LastLeg> {
  const until = now() + call.timeoutMs;
  let { input } = call;
  const states: string[] = input?.leg?.state === undefined ? [] : [input.leg.state];
  for (let legs = 1; ; legs += 1) {
    const timeoutMs = Math.max(1, until - now());
    const ended = await send({ ...call, timeoutMs, ...(input === undefined ? {} : { input }) });
    if (ended.kind !== 'answered' || input === undefined) return { ended, states };
    if (ended.asked === undefined && isStateRefusal(ended.answer, input)) {
      input = { answers: input.answers, dispatch: input.dispatch, begunAnew: true };
      continue;
    }
    const asked = askedIn(ended.answer, (value, state) =>
      scrubberWith(state === undefined ? states : [...states, state]).value(value),
    );
    if (asked === undefined) return { ended, states };
    if (asked.kind === 'not-understood') return { ended: halfway(names, 'input_required', asked.reason), states };
    if (asked.state !== undefined) states.push(asked.state);
    const next = continued(input, asked);
    if (next === undefined) {
      const { requests, state } = asked;
      const used = input.leg?.used ?? [];
      return { ended: { kind: 'input', requests, ...(state === undefined ? {} : { state }), used }, states };
    }
    if (legs >= MOST_LEGS)
      return { ended: unfinished(names, `the server asked for input ${legs} times in one call`), states };
    if (Object.keys(asked.requests).length === 0) await pace(call.signal);
    input = next;
  }
}

/** Continues with the answers that people have given before; undefined if one is missing. */
function continued(input: ToolInput, { requests, state }: Extract<Asked, { kind: 'asked' }>): ToolInput | undefined {
  const used = input.leg?.used ?? [];
  const { responses, missing } = answersTo(requests, input.answers, used);
  if (missing.length > 0) return undefined;
  const leg: Leg = {
    responses,
    ...(state === undefined ? {} : { state }),
    used: [...used, ...Object.values(requests).map(({ hash }) => hash)],
  };
  return { ...input, leg };
}

function askedIn(
  answer: RawAnswer,
  scrubbed: (value: unknown, state: string | undefined) => unknown,
): Asked | undefined {
  if (answer.kind !== 'result' || answer.result['resultType'] !== 'input_required') return undefined;
  return readAsked(answer.result, scrubbed);
}

/**
 * Tells whether the server refused its state. The spec has a server send -32602. The words are those of the SDKs, and
 * must name the request's state, because another parameter of the call may be meant. An error sent after the tool has
 * run begins nothing anew, whatever it names (INV-X1).
 */
function isStateRefusal(answer: RawAnswer, { leg, begunAnew }: ToolInput): boolean {
  if (answer.kind !== 'error' || leg?.state === undefined || begunAnew !== undefined) return false;
  const { code, message, reason } = answer;
  if (code !== INVALID_PARAMS || saysAfterwards(message)) return false;
  // The search is bounded, because a server may send megabytes.
  return reason === STATE_REASON || /\brequest[ _-]?state\b/i.test(message.slice(0, MOST_HEARD));
}

async function pace(signal: AbortSignal): Promise<void> {
  // If cancelled, the next leg reports it.
  await pause(PACE_MS, undefined, { signal }).catch(() => undefined);
}
