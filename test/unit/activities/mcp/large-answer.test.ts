/** What is known of an answer that is too large to be kept: that it is a result, and of a failure, or nothing (INV-X2). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type LargeAnswer, skimAnswer } from '../../../../activities/mcp/large-answer.ts';
import { forAll } from '../../../support/for-all.ts';

const REQUEST = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params: { id: 8 } });

/** @param size of the chunks, in bytes */
function saidBy(body: string, size = 5, request: unknown = REQUEST): LargeAnswer | undefined {
  let said: LargeAnswer | undefined;
  const skim = skimAnswer(request, (says) => (said = says));
  const bytes = Buffer.from(body);
  for (let at = 0; at < bytes.length; at += size) skim.read(bytes.subarray(at, at + size));
  skim.ended();
  return said;
}

const answer = (result: string, id = '7'): string => `{"jsonrpc":"2.0","id":${id},"result":${result}}`;

describe('a result', () => {
  test.each([
    [answer('{"content":[]}'), 'success'],
    [answer('{}'), 'success'],
    [` \r\n\t${answer('{ "content" : [ { "isError" : true } ] , "isError" : false }')}\n`, 'success'],
    [answer('{"content":[{"text":"\\"isError\\":true}}"}],"structuredContent":{"isError":true}}'), 'success'],
    [answer('{"resultType":"complete","content":[],"task":{}}'), 'success'],
    [answer('{"isError":true,"content":[]}'), 'failure'],
    [answer('{"content":[],"isError":true}'), 'failure'],
    [answer('{"content":[],"is\\u0045rror":true}'), 'failure'],
    [answer('{"isError":"yes"}'), 'failure'],
    [answer('{"isError":null}'), 'failure'],
    [answer('{"isError":{}}'), 'failure'],
    [answer('{"isError":true,"isError":false}'), 'success'],
    ['{"result":{"isError":true},"result":{},"id":7,"jsonrpc":"2.0"}', 'success'],
    ['{"\\u0072esult":{},"id":7.0,"jsonrpc":"2.\\u0030"}', 'success'],
  ])('%s: %s', (body, said) => {
    for (const size of [1, 3, 1_000]) expect(saidBy(body, size)).toBe(said);
  });
});

describe('nothing is known of', () => {
  test.each([
    ['an error', '{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}'],
    ['a result with an error', '{"jsonrpc":"2.0","id":7,"result":{},"error":null}'],
    ['a question', answer('{"resultType":"input_required","content":[]}')],
    ['a type that is no word', answer('{"resultType":{}}')],
    ['a task', answer('{"task":{"taskId":"1"}}')],
    ['an answer to another request', answer('{}', '8')],
    ['an answer whose id is a text', answer('{}', '"7"')],
    ['an answer to no request', answer('{}', 'null')],
    ['a request', '{"jsonrpc":"2.0","id":7,"method":"ping"}'],
    ['a field that no answer has', '{"jsonrpc":"2.0","id":7,"result":{},"more":1}'],
    ['another protocol', '{"jsonrpc":"1.0","id":7,"result":{}}'],
    ['a result that is a list', answer('["isError",true]')],
    ['a result that is a text', answer('"done"')],
    ['two answers in a list', `[${answer('{}')}]`],
    ['two answers', `${answer('{}')}${answer('{}')}`],
    ['what comes after it', `${answer('{}')} and more`],
    ['one that breaks off', answer('{"content":["').slice(0, -2)],
    ['brackets that do not fit', answer('{"content":[}')],
    ['members without a comma', answer('{"isError":false "content":[]}')],
    ['values without a name', answer('{true}')],
    ['words that are none', answer('{"isError":falsy}')],
    ['more nesting than is followed', answer(`{"x":${'['.repeat(2_000)}${']'.repeat(2_000)}}`)],
    ['more members than are followed', answer(`{"content":[]${',"a":1'.repeat(1_000)}}`)],
    ['nothing', ''],
    ['blanks', ' '.repeat(100)],
    ['a page', '<html>{}</html>'],
  ])('%s', (_, body) => {
    for (const size of [1, 3, 10_000]) expect(saidBy(body, size)).toBeUndefined();
  });

  test('an answer to what had no id', () => {
    expect(saidBy(answer('{}'), 5, null)).toBeUndefined();
    expect(saidBy('{"jsonrpc":"2.0","result":{}}', 5, '{}')).toBeUndefined();
  });
});

const name = fc.constantFrom(
  'jsonrpc',
  'id',
  'result',
  'error',
  'isError',
  'resultType',
  'task',
  'content',
  'x',
  '__proto__',
);
const value = fc.oneof(fc.constantFrom('2.0', 'complete', 7, true, false, null), fc.jsonValue({ maxDepth: 2 }));
const members = fc.array(fc.tuple(name, value), { maxLength: 5 });
const object = members.map(
  (all) => `{${all.map(([key, its]) => `${JSON.stringify(key)}: ${JSON.stringify(its)}`).join()}}`,
);

/** What the same says where it is parsed. */
function parsed(body: string): LargeAnswer | undefined {
  // Sound: the test wrote it.
  const { jsonrpc, id, result, ...others } = JSON.parse(body) as Record<string, unknown>;
  if (jsonrpc !== '2.0' || id !== 7 || Object.keys(others).length > 0) return undefined;
  if (typeof result !== 'object' || result === null || Array.isArray(result)) return undefined;
  // Sound: it is an object.
  const { resultType = 'complete', isError = false, task, content } = result as Record<string, unknown>;
  if (resultType !== 'complete' || (task !== undefined && content === undefined)) return undefined;
  return isError === false ? 'success' : 'failure';
}

test('any answer says in pieces what it says when it is parsed', () => {
  forAll(object, object, fc.integer({ min: 1, max: 40 }), (result, others, size) => {
    for (const body of [answer(result), others, `${answer(result).slice(0, -1)},${others.slice(1)}`]) {
      if (body.endsWith(',}')) continue;
      expect(saidBy(body, size)).toBe(parsed(body));
    }
  });
});
