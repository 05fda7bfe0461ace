/** A list of tools that waits for a grant: a request like every other, before there is any call (INV-S2, INV-G2, INV-D3). */
import { expect, test } from '@jest/globals';
import { isListing } from '../../../../contracts/names.ts';
import type { SignedAuthorization } from '../../../../contracts/schemas/request.ts';
import { authorize, grantorOf, MOST_AUTHORIZATIONS } from '../../../../domain/request/authorization.ts';
import { admitAnswer } from '../../../../domain/request/pause.ts';
import { ended } from '../../../../domain/request/transitions.ts';
import { heard } from '../../../../domain/run/message-queue.ts';
import { listed, listingAsked, listingId, whyEnded } from '../../../../domain/run/toolset.ts';
import type { CallState } from '../../../../domain/state/call.ts';
import { callOf, grantsFor, type Run, startRun } from '../../../../domain/state/run.ts';
import { say, shown } from '../../../support/builders/decision.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { askingRun, runIds, START } from '../../../support/builders/run.ts';

const CALL = 't0.c1';
const server = { name: 'files', url: 'https://files.example/mcp' };
const need = { reason: 'GRANT_MISSING', message: 'needs an authorization.', wants: 'grant' } as const;
const pausing = { at: START, approvers: grantorOf('ann'), deadlineSeconds: 60 };

function asked(run: Run): Run | undefined {
  return listingAsked(run, { server, index: 1 }, need, pausing, runIds())?.run;
}

function waiting(run = startRun(START)): Run {
  const next = asked(run);
  if (next === undefined) throw new Error('nobody is asked');
  return next;
}

function grant(run: Run, decisionId = 'a-1'): SignedAuthorization {
  const digest = shown(run, CALL).digest;
  const said = { decisionId, callId: CALL, digest, runId: runIds().runId, approver: { id: 'ann', groups: [] } };
  return { kind: 'grant', grant: { server: 'files', ref: 'fresh' }, ...said };
}

const given = (run: Run, decisionId?: string): Run => {
  const answer = grant(run, decisionId);
  const admission = admitAnswer(run, 'authorization', answer, runIds(), START);
  if (admission.kind !== 'accept' || admission.state.status !== 'waiting-for-answer')
    throw new Error(`not taken: ${JSON.stringify(admission)}`);
  return authorize(run, admission.state, answer, START).run;
};

test('is asked of whose grant it is, under an id that no call of a turn has', () => {
  const change = listingAsked(startRun(START), { server, index: 1 }, need, pausing, runIds());
  expect(change?.run.calls).toMatchObject([
    {
      status: 'waiting-for-answer',
      call: { callId: CALL, name: 'tools/list', arguments: {} },
      judgement: { target: { server: 'files', serverUrl: server.url, tool: 'tools/list' } },
      request: { generation: 1, about: { kind: 'authorization', wants: 'grant', round: 1 }, deadline: START + 60_000 },
    },
  ]);
  expect(change?.facts).toMatchObject([{ kind: 'request.opened', callId: CALL, about: { kind: 'authorization' } }]);
  expect(listingId(1)).toBe(CALL);
  expect(['t0.c0', 't1.c0', 't10.c0', 'unknown'].map(isListing)).toEqual([true, false, false, false]);
});

test('goes on with the grant that was given, which is for the calls of the run, too', () => {
  const run = given(waiting());
  expect(callOf(run, CALL)).toMatchObject({ status: 'cleared', authorized: [{ answer: { decisionId: 'a-1' } }] });
  expect(grantsFor(run, 'files')).toMatchObject([{ answer: { grant: { ref: 'fresh' } } }]);
  expect(grantsFor(run, 'other')).toEqual([]);
});

test('is asked so often and not more', () => {
  let run = startRun(START);
  for (let round = 1; round <= MOST_AUTHORIZATIONS; round += 1) {
    run = waiting(run);
    expect(callOf(run, CALL)).toMatchObject({ request: { generation: round, about: { round } } });
    run = given(run, `a-${round}`);
  }
  expect(asked(run)).toBeUndefined();
});

test('is gone when all lists are there; calls of turns stay', () => {
  const both = { ...askingRun(), calls: [...askingRun().calls, ...waiting().calls] };
  expect(listed(both).calls.map(({ call }) => call.callId)).toEqual(['t1.c0']);
});

test('waits on where a message interrupts: no model could read it (B-15)', () => {
  const run = heard(waiting(), say({ interrupt: true })).run;
  expect(callOf(run, CALL)?.status).toBe('waiting-for-answer');
  expect(run.queue).toHaveLength(1);
});

test('that nobody helped on says what was in the way, and how it ended', () => {
  const why = (outcome: Parameters<typeof ended>[2]) => {
    const state = callOf(ended(waiting(), CALL, outcome).run, CALL);
    if (state?.status !== 'settled') throw new Error('it waits');
    return whyEnded(state);
  };
  const { expired, cancelled } = outcomes();
  expect(why(expired)).toEqual({
    reason: 'GRANT_MISSING',
    message: expect.stringMatching(/^needs an authorization\. Nobody gave another one by 20/),
  });
  expect(why({ kind: 'rejected', by: 'ann', reason: 'not today' })).toEqual({
    reason: 'GRANT_MISSING',
    message: 'needs an authorization. ann gives no other: not today',
  });
  expect(why(cancelled)).toEqual({ reason: 'GRANT_MISSING', message: 'needs an authorization.' });
  // Sound: it has ended.
  const consent = callOf(ended(askingRun(), 't1.c0', expired).run, 't1.c0') as Extract<
    CallState,
    { status: 'settled' }
  >;
  expect(whyEnded(consent)).toMatchObject({ reason: 'INTERNAL' });
});
