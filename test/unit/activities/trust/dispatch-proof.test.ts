/** Trust mode `signed`: which words of people count at dispatch, each part forged one at a time (INV-G2, INV-S2, INV-X1, F22, §3.5). */
import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createAuthorizationProof, createSignatureCheck } from '../../../../activities/trust/dispatch-proof.ts';
import type { SignedProvision } from '../../../../contracts/schemas/request.ts';
import type { AuthorizationProof, ProvisionProof, RetryProof } from '../../../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import type { TestKey } from '../../../support/signing/people.ts';
import {
  ann,
  answer,
  backend,
  ben,
  first,
  forged,
  input,
  noNamesakes,
  now,
  parts,
  prepareInput,
  reset,
  scheduler,
  vote,
  world,
} from '../../../support/stories/signed-input.ts';

beforeAll(prepareInput);
beforeEach(reset);

const at = (seconds: number): string => new Date(seconds * 1_000).toISOString();
const allowed = { proof: { kind: 'policy', rules: [] } } as const;
/** Its signature covers every field but itself. */
function unsigned<T extends { readonly signature?: unknown }>({ signature: _, ...rest }: T): Omit<T, 'signature'> {
  return rest;
}

describe('the word that a call is sent again is proven, whatever let it leave first (INV-X1)', () => {
  const said = async (over: object = {}, claims: object = {}, key = ann) => {
    const about = { purpose: 'resolveOutcome', ...claims };
    const resolution = await vote(key, 'acme|ann', { kind: 'retry', ...over }, about);
    // Sound: of the proof, only these are read here.
    return { retry: { resolution, decidedAt: at(now) } } as unknown as Partial<DispatchInput>;
  };
  const before = { runId: 'exec-1' };

  test('signed for its own update, by who holds the key, in this execution or an earlier one of the chain', async () => {
    expect(await answer({ ...(await said()), ...allowed })).toBe('proven');
    expect(await answer(await said(before, before))).toBe('proven');
    expect(await answer(await said({}, {}, ben))).toBe('reopen SIGNER_NOT_ENTITLED');
    world.known = { 'exec-2': { ...first, continued: false } };
    expect(await answer(await said(before, before))).toBe('reopen DECISION_STALE_RUN');
  });

  test.each<[string, object]>([
    ['for another update', { purpose: 'decide' }],
    ['over another word', { payload: 'f'.repeat(64) }],
    ['long before', { iat: now - 900, exp: now - 600 }],
  ])('signed %s it is forged', async (_, claims) => {
    expect(await answer(await said({}, claims))).toBe(forged);
  });

  test('without its time it is forged', async () => {
    const { retry } = await said();
    // Sound: an input may lack any field.
    expect(await answer({ retry: { ...retry, decidedAt: undefined } as unknown as RetryProof })).toBe(forged);
  });

  test('what no longer counts asks the same again, and not for consent', async () => {
    world.trusted = [backend, ben].map(({ entry }) => entry);
    const again = { ...input, ...(await said()), ...allowed };
    const refused = await createSignatureCheck(parts, noNamesakes)(again, scheduler);
    expect(refused).toMatchObject({ kind: 'reopen', code: 'TRUST_KEY_UNKNOWN', asks: 'outcome' });
  });
});

describe('what people answered to a server', () => {
  async function answered(key: TestKey, over: object = {}, claims: object = {}): Promise<SignedProvision> {
    const responses = { who: { action: 'accept', content: { name: 'Ann' } } };
    const said = { kind: 'provide', decisionId: 'p-1', responses, ...over };
    // Sound: a test forges what it likes.
    return (await vote(key, 'acme|ann', said, { purpose: 'provideInput', ...claims })) as unknown as SignedProvision;
  }
  const provided = async (...proofs: ProvisionProof[]) =>
    await createSignatureCheck(parts, noNamesakes)({ ...input, ...allowed, input: { provided: proofs } }, scheduler);
  const checked = async (provision: SignedProvision, decidedAt = now) =>
    // Sound: only the fields that the proof reads.
    await provided({ provision, decidedAt: at(decidedAt) } as ProvisionProof);
  const ANEW = { kind: 'reopen', asks: 'input' };

  test('is believed as it was signed; where nothing was answered, there is nothing to believe', async () => {
    expect(await checked(await answered(ann))).toBeUndefined();
    expect(await provided()).toBeUndefined();
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
  ])('%s: the server is not told, and people are asked anew', async (_, make) => {
    expect(await checked(await make())).toMatchObject(ANEW);
  });

  test('by a key that was revoked since: people are asked anew', async () => {
    const provision = await answered(ann);
    world.trusted = [backend.entry, ben.entry];
    expect(await checked(provision)).toMatchObject(ANEW);
  });

  test('taken when its signature was no longer good: people are asked anew', async () => {
    expect(await checked(await answered(ann), now + 86_400)).toMatchObject(ANEW);
  });

  test('made in a run that is not of this chain, as after a reset: people are asked anew', async () => {
    world.known = { ...world.known, 'exec-9': { ...first, firstRunId: 'exec-9' } };
    const stale = await checked(await answered(ann, { runId: 'exec-9' }));
    expect(stale).toMatchObject({ ...ANEW, code: 'DECISION_STALE_RUN' });
  });
});

describe('a word on an authorization', () => {
  const said = createAuthorizationProof(parts);

  async function proofBy(
    key: TestKey,
    over: object = {},
    claims: object = {},
    who = 'ann',
  ): Promise<AuthorizationProof> {
    const grant = { server: 'bank', ref: 'fresh' };
    const word = { kind: 'grant', decisionId: 'a-1', ...('kind' in over ? {} : { grant }), ...over };
    const signed = await vote(key, `acme|${who}`, word, { purpose: 'authorize', ...claims });
    // Sound: this check reads the answer and its time, and nothing of what was shown.
    return { answer: signed, decidedAt: at(now) } as unknown as AuthorizationProof;
  }
  const counted = async (...authorizations: AuthorizationProof[]): Promise<number> =>
    (await said({ ...input, authorizations }, scheduler)).length;

  test('counts as it was signed, in this execution or an earlier one of the chain', async () => {
    expect(await counted(await proofBy(ann), await proofBy(ann, { runId: 'exec-1' }))).toBe(2);
    expect(await counted()).toBe(0);
  });

  test.each<[string, () => Promise<AuthorizationProof>]>([
    ['with the key of somebody else', () => proofBy(ben)],
    ['as a decision', () => proofBy(ann, {}, { purpose: 'decide' })],
    ['for another run', () => proofBy(ann, {}, { workflowId: 'run-2' })],
    ['for another tenant', () => proofBy(ann, {}, { tenant: 'acme' })],
    ['of an execution that is none of this chain', () => proofBy(ann, { runId: 'exec-9' })],
    ['long before it was taken', () => proofBy(ann, {}, { iat: now - 9_000, exp: now - 8_900 })],
  ])('signed %s does not count', async (_what, make) => expect(await counted(await make())).toBe(0));

  test('with another grant than was signed, or without a signature, does not count', async () => {
    const proof = await proofBy(ann);
    const grant = { server: 'bank', ref: 'theirs' };
    // Sound: what no sender could have signed.
    const other = { ...proof, answer: { ...proof.answer, grant } } as AuthorizationProof;
    expect(proof.answer.signature).toBeDefined();
    expect(await counted(other, { ...proof, answer: unsigned(proof.answer) } as AuthorizationProof)).toBe(0);
  });

  test('of a key that was revoked since does not count', async () => {
    const proof = await proofBy(ann);
    world.trusted = [ben.entry];
    expect(await counted(proof)).toBe(0);
  });

  test('of several counts where each was signed, with a key of its own', async () => {
    const consent = async (key: TestKey, who: string, decisionId: string) =>
      await proofBy(key, { kind: 'consent', decisionId }, {}, who);
    const last = await consent(ann, 'ann', 'a-1');
    const other = await consent(ben, 'ben', 'a-2');
    // Sound: what the run keeps of the others.
    const both = (further: AuthorizationProof) => ({ ...last, further: [further] }) as unknown as AuthorizationProof;
    expect(await counted(both(other))).toBe(1);
    expect(await counted(both(await consent(ben, 'ann', 'a-2')))).toBe(0);
    // Twice the same key, whatever it says.
    expect(await counted(both(await consent(ann, 'ann', 'a-2')))).toBe(0);
    expect(await counted(both({ ...other, answer: unsigned(other.answer) } as AuthorizationProof))).toBe(0);
  });
});

describe('who calls the server is what was signed (docs/adr/0080)', () => {
  const bank = { name: 'bank', url: 'https://bank.example/mcp', allowedTools: ['pay'] };
  const open = { name: 'open', url: 'https://open.example/mcp' };
  const by = async (server: DispatchInput['server']): Promise<string> =>
    // Sound: a run has no grant for the second server.
    await answer({ server, ...(server.name === 'open' ? ({ grant: undefined } as object) : {}) });

  test('this service, where the spec says local', async () => {
    expect(await by(bank)).toBe('proven');
    for (const hosted of ['m', 'other']) expect(await by({ ...bank, hosted })).toBe(forged);
  });

  test('the provider of the model of the spec and no other, where the operator lets it', async () => {
    expect(await by({ ...open, hosted: 'm' })).toBe('proven');
    expect(await by({ ...open, hosted: 'other' })).toBe(forged);
    expect(await by(open)).toBe(forged);
  });

  test('never a provider where the run speaks of a catalog', async () => {
    expect(await by({ ...open, hosted: 'm', catalog: true })).toBe(forged);
  });
});
