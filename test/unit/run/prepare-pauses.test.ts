/** Whether a run asks what became of a call whose answer was lost, and whom (INV-X1). */
import { expect, test } from '@jest/globals';
import { createPrepareRun } from '../../../activities/run/prepare-run.ts';
import { Config, type ConfigInput } from '../../../contracts/schemas/config.ts';
import type { PolicyInput } from '../../../contracts/schemas/policy.ts';

function prepared(organisation: ConfigInput['policy'], policy?: PolicyInput) {
  const models = { m: { provider: 'scripted' as const, script: { steps: [{ text: 'done' }] } } };
  const config = Config.parse({ models, ...(organisation === undefined ? {} : { policy: organisation }) });
  const spec = { agent: { name: 'clerk', model: 'm' }, input: 'go', initiator: { id: 'ann' }, policy };
  return createPrepareRun(config, async () => undefined)(spec);
}

test('it asks, unless the organisation or the run says that it is recorded', async () => {
  expect((await prepared({})).pauses).toEqual(['outcome']);
  expect((await prepared({ unknownOutcomes: 'ask' }, { unknownOutcomes: 'ask' })).pauses).toEqual(['outcome']);
  for (const run of [
    await prepared({ unknownOutcomes: 'record' }),
    await prepared({ unknownOutcomes: 'record' }, { unknownOutcomes: 'ask' }),
    await prepared({}, { unknownOutcomes: 'record' }),
  ]) {
    expect(run).not.toHaveProperty('pauses');
    expect(run).not.toHaveProperty('answerers');
  }
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
