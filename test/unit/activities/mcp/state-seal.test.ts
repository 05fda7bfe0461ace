/** Sealing a server's state for the time in which people answer (INV-S1). */
import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import {
  type AnswerBinding,
  createStateSeal,
  derivedFrom,
  type SealBinding,
  type StateBinding,
  type StateSeal,
} from '../../../../activities/mcp/state-seal.ts';
import type { SealedState } from '../../../../contracts/schemas/input.ts';

const BINDING: StateBinding = {
  namespace: 'default',
  workflowId: 'refund-1',
  callId: 't1.c0',
  round: 1,
  serverUrl: 'https://mcp.example/mcp',
};
const STATE = '\ufeffv1.eyJwIjp7fX0.c2VjcmV0-state ✓';

function keyOf(): Uint8Array {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return derivedFrom(String(privateKey.export({ type: 'pkcs8', format: 'pem' })));
}

function sealOf(keys: Record<string, Uint8Array>): StateSeal {
  const seal = createStateSeal(new Map(Object.entries(keys)));
  if (seal === undefined) throw new Error('there is a key');
  return seal;
}

const ONE = keyOf();
const seal = sealOf({ one: ONE });

test('INV-S1: a sealed state shows nothing of the state, and comes back to the byte', async () => {
  const sealed = await seal.seal(STATE, BINDING);
  expect(JSON.stringify(sealed)).not.toContain('secret');
  expect(Buffer.from(sealed.ciphertext, 'base64url').toString('latin1')).not.toContain('secret');
  expect(await seal.open(sealed, BINDING)).toBe(STATE);
  // Never twice the same.
  expect((await seal.seal(STATE, BINDING)).ciphertext).not.toBe(sealed.ciphertext);
});

describe('it opens for nothing else', () => {
  test.each<[keyof StateBinding, Partial<StateBinding>]>([
    ['namespace', { namespace: 'other' }],
    ['workflowId', { workflowId: 'refund-2' }],
    ['callId', { callId: 't1.c1' }],
    ['round', { round: 2 }],
    ['serverUrl', { serverUrl: 'https://evil.example/mcp' }],
  ])('another %s', async (_, change) => {
    const sealed = await seal.seal(STATE, BINDING);
    expect(await seal.open(sealed, { ...BINDING, ...change })).toBeUndefined();
  });

  test.each(['protected', 'iv', 'ciphertext', 'tag'] as const)('a changed %s', async (field) => {
    const sealed = await seal.seal(STATE, BINDING);
    const bytes = Buffer.from(sealed[field], 'base64url');
    bytes[0] = (bytes[0] ?? 0) ^ 1;
    expect(await seal.open({ ...sealed, [field]: bytes.toString('base64url') }, BINDING)).toBeUndefined();
  });

  test('what is no JWE at all, or names no key', async () => {
    const nonsense = { protected: '', iv: '', ciphertext: '', tag: '' } satisfies SealedState;
    expect(await seal.open(nonsense, BINDING)).toBeUndefined();
    const header = Buffer.from('{"alg":"dir","enc":"A256GCM"}').toString('base64url');
    expect(await seal.open({ ...(await seal.seal(STATE, BINDING)), protected: header }, BINDING)).toBeUndefined();
  });
});

describe('where an answer comes opens for nothing but its call', () => {
  const ANSWER: AnswerBinding = {
    answerTo: 'tools/call',
    server: 'files',
    namespace: 'default',
    workflowId: 'refund-1',
    runId: 'run-1',
    callId: 't1.c0',
    attempt: 1,
    serverUrl: 'https://mcp.example/mcp',
    tool: 'pay',
    argumentsHash: 'a'.repeat(64),
  };

  test.each<[string, SealBinding]>([
    ['another namespace', { ...ANSWER, namespace: 'other' }],
    ['another run', { ...ANSWER, workflowId: 'refund-2' }],
    ['the run after a reset', { ...ANSWER, runId: 'run-2' }],
    ['another call', { ...ANSWER, callId: 't1.c1' }],
    ['another attempt', { ...ANSWER, attempt: 2 }],
    ['another server', { ...ANSWER, serverUrl: 'https://evil.example/mcp' }],
    ['another server of the same address', { ...ANSWER, server: 'admin' }],
    ['another tool', { ...ANSWER, tool: 'refund' }],
    ['other arguments', { ...ANSWER, argumentsHash: 'b'.repeat(64) }],
    ['the state of a pause', BINDING],
  ])('not for %s', async (_, binding) => {
    const sealed = await seal.seal(STATE, ANSWER);
    expect(await seal.open(sealed, binding)).toBeUndefined();
    expect(await seal.open(sealed, ANSWER)).toBe(STATE);
  });

  test('nor does the state of a pause open as that', async () => {
    expect(await seal.open(await seal.seal(STATE, BINDING), ANSWER)).toBeUndefined();
  });
});

describe('keys', () => {
  test('rotate: the first seals, all open; one that is gone opens nothing', async () => {
    const two = keyOf();
    const sealed = await seal.seal(STATE, BINDING);
    const rotated = sealOf({ two, one: ONE });
    expect(await rotated.open(sealed, BINDING)).toBe(STATE);
    const fresh = await rotated.seal(STATE, BINDING);
    expect(JSON.parse(Buffer.from(fresh.protected, 'base64url').toString())).toMatchObject({ kid: 'two' });
    expect(await seal.open(fresh, BINDING)).toBeUndefined();
    expect(await sealOf({ one: two }).open(sealed, BINDING)).toBeUndefined();
  });

  test('without one nothing is sealed', () => {
    expect(createStateSeal(new Map())).toBeUndefined();
  });
});
