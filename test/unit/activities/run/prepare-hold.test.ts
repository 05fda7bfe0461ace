/** Which servers of a run may keep their calls waiting for people on an open connection: those of which the operator says so (INV-G4). */
import { expect, test } from '@jest/globals';
import { createPrepareRun } from '../../../../activities/run/prepare-run.ts';
import { Config } from '../../../../contracts/schemas/config.ts';

const models = { m: { provider: 'scripted' as const, script: { steps: [{ text: 'done' }] } } };
const configOf = (holdSeconds: number) =>
  Config.parse({
    models,
    servers: {
      desk: { url: 'https://desk.example/mcp', elicitation: { holdSeconds } },
      files: { url: 'https://files.example/mcp' },
    },
    egress: { runServers: ['https://own.example'] },
  });

test('those that are configured so, each with its time', async () => {
  const prepare = createPrepareRun(configOf(300), async () => undefined);
  const { servers } = await prepare({
    agent: { name: 'clerk', model: 'm' },
    input: 'go',
    initiator: { id: 'ann' },
    servers: [{ name: 'desk' }, { name: 'files' }, { name: 'own', url: 'https://own.example/mcp' }],
  });
  expect(servers.map(({ name, holdSeconds }) => [name, holdSeconds])).toEqual([
    ['desk', 300],
    ['files', undefined],
    ['own', undefined],
  ]);
});

test.each([29, 3_601, 30.5])('not for %d seconds', (seconds) => {
  expect(() => configOf(seconds)).toThrow('holdSeconds');
});

test.each([30, 3_600])('for %d seconds', (seconds) => {
  expect(configOf(seconds).servers['desk']?.elicitation).toEqual({ holdSeconds: seconds });
});
