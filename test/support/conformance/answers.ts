/**
 * Answers a server's questions as a run does: a person who may answer accepts each form, and the call goes
 * on.
 */
import { defined } from '../../../contracts/defined.ts';
import type { InputRequest, InputResponse } from '../../../contracts/schemas/input.ts';
import type { ApproverRule } from '../../../contracts/schemas/policy.ts';
import type { ProvisionProof } from '../../../contracts/wire/proofs.ts';
import type { DispatchInput, DispatchResult } from '../../../contracts/wire/tools.ts';
import { requestDigest } from '../../../domain/request/digest.ts';

const PERSON = { id: 'ann', groups: [], tenant: 'default' };
const OPENED = Date.parse('2026-01-01T00:00:00.000Z');

const at = (minutes: number): string => new Date(OPENED + minutes * 60_000).toISOString();

/** The next dispatch runs in another worker, which knows of the call only what Temporal keeps. */
export function answeredDispatch(
  dispatch: DispatchInput,
  asked: Extract<DispatchResult, { kind: 'input' }>,
): DispatchInput {
  const { round, requests, used, state } = asked;
  const leg = { round, requests, used, ...defined({ state }) };
  const provided = [...(dispatch.input?.provided ?? []), provision(dispatch, asked)];
  // Each dispatch of a run is an attempt of its own. Sound: this is the form that Temporal keeps.
  const next = { ...dispatch, attempt: dispatch.attempt + 1, input: { provided, leg } };
  return JSON.parse(JSON.stringify(next)) as DispatchInput;
}

function provision(
  { run, runId, callId, target, arguments: args }: DispatchInput,
  { round, requests }: Extract<DispatchResult, { kind: 'input' }>,
): ProvisionProof {
  const approvers: ApproverRule = { allOf: [{ layer: 'default', ids: [PERSON.id], groups: [] }] };
  const about = { kind: 'input' as const, round, requests };
  const digest = requestDigest({
    namespace: run.namespace,
    tenant: run.initiator.tenant,
    workflowId: run.workflowId,
    runId,
    callId,
    generation: round,
    target,
    arguments: args,
    approvers,
    about,
  });
  const responses = Object.fromEntries(Object.entries(requests).map(([key, request]) => [key, yesTo(request)]));
  return {
    provision: { kind: 'provide', decisionId: `d${round}`, callId, digest, runId, approver: PERSON, responses },
    about,
    generation: round,
    approvers,
    definitionHash: target.definitionHash,
    openedAt: at(0),
    deadline: at(60),
    decidedAt: at(round),
  };
}

function yesTo(request: InputRequest): InputResponse {
  if (request.kind !== 'form') return { action: 'accept' };
  const yes = Object.entries(request.fields).flatMap(([name, { type }]) => (type === 'boolean' ? [[name, true]] : []));
  return { action: 'accept', content: Object.fromEntries(yes) };
}
