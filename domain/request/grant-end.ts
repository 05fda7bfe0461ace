/**
 * A run's grant may end before the deadline of a request; a call approved after that end has no authorization (F13).
 *
 * 1. The ledger says so when the request opens, so that nobody approves days later what cannot be called any more.
 */
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import { askingCalls, callOf, type Run } from '../state/run.ts';
import { judgementOf } from '../state/call.ts';
import { grantsFor } from './authorization.ts';
import type { ToolsetRef } from '../../contracts/wire/identity.ts';
import { isListing } from '../../contracts/names.ts';

interface Held {
  readonly run: Run;
  readonly toolset: readonly ToolsetRef[];
}

/**
 * Returns the end of the grant if the grant ends before the deadline and nobody has replaced it.
 * @param deadline epoch ms
 */
export function grantEnd({ run, toolset }: Held, server: string, deadline: number): { grantExpiresAt?: string } {
  const grantExpiresAt = toolset.find((each) => each.server === server)?.grantExpiresAt;
  // A grant given for the list of tools is the one whose end is known, and does not count as a replacement.
  const isReplaced = grantsFor(run, server).some(({ answer }) => !isListing(answer.callId));
  if (grantExpiresAt === undefined || isReplaced || !(Date.parse(grantExpiresAt) < deadline)) return {};
  return { grantExpiresAt };
}

/** Returns the early ends of grants over all open requests. */
export function grantEnds(held: Held): Pick<RunState, 'grantEnds'> {
  const ends = askingCalls(held.run).flatMap(({ call, judgement, request }) => {
    const { server } = judgement.target;
    const { grantExpiresAt: at } = grantEnd(held, server, request.deadline);
    return at === undefined ? [] : [{ callId: call.callId, server, at }];
  });
  return ends.length === 0 ? {} : { grantEnds: ends };
}

/** Adds the early end of the grant to a `request.opened` fact; other facts stay as they are. */
export function withGrantEnd(fact: LedgerFact, held: Held): LedgerFact {
  if (fact.kind !== 'request.opened') return fact;
  const state = callOf(held.run, fact.callId);
  const target = state && judgementOf(state)?.target;
  return target === undefined ? fact : { ...fact, ...grantEnd(held, target.server, Date.parse(fact.deadline)) };
}
