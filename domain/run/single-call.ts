/**
 * A single call as a run: its only message says which call the caller wants, and the model `caller` proposes exactly
 * that one (docs/adr/0074). The gate knows no difference.
 */
import { CALLER_MODEL } from '../../contracts/names.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { CallSpec, RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import { isFields } from '../shapes/inputs.ts';
import { canonicalJson } from '../text/canonical.ts';

export interface WantedCall {
  /** `server/tool`, the tool as its server spells it. */
  readonly tool: string;
  readonly arguments: JsonObject;
}

/** Bytes of the result that the run keeps; a larger one becomes a preview. An operator may allow less. */
const RESULT_BYTES = 262_144;

/** Bytes of the arguments; what a spec can hold is less. */
const ARGUMENT_BYTES = 131_072;

export function runSpecOf(call: CallSpec): RunSpecInput {
  const { server, tool, arguments: args, limits, ...rest } = call;
  const ref = typeof server === 'string' ? { name: server } : server;
  const wanted: WantedCall = { tool: `${ref.name}/${tool}`, arguments: args };
  return {
    ...rest,
    agent: { name: 'call', model: CALLER_MODEL },
    input: canonicalJson(wanted),
    servers: [{ ...ref, allowedTools: [tool] }],
    // A message to the run makes a turn of its own, which answers the same. A run that has made all its calls asks no
    // model any more, so there is room for one that is never proposed.
    limits: {
      turns: 10,
      calls: 2,
      callsPerTurn: 1,
      argumentBytes: ARGUMENT_BYTES,
      resultBytes: RESULT_BYTES,
      ...limits,
    },
  };
}

/** @returns undefined where the first message states no call: the run was not started as a single call */
export function wantedCall(messages: readonly Message[]): WantedCall | undefined {
  const first = messages.find((message) => message.role === 'user');
  const stated = parsed(first?.text ?? '');
  if (!isFields(stated) || typeof stated['tool'] !== 'string' || !isFields(stated['arguments'])) return undefined;
  // Sound: it was parsed from JSON.
  return { tool: stated['tool'], arguments: stated['arguments'] as JsonObject };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
