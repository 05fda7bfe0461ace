/** What the review of a catalog proves in trust mode `signed`, with every part forged one at a time (INV-G2, INV-G4). */
import { beforeEach, describe, expect, test } from '@jest/globals';
import { type ChangeProofParts, proveChange } from '../../../../activities/trust/change-proof.ts';
import type { ExecutionFacts } from '../../../../activities/trust/executions.ts';
import { createTrustedKeys } from '../../../../activities/trust/keys.ts';
import { TrustConfig, type TrustedJwk } from '../../../../contracts/schemas/trust.ts';
import type { ReviewInput } from '../../../../contracts/wire/catalog.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { claimsFor, person, service, signedWith, type TestKey } from '../../../support/signing/people.ts';
import type { Scheduler } from '../../../../activities/kit/activity.ts';

const config = TrustConfig.parse({ mode: 'signed', jwks: 'x' });
if (config.mode !== 'signed') throw new Error('it is');

const [ann, ben, backend] = [person('ann', 'ann'), person('ben', 'ben'), service('backend', ['ops'])];
const WORKFLOW = 'catalog/default/bank';
const scheduler: Scheduler = {
  namespace: 'default',
  activity: 'callTool',
  workflowType: 'toolCatalog',
  workflowId: WORKFLOW,
  runId: 'exec-2',
  attempt: 1,
  scheduledAt: 0,
  attemptAt: 0,
};
const living: ExecutionFacts = { startedAt: 0, firstRunId: 'exec-1', taskQueue: 'countersign', continued: false };

let trusted: readonly TrustedJwk[];
let known: Record<string, ExecutionFacts>;
let parts: ChangeProofParts;
beforeEach(() => {
  trusted = [ann, ben, backend].map(({ entry }) => entry);
  known = { 'exec-1': { ...living, continued: true }, 'exec-2': living, 'exec-3': living };
  parts = {
    keys: createTrustedKeys(config, { name: 'x', freshMs: 0, read: async () => JSON.stringify({ keys: trusted }) }),
    readExecution: async (_workflowId, runId) => known[runId],
    taskQueue: 'countersign',
  };
});

async function inputOf(key: TestKey, who = 'ann', over: object = {}, purpose = 'catalog.decide'): Promise<ReviewInput> {
  const by = { id: `acme|${who}`, groups: [] };
  const message = { requestId: `by-${who}`, by };
  const about = { namespace: 'default', tenant: 'default', workflowId: WORKFLOW, runId: 'exec-2', purpose };
  const claims = claimsFor(message, { ...about, iss: 'acme', sub: who }, { jti: message.requestId, ...over });
  const signature = await signedWith(key, claims);
  return {
    tenant: 'default',
    server: 'bank',
    by,
    signed: { purpose: 'catalog.decide', requestId: message.requestId, payload: hashOf(message), signature },
  };
}

const codeOf = async (input: ReviewInput, from = scheduler) => (await proveChange(parts, input, from)).unproven?.code;

test('what was signed is believed, and the catalog is told of the keys once', async () => {
  const input = await inputOf(ann);
  const { trust, unproven } = await proveChange(parts, input, scheduler);
  expect(unproven).toBeUndefined();
  expect(trust).toMatchObject({ maxAgeSeconds: 900, keys: [{ kid: 'ann' }, { kid: 'ben' }, { kid: 'backend' }] });
  expect(await proveChange(parts, { ...input, trustHash: hashOf(trust) }, scheduler)).toEqual({ trust: 'unchanged' });
});

test('what is not believed tells the catalog of the keys all the same', async () => {
  const { signed: _, ...unsigned } = await inputOf(ann);
  const { trust, unproven } = await proveChange(parts, unsigned, scheduler);
  expect(unproven?.code).toBe('SIGNATURE_MISSING');
  expect(trust).toMatchObject({ maxAgeSeconds: 900 });
});

describe('a catalog that is none of ours learns nothing, not even the keys', () => {
  test.each<[string, Partial<Scheduler>]>([
    ['a workflow of another type', { workflowType: 'agentRun' }],
    ['under another id', { workflowId: 'catalog/default/other' }],
    ['that Temporal does not know', { runId: 'exec-9' }],
  ])('%s', async (_, over) => {
    const answer = await proveChange(parts, await inputOf(ann), { ...scheduler, ...over });
    expect(answer).toEqual({ unproven: expect.objectContaining({ code: 'CATALOG_FORBIDDEN' }) });
  });

  test('on another queue', async () => {
    known = { 'exec-2': { ...living, taskQueue: 'theirs' } };
    expect(await codeOf(await inputOf(ann))).toBe('CATALOG_FORBIDDEN');
  });
});

const now = (): number => Math.floor(Date.now() / 1_000);

describe('is not believed', () => {
  test.each<[string, () => Promise<ReviewInput>, string]>([
    ['the key of nobody', async () => await inputOf(person('stranger', 'ann')), 'SIGNER_NOT_ENTITLED'],
    ['the key of somebody else', async () => await inputOf(ben, 'ann'), 'SIGNER_NOT_ENTITLED'],
    ['another purpose', async () => await inputOf(ann, 'ann', {}, 'catalog.connect'), 'SIGNATURE_INVALID'],
    ['another message', async () => await inputOf(ann, 'ann', { payload: 'f'.repeat(64) }), 'SIGNATURE_INVALID'],
    ['another catalog', async () => await inputOf(ann, 'ann', { workflowId: 'catalog/x/y' }), 'SIGNATURE_INVALID'],
    ['no Temporal run', async () => await inputOf(ann, 'ann', { runId: undefined }), 'SIGNATURE_INVALID'],
    ['a run that was reset', async () => await inputOf(ann, 'ann', { runId: 'exec-3' }), 'SIGNATURE_INVALID'],
    ['a run that nobody knows', async () => await inputOf(ann, 'ann', { runId: 'exec-9' }), 'SIGNATURE_INVALID'],
    [
      'what expired long ago',
      async () => await inputOf(ann, 'ann', { iat: now() - 1_500, exp: now() - 1_200 }),
      'SIGNATURE_EXPIRED',
    ],
    [
      'what is of tomorrow',
      async () => await inputOf(ann, 'ann', { iat: now() + 500, exp: now() + 600 }),
      'SIGNATURE_EXPIRED',
    ],
  ])('%s', async (_, make, code) => {
    expect(await codeOf(await make())).toBe(code);
  });
});

test('a message may be of an execution that continued as new', async () => {
  expect(await codeOf(await inputOf(ann, 'ann', { runId: 'exec-1' }))).toBeUndefined();
  known['exec-1'] = { ...living, continued: true, firstRunId: 'other' };
  expect(await codeOf(await inputOf(ann, 'ann', { runId: 'exec-1' }))).toBe('SIGNATURE_INVALID');
});

test('a key that is newer than what was read last is looked for', async () => {
  let reads = 0;
  parts = {
    ...parts,
    keys: createTrustedKeys(config, {
      name: 'x',
      freshMs: 60_000,
      read: async () => JSON.stringify({ keys: (reads += 1) === 1 ? [] : trusted }),
    }),
  };
  await parts.keys.setFor('default', 'kept');
  expect(await codeOf(await inputOf(ann))).toBeUndefined();
});

describe('a second administrator', () => {
  const agreeing = async (key: TestKey, asker: TestKey | undefined, who = 'ben'): Promise<ReviewInput> => {
    const input = await inputOf(key, who);
    if (input.signed === undefined) throw new Error('it is signed');
    const opener =
      asker && (await inputOf(asker, 'ann', { iat: now() - 80_000, exp: now() - 79_000 }, 'catalog.connect'));
    const asked = {
      by: { id: 'acme|ann', groups: [] },
      ...(opener?.signed === undefined ? {} : { signature: opener.signed.signature }),
    };
    return { ...input, signed: { ...input.signed, asked } };
  };

  test('holds another key', async () => {
    expect(await codeOf(await agreeing(ben, ann))).toBeUndefined();
    expect(await codeOf(await agreeing(backend, backend))).toBe('APPROVER_NOT_ENTITLED');
  });

  test('agrees to what was signed, with a key that still counts', async () => {
    expect(await codeOf(await agreeing(ben, undefined))).toBe('SIGNATURE_MISSING');
    const input = await agreeing(ben, ann);
    trusted = [ben.entry];
    expect(await codeOf(input)).toBe('SIGNER_NOT_ENTITLED');
  });
});
