/** Workers that are not even started: they are refused before Temporal is asked anything. */
import { expect, test } from '@jest/globals';
import { Config } from '../../../contracts/schemas/config.ts';
import { startWorkers } from '../../../workers/worker.ts';

const loaded = { config: Config.parse({}), path: undefined, baseDirectory: '/' };

test.each<[path: string, given: unknown]>([
  ['loaded', undefined],
  ['loaded', {}],
  ['loaded', { loaded: loaded.config }],
  ['connectionOptions', { loaded }],
  ['namespace', { loaded, connectionOptions: {} }],
])('without %s none starts, and one is told what to give', async (path, given) => {
  // Sound: so a caller without types gives it.
  await expect(startWorkers(given as never)).rejects.toMatchObject({
    code: 'USAGE',
    facts: { path },
    message: expect.stringMatching(`^${path} is missing\\. Give .+locateEngine`),
  });
});
