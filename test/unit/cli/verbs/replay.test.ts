/** Which workflows of a namespace `replay --live` looks at (INV-D1). */
import { readFile } from 'node:fs/promises';
import { expect, test } from '@jest/globals';
import { liveQuery } from '../../../../cli/verbs/replay.ts';

test('all that the bundle of a worker has: whatever waits is taken on by the new build', async () => {
  const source = await readFile(new URL('../../../../workflows/index.ts', import.meta.url), 'utf8');
  const types = [...source.matchAll(/^export \{ (\w+) \}/gm)].map(([, name]) => name);
  expect(types).toContain('agentRun');
  const query = liveQuery("ExecutionStatus = 'Running'");
  expect(types.filter((type) => !query.includes(`'${type}'`))).toEqual([]);
  expect(query).toMatch(/ AND \(ExecutionStatus = 'Running'\)$/);
});
