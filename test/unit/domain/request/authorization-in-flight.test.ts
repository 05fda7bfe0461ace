/** A fresh grant, and the calls that are in flight with the one before (INV-S2). */
import { expect, test } from '@jest/globals';
import { authorizationPause, authorize, givenGrant } from '../../../../domain/request/authorization.ts';
import type { InFlight } from '../../../../domain/state/call.ts';
import { pausedFor } from '../../../../domain/request/pause.ts';
import { dispatched } from '../../../../domain/request/transitions.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { flyingRun, pausedOf, pausing } from '../../../support/builders/pause.ts';
import { runIds, START } from '../../../support/builders/run.ts';

const CALL = 't1.c0';
const BESIDE = 't1.c1';
const NEED = { reason: 'TOOL_UNAUTHORIZED', message: 'no grant', wants: 'grant' } as const;

function flightOf(run: Run, callId = CALL): InFlight {
  // Sound: the calls of these tests are under way.
  return callOf(run, callId) as InFlight;
}

/** The first call is asked about, is given this grant, and leaves again. */
function regranted(run: Run, ref: string): Run {
  const about = authorizationPause(flightOf(run), NEED);
  if (about === undefined) throw new Error('not asked');
  const { unsure: _, ...plain } = pausing();
  const asked = pausedFor(run, CALL, about, plain, runIds()).run;
  const shown = { callId: CALL, digest: 'a'.repeat(64), runId: 'run-1', approver: { id: 'ann', groups: [] } };
  const answer = { kind: 'grant', grant: { server: 'files', ref }, decisionId: ref, ...shown } as const;
  const { run: given } = authorize(asked, pausedOf(asked), answer, START);
  return dispatched(given, CALL)?.run ?? given;
}

/** With another call under way, sent just now. */
function beside(run: Run, server = 'files'): Run {
  const { call, judgement, ...state } = flightOf(run);
  const target = { ...judgement.target, server };
  const other = { ...state, call: { ...call, callId: BESIDE }, judgement: { ...judgement, target } };
  return { ...run, calls: [...run.calls, other] };
}

test('INV-S2: a call in flight keeps the grant that it was sent with, however often another one takes its place', () => {
  let run = beside(regranted(flyingRun(), 'first'));
  expect(givenGrant(run, flightOf(run, BESIDE))).toMatchObject({ ref: 'first' });
  for (const ref of ['second', 'third']) {
    run = regranted(run, ref);
    expect(givenGrant(run, flightOf(run, BESIDE))).toMatchObject({ ref: 'first' });
    expect(givenGrant(run, flightOf(run))).toMatchObject({ ref });
  }
});

test("nothing is kept where it was sent with the run's own, nor at another server", () => {
  const own = regranted(beside(flyingRun()), 'first');
  expect(flightOf(own, BESIDE)).not.toHaveProperty('grant');
  expect(givenGrant(own, flightOf(own, BESIDE))).toMatchObject({ ref: 'first' });
  expect(givenGrant(flyingRun(), flightOf(flyingRun()))).toBeUndefined();
  const apart = regranted(beside(regranted(flyingRun(), 'first'), 'other'), 'second');
  expect(flightOf(apart, BESIDE)).not.toHaveProperty('grant');
});
