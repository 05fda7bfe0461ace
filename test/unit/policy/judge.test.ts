/** What the activity `judge` resolves, for as many calls as a turn may hold. */
import { describe, expect, test } from '@jest/globals';
import { createJudge } from '../../../activities/policy/judge.ts';
import type { JudgeInput } from '../../../contracts/activities.ts';
import { callIdOf } from '../../../contracts/ids.ts';
import { Config } from '../../../contracts/schemas/config.ts';
import { MOST_CALLS_PER_TURN } from '../../../contracts/schemas/run-spec.ts';
import type { OfferedTool } from '../../../domain/toolset.ts';

const TOOL: OfferedTool = {
  modelName: 'files__read_file',
  server: 'files',
  serverUrl: 'https://files.test/mcp',
  definition: { name: 'read_file', inputSchema: { type: 'object', required: ['path'] } },
  hash: 'b'.repeat(64),
};

const judge = createJudge(
  Config.parse({}),
  async () => [TOOL],
  async () => undefined,
);

function asking(...names: readonly string[]): JudgeInput {
  return {
    run: {
      namespace: 'default',
      workflowId: 'run-1',
      initiator: { id: 'ann', groups: [], tenant: 'default' },
      specHash: 'c'.repeat(64),
    },
    toolset: [],
    runPolicy: undefined,
    calls: names.map((name, index) => ({
      callId: callIdOf(1, index),
      providerCallId: `p${index}`,
      name,
      arguments: { path: 'a' },
    })),
  };
}

describe('the judge', () => {
  test('denies what is not offered, with near names', async () => {
    const { judgements } = await judge(asking('files__read_fil'));
    expect(judgements).toMatchObject([
      { verdict: { kind: 'deny', code: 'TOOL_UNKNOWN', message: expect.stringContaining('files__read_file') } },
    ]);
  });

  test('INV-D2: judges no more calls than a turn may hold: the run denies the others by limit', async () => {
    const { judgements } = await judge(asking(...Array.from({ length: 100 }, () => TOOL.modelName)));
    expect(judgements.map(({ callId }) => callId)).toEqual(
      Array.from({ length: MOST_CALLS_PER_TURN }, (_, index) => callIdOf(1, index)),
    );
    expect(MOST_CALLS_PER_TURN).toBe(64);
  });
});

test('a server may be called as a property that every object has', async () => {
  const odd = createJudge(
    Config.parse({ policy: { strategy: 'never' } }),
    async () => [{ ...TOOL, server: 'constructor' }],
    async () => undefined,
  );
  const { judgements } = await odd({ ...asking(TOOL.modelName) });
  expect(judgements).toMatchObject([{ repeatable: false }]);
});
