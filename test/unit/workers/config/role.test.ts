/** Which queues a worker polls, and which servers split roles leave to nobody. */
import { expect, test } from '@jest/globals';
import { Config } from '../../../../contracts/schemas/config.ts';
import { queuesOf, roleWarnings } from '../../../../workers/config/load.ts';

const url = 'https://a.example.com/mcp';
const CONFIG = Config.parse({
  taskQueue: 'runs',
  servers: {
    ledger: { url, taskQueue: 'finance' },
    invoices: { url, taskQueue: 'finance' },
    notes: { url, taskQueue: 'office' },
    plain: { url },
    'a.b': { url, taskQueue: 'runs' },
  },
});

test.each([
  ['all', ['runs', 'finance', 'office']],
  ['runs', ['runs']],
  ['tools', ['finance', 'office']],
] as const)('role %s polls %j', (role, queues) => {
  expect(queuesOf(CONFIG, role)).toEqual(queues);
});

test.each(['runs', 'tools'] as const)(
  'role %s warns of each server whose calls go to the run queue, with its name',
  (role) => {
    expect(roleWarnings(CONFIG, role)).toEqual([
      expect.stringMatching(/^servers\.plain has no taskQueue of its own/),
      expect.stringMatching(/^servers\["a\.b"\] has no taskQueue of its own/),
    ]);
  },
);

test('role all serves every server, and warns of none', () => {
  expect(roleWarnings(CONFIG, 'all')).toEqual([]);
});

test('a tools worker without a queue to poll is a mistake of the configuration, not a worker that ends by itself', () => {
  expect(() => queuesOf(Config.parse({ servers: { plain: { url } } }), 'tools')).toThrow(
    expect.objectContaining({ code: 'CONFIG_INVALID', facts: { path: 'servers' } }),
  );
});
