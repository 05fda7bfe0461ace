/** Of which servers a run may read what results link to: those of which the operator says so (INV-G4). */
import { expect, test } from '@jest/globals';
import { createPrepareRun } from '../../../../activities/run/prepare-run.ts';
import { Config } from '../../../../contracts/schemas/config.ts';

const models = { m: { provider: 'scripted' as const, script: { steps: [{ text: 'done' }] } } };
const config = Config.parse({
  models,
  servers: {
    docs: { url: 'https://docs.example/mcp', resourceLinks: 'read' },
    unused: { url: 'https://unused.example/mcp', resourceLinks: 'read' },
    files: { url: 'https://files.example/mcp' },
  },
  egress: { runServers: ['https://own.example'] },
});
const prepared = (...servers: readonly { name: string; url?: string }[]) =>
  createPrepareRun(
    config,
    async () => undefined,
  )({
    agent: { name: 'clerk', model: 'm' },
    input: 'go',
    initiator: { id: 'ann' },
    servers,
  });

test('those of the run that are configured so', async () => {
  const own = { name: 'own', url: 'https://own.example/mcp' };
  expect((await prepared({ name: 'files' }, { name: 'docs' }, own)).links).toEqual(['docs']);
});

test('where there are none, nothing is said, as in earlier releases', async () => {
  expect(await prepared({ name: 'files' })).not.toHaveProperty('links');
});
