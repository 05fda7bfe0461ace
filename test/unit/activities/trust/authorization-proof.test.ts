/** Trust mode `signed`: which words on an authorization count at dispatch, each part forged one at a time (INV-S2, INV-G2, §3.5). */
import { beforeEach, describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../../../activities/artifacts/memory.ts';
import { createAuthorizationProof } from '../../../../activities/trust/dispatch-proof.ts';
import type { ExecutionFacts } from '../../../../activities/trust/executions.ts';
import { createTrustedKeys } from '../../../../activities/trust/keys.ts';
import { TrustConfig, type TrustedJwk } from '../../../../contracts/schemas/trust.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import { claimsFor, person, signedWith, type TestKey } from '../../../support/signing/people.ts';
import type { AuthorizationProof } from '../../../../contracts/wire/proofs.ts';
import type { Scheduler } from '../../../../activities/kit/activity.ts';

const now = Math.floor(Date.now() / 1_000);
const [ann, eve] = [person('ann', 'ann'), person('eve', 'eve')];
const config = TrustConfig.parse({ mode: 'signed', jwks: 'x' });
if (config.mode !== 'signed') throw new Error('it is');
const living: ExecutionFacts = {
  startedAt: now * 1_000,
  firstRunId: 'exec-1',
  taskQueue: 'countersign',
  continued: true,
};
const scheduler: Scheduler = {
  namespace: 'default',
  workflowType: 'agentRun',
  workflowId: 'run-1',
  runId: 'exec-2',
  attempt: 1,
  scheduledAt: 0,
  attemptAt: 0,
};

let trusted: readonly TrustedJwk[];
let known: Record<string, ExecutionFacts>;
beforeEach(() => {
  trusted = [ann, eve].map(({ entry }) => entry);
  known = { 'exec-1': living, 'exec-2': { ...living, continued: false } };
});
const said = createAuthorizationProof({
  keys: createTrustedKeys(config, { name: 'x', freshMs: 0, read: async () => ({ keys: [...trusted] }) }),
  artifacts: createMemoryStore(),
  readExecution: async (_workflowId, runId) => known[runId],
  taskQueue: 'countersign',
});

async function proofBy(
  key: TestKey,
  over: object = {},
  about: object = {},
  claims: object = {},
): Promise<AuthorizationProof> {
  const answer = {
    kind: 'grant',
    decisionId: 'a-1',
    callId: 't1.c0',
    digest: 'a'.repeat(64),
    runId: 'exec-2',
    approver: { id: 'acme|ann', groups: [] },
    grant: { server: 'bank', ref: 'fresh' },
    ...over,
  };
  if (answer.grant === undefined) delete (answer as { grant?: unknown }).grant;
  const where = { namespace: 'default', tenant: 'default', workflowId: 'run-1', runId: answer.runId, groups: [] };
  const signed = { purpose: 'authorize', ...where, iss: 'acme', sub: 'ann', ...about };
  const signature = await signedWith(key, claimsFor(answer, signed, { jti: answer.decisionId, ...claims }));
  // Sound: this check reads the answer and its time, and nothing of what was shown.
  return {
    answer: { ...answer, signature },
    decidedAt: new Date(now * 1_000).toISOString(),
  } as unknown as AuthorizationProof;
}

async function counted(...authorizations: AuthorizationProof[]): Promise<number> {
  // Sound: as above.
  const input = {
    run: { namespace: 'default', workflowId: 'run-1', initiator: { id: 'acme|ann', tenant: 'default' } },
    authorizations,
  } as unknown as DispatchInput;
  return (await said(input, scheduler)).length;
}

describe('a word on an authorization', () => {
  test('counts as it was signed, in this execution or an earlier one of the chain', async () => {
    expect(await counted(await proofBy(ann), await proofBy(ann, { runId: 'exec-1' }))).toBe(2);
    expect(await counted()).toBe(0);
  });

  test.each<[string, () => Promise<AuthorizationProof>]>([
    ['with the key of somebody else', () => proofBy(eve)],
    ['as a decision', () => proofBy(ann, {}, { purpose: 'decide' })],
    ['for another run', () => proofBy(ann, {}, { workflowId: 'run-2' })],
    ['for another tenant', () => proofBy(ann, {}, { tenant: 'acme' })],
    ['of an execution that is none of this chain', () => proofBy(ann, { runId: 'exec-9' })],
    ['long before it was taken', () => proofBy(ann, {}, {}, { iat: now - 9_000, exp: now - 8_900 })],
  ])('signed %s does not count', async (_what, forged) => expect(await counted(await forged())).toBe(0));

  test('with another grant than was signed, or without a signature, does not count', async () => {
    const { answer, ...rest } = await proofBy(ann);
    const { signature, ...unsigned } = answer;
    // Sound: what no sender could have signed.
    const other = { ...rest, answer: { ...answer, grant: { server: 'bank', ref: 'theirs' } } } as AuthorizationProof;
    expect(await counted(other, { ...rest, answer: unsigned })).toBe(0);
    expect(signature).toBeDefined();
  });

  test('of a key that was revoked since does not count', async () => {
    const proof = await proofBy(ann);
    trusted = [eve.entry];
    expect(await counted(proof)).toBe(0);
  });

  test('of several counts where each was signed, with a key of its own', async () => {
    const consent = (key: TestKey, sub: string, decisionId: string): Promise<AuthorizationProof> =>
      proofBy(
        key,
        { kind: 'consent', grant: undefined, decisionId, approver: { id: `acme|${sub}`, groups: [] } },
        { sub },
      );
    const last = await consent(ann, 'ann', 'a-1');
    const other = await consent(eve, 'eve', 'a-2');
    // Sound: what the run keeps of the others.
    const both = (further: AuthorizationProof) => ({ ...last, further: [further] }) as unknown as AuthorizationProof;
    expect(await counted(both(other))).toBe(1);
    expect(await counted(both(await consent(eve, 'ann', 'a-2')))).toBe(0);
    // Twice the same key, whatever it says.
    expect(await counted(both(await consent(ann, 'ann', 'a-2')))).toBe(0);
    const { answer, ...rest } = other;
    const { signature: _, ...unsigned } = answer;
    expect(await counted(both({ ...rest, answer: unsigned }))).toBe(0);
  });
});
