/** What a dispatch must prove in trust mode `signed`, with every part of it forged one at a time (INV-G1, INV-G2, §3.5, F22). */
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { SignedDecision } from '../../../../contracts/schemas/request.ts';
import type { TrustedJwk } from '../../../../contracts/schemas/trust.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import {
  ann,
  answer,
  artifacts,
  backend,
  ben,
  first,
  forged,
  given,
  input,
  now,
  prepareInput,
  reset,
  spec,
  vote,
  withProof,
  world,
} from '../../../support/stories/signed-input.ts';
import type { TestKey } from '../../../support/signing/people.ts';

beforeAll(prepareInput);

test('control: what was signed is proven, for a decision as for what policy allows', async () => {
  reset();
  expect(await answer()).toBe('proven');
  expect(await answer({ proof: { kind: 'policy', rules: [] } })).toBe('proven');
  expect(
    await answer({ server: { name: 'open', url: 'https://any.example/', hosted: 'm' }, grant: undefined } as object),
  ).toBe('proven');
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
])('a spec that was caught starts nothing later: where the run %s', async (_what, over, expected) => {
  reset();
  Object.assign(world.known, over);
  expect(await answer({ proof: { kind: 'policy', rules: [] } })).toBe(expected);
});

describe('of the keys as they are now', () => {
  test('a revoked one signs for nothing: the call asks again, the run calls nothing', async () => {
    reset();
    world.trusted = [backend.entry];
    expect(await answer()).toBe('reopen TRUST_KEY_UNKNOWN');
    world.trusted = [ann.entry];
    expect(await answer()).toBe('refused SIGNER_NOT_ENTITLED');
  });

  test('one that was replaced counts for what it signed before', async () => {
    reset();
    const retired = (key: TestKey, seconds: number): TrustedJwk => ({
      ...key.entry,
      countersign: { ...key.entry.countersign, retired: new Date(seconds * 1_000).toISOString() },
    });
    world.trusted = [retired(backend, now + 100), retired(ann, now + 100)];
    expect(await answer()).toBe('proven');
    world.trusted = [backend.entry, retired(ann, now - 100)];
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
    world.trusted = [{ ...backend.entry, countersign: { ...backend.entry.countersign, groups: [] } }, ann.entry];
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
    world.known['exec-1'] = { ...first, continued: false };
    expect(await answer(withProof({ decision }))).toBe('reopen DECISION_STALE_RUN');
    world.known['exec-0'] = { ...first, firstRunId: 'exec-0' };
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
