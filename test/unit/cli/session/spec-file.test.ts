/** Where a run spec comes from, and what becomes of one that cannot be read. */
import { expect, test } from '@jest/globals';
import { readInput, readSpec } from '../../../../cli/session/files.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { withCode } from '../../../support/refusal.ts';

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
  await expect(readSpec('nope.yaml', { directory: await folder(), input: async () => '' })).rejects.toMatchObject(
    withCode('USAGE', 'nope.yaml'),
  );
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
  '{"arguments": {"id":\n 12345678901234567}}',
  'ids: [1, -9007199254740993]',
  '{"limit": 1e999}',
  'limit: .inf',
  'id: 0x112210f47de98116',
  'id: 0o400000000000000001',
  '%YAML 1.1\n---\nid: 9_007_199_254_740_993',
])('a number that would become another one is refused, with its place and not itself: %s', async (text) => {
  const kind = { what: 'arguments', code: 'ARGUMENTS_INVALID' } as const;
  const reading = readInput('given', kind, { directory: await folder({ given: text }), input: async () => '' });
  await expect(reading).rejects.toMatchObject({
    code: 'ARGUMENTS_INVALID',
    message: expect.stringMatching(/^The arguments given holds? a number .*line [1-3], column \d+\. .*in quotes/),
  });
  await expect(reading).rejects.toMatchObject({ message: expect.not.stringMatching(/1234|9007|999/) });
});

test('numbers that stay what they are, and digits in quotes, are read', async () => {
  const value = {
    a: 9_007_199_254_740_991,
    b: 1_700_000_000_000_000_000,
    c: 0.1,
    d: 1e300,
    e: '12345678901234567',
    f: -0.5,
  };
  const text = JSON.stringify(value);
  const kind = { what: 'arguments', code: 'ARGUMENTS_INVALID' } as const;
  const reading = async (given: string) => await readInput('-', kind, { directory: '/', input: async () => given });
  expect(await reading(text)).toEqual(value);
  expect(await reading('[0x1f, 0o17, 0x1fffffffffffff]')).toEqual([31, 15, 2 ** 53 - 1]);
  expect(await reading('%YAML 1.1\n---\n[0x1_0, 1_000, 017]')).toEqual([16, 1_000, 15]);
});
