/** How bodies are bounded: in bytes, in values of JSON, and from event to event. */
import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type ByteCap, capResponse, countMarks, ResponseTooLarge } from '../../../../activities/egress/fetch.ts';
import { forAll } from '../../../support/for-all.ts';

// What one response may make of this worker's memory and time: values of JSON, and large events one after the other.

const JSON_TYPE = 'application/json';
const EVENTS = 'text/event-stream';

interface Read {
  readonly text: string;
  readonly failure?: string | undefined;
}

async function read(type: string, chunks: readonly string[], cap: Partial<ByteCap>): Promise<Read> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(Buffer.from(chunk));
      controller.close();
    },
  });
  let told = 0;
  const response = new Response(body, { headers: { 'content-type': type } });
  const capped = capResponse(response, { maxBytes: 1_000_000, ...cap, onTooLarge: () => (told += 1) });
  try {
    const text = await capped.text();
    expect(told).toBe(0);
    return { text };
  } catch (error) {
    expect(error).toBeInstanceOf(ResponseTooLarge);
    expect(told).toBe(1);
    return { text: '', failure: error instanceof Error ? error.message : undefined };
  }
}

function cutEvery(size: number, text: string): string[] {
  return Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
    text.slice(index * size, (index + 1) * size),
  );
}

const objects = (count: number): string => `[${Array.from({ length: count }, () => '{}').join()}]`;
const event = (data: string): string => `event: message\nid: "1, 2"\ndata: ${data}\n\n`;

describe('values of one body', () => {
  const maxValues = 100;
  test.each([1_000, 7, 1])('50 objects in a list are 100, and one more is too many (chunks of %i)', async (size) => {
    const fits = objects(50);
    expect(await read(JSON_TYPE, cutEvery(size, fits), { maxValues })).toEqual({ text: fits });
    expect((await read(JSON_TYPE, cutEvery(size, objects(51)), { maxValues })).failure).toContain('100 values');
  });

  test.each([1_000, 7, 1])('a text has none, whatever it holds (chunks of %i)', async (size) => {
    const table = JSON.stringify({ text: '1,"two",[3],{4},\\\r\n'.repeat(500) });
    expect(await read(JSON_TYPE, cutEvery(size, table), { maxValues })).toEqual({ text: table });
  });

  test('of who is not told to count them, any number passes', async () => {
    const many = objects(10_000);
    expect(await read(JSON_TYPE, [many], {})).toEqual({ text: many });
  });
});

describe('values of one event', () => {
  const maxValues = 100;
  test.each([10_000, 40, 7, 1])('are counted from event to event (chunks of %i)', async (size) => {
    const stream = event(objects(40)).repeat(size === 10_000 ? 2 : 10);
    // What ends inside one chunk is counted together.
    const most = size === 10_000 ? 200 : maxValues;
    expect(await read(EVENTS, cutEvery(size, stream), { maxValues: most })).toEqual({ text: stream });
    const large = `${event('{}')}${event(objects(60))}`;
    expect((await read(EVENTS, cutEvery(size, large), { maxValues })).failure).toContain('100 values');
  });

  test('its lines count, too', async () => {
    const lines = (count: number): string => `${'odd\r'.repeat(count)}data: 1\n\n`;
    const fits = lines(98);
    expect(await read(EVENTS, cutEvery(9, fits), { maxValues })).toEqual({ text: fits });
    expect((await read(EVENTS, cutEvery(9, lines(99)), { maxValues })).failure).toContain('100 values');
  });

  test('an event in several lines is one, and no quote of another field hides what follows', async () => {
    const lines = `id: "\n: "\ndata: [\n${'data: {},\n'.repeat(60)}data: 1]\n\n`;
    expect((await read(EVENTS, cutEvery(16, lines), { maxValues })).failure).toContain('100 values');
  });
});

describe('events of one stream', () => {
  test('small ones go on and on; all together they have sixteen times the bound of one', async () => {
    const progress = event('{"progress":1}');
    const fits = cutEvery(50, progress.repeat(15));
    const bounds = { maxBytes: progress.length + 50 };
    expect((await read(EVENTS, fits, bounds)).failure).toBeUndefined();
    expect((await read(EVENTS, cutEvery(50, progress.repeat(60)), bounds)).failure).toMatch(/bytes in one stream$/);
    const values = await read(EVENTS, cutEvery(50, event(objects(45)).repeat(30)), { maxValues: 100 });
    expect(values.failure).toBe('the response is larger than 1600 values in one stream');
  });

  test('a stream that is bounded as a whole has the bound of one', async () => {
    const cap = { maxBytes: 500, wholeStreams: true };
    expect((await read(EVENTS, cutEvery(50, event('{}').repeat(20)), cap)).failure).toMatch(/500 bytes$/);
  });
});

test('a body is read as fast as its reader takes it, and ends for the server when its reader goes', async () => {
  let pulled = 0;
  let left: unknown;
  const endless = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        pulled += 1;
        controller.enqueue(new Uint8Array(1_000));
      },
      cancel: (reason) => void (left = reason),
    },
    { highWaterMark: 0 },
  );
  const { body } = capResponse(new Response(endless), { maxBytes: 1_000_000 });
  const reader = body?.getReader();
  await setImmediate();
  expect(pulled).toBe(0);
  await reader?.read();
  await setImmediate();
  expect(pulled).toBe(1);
  await reader?.cancel('enough');
  expect(left).toBe('enough');
});

// How many values a JSON text can make is known of its bytes, before anything is parsed.

function marksOf(...parts: readonly (string | Uint8Array)[]): number {
  const count = countMarks('body');
  return parts.reduce((sum, part) => sum + count(Buffer.from(part)), 0);
}

function valuesIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1;
  return Object.values(value).reduce((sum: number, inner) => sum + valuesIn(inner), 1);
}

describe('marks of JSON', () => {
  test.each([
    ['{}', 1],
    ['[1,2,[3]]', 4],
    ['{"a":1,"b":{"c":[]}}', 4],
    ['"a, [b], {c}"', 0],
    [String.raw`"a\",{[,"`, 0],
    [String.raw`["\\",","]`, 2],
    [String.raw`["\\\",",1]`, 2],
    [String.raw`["\u0022,\u005c",1]`, 2],
    ['["ä, 😀, ö",1]', 2],
    ['"a, b\n,[', 2],
    ['"a\\\r\n,[', 2],
  ])('%s has %i', (text, marks) => {
    expect(marksOf(text)).toBe(marks);
    // Wherever the network cuts it.
    const bytes = Buffer.from(text);
    for (let at = 0; at <= bytes.length; at += 1)
      expect(marksOf(bytes.subarray(0, at), bytes.subarray(at))).toBe(marks);
    expect(marksOf(...[...bytes].map((byte) => Uint8Array.of(byte)))).toBe(marks);
  });

  test('no value is made that is not counted, however it is written', () => {
    forAll(fc.jsonValue(), (value) => {
      // Less what is not the same value when it is read: `-0`, or a key twice.
      const json = JSON.stringify(value);
      const parsed: unknown = JSON.parse(json);
      expect(marksOf(json) + 1).toBeGreaterThanOrEqual(valuesIn(parsed));
      expect(marksOf(JSON.stringify(parsed, null, '\t'))).toBe(marksOf(JSON.stringify(parsed)));
      expect(marksOf(JSON.stringify(json))).toBe(0);
    });
  });

  test('bytes that are no UTF-8 hide no quote: a decoder takes them for one character and reads on', () => {
    const cut = Buffer.concat([Buffer.from('["'), Buffer.from([0xf0]), Buffer.from('",1,2]')]);
    expect(JSON.parse(cut.toString('utf8'))).toEqual(['\ufffd', 1, 2]);
    expect(marksOf(cut)).toBe(3);
  });

  test('of an event stream each line is one more, wherever it ends', () => {
    const lines = 'id: "\na\r: "\\\r\ndata: {"a":"b"}\n\n';
    const bytes = Buffer.from(lines);
    expect(marksOf(lines)).toBe(1);
    for (const size of [1, 3, 100]) {
      const count = countMarks('event stream');
      let marks = 0;
      for (let at = 0; at < bytes.length; at += size) marks += count(bytes.subarray(at, at + size));
      expect(marks).toBe(7);
    }
  });
});
