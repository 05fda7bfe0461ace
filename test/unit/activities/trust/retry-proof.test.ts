/** That a call is sent again was said by who it names: proven in trust mode `signed`, like consent (INV-X1, INV-G2). */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { createSignatureCheck } from '../../../../activities/trust/dispatch-proof.ts';
import type { RetryProof } from '../../../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
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

describe('the word that a call is sent again is proven too, whatever let it leave first (INV-X1)', () => {
  const said = async (over: object = {}, claims: object = {}, key = ann) => {
    const resolution = await vote(
      key,
      'acme|ann',
      { kind: 'retry', ...over },
      { purpose: 'resolveOutcome', ...claims },
    );
    // Sound: of the proof, only these are read here.
    return {
      retry: { resolution, decidedAt: new Date(now * 1_000).toISOString() },
    } as unknown as Partial<DispatchInput>;
  };
  const allowed = { proof: { kind: 'policy', rules: [] } } as const;

  test('signed for its own update, while the signature was good, by a key that counts', async () => {
    reset();
    expect(await answer({ ...(await said()), ...allowed })).toBe('proven');
    expect(await answer(await said({ runId: 'exec-1' }, { runId: 'exec-1' }))).toBe('proven');
    expect(await answer(await said({}, { purpose: 'decide' }))).toBe(forged);
    expect(await answer(await said({}, { payload: 'f'.repeat(64) }))).toBe(forged);
    expect(await answer(await said({}, { iat: now - 900, exp: now - 600 }))).toBe(forged);
    const { retry } = await said();
    // Sound: an input may lack any field.
    expect(await answer({ retry: { ...retry, decidedAt: undefined } as unknown as RetryProof })).toBe(forged);
    expect(await answer(await said({}, {}, ben))).toBe('reopen SIGNER_NOT_ENTITLED');
    world.known = { 'exec-2': { ...first, continued: false } };
    expect(await answer(await said({ runId: 'exec-1' }, { runId: 'exec-1' }))).toBe('reopen DECISION_STALE_RUN');
  });

  test('what no longer counts asks the same again, and not for consent', async () => {
    reset();
    world.trusted = [backend, ben].map(({ entry }) => entry);
    const refused = await createSignatureCheck(parts, noNamesakes)(
      { ...input, ...(await said()), ...allowed },
      scheduler,
    );
    expect(refused).toMatchObject({ kind: 'reopen', code: 'TRUST_KEY_UNKNOWN', asks: 'outcome' });
  });
});
