/** What a run keeps of a pause: sealed for its call, and opened for nothing else (INV-S1, INV-G1). */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { createQuestionMacs } from '../../../../activities/gate/legacy-2025/open-question.ts';
import { inputOf } from '../../../../activities/gate/send.ts';
import {
  createStateSeal,
  derivedFrom,
  pausedBy,
  type SealBinding,
  type StateSeal,
} from '../../../../activities/mcp/state-seal.ts';
import { defined } from '../../../../contracts/defined.ts';
import type { InputRequest, SealedState } from '../../../../contracts/schemas/input.ts';
import type { InputLeg, ProvisionProof } from '../../../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';

describe("sealing a server's state for the time in which people answer (INV-S1)", () => {
  const BINDING: SealBinding = {
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
    test.each<[string, SealBinding]>([
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
    const ANSWER: SealBinding = {
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
});

describe('what of a pause is opened before a call and sealed after it', () => {
  const seal = createStateSeal(new Map([['one', randomBytes(32)]]));
  const macs = createQuestionMacs([randomBytes(32)]);
  const HASH = '1'.repeat(64);
  const FORM: InputRequest = { kind: 'form', message: 'M', fields: {}, required: [], hash: HASH };
  // Sound: only the fields that these functions read.
  const ANSWER = {
    provision: { kind: 'decline', callId: 't1.c0' },
    about: { kind: 'input', round: 1, requests: { it: FORM } },
  } as unknown as ProvisionProof;
  /** As it is matched with questions. */
  const KEPT = { hash: HASH, response: { action: 'decline' } };
  const ANEW = { input: { answers: [KEPT], dispatch: '1.2', begunAnew: true } };
  const GOES_ON = {
    input: {
      answers: [KEPT],
      dispatch: '1.2',
      leg: { responses: { it: { action: 'decline' } }, used: [HASH], state: 'secret-state' },
    },
  };

  // Sound: only the fields that these functions read.
  const dispatch = (input?: DispatchInput['input'], callId = 't1.c0'): DispatchInput =>
    ({
      run: { namespace: 'default', workflowId: 'run-1' },
      callId,
      attempt: 2,
      target: { serverUrl: 'https://s.example', tool: 'pay' },
      server: { name: 'bank' },
      arguments: {},
      ...defined({ input }),
    }) as DispatchInput;

  async function legOf(round = 1, state: { readonly state?: string } = { state: 'secret-state' }): Promise<InputLeg> {
    const before = round === 1 ? undefined : { provided: [], leg: { round: round - 1, requests: {}, used: [] } };
    const paused = await pausedBy(
      { kind: 'input', requests: { it: FORM }, used: [], ...state },
      dispatch(before),
      { seal, macs },
      { strategy: 'none' },
    );
    if (paused.kind !== 'input') throw new Error(JSON.stringify(paused));
    // As the run keeps it.
    return structuredClone({ ...paused, requests: { it: { hash: HASH } } });
  }

  describe('a call', () => {
    test('of a run that cannot wait, or on a worker without a key, is told so by what is to be done', async () => {
      expect(await inputOf(dispatch(), seal)).toEqual({
        noInput: expect.stringContaining('ask nobody for input'),
      });
      expect(await inputOf(dispatch({ provided: [] }), undefined)).toEqual({
        noInput: expect.stringContaining('grants.keys'),
      });
    });

    test('that begins has no leg', async () => {
      const begins = { input: { answers: [], dispatch: '0.2' } };
      expect(await inputOf(dispatch({ provided: [] }), seal)).toEqual(begins);
    });

    test('INV-S1: goes on with the state as the server gave it; between, it is sealed', async () => {
      const leg = await legOf();
      expect(JSON.stringify(leg)).not.toContain('secret');
      expect(await inputOf(dispatch({ provided: [ANSWER], leg }), seal)).toEqual(GOES_ON);
    });

    test('begins anew where the state was sealed for another call, or to a key that is gone', async () => {
      const leg = await legOf();
      expect(await inputOf(dispatch({ provided: [ANSWER], leg }, 't1.c1'), seal)).toEqual(ANEW);
      const other = createStateSeal(new Map([['one', randomBytes(32)]]));
      expect(await inputOf(dispatch({ provided: [ANSWER], leg }), other)).toEqual(ANEW);
    });

    test('without a state goes on all the same', async () => {
      for (const state of [{}, { state: '' }]) {
        const leg = await legOf(1, state);
        const { input } = await inputOf(dispatch({ provided: [ANSWER], leg }), seal);
        expect(input?.leg).toEqual({ responses: { it: { action: 'decline' } }, used: [HASH], ...state });
      }
    });

    test('INV-G1: begins anew where its leg has no state: nothing proves which questions were asked', async () => {
      const { state: _, ...leg } = await legOf();
      expect(await inputOf(dispatch({ provided: [ANSWER], leg }), seal)).toEqual(ANEW);
    });

    test.each<[string, Partial<InputLeg>]>([
      ['other questions', { requests: { it: { hash: '2'.repeat(64) } } }],
      ['a question under another key', { requests: { other: { hash: HASH } } }],
      ['one question less', { requests: {} }],
      ['an answer given again', { used: ['3'.repeat(64)] }],
      ['another round', { round: 2 }],
    ])('INV-G1: begins anew where somebody has put into its leg %s', async (_, over) => {
      const leg = { ...(await legOf()), ...over };
      expect(await inputOf(dispatch({ provided: [ANSWER], leg }), seal)).toMatchObject({ input: { begunAnew: true } });
    });
  });

  test.each<[string, Partial<DispatchInput>]>([
    ['another server of the same URL', { server: { name: 'admin', url: 'https://s.example' } }],
    ['another tool', { target: { ...dispatch().target, tool: 'refund' } }],
    ['other arguments, as after a reset', { arguments: { amount: 2 } }],
  ])('INV-G1: what was kept of a pause goes on with no call of %s', async (_, over) => {
    const input = { provided: [ANSWER], leg: await legOf() };
    expect(await inputOf({ ...dispatch(input), ...over }, seal)).toEqual(ANEW);
  });

  test('people are asked with what proves that a worker was asked it', async () => {
    const ending = { kind: 'input', requests: { it: FORM }, used: [] } as const;
    const paused = await pausedBy(ending, dispatch(), { seal, macs }, { strategy: 'none' });
    if (paused.kind !== 'input') throw new Error(JSON.stringify(paused));
    expect(macs?.areOurs(paused.requests, dispatch())).toBe(true);
    expect(paused.requests).toMatchObject({ it: FORM });
  });

  test('after ten pauses the call ends as unknown: the server has not said whether anything was done', async () => {
    expect(await legOf(10)).toMatchObject({ round: 10 });
    await expect(legOf(11)).rejects.toThrow('OUTCOME_UNKNOWN');
  });
});
