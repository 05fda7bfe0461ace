/** What a dispatch is given of answers to requests about something else than consent: each with what was shown to whoever gave it. */
import type { DispatchInput } from '../contracts/dispatch.ts';
import type { DiscoverInput } from '../contracts/discovery.ts';
import type { RetryProof } from '../contracts/dispatch-proof.ts';
import { authorizationsOf, grantsFor } from '../domain/authorization.ts';
import type { InFlight } from '../domain/call-state.ts';
import type { Authorized, Retry } from '../domain/pause-answers.ts';
import type { LiveRun } from './live-run.ts';

export function authorizationProofs(live: LiveRun, state: InFlight): Pick<DispatchInput, 'authorizations'> {
  return proofsOf(authorizationsOf(live.run, state));
}

/** For listing: the grant that took the place of the run's own, and in which Temporal runs it may have been given. */
export function grantProofs(live: LiveRun, server: string): Pick<DiscoverInput, 'authorizations' | 'decidedIn'> {
  const given = grantsFor(live.run, server);
  return given.length === 0 ? {} : { ...proofsOf(given), decidedIn: live.decidedIn };
}

function proofsOf(given: readonly Authorized[]): Pick<DispatchInput, 'authorizations'> {
  if (given.length === 0) return {};
  return {
    authorizations: given.map(({ answer, further, ...shown }) => ({
      answer,
      ...shownThen(shown),
      ...(further === undefined
        ? {}
        : { further: further.map((each) => ({ answer: each.answer, decidedAt: instant(each.decidedAt) })) }),
    })),
  };
}

export function retryProof({ resolution, ...shown }: Retry): RetryProof {
  return { resolution, ...shownThen(shown) };
}

function shownThen({ decidedAt, request, definitionHash }: Omit<Retry, 'resolution'>): Omit<RetryProof, 'resolution'> {
  const { about, generation, approvers, openedAt, deadline } = request;
  const times = { openedAt: instant(openedAt), deadline: instant(deadline), decidedAt: instant(decidedAt) };
  return { about, generation, approvers, definitionHash, ...times };
}

function instant(ms: number): string {
  return new Date(ms).toISOString();
}
