/**
 * Whether the run's grant for a server outlives a request: what is approved after its end has no authorization then (F13).
 *
 * 1. Said when the request opens, so that nobody approves days later what cannot be called any more.
 */
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import { callOf, type Run } from '../state/run.ts';
import { askingCalls } from '../state/status.ts';
import { grantsFor } from './authorization.ts';
import type { ToolsetRef } from '../../contracts/wire/identity.ts';
import { isListing } from '../../contracts/ids.ts';

interface Held {
  readonly run: Run;
  readonly toolset: readonly ToolsetRef[];
}

/** Where it ends too early, and nobody has given another one since. @param deadline epoch ms */
export function grantEnd({ run, toolset }: Held, server: string, deadline: number): { grantExpiresAt?: string } {
  const grantExpiresAt = toolset.find((each) => each.server === server)?.grantExpiresAt;
  // One that was given for the list is the one whose end is known.
  const isReplaced = grantsFor(run, server).some(({ answer }) => !isListing(answer.callId));
  if (grantExpiresAt === undefined || isReplaced || !(Date.parse(grantExpiresAt) < deadline)) return {};
  return { grantExpiresAt };
}

/** Of all open requests. */
export function grantEnds(held: Held): Pick<RunState, 'grantEnds'> {
  const ends = askingCalls(held.run).flatMap(({ call, judgement, request }) => {
    const { server } = judgement.target;
    const { grantExpiresAt: at } = grantEnd(held, server, request.deadline);
    return at === undefined ? [] : [{ callId: call.callId, server, at }];
  });
  return ends.length === 0 ? {} : { grantEnds: ends };
}

/** The fact with what is known then of the grant, where it is that a request was opened. */
export function withGrantEnd(fact: LedgerFact, held: Held): LedgerFact {
  if (fact.kind !== 'request.opened') return fact;
  const state = callOf(held.run, fact.callId);
  const target = state !== undefined && 'judgement' in state ? state.judgement?.target : undefined;
  return target === undefined ? fact : { ...fact, ...grantEnd(held, target.server, Date.parse(fact.deadline)) };
}
