/** A dispatch that a reset has discarded counts as sent unless its history proves that nothing left (INV-X1). */
import { expect, test } from '@jest/globals';
import {
  deedOf,
  describeForgotten,
  describeSend,
  endingOf,
  type SendEnding,
  stretchedSends,
} from '../../../../domain/history/discarded-send.ts';

const ended = (outcome: unknown) => ({ kind: 'ended', outcome });

test.each<[string, unknown, SendEnding]>([
  ['a refusal', { kind: 'refused', code: 'POLICY_DENIED', message: '' }, 'unsent'],
  ['a request that was opened again', { kind: 'reopen', code: 'VERDICT_STRICTER', message: '' }, 'unsent'],
  ['what was proven unsent', { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: '' }, 'unsent'],
  ['a failure before execution', ended({ kind: 'failed', executed: false }), 'unsent'],
  ['a call that was cancelled before it left', ended({ kind: 'cancelled', reason: '' }), 'unsent'],
  ['a question of the server', { kind: 'input', requests: {} }, 'begun'],
  ['a task of the server', { kind: 'task', task: {} }, 'begun'],
  ['a result', ended({ kind: 'succeeded', result: {} }), 'succeeded'],
  ['an error of the tool', ended({ kind: 'failed', executed: true }), 'failed'],
  ['a failure that does not say whether it ran', ended({ kind: 'failed' }), 'failed'],
  ['a lost answer', ended({ kind: 'unknown' }), 'unknown'],
  ['an outcome that no dispatch has', ended({ kind: 'answered' }), 'unknown'],
  ['no outcome', { kind: 'ended' }, 'unknown'],
  ['another kind', { kind: 'else' }, 'unknown'],
  ['nothing', undefined, 'unknown'],
])('%s', (_what, result, ending) => {
  expect(endingOf(result)).toBe(ending);
});

test('two calls do the same where server, tool and arguments are the same, whatever they are called', () => {
  const target = { server: 'bank', serverUrl: 'https://bank.example/', tool: 'pay', definitionHash: 'a' };
  const one = deedOf({ callId: 't1.c0', target, arguments: { to: 'ann', amount: 1 } });
  expect(one).toMatch(/^[0-9a-f]{64}$/);
  expect(
    deedOf({ callId: 't2.c1', target: { ...target, definitionHash: 'b' }, arguments: { amount: 1, to: 'ann' } }),
  ).toBe(one);
  expect(deedOf({ target, arguments: { to: 'ann', amount: 2 } })).not.toBe(one);
  expect(deedOf({ target: { ...target, tool: 'lend' }, arguments: { to: 'ann', amount: 1 } })).not.toBe(one);
  expect([undefined, { target }, { arguments: {} }].map(deedOf)).toEqual([undefined, undefined, undefined]);
});

test('people read when it was sent, in which Temporal run, under which id, and what that history says', () => {
  const send = { callId: 't1.c0', at: 0, runId: 'r-1', ending: 'succeeded' } as const;
  expect(describeSend('t1.c0', send)).toBe(
    'This call was handed to a worker at 1970-01-01T00:00:00.000Z in Temporal run r-1, before the run was reset. ' +
      'That history says that it succeeded. It is not sent again by itself.',
  );
  expect(describeSend('t1.c1', { ...send, ending: 'unknown' })).toContain(
    'The same call, then t1.c0, was handed to a worker at 1970-01-01T00:00:00.000Z in Temporal run r-1, before the run was reset. That history says not how it ended.',
  );
  expect(describeForgotten()).toContain('nobody can tell whether this call was sent');
});

test('a call that a stretch sent has the target of its judgement, and does the same as a dispatch of it', () => {
  const target = { server: 'bank', serverUrl: 'https://bank.example/', tool: 'pay', definitionHash: 'a' };
  const step = {
    parts: [{ type: 'call', callId: 't1.c0', providerCallId: 'p', name: 'bank__pay', arguments: { amount: 1 } }],
    usage: { inputTokens: 1, outputTokens: 1 },
    finish: 'calls',
    judged: { policyVersion: 'v', judgements: [{ callId: 't1.c0', verdict: { kind: 'allow' }, target }] },
  };
  const result = ended({ kind: 'succeeded' });
  const calls = [{ callId: 't1.c0', digest: 'd', sentAt: 7, result }];
  const deed = deedOf({ target, arguments: { amount: 1 } });
  expect(stretchedSends({ turns: [{ step, at: 7, calls }] })).toEqual([
    { callId: 't1.c0', server: 'bank', tool: 'pay', at: 7, ending: 'succeeded', deed },
  ]);
});

test('a call that a stretch is said to have sent may have no proposal and no judgement in it', () => {
  const usage = { inputTokens: 1, outputTokens: 1 };
  const step = { parts: [], usage, finish: 'stop' };
  const calls = [{ callId: 't1.c0', digest: 'd', sentAt: 7 }];
  const sent = { callId: 't1.c0', server: '', tool: '', at: 7, ending: 'unknown', deed: undefined };
  expect(
    stretchedSends({
      turns: [
        { step, at: 7, calls },
        { step, at: 7 },
      ],
    }),
  ).toEqual([sent]);
  expect([{}, { turns: null }, undefined].map(stretchedSends)).toEqual([[], undefined, undefined]);
});
