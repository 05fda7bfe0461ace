/** A world for users' tests has a configuration with which a worker would start, or says what is wrong with it. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { CountersignError } from '../../../contracts/errors.ts';
import { assertGoesOn, specOf } from '../../../testing/world.ts';
import { startTestWorld, type WorldConfig } from '../../../testing/index.ts';
import { refusalOf } from '../../support/refusal.ts';

const before = process.env['TEMPORAL_CLI_PATH'];
beforeAll(() => {
  // No server is started: the configuration is looked at before.
  process.env['TEMPORAL_CLI_PATH'] = process.execPath;
});
afterAll(() => {
  delete process.env['TEMPORAL_CLI_PATH'];
  if (before !== undefined) process.env['TEMPORAL_CLI_PATH'] = before;
});

const REFUSED: readonly (readonly [path: string, config: WorldConfig])[] = [
  ['policy.rules[0].when', { policy: { rules: [{ id: 'large', when: 'args.amount >> 5', then: 'ask' }] } }],
  ['policy.notify[0].channel', { policy: { notify: [{ channel: 'desk' }] } }],
  ['servers.desk.url', { servers: { desk: { url: 'http://desk.example/mcp' } } }],
  // Sound: what a user writes in JavaScript.
  ['polcy', { polcy: {} } as WorldConfig],
];

test.each(REFUSED)('what a worker refuses, a world does, too: %s', async (path, config) => {
  const refused = await refusalOf(startTestWorld({ config }));
  expect(refused.code).toBe('CONFIG_INVALID');
  expect(refused.message).toContain(`The configuration of the test world is not valid: ${path} `);
});

test('a run follows its steps, whatever else its spec says of the agent', () => {
  const output = { type: 'object' };
  const spec = specOf('script-1', ['ledger'], { agent: { output }, input: 'Book it.' });
  expect(spec.agent).toEqual({ name: 'test', model: 'script-1', output });
  expect(spec).toMatchObject({ input: 'Book it.', initiator: { id: 'ann' }, servers: [{ name: 'ledger' }] });
  expect(specOf('script-1', [], { agent: { model: 'gpt' } }).agent.model).toBe('gpt');
});

test('a wait for requests ends with the run, and says how', async () => {
  const describe = (name: string) => async () => await Promise.resolve({ status: { name } });
  // Sound, here and below: nothing else of it is used.
  const clientOf = (name: string) =>
    ({ workflow: { getHandle: () => ({ describe: describe(name) }) } }) as unknown as Parameters<
      typeof assertGoesOn
    >[0];
  const runOf = (result: () => Promise<unknown>) => ({ runId: 'run-1', result }) as Parameters<typeof assertGoesOn>[1];
  const ended = runOf(async () => await Promise.resolve({ status: 'completed', output: 'Booked.' }));
  await expect(assertGoesOn(clientOf('RUNNING'), ended)).resolves.toBeUndefined();
  await expect(assertGoesOn(clientOf('PAUSED'), ended)).resolves.toBeUndefined();
  await expect(assertGoesOn(clientOf('COMPLETED'), ended)).rejects.toMatchObject({
    code: 'RUN_CLOSED',
    message: expect.stringContaining('Run run-1 is over (completed), and too few'),
    facts: { runId: 'run-1' },
  });
  const failed = runOf(async () => await Promise.reject(new CountersignError('MODEL_UNKNOWN', 'There is none.')));
  await expect(assertGoesOn(clientOf('FAILED'), failed)).rejects.toMatchObject({ code: 'MODEL_UNKNOWN' });
});
