/** What a dispatch is given of answers to requests about something else than consent: each with what was shown to whoever gave it. */
import type { DispatchInput } from '../contracts/activities.ts';
import type { RetryProof } from '../contracts/dispatch-proof.ts';
import { authorizationsOf } from '../domain/authorization.ts';
import type { InFlight } from '../domain/call-state.ts';
import type { Retry } from '../domain/pause-answers.ts';
import type { LiveRun } from './live-run.ts';

export function authorizationProofs(live: LiveRun, state: InFlight): Pick<DispatchInput, 'authorizations'> {
  const given = authorizationsOf(live.run, state);
  if (given.length === 0) return {};
  return { authorizations: given.map(({ answer, ...shown }) => ({ answer, ...shownThen(shown) })) };
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
