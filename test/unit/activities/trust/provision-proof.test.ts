/** Trust mode `signed`: what people answered to a server, forged one part at a time (INV-G2, F22). */
import { beforeAll, beforeEach, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../../../activities/artifacts/memory.ts';
import { createSignatureCheck } from '../../../../activities/trust/dispatch-proof.ts';
import type { ExecutionFacts } from '../../../../activities/trust/executions.ts';
import { createTrustedKeys } from '../../../../activities/trust/keys.ts';
import { proveStart, type StartProofParts } from '../../../../activities/trust/start-proof.ts';
import type { SignedProvision } from '../../../../contracts/schemas/request.ts';
import { RunSpec } from '../../../../contracts/schemas/run-spec.ts';
import { TrustConfig, type TrustedJwk } from '../../../../contracts/schemas/trust.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import { specHash } from '../../../../domain/request/digest.ts';
import { claimsFor, person, service, signedWith, type TestKey } from '../../../support/signing/people.ts';
import type { ProvisionProof } from '../../../../contracts/wire/proofs.ts';
import type { Scheduler } from '../../../../activities/kit/activity.ts';

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
  scheduledAt: 0,
  attemptAt: 0,
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

beforeEach(reset);

async function answered(key: TestKey, over: object = {}, claims: object = {}): Promise<SignedProvision> {
  const message = {
    kind: 'provide',
    decisionId: 'p-1',
    callId: 't1.c0',
    digest: 'a'.repeat(64),
    runId: 'exec-2',
    approver: { id: 'acme|ann', groups: [] },
    responses: { who: { action: 'accept', content: { name: 'Ann' } } },
    ...over,
  };
  const where = { namespace: 'default', tenant: 'default', workflowId: 'run-1', runId: message.runId };
  const about = { purpose: 'provideInput', ...where, iss: 'acme', sub: 'ann' };
  const signature = await signedWith(key, claimsFor(message, about, { jti: message.decisionId, ...claims }));
  // Sound: a test forges what it likes.
  return { ...message, signature } as SignedProvision;
}

let input: DispatchInput;
beforeAll(async () => {
  reset();
  const where = { namespace: 'default', tenant: 'default', workflowId: 'run-1', iss: 'acme', sub: 'ann' };
  const signature = await signedWith(backend, claimsFor(given, { purpose: 'start', ...where }));
  const { signedSpec } = await proveStart(parts, { ...given, signature }, spec, scheduler);
  // Sound: only the fields that the proof reads.
  input = {
    run: { namespace: 'default', workflowId: 'run-1', initiator: spec.initiator, specHash: specHash(spec) },
    runId: 'exec-2',
    decidedIn: ['exec-1', 'exec-2'],
    callId: 't1.c0',
    proof: { kind: 'policy', rules: ['x'] },
    toolset: [
      { server: 'bank', tools: { sha256: 'b'.repeat(64), bytes: 1, contentType: 'x' }, allowedTools: ['pay'] },
      { server: 'open', tools: { sha256: 'c'.repeat(64), bytes: 1, contentType: 'x' } },
    ],
    target: { server: 'bank', serverUrl: 'https://bank.example/mcp', tool: 'pay', definitionHash: 'd'.repeat(64) },
    server: { name: 'bank', url: 'https://bank.example/mcp', allowedTools: ['pay'] },
    grant: { server: 'bank', ref: 'vault' },
    runPolicy: given.policy,
    name: 'bank__pay',
    arguments: {},
    attempt: 1,
    signedSpec,
  } as unknown as DispatchInput;
});

async function checked(provision: SignedProvision, decidedAt = now): Promise<unknown> {
  // Sound: only the fields that the proof reads.
  const proof = { provision, decidedAt: new Date(decidedAt * 1_000).toISOString() } as ProvisionProof;
  return await createSignatureCheck(parts, async () => undefined)(
    { ...input, input: { provided: [proof] } },
    scheduler,
  );
}

const ANEW = { kind: 'reopen', asks: 'input' };

test('as it was signed, it is believed; with nothing answered, there is nothing to believe', async () => {
  expect(await checked(await answered(ann))).toBeUndefined();
  expect(
    await createSignatureCheck(parts, async () => undefined)({ ...input, input: { provided: [] } }, scheduler),
  ).toBeUndefined();
  expect(await checked(await answered(ann, { runId: 'exec-1' }))).toBeUndefined();
});

test.each<[string, () => Promise<SignedProvision>]>([
  ['of nobody', async () => ({ ...(await answered(ann)), signature: '' })],
  ['of somebody else', () => answered(ben)],
  ['to another purpose', () => answered(ann, {}, { purpose: 'decide' })],
  ['for another run', () => answered(ann, {}, { workflowId: 'run-2' })],
  [
    'of other words',
    async () => ({ ...(await answered(ann)), responses: { who: { action: 'decline' } } }) as SignedProvision,
  ],
])('%s: the server is not told, and people are asked anew', async (_, forged) => {
  expect(await checked(await forged())).toMatchObject(ANEW);
});

test('by a key that was revoked since: people are asked anew', async () => {
  const provision = await answered(ann);
  trusted = [backend.entry, ben.entry];
  expect(await checked(provision)).toMatchObject(ANEW);
});

test('taken when its signature was no longer good: people are asked anew', async () => {
  expect(await checked(await answered(ann), now + 86_400)).toMatchObject(ANEW);
});

test('made in a run that is not of this chain, as after a reset: people are asked anew', async () => {
  known = { ...known, 'exec-9': { ...first, firstRunId: 'exec-9' } };
  expect(await checked(await answered(ann, { runId: 'exec-9' }))).toMatchObject({
    ...ANEW,
    code: 'DECISION_STALE_RUN',
  });
});
