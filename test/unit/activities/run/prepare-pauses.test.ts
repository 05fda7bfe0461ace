/** What a run asks people besides consent, and whom (INV-X1). */
import { expect, test } from '@jest/globals';
import { createPrepareRun } from '../../../../activities/run/prepare-run.ts';
import { defined } from '../../../../contracts/defined.ts';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';
import type { PolicyInput } from '../../../../contracts/schemas/policy.ts';

function prepared(organisation: ConfigInput['policy'], policy?: PolicyInput) {
  const models = { m: { provider: 'scripted' as const, script: { steps: [{ text: 'done' }] } } };
  const config = Config.parse({ models, ...defined({ policy: organisation }) });
  const spec = { agent: { name: 'clerk', model: 'm' }, input: 'go', initiator: { id: 'ann' }, policy };
  return createPrepareRun(config, async () => undefined)(spec);
}

test('all of it, where nobody says anything else', async () => {
  const asks = { unknownOutcomes: 'ask', missingAuthorization: 'ask' } as const;
  expect((await prepared({})).pauses).toEqual(['outcome', 'input', 'authorization']);
  expect((await prepared(asks, asks)).pauses).toEqual(['outcome', 'input', 'authorization']);
});

test('not what became of a call, where the organisation or the run says that it is recorded', async () => {
  for (const run of [
    await prepared({ unknownOutcomes: 'record' }),
    await prepared({ unknownOutcomes: 'record' }, { unknownOutcomes: 'ask' }),
    await prepared({}, { unknownOutcomes: 'record' }),
  ]) {
    expect(run.pauses).toEqual(['input', 'authorization']);
  }
});

test('no authorization, where the organisation or the run says that such calls fail', async () => {
  for (const run of [
    await prepared({ missingAuthorization: 'fail' }),
    await prepared({ missingAuthorization: 'fail' }, { missingAuthorization: 'ask' }),
    await prepared({}, { missingAuthorization: 'fail' }),
  ]) {
    expect(run.pauses).toEqual(['outcome', 'input']);
  }
});

test('what servers ask is put before people in any case', async () => {
  const nothing = { unknownOutcomes: 'record', missingAuthorization: 'fail' } as const;
  expect((await prepared(nothing)).pauses).toEqual(['input']);
});

test('of whoever started it, or of those whom policy names', async () => {
  expect((await prepared({})).answerers).toEqual({
    approvers: { allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] },
    deadlineSeconds: 86_400,
  });
  expect((await prepared({ approvers: { groups: ['ops'] }, deadlineSeconds: 60 })).answerers).toMatchObject({
    approvers: { allOf: [{ layer: 'organisation', ids: [], groups: ['ops'] }] },
    deadlineSeconds: 60,
  });
});
