/** These ledger facts are made in more than one place. */
import type { Judgement, Outcome, ProposedCall, TokenEvidence } from '../../contracts/schemas/call.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { PreparedRun } from '../../contracts/wire/run.ts';
import type { RunIds } from '../state/run.ts';
import { hashOf } from '../text/canonical.ts';
import type { Asking } from '../state/call.ts';
import { requestDigest } from './digest.ts';

type Shown = Pick<Asking, 'request' | 'call'> & { readonly judgement: Pick<Asking['judgement'], 'target'> };

export function requestOpenedFact(state: Asking, ids: RunIds): LedgerFact {
  const { request, call } = state;
  return {
    kind: 'request.opened',
    callId: call.callId,
    generation: request.generation,
    digest: digestOf(state, ids),
    approvers: request.approvers,
    deadline: new Date(request.deadline).toISOString(),
    ...(request.because === undefined ? {} : { because: request.because }),
    ...(state.duplicateOf === undefined ? {} : { duplicateOf: state.duplicateOf }),
    ...(request.about === undefined ? {} : { about: { kind: request.about.kind, hash: hashOf(request.about) } }),
  };
}

export function verdictFact(call: ProposedCall, { verdict, target }: Judgement, policyVersion: string): LedgerFact {
  return {
    kind: 'verdict',
    callId: call.callId,
    verdict: verdict.kind,
    rules: verdict.rules,
    tool: target?.tool ?? call.name.slice(0, 200),
    argumentsHash: hashOf(call.arguments),
    policyVersion,
    ...(target === undefined ? {} : { server: target.server, definitionHash: target.definitionHash }),
    ...(verdict.kind === 'allow' && verdict.breakGlass !== undefined ? { breakGlass: verdict.breakGlass } : {}),
  };
}

/** Returns the digest under which a request is shown in the Temporal run `ids.runId`. */
export function digestOf({ request, call, judgement }: Shown, ids: RunIds): string {
  return requestDigest({
    ...ids,
    callId: call.callId,
    generation: request.generation,
    target: judgement.target,
    arguments: call.arguments,
    approvers: request.approvers,
    about: request.about,
  });
}

export function outcomeFact(callId: string, outcome: Outcome, token?: TokenEvidence): LedgerFact {
  const warnings = 'result' in outcome ? outcome.result?.warnings : undefined;
  return {
    kind: 'outcome',
    callId,
    outcome: outcome.kind,
    outcomeHash: hashOf(outcome),
    ...('code' in outcome ? { code: outcome.code } : {}),
    ...(token === undefined ? {} : { token }),
    ...(warnings === undefined ? {} : { warnings }),
    ...('repeatOf' in outcome && outcome.repeatOf !== undefined ? { repeatOf: outcome.repeatOf } : {}),
  };
}

/** Returns the ledger's first entry: who started what, under which policy. */
export function startedFact(
  prepared: PreparedRun,
  agent: { readonly name: string; readonly model: string },
): LedgerFact {
  return {
    kind: 'run.started',
    agent: agent.name,
    model: agent.model,
    initiator: prepared.initiator.id,
    tenant: prepared.initiator.tenant,
    specHash: prepared.specHash,
    policyVersion: prepared.policyVersion,
    servers: prepared.servers.map(({ name }) => name),
    ...(prepared.price === undefined ? {} : { price: prepared.price }),
  };
}
