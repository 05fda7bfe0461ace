/** Where a run spec comes from, and what becomes of one that cannot be read. */
import { expect, test } from '@jest/globals';
import { readSpec } from '../../../../cli/session/files.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';

const { folder } = useConfigFolders();
const SPEC = { agent: { name: 'clerk', model: 'main' }, input: 'Do it.', initiator: { id: 'ann' } };

async function read(text: string): Promise<unknown> {
  return await readSpec('spec', { directory: await folder({ spec: text }), input: async () => '' });
}

test('JSON and YAML say the same', async () => {
  expect(await read(JSON.stringify(SPEC, null, '\t'))).toEqual(SPEC);
  expect(await read('agent: {name: clerk, model: main}\ninput: Do it.\ninitiator:\n  id: ann\n')).toEqual(SPEC);
});

test('- is standard input', async () => {
  expect(await readSpec('-', { directory: '/', input: async () => JSON.stringify(SPEC) })).toEqual(SPEC);
});

test('a file that is not there is a usage error', async () => {
  await expect(readSpec('nope.yaml', { directory: await folder(), input: async () => '' })).rejects.toMatchObject({
    code: 'USAGE',
    message: expect.stringContaining('nope.yaml'),
  });
});

test.each([
  ['broken JSON', '{"token": "canary", '],
  ['a field that stands twice', 'input: canary\ninput: canary\n'],
  ['a tag', 'input: !canary x'],
  ['an alias without an anchor', 'input: *canary'],
  ['nothing', ''],
])('%s is refused in words that do not show it (INV-S1)', async (_what, text) => {
  const error: unknown = await read(text).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'SPEC_INVALID', message: expect.stringMatching(/^The run spec spec /) });
  expect((error as Error).message).not.toContain('canary');
});

test.each([
  ['JSON', '{"arguments": {"to": 9007199254740993}}', 'line 1, column 22'],
  ['YAML', 'arguments:\n  to: -12345678901234567890\n', 'line 2, column 7'],
  ['more digits than any number has', `to: ${'9'.repeat(400)}`, 'line 1, column 5'],
])('a whole number that would be read as another one is refused at its place: %s', async (_what, text, place) => {
  const error: unknown = await read(text).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'SPEC_INVALID', message: expect.stringContaining(place) });
  expect(String(error)).not.toMatch(/9007199254740993|1234567890|9999/);
});

test('other numbers are taken as they are', async () => {
  const numbers =
    '[9007199254740991, -9007199254740991, 9007199254740992, 1e21, 0.1, 100000000000000000000, "9007199254740993"]';
  expect(await read(numbers)).toEqual(JSON.parse(numbers));
});
