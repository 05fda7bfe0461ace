/** What a dispatch must prove in trust mode `signed`, with every part of it forged one at a time (INV-G1, INV-G2, §3.5, F22). */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../../activities/artifacts/memory.ts';
import type { Scheduler } from '../../../activities/tools/dispatch-check.ts';
import { createSignatureCheck } from '../../../activities/trust/dispatch-proof.ts';
import type { ExecutionFacts } from '../../../activities/trust/executions.ts';
import { createTrustedKeys } from '../../../activities/trust/keys.ts';
import { proveStart, type StartProofParts } from '../../../activities/trust/start-proof.ts';
import type { DispatchInput } from '../../../contracts/activities.ts';
import type { SignedDecision } from '../../../contracts/schemas/decision.ts';
import { RunSpec } from '../../../contracts/schemas/run-spec.ts';
import { TrustConfig, type TrustedJwk } from '../../../contracts/schemas/trust.ts';
import { specHash } from '../../../domain/digest.ts';
import { claimsFor, person, service, signedWith, type TestKey } from '../../support/trust.ts';

const now = Math.floor(Date.now() / 1_000);
const [backend, ann, ben] = [service('backend', ['ops']), person('ann', 'ann'), person('ben', 'ben')];
const config = TrustConfig.parse({ mode: 'signed', jwks: 'x' });
if (config.mode !== 'signed') throw new Error('it is');

const given = {
  agent: { name: 'clerk', model: 'm' },
  input: 'Do it.',
  initiator: { id: 'acme|ann' },
  servers: [{ name: 'bank', url: 'https://bank.example/mcp', allowedTools: ['pay'] }, { name: 'open' }],
  grants: [{ server: 'bank', ref: 'vault' }],
  policy: { approvers: { ids: ['acme|ann'] } },
};
const spec = RunSpec.parse(given);
const artifacts = createMemoryStore();
const scheduler: Scheduler = {
  namespace: 'default',
  workflowType: 'agentRun',
  workflowId: 'run-1',
  runId: 'exec-2',
  attempt: 1,
};
const first: ExecutionFacts = {
  startedAt: now * 1_000,
  firstRunId: 'exec-1',
  taskQueue: 'countersign',
  continued: true,
};

let trusted: readonly TrustedJwk[];
let known: Record<string, ExecutionFacts>;
const parts: StartProofParts = {
  keys: createTrustedKeys(config, { name: 'x', freshMs: 0, read: async () => ({ keys: [...trusted] }) }),
  artifacts,
  readExecution: async (_workflowId, runId) => known[runId],
  taskQueue: 'countersign',
};
const reset = (): void => {
  trusted = [backend, ann, ben].map(({ entry }) => entry);
  known = { 'exec-1': first, 'exec-2': { ...first, continued: false } };
};

async function vote(key: TestKey, id: string, over: object = {}, claims: object = {}): Promise<SignedDecision> {
  const approver = { id, groups: [] };
  const message = {
    kind: 'approve',
    decisionId: `by-${id}`,
    callId: 't1.c0',
    digest: 'a'.repeat(64),
    runId: 'exec-2',
    approver,
    ...over,
  };
  const [iss, sub] = id.split('|');
  const where = { namespace: 'default', tenant: 'default', workflowId: 'run-1', runId: message.runId, groups: [] };
  const about = { purpose: 'decide', ...where, iss, sub };
  // Sound: a test forges what it likes.
  return {
    ...message,
    signature: await signedWith(key, claimsFor(message, about, { jti: message.decisionId, ...claims })),
  } as SignedDecision;
}

let input: DispatchInput;
beforeAll(async () => {
  reset();
  const about = {
    purpose: 'start',
    namespace: 'default',
    tenant: 'default',
    workflowId: 'run-1',
    iss: 'acme',
    sub: 'ann',
  };
  const signature = await signedWith(backend, claimsFor(given, about));
  const { signedSpec } = await proveStart(parts, { ...given, signature }, spec, scheduler);
  input = {
    run: { namespace: 'default', workflowId: 'run-1', initiator: spec.initiator, specHash: specHash(spec) },
    runId: 'exec-2',
    decidedIn: ['exec-1', 'exec-2'],
    callId: 't1.c0',
    name: 'bank__pay',
    target: { server: 'bank', serverUrl: 'https://bank.example/mcp', tool: 'pay', definitionHash: 'd'.repeat(64) },
    arguments: {},
    proof: {
      kind: 'decision',
      decision: await vote(ann, 'acme|ann'),
      generation: 1,
      approvers: { allOf: [] },
      deadline: new Date((now + 100) * 1_000).toISOString(),
      decidedAt: new Date(now * 1_000).toISOString(),
    },
    toolset: [
      { server: 'bank', tools: { sha256: 'b'.repeat(64), bytes: 1, contentType: 'x' }, allowedTools: ['pay'] },
      { server: 'open', tools: { sha256: 'c'.repeat(64), bytes: 1, contentType: 'x' } },
    ],
    runPolicy: given.policy,
    server: { name: 'bank', url: 'https://bank.example/mcp', allowedTools: ['pay'] },
    grant: { server: 'bank', ref: 'vault' },
    limits: { resultBytes: 1, callTimeoutSeconds: 1 },
    attempt: 1,
    idempotencyKey: 'k',
    signedSpec,
    // Sound: as a workflow sends it, policy and grants without their defaults.
  } as unknown as DispatchInput;
});

async function answer(over: Partial<DispatchInput> = {}, by: Partial<Scheduler> = {}): Promise<string> {
  const refused = await createSignatureCheck(parts)({ ...input, ...over }, { ...scheduler, ...by });
  return refused === undefined ? 'proven' : `${refused.kind} ${refused.code}`;
}
const withProof = (over: object): Partial<DispatchInput> => ({
  proof: { ...input.proof, ...over },
});
const forged = 'refused DISPATCH_FORBIDDEN';

test('control: what was signed is proven, for a decision as for what policy allows', async () => {
  reset();
  expect(await answer()).toBe('proven');
  expect(await answer({ proof: { kind: 'policy', rules: [] } })).toBe('proven');
  expect(await answer({ server: { name: 'open', url: 'https://any.example/' }, grant: undefined } as object)).toBe(
    'proven',
  );
});

describe('a run that says something else than what was signed', () => {
  test.each<readonly [string, () => Partial<DispatchInput>]>([
    ['initiator', () => ({ run: { ...input.run, initiator: { ...spec.initiator, id: 'acme|ben' } } })],
    ['tenant', () => ({ run: { ...input.run, initiator: { ...spec.initiator, tenant: 'other' } } })],
    ['spec', () => ({ run: { ...input.run, specHash: 'f'.repeat(64) } })],
    ['policy', () => ({ runPolicy: { strategy: 'never' } })],
    ['policy, left out', () => ({ runPolicy: undefined }) as object],
    ['server', () => ({ server: { name: 'other', url: 'https://bank.example/mcp' } })],
    ['URL', () => ({ server: { ...input.server, url: 'https://evil.example/mcp' } })],
    ['list of tools', () => ({ server: { name: 'bank', url: input.server.url } })],
    ['toolset', () => ({ toolset: input.toolset.map(({ server, tools }) => ({ server, tools })) })],
    [
      'toolset of a server that it never named',
      () => ({ toolset: input.toolset.map((each) => ({ ...each, server: 'x' })) }),
    ],
    ['grant', () => ({ grant: { server: 'bank', ref: 'other' } })],
  ])('another %s', async (_what, over) => {
    reset();
    expect(await answer(over())).toBe(forged);
  });

  test('nothing signed, or something that is no spec of this run', async () => {
    reset();
    expect(await answer({ signedSpec: undefined } as object)).toBe('refused SIGNATURE_MISSING');
    expect(await answer({}, { workflowId: 'run-2' })).toBe('refused SIGNATURE_INVALID');
    expect(await answer({}, { namespace: 'other' })).toBe('refused SIGNATURE_INVALID');
    const text = JSON.stringify({ ...given, input: 'Do something else.' });
    const other = await artifacts.put(new TextEncoder().encode(text), 'x');
    expect(await answer({ signedSpec: { spec: other, signature: input.signedSpec?.signature ?? '' } })).toBe(
      'refused SIGNATURE_INVALID',
    );
  });
});

describe('a spec that was caught starts nothing later', () => {
  test.each([
    ['began too late', { 'exec-1': { ...first, startedAt: (now + 301) * 1_000 } }, 'refused SIGNATURE_EXPIRED'],
    [
      'began before it was signed',
      { 'exec-1': { ...first, startedAt: (now - 60) * 1_000 } },
      'refused SIGNATURE_EXPIRED',
    ],
    ['is worked on by somebody else', { 'exec-2': { ...first, taskQueue: 'forged' } }, forged],
    ['is not there', { 'exec-2': undefined }, forged],
    ['began before what Temporal remembers', { 'exec-1': undefined }, 'proven'],
  ])('where the run %s', async (_what, over, expected) => {
    reset();
    Object.assign(known, over);
    expect(await answer({ proof: { kind: 'policy', rules: [] } })).toBe(expected);
  });
});

describe('of the keys as they are now', () => {
  test('a revoked one signs for nothing: the call asks again, the run calls nothing', async () => {
    reset();
    trusted = [backend.entry];
    expect(await answer()).toBe('reopen TRUST_KEY_UNKNOWN');
    trusted = [ann.entry];
    expect(await answer()).toBe('refused SIGNER_NOT_ENTITLED');
  });

  test('one that was replaced counts for what it signed before', async () => {
    reset();
    const retired = (key: TestKey, seconds: number): TrustedJwk => ({
      ...key.entry,
      countersign: { ...key.entry.countersign, retired: new Date(seconds * 1_000).toISOString() },
    });
    trusted = [retired(backend, now + 100), retired(ann, now + 100)];
    expect(await answer()).toBe('proven');
    trusted = [backend.entry, retired(ann, now - 100)];
    expect(await answer()).toBe('reopen SIGNER_NOT_ENTITLED');
  });

  test('an approver who may claim less now is asked about again (F20)', async () => {
    reset();
    const decision = await vote(
      backend,
      'acme|eve',
      { approver: { id: 'acme|eve', groups: ['ops'] } },
      { groups: ['ops'] },
    );
    expect(await answer(withProof({ decision }))).toBe('proven');
    trusted = [{ ...backend.entry, countersign: { ...backend.entry.countersign, groups: [] } }, ann.entry];
    expect(await answer(withProof({ decision }))).toBe('reopen SIGNER_NOT_ENTITLED');
  });
});

describe('votes', () => {
  test('unsigned, or altered after they were signed', async () => {
    reset();
    const decision = await vote(ann, 'acme|ann');
    const { signature: _, ...unsigned } = decision;
    expect(await answer(withProof({ decision: unsigned }))).toBe(forged);
    expect(await answer(withProof({ decision: { ...decision, digest: 'b'.repeat(64) } }))).toBe(forged);
    expect(await answer(withProof({ decision: { ...decision, comment: 'x' } }))).toBe(forged);
    expect(await answer(withProof({ decision: await vote(ann, 'acme|ann', {}, { purpose: 'stop' }) }))).toBe(forged);
  });

  test('several of one key are one; of two keys they are two', async () => {
    reset();
    const eve = await vote(backend, 'acme|eve');
    const max = await vote(backend, 'acme|max');
    expect(await answer(withProof({ decision: eve, further: [max] }))).toBe('reopen APPROVER_NOT_ENTITLED');
    expect(await answer(withProof({ decision: eve, further: [await vote(ben, 'acme|ben')] }))).toBe('proven');
    const { signature: _, ...unsigned } = max;
    expect(await answer(withProof({ decision: eve, further: [unsigned] }))).toBe(forged);
  });

  test('count where they were made in this chain, by the word of Temporal and not of the workflow', async () => {
    reset();
    const decision = await vote(ann, 'acme|ann', { runId: 'exec-1' });
    expect(await answer(withProof({ decision }))).toBe('proven');
    known['exec-1'] = { ...first, continued: false };
    expect(await answer(withProof({ decision }))).toBe('reopen DECISION_STALE_RUN');
    known['exec-0'] = { ...first, firstRunId: 'exec-0' };
    expect(await answer(withProof({ decision: await vote(ann, 'acme|ann', { runId: 'exec-0' }) }))).toBe(
      'reopen DECISION_STALE_RUN',
    );
    expect(await answer(withProof({ decision: await vote(ann, 'acme|ann', { runId: 'gone' }) }))).toBe(
      'reopen DECISION_STALE_RUN',
    );
  });

  test('were taken while their signature was good', async () => {
    reset();
    const at = (seconds: number) => ({ decidedAt: new Date((now + seconds) * 1_000).toISOString() });
    expect(await answer(withProof(at(299)))).toBe('proven');
    expect(await answer(withProof(at(370)))).toBe(forged);
    expect(await answer(withProof(at(-60)))).toBe(forged);
    expect(await answer(withProof({ decidedAt: 'never' }))).toBe(forged);
  });

  test('and what postponed the deadline is signed too', async () => {
    reset();
    const until = new Date((now + 1_000) * 1_000).toISOString();
    const decision = await vote(ann, 'acme|ann', { kind: 'extend', until });
    const by = (one: SignedDecision, decidedAt: number) => ({
      extended: { openedAt: '', by: [{ decision: one, decidedAt: new Date(decidedAt * 1_000).toISOString() }] },
    });
    expect(await answer(withProof(by(decision, now)))).toBe('proven');
    const { signature: _, ...unsigned } = decision;
    expect(await answer(withProof(by(unsigned as SignedDecision, now)))).toBe(forged);
    expect(await answer(withProof(by(decision, now + 500)))).toBe(forged);
  });

  test('F20: each of them at the time that is claimed of it, where who may decide depends on it', async () => {
    reset();
    const further = [await vote(ben, 'acme|ben')];
    const iso = (seconds: number) => new Date((now + seconds) * 1_000).toISOString();
    const at = (...times: string[]) => withProof({ further, voted: { openedAt: iso(-9_000), further: times } });
    expect(await answer(at(iso(0)))).toBe('proven');
    for (const times of [[iso(-600)], [iso(600)], ['never'], []]) expect(await answer(at(...times))).toBe(forged);
  });
});
