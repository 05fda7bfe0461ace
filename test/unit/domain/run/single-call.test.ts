/** A single call as a run spec, and what its model reads of it. */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { CallSpec, RunSpec } from '../../../../contracts/schemas/run-spec.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import { runSpecOf, wantedCall } from '../../../../domain/run/single-call.ts';
import { specHash } from '../../../../domain/request/digest.ts';
import { forAll } from '../../../support/for-all.ts';

const call = (over: object = {}) => CallSpec.parse({ server: 'bank', tool: 'pay', initiator: { id: 'ann' }, ...over });
// Sound: a single call has one text as input.
const opening = (over: object = {}): Message => ({ role: 'user', text: runSpecOf(call(over)).input as string });

test('it is a run spec like any other, with the one tool of the one server', () => {
  const spec = runSpecOf(call({ policy: { strategy: 'always' }, limits: { wallClockSeconds: 60 } }));
  expect(RunSpec.parse(spec)).toMatchObject({
    agent: { model: 'caller' },
    servers: [{ name: 'bank', allowedTools: ['pay'] }],
    initiator: { id: 'ann' },
    policy: { strategy: 'always' },
    limits: { callsPerTurn: 1, wallClockSeconds: 60 },
  });
  const named = runSpecOf(call({ server: { name: 'own', url: 'https://own.example/mcp' } }));
  expect(named.servers).toEqual([{ name: 'own', url: 'https://own.example/mcp', allowedTools: ['pay'] }]);
});

test('whatever the arguments are, the model reads the same call back', () => {
  forAll(fc.dictionary(fc.string(), fc.jsonValue()), fc.string({ minLength: 1, maxLength: 100 }), (args, tool) => {
    fc.pre(CallSpec.shape.tool.safeParse(tool).success && !JSON.stringify(args).includes('__proto__'));
    const read = wantedCall([opening({ tool, arguments: JSON.parse(JSON.stringify(args)) as object })]);
    expect(read).toEqual({ tool: `bank/${tool}`, arguments: JSON.parse(JSON.stringify(args)) });
  });
});

test('the same call is the same run, in whatever order its arguments stand; another one is not (INV-D3)', () => {
  const hash = (args: object): string => specHash(RunSpec.parse(runSpecOf(call({ arguments: args }))));
  expect(hash({ a: 1, b: 2 })).toBe(hash({ b: 2, a: 1 }));
  expect(hash({ a: 1, b: 2 })).not.toBe(hash({ a: 1, b: 3 }));
});

test.each([
  ['no message', []],
  ['words', [{ role: 'user', text: 'Pay.' }]],
  ['no object', [{ role: 'user', text: '"pay"' }]],
  ['no tool', [{ role: 'user', text: '{"arguments":{}}' }]],
  ['no arguments', [{ role: 'user', text: '{"tool":"bank/pay"}' }]],
  // Only the first word of a person states the call; what is said later changes nothing.
  ['a call that is stated later', [{ role: 'user', text: 'Pay.' }, opening()]],
] satisfies [string, Message[]][])('%s states no call', (_what, messages) => {
  expect(wantedCall(messages)).toBeUndefined();
});
