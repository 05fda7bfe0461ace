/** What a list says of tools that can only, or may, be called as tasks: no more than who reads it understands (INV-D1). */
import { expect, test } from '@jest/globals';
import { waitsForTasks, withTaskSupport } from '../../../../../activities/mcp/legacy-2025/tasks.ts';
import { Config } from '../../../../../contracts/schemas/config.ts';

const config = Config.parse({
  servers: {
    mine: { url: 'https://mine.example/mcp', tasks: { optional: ['search'] } },
    plain: { url: 'https://plain.example/mcp' },
  },
});
const PLAIN = { name: 'look', inputSchema: {} };
const DIG = { name: 'dig', inputSchema: {}, taskSupport: 'required' } as const;
const SEARCH = { name: 'search', inputSchema: {}, taskSupport: 'optional' } as const;
const { taskSupport: _, ...SEARCH_PLAIN } = SEARCH;
const OTHER = { ...SEARCH_PLAIN, name: 'other' };
const earlier = [{ name: 'bad', reason: 'it is not an object' }];
const listing = { tools: [PLAIN, DIG, SEARCH, { ...OTHER, taskSupport: 'optional' } as const], refused: earlier };

test('a run that waits for tasks: what can only be called so, and of the rest what the operator names', () => {
  expect(withTaskSupport(config, 'mine', listing, true)).toEqual({
    tools: [PLAIN, DIG, SEARCH, OTHER],
    refused: earlier,
  });
});

test.each(['plain', 'named-by-the-run'])('of server %s, nothing that an earlier release cannot read', (server) => {
  expect(withTaskSupport(config, server, listing, true).tools).toEqual([PLAIN, DIG, SEARCH_PLAIN, OTHER]);
});

test('a run that cannot wait for tasks: none that can only be called so, and it is said why', () => {
  expect(withTaskSupport(config, 'mine', { ...listing, resources: true }, false)).toEqual({
    tools: [PLAIN, SEARCH_PLAIN, OTHER],
    refused: [...earlier, { name: 'dig', reason: expect.stringContaining('configure `tasks` of its server') }],
    resources: true,
  });
});

test('tasks are waited for where the operator says so of some server: an earlier worker does not start with that', () => {
  const url = 'https://plain.example/mcp';
  const of = (tasks?: object) => waitsForTasks(Config.parse({ servers: { plain: { url }, mine: { url, tasks } } }));
  expect([of(), of({}), of({ seconds: 60 })]).toEqual([false, true, true]);
});
