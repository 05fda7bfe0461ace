/** A grant that a request outlives is told where the request opens (F13). */
import { expect, test } from '@jest/globals';
import { defined } from '../../../../contracts/defined.ts';
import { requestOpenedFact } from '../../../../domain/request/digest.ts';
import { grantEnd, grantEnds, withGrantEnd } from '../../../../domain/request/deadline.ts';
import { listingId } from '../../../../domain/run/toolset.ts';
import { callOf, proposed, type Run, startRun } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { askingOf } from '../../../support/builders/decision.ts';
import { saidFact } from '../../../support/builders/ledger.ts';
import { flyingRun } from '../../../support/builders/pause.ts';
import { askingRun, runIds, START } from '../../../support/builders/run.ts';

const AT = new Date(START + 1_000).toISOString();
const run = askingRun();
const { server } = askingOf(run, 't1.c0').judgement.target;
const { deadline } = askingOf(run, 't1.c0').request;
const tools = { sha256: 'a'.repeat(64), bytes: 1, contentType: 'x' };
const ending = (at?: string, of: Run = run) => ({
  run: of,
  toolset: [{ server, tools, ...defined({ grantExpiresAt: at }) }],
});

/** A grant that was given for that call, or list. */
function regranted(callId: string): Run {
  const answer = { kind: 'grant', callId, grant: { server, ref: 'x' } };
  const given = { answer, request: { about: { server } } };
  // Sound: all that is read of it.
  return { ...run, grants: [given] } as unknown as Run;
}

test('one that ends before the deadline is told, one that does not is not', () => {
  expect(grantEnd(ending(AT), server, deadline)).toEqual({ grantExpiresAt: AT });
  expect(grantEnd(ending(AT), server, START + 1_000)).toEqual({});
  expect(grantEnd(ending(), server, deadline)).toEqual({});
  expect(grantEnd(ending(AT), 'another', deadline)).toEqual({});
  expect(grantEnd(ending('no time'), server, deadline)).toEqual({});
});

test('one that took the place of the listed one is of an unknown end; one that was given for the list is the listed one', () => {
  expect(grantEnd(ending(AT, regranted('t1.c0')), server, deadline)).toEqual({});
  expect(grantEnd(ending(AT, regranted(listingId(0))), server, deadline)).toEqual({ grantExpiresAt: AT });
});

test('the state names each open request that it concerns', () => {
  expect(grantEnds(ending(AT))).toEqual({ grantEnds: [{ callId: 't1.c0', server, at: AT }] });
  expect(grantEnds(ending())).toEqual({});
  expect(grantEnds(ending(AT, flyingRun()))).toEqual({});
});

test('the ledger has it with the request, and with nothing else', () => {
  const opened = requestOpenedFact(askingOf(run, 't1.c0'), runIds());
  expect(withGrantEnd(opened, ending(AT))).toEqual({ ...opened, grantExpiresAt: AT });
  expect(withGrantEnd(opened, ending())).toEqual(opened);
  expect(withGrantEnd(saidFact(), ending(AT))).toEqual(saidFact());
  // Of a call that is not known, or not judged, nothing is said.
  const unjudged = proposed(startRun(START), identicalCalls(1), { inputTokens: 0, outputTokens: 0 }).run;
  expect(callOf(unjudged, 't1.c0')?.status).toBe('proposed');
  for (const other of [startRun(START), unjudged]) expect(withGrantEnd(opened, ending(AT, other))).toEqual(opened);
});
