/** Which runs wait for what servers work on as tasks: none where no operator has said so, since earlier workers may still be there. */
import { expect, test } from '@jest/globals';
import { createPrepareRun } from '../../../../activities/run/prepare-run.ts';
import { defined } from '../../../../contracts/defined.ts';
import { Config } from '../../../../contracts/schemas/config.ts';

const models = { m: { provider: 'scripted' as const, script: { steps: [{ text: 'done' }] } } };
const url = 'https://docs.example/mcp';
const prepared = (tasks?: { readonly seconds?: number }) =>
  createPrepareRun(
    Config.parse({ models, servers: { docs: { url, ...defined({ tasks }) } } }),
    async () => undefined,
  )({ agent: { name: 'clerk', model: 'm' }, input: 'go', initiator: { id: 'ann' }, servers: [{ name: 'docs' }] });

test('those that are prepared where tasks are configured', async () => {
  expect(await prepared({})).toMatchObject({ tasks: true });
  expect(await prepared({ seconds: 60 })).toMatchObject({ tasks: true });
});

test('where they are not, nothing is said, as in earlier releases (INV-D1)', async () => {
  expect(await prepared()).not.toHaveProperty('tasks');
});
