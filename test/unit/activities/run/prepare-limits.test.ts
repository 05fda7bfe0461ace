/** What all calls of a turn send at once fits into one workflow task, or the run is refused before it starts (INV-D3). */
import { describe, expect, test } from '@jest/globals';
import { createPrepareRun } from '../../../../activities/run/prepare-run.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { RunSpec } from '../../../../contracts/schemas/run-spec.ts';

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

describe('the room of a turn', () => {
  const asking = async (limits: object, ceilings: object = {}) =>
    (
      await createPrepareRun(
        Config.parse({ ...config, limits: ceilings }),
        async () => undefined,
      )({ ...spec(1, 8), limits })
    ).limits.resultBytesPerTurn;

  test('is 256 KiB, or what the spec says, and never more than the operator allows', async () => {
    expect(await asking({})).toBe(262_144);
    expect(await asking({ resultBytesPerTurn: 20_000 })).toBe(20_000);
    expect(await asking({}, { resultBytesPerTurn: 100_000 })).toBe(100_000);
    expect(await asking({ resultBytesPerTurn: 300_000 }, { resultBytesPerTurn: 100_000 })).toBe(100_000);
  });

  test('a spec that does not say has the hash that it had before there was such a limit', async () => {
    const parsed = RunSpec.parse(spec(1, 8));
    expect(Object.keys(parsed.limits)).not.toContain('resultBytesPerTurn');
  });
});
