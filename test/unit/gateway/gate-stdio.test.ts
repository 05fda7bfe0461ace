/** Messages over standard input are taken with the numbers that are written in them, or not at all. */
import { expect, test } from '@jest/globals';
import { MessagesAsWritten } from '../../../gateway/gate/stdio.ts';

const call = (id: number, args: string): string =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"bank__pay","arguments":${args}}}\n`;

async function taken(...chunks: readonly (string | Buffer)[]) {
  const answers: object[] = [];
  const messages = new MessagesAsWritten((answer) => answers.push(answer));
  for (const chunk of chunks) messages.write(chunk);
  messages.end();
  let text = '';
  for await (const chunk of messages) text += String(chunk);
  return { text, answers };
}

test('a number that would be read as another one calls nothing, and whoever called is told', async () => {
  const fine = [call(1, '{"to":"9007199254740993"}'), call(3, '{"to":9007199254740991}')];
  const { text, answers } = await taken(fine.join(call(2, '{"to":9007199254740993}')));
  expect(text).toBe(fine.join(''));
  expect(answers).toEqual([
    {
      jsonrpc: '2.0',
      id: 2,
      error: { code: -32_602, message: expect.stringMatching(/9007199254740993.*Nothing was called/) },
    },
  ]);
});

test('nor does one with two members of one name, and what is no JSON is left to the protocol', async () => {
  const fine = [call(1, '{"to":"ann","cc":{"to":"ann"}}'), '{"to":1,"to":\n'];
  const { text, answers } = await taken(fine[0] ?? '', call(2, '{"to":"ann","t\\u006f":"ben"}'), fine[1] ?? '');
  expect(text).toBe(fine.join(''));
  expect(answers).toMatchObject([{ id: 2, error: { message: expect.stringContaining('has two members called') } }]);
});

test('nor does one with a field that is dropped without a word, or that nests without end', async () => {
  const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
  const { text, answers } = await taken(call(1, '{"to":"ann","__proto__":{"cc":1}}'), call(2, `{"to":${deep}}`));
  expect(text).toBe('');
  expect(answers).toMatchObject([
    { id: 1, error: { message: expect.stringMatching(/__proto__.*Nothing was called/) } },
    { id: 2, error: { message: expect.stringMatching(/nests deeper than 1000 levels.*Nothing was called/) } },
  ]);
});

test('messages are found wherever they are cut, and wait for nothing but their end', async () => {
  const lines = call(1, '{"text":"a\u00e9\u{1f600}"}') + call(2, '{"to":1e999}') + call(3, '{}');
  const bytes = Buffer.from(lines);
  const { text, answers } = await taken(...Array.from(bytes, (byte) => Buffer.of(byte)));
  expect(text).toBe(call(1, '{"text":"a\u00e9\u{1f600}"}') + call(3, '{}'));
  expect(answers).toMatchObject([{ id: 2 }]);
});

test('a message without an end is not kept for ever', async () => {
  const { text } = await taken('x'.repeat(17_000_000));
  expect(text).toHaveLength(17_000_000);
});
