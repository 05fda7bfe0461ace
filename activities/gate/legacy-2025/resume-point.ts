/**
 * Where the answer to a call comes, between the worker that sent the call and the one that asks for its answer.
 *
 * Owns what it is bound to, and that it is in clear in the two processes alone (INV-S1). Does not own the sealing
 * (`activities/mcp/state-seal.ts`).
 *
 * 1. Whatever opens was written by a worker of the zone that had sent exactly this call (INV-G1): sealing stands behind the gate.
 * 2. With it goes with what the call was made: whoever asks gets no other authorization, and knows what the server was shown.
 */
import type { DispatchInput, ResumeInput } from '../../../contracts/wire/tools.ts';
import { hashOf } from '../../../domain/text/canonical.ts';
import type { ResumePoint, ToolCall } from '../../mcp/port.ts';
import type { CallAuthority } from '../authority.ts';
import type { AnswerBinding, StateSeal } from '../../mcp/state-seal.ts';

export interface LeftBehind {
  readonly point: ResumePoint;
  readonly authority: CallAuthority;
}

/** Nothing where the run would not know what to do with it, or no key can seal it. */
export function sealFor(
  input: DispatchInput,
  seal: StateSeal | undefined,
  authority: () => CallAuthority,
): Pick<ToolCall, 'seal'> {
  if (input.resumable !== true || seal === undefined) return {};
  return {
    seal: (point) => {
      // Of now: another token may have come with the answer of a person.
      const left: LeftBehind = { point, authority: authority() };
      return seal.seal(JSON.stringify(left), bindingOf(input));
    },
  };
}

/** Undefined where it does not open here: for another call, changed, or sealed to a key that is gone. */
export async function openPoint(input: ResumeInput, seal: StateSeal | undefined): Promise<LeftBehind | undefined> {
  const text = await seal?.open(input.resume, bindingOf(input));
  // Sound: only `sealFor` seals under this binding, and what it seals is of this form.
  return text === undefined ? undefined : (JSON.parse(text) as LeftBehind);
}

function bindingOf({ run, runId, callId, attempt, server, target, arguments: args }: DispatchInput): AnswerBinding {
  return {
    answerTo: 'tools/call',
    namespace: run.namespace,
    workflowId: run.workflowId,
    runId,
    callId,
    attempt,
    server: server.name,
    serverUrl: target.serverUrl,
    tool: target.tool,
    argumentsHash: hashOf(args),
  };
}
