/** What counts as an answer in events, whatever its server calls it. */
import { expect, test } from '@jest/globals';
import { NotStreamed, streamed } from '../../../../activities/models/streamed.ts';

const EVENT = 'data: {"type":"response.created"}\n\n';

/** An answer that goes on after these chunks. */
function unended(type: string, ...chunks: readonly string[]) {
  let isCancelled = false;
  const body = new ReadableStream({
    start: (into) => {
      for (const chunk of chunks) into.enqueue(new TextEncoder().encode(chunk));
    },
    cancel: () => void (isCancelled = true),
  });
  const response = new Response(body, { headers: { 'content-type': type, 'x-request-id': 'req_1' } });
  return { response, isCancelled: () => isCancelled };
}

test('events under the name of JSON are read as they come, and are let go with their reader', async () => {
  const { response, isCancelled } = unended('application/json', '\r\n', ` ${EVENT}`);
  const { headers, body } = await streamed(response);
  expect([headers.get('content-type'), headers.get('x-request-id')]).toEqual(['text/event-stream', 'req_1']);
  let text = '';
  for await (const chunk of body ?? []) {
    text += new TextDecoder().decode(chunk as Uint8Array);
    if (text.endsWith(EVENT)) break;
  }
  expect(text).toBe(`\r\n ${EVENT}`);
  expect(isCancelled()).toBe(true);
});

test('a page is not read to an end that may never come', async () => {
  const { response, isCancelled } = unended('text/html; charset=utf-8', '<html>');
  await expect(streamed(response)).rejects.toBeInstanceOf(NotStreamed);
  expect(isCancelled()).toBe(true);
});

test('a document that was cut, and an answer of nothing, are left to their reader', async () => {
  for (const text of ['{"choices": [', '', '  ']) {
    const answer = await streamed(new Response(text, { headers: { 'content-type': 'application/json' } }));
    expect(await answer.text()).toBe(text);
  }
});
