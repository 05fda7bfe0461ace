/** What all calls of a turn send at once fits into one workflow task, or the run is refused before it starts (INV-D3). */
import { expect, test } from '@jest/globals';
import { createPrepareRun } from '../../../activities/run/prepare-run.ts';
import { Config } from '../../../contracts/schemas/config.ts';

const config = Config.parse({
  servers: { bank: { url: 'http://127.0.0.1:1/mcp', credentials: { kind: 'none' } } },
  models: { main: { provider: 'scripted', script: { steps: [{ text: 'done' }] } } },
});
const prepareRun = createPrepareRun(config, async () => undefined);

function spec(tools: number, callsPerTurn: number) {
  const allowedTools = Array.from({ length: tools }, (_, index) => `${'t'.repeat(120)}${index}`);
  return {
    agent: { name: 'clerk', model: 'main' },
    input: 'go',
    initiator: { id: 'ann' },
    servers: [{ name: 'bank', allowedTools }],
    limits: { callsPerTurn, resultBytes: 8_192 },
  };
}

test('a long list of tools and few calls a turn, or a short one and many, may run', async () => {
  await expect(prepareRun(spec(1_000, 8))).resolves.toMatchObject({ limits: { callsPerTurn: 8 } });
  await expect(prepareRun(spec(10, 64))).resolves.toMatchObject({ limits: { callsPerTurn: 64 } });
});

test('both together are refused, with the limit to lower', async () => {
  await expect(prepareRun(spec(1_000, 64))).rejects.toMatchObject({
    code: 'SPEC_INVALID',
    message: expect.stringContaining('limits.callsPerTurn (64)'),
    facts: { path: 'limits.callsPerTurn' },
  });
});
