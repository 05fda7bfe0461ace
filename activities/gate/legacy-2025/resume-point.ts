/**
 * Carries the place where a call's answer comes from the worker that sent the call to the one that asks for its answer.
 *
 * It owns what the place is bound to, and that it is in clear in these two processes alone (INV-S1). It does not own
 * the sealing (`activities/mcp/state-seal.ts`).
 * 1. A point that opens was written by a worker of the zone that had sent exactly this call (INV-G1): sealing happens
 *    after the gate.
 * 2. The authority of the call is sealed with the point. The asking worker gets no other authorization, and knows what
 *    the server saw.
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

/** Returns nothing if the run would not know what to do with the point, or if no key can seal it. */
export function sealFor(
  input: DispatchInput,
  seal: StateSeal | undefined,
  authority: () => CallAuthority,
): Pick<ToolCall, 'seal'> {
  if (input.resumable !== true || seal === undefined) return {};
  return {
    seal: (point) => {
      // The authority is read now, because another token may have come with a person's answer.
      const left: LeftBehind = { point, authority: authority() };
      return seal.seal(JSON.stringify(left), bindingOf(input));
    },
  };
}

/**
 * Returns undefined if the point does not open here: it is for another call, changed, or sealed to a key that is gone.
 */
export async function openPoint(input: ResumeInput, seal: StateSeal | undefined): Promise<LeftBehind | undefined> {
  const text = await seal?.open(input.resume, bindingOf(input));
  // Sound: only `sealFor` seals under this binding, and what it seals has this form.
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
