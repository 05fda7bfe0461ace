import { expect, test } from '@jest/globals';
import { isAnswerOf } from '../../../../domain/shapes/inputs.ts';

const REF = { sha256: 'a', bytes: 1, contentType: 'application/json' };

test.each([
  ['storeSegment', REF],
  ['storeSegment', { ...REF, of: 'a later release' }],
  ['readTrust?', undefined],
  ['readTrust?', null],
  ['readTrust?', { keys: [{}], maxAgeSeconds: 900 }],
  ['callTool', { kind: 'ended', outcome: { kind: 'succeeded' } }],
  ['callTool', { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'away' }],
  ['discoverTools', { server: 'bank', authorization: {} }],
  ['discoverTools', { server: 'bank', tools: REF, refused: [] }],
] as const)('%s answers with %j', (activity, value) => {
  expect(isAnswerOf(activity, value)).toBe(true);
});

test.each([
  ['storeSegment', undefined],
  ['storeSegment', null],
  ['storeSegment', 7],
  ['storeSegment', [REF]],
  ['storeSegment', new Uint8Array(8)],
  ['storeSegment', { ...REF, bytes: -1 }],
  ['storeSegment', { ...REF, bytes: 0.5 }],
  ['storeSegment', { ...REF, sha256: 1 }],
  ['readTrust?', { keys: {}, maxAgeSeconds: 900 }],
  ['readTrust?', { keys: [7], maxAgeSeconds: 900 }],
  ['callTool', { kind: 'ended' }],
  ['callTool', { kind: 'else', outcome: { kind: 'succeeded' } }],
  ['callTool', { kind: 'ended', outcome: { kind: 'succeeded', result: {} } }],
  ['judge', { policyVersion: 'p', judgements: [{ callId: 't1.c0', verdict: { kind: 'ask' } }] }],
  ['modelStep', { parts: [null], usage: { inputTokens: 1, outputTokens: 1 }, finish: 'stop' }],
] as const)('%s does not answer with %j', (activity, value) => {
  expect(isAnswerOf(activity, value)).toBe(false);
});
