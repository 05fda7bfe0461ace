/** What becomes of a result: how much of it is kept, how it is previewed, and whether it is as promised. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createMemoryStore } from '../../../../activities/artifacts/memory.ts';
import type { ArtifactStore } from '../../../../activities/artifacts/port.ts';
import { outputViolation, previewOf, quoted, toolResultOf } from '../../../../activities/mcp/classify-result.ts';
import { ListedTools, paramHeaderFault } from '../../../../activities/mcp/listing.ts';
import { createScrubber } from '../../../../activities/scrubbing/scrubber.ts';
import type { ResultPart, ToolResult } from '../../../../contracts/schemas/call.ts';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { doublingSchema } from '../../../support/doubling-schema.ts';
import { forAll } from '../../../support/for-all.ts';
import { turnsDuring } from '../../../support/other-work.ts';

// How much of a tool's result is kept, whatever the server sends.

const image = { type: 'image', data: 'AAAA', mimeType: 'image/png' };
const blob = { type: 'resource', resource: { uri: 'file:///a', blob: 'AAAA' } };

interface Kept {
  readonly result: ToolResult;
  readonly puts: number;
}

/** @param onPut is told the number of puts so far */
async function kept(content: readonly unknown[], onPut?: (puts: number) => void, signal?: AbortSignal): Promise<Kept> {
  const store = createMemoryStore();
  let puts = 0;
  const artifacts: ArtifactStore = {
    get: async (ref) => store.get(ref),
    put: async (bytes, contentType) => {
      puts += 1;
      onPut?.(puts);
      return store.put(bytes, contentType);
    },
  };
  const rules = { artifacts, scrub: createScrubber([]), maxBytes: 1_000_000 };
  const result = await toolResultOf({ content }, { ...rules, signal: signal ?? new AbortController().signal });
  return { result, puts };
}

test('INV-X1: a number without end is null, and said: a stretch that could not hash the result would call again', async () => {
  const structuredContent = JSON.parse('{"rows":[{"n":1e999},{"n":-1e999,"m":1}]}') as unknown;
  const rules = { artifacts: createMemoryStore(), scrub: createScrubber([]), maxBytes: 1_000 };
  const raw = { content: [{ type: 'text', text: 'done' }], structuredContent };
  const result = await toolResultOf(raw, { ...rules, signal: new AbortController().signal });
  expect(result).toEqual({
    content: [{ type: 'text', text: 'done' }],
    structured: { rows: [{ n: null }, { n: null, m: 1 }] },
    warnings: [expect.stringContaining('1e999')],
  });
  expect(() => hashOf(result)).not.toThrow();
});

test('a whole number that may have been rounded is said, and one that is read exactly is not', async () => {
  const rules = { artifacts: createMemoryStore(), scrub: createScrubber([]), maxBytes: 1_000 };
  const warningsOf = async (json: string) => {
    const raw = { content: [], structuredContent: JSON.parse(json) as unknown };
    return (await toolResultOf(raw, { ...rules, signal: new AbortController().signal })).warnings;
  };
  expect(await warningsOf('{"rows":[{"id":1234567890123456789}]}')).toEqual([
    expect.stringContaining('may have been rounded'),
  ]);
  expect(
    await warningsOf('{"rows":[{"id":9007199254740991,"n":-1,"x":0.1}],"t":"1234567890123456789"}'),
  ).toBeUndefined();
});

describe('a result of very many parts', () => {
  test('INV-D2: keeps the first thousand, and says so once', async () => {
    const { result } = await kept(Array.from({ length: 5_000 }, () => ({ type: 'text', text: 'x' })));
    expect(result.content).toHaveLength(1_000);
    expect(result.warnings).toEqual([expect.stringContaining('4000 of 5000 parts were dropped')]);
  });

  test('INV-D2: stores the first hundred of its binary parts, and keeps the text among the others', async () => {
    const many = Array.from({ length: 150 }, () => [image, blob]).flat();
    const { result, puts } = await kept([...many, { type: 'text', text: 'end' }]);
    expect(puts).toBe(100);
    expect(result.content).toHaveLength(101);
    expect(result.content.at(-1)).toEqual({ type: 'text', text: 'end' });
    expect(result.warnings).toEqual([expect.stringContaining('200 of 301 parts were dropped')]);
  });

  test('stores no more of them once nobody waits for the call', async () => {
    const nobody = new AbortController();
    const parts = Array.from({ length: 20 }, () => image);
    const { result, puts } = await kept(
      parts,
      (count) => {
        if (count === 3) nobody.abort();
      },
      nobody.signal,
    );
    expect(puts).toBe(3);
    expect(result.content).toHaveLength(3);
    expect(result.warnings).toEqual([expect.stringContaining('17 of 20 parts were dropped')]);
  });

  test('of a usual number is kept whole, without a warning', async () => {
    const { result, puts } = await kept([image, blob, { type: 'text', text: 'x' }]);
    expect(puts).toBe(2);
    expect(result.content).toHaveLength(3);
    expect(result).not.toHaveProperty('warnings');
  });
});

test('F8: a store that never answers loses the bytes, not the call: what it has run is told', async () => {
  const hanging: ArtifactStore = { put: () => new Promise(() => undefined), get: () => new Promise(() => undefined) };
  const result = await toolResultOf(
    { content: [image, blob, { type: 'text', text: 'done' }] },
    {
      artifacts: hanging,
      scrub: createScrubber([]),
      maxBytes: 1_000,
      storingMs: 20,
      signal: new AbortController().signal,
    },
  );
  expect(result.content).toMatchObject([
    { text: '[image not kept]' },
    { type: 'resource', text: '[not kept]' },
    { text: 'done' },
  ]);
  expect(result.warnings).toEqual([expect.stringContaining('are lost'), expect.stringContaining('are lost')]);
});

// Previews of large results: bounded, cut between characters, honest about what is missing.

const full = { sha256: 'a'.repeat(64), bytes: 1, contentType: 'application/json' };
const text = fc.string({ unit: 'binary', maxLength: 3_000 }).map((value) => value.replaceAll(/\p{Surrogate}/gu, ''));
const part: fc.Arbitrary<ResultPart> = fc.oneof(
  text.map((value): ResultPart => ({ type: 'text', text: value })),
  text.map((value): ResultPart => ({ type: 'resource', uri: 'file:///a', text: value })),
  fc.constant<ResultPart>({ type: 'image', mimeType: 'image/png', artifact: full }),
);

test('a preview never takes more bytes than it may, and stays well-formed', () => {
  forAll(
    fc.array(part, { maxLength: 20 }),
    fc.integer({ min: 256, max: 8_192 }),
    fc.boolean(),
    fc.boolean(),
    (content, maxBytes, stored, shared) => {
      const whole = { content, bytes: 10_000_000, ...(stored ? { full } : {}), ...(shared ? { sharedBy: 64 } : {}) };
      const preview = previewOf(whole, maxBytes);
      const json = JSON.stringify(preview);
      expect(Buffer.byteLength(json)).toBeLessThanOrEqual(maxBytes);
      // JSON escapes a lone surrogate, so that one that a cut left would show.
      expect(json).not.toMatch(/\\ud[89a-f]/i);
    },
  );
});

test('the shown parts are the first parts, in order; at most the last one is cut', () => {
  forAll(fc.array(part, { minLength: 1, maxLength: 20 }), fc.integer({ min: 256, max: 8_192 }), (content, maxBytes) => {
    const shown = previewOf({ content, bytes: 10_000_000, full }, maxBytes).slice(0, -1);
    const whole = shown.slice(0, -1);
    expect(whole).toEqual(content.slice(0, whole.length));
    expect(shown.length).toBeLessThanOrEqual(content.length);
  });
});

test('an emoji is shown whole or not at all', () => {
  const [first] = previewOf({ content: [{ type: 'text', text: '😀'.repeat(1_000) }], bytes: 4_000, full }, 400);
  if (first?.type !== 'text') throw new Error('a text was expected');
  expect(first.text).toMatch(/^(?:😀)+$/u);
});

test('it says where the whole is, or that it is lost', () => {
  const whole = { content: [{ type: 'text', text: 'x'.repeat(5_000) }] satisfies ResultPart[], bytes: 5_000 };
  expect(JSON.stringify(previewOf({ ...whole, full }, 300).at(-1))).toContain('artifact aaaaaaaaaaaa');
  expect(JSON.stringify(previewOf(whole, 300).at(-1))).toContain('could not be stored');
});

test('neither does one of a result whose size has as many digits as what is shown of it', () => {
  for (let length = 2_000; length < 2_100; length += 1) {
    const content: ResultPart[] = [{ type: 'text', text: 'x'.repeat(length) }];
    const preview = previewOf({ content, bytes: Buffer.byteLength(JSON.stringify({ content })), full }, 2_000);
    expect(Buffer.byteLength(JSON.stringify(preview))).toBeLessThanOrEqual(2_000);
  }
});

// Output schemas that yield warnings, and declarations of parameter headers.

describe('an output schema', () => {
  const schema: JsonObject = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };

  test('that is kept yields nothing', () => {
    expect(outputViolation(schema, { n: 1 })).toBeUndefined();
  });

  test('that is broken is named with the place', () => {
    expect(outputViolation(schema, { n: 'x' })).toContain('#/n');
  });

  test('that is promised and not met at all is named', () => {
    expect(outputViolation(schema, undefined)).toContain('gave none');
  });

  test.each([
    ['an invalid pattern', { properties: { n: { type: 'string', pattern: '(' } } }],
    ['a reference to nowhere', { $ref: '#/$defs/nothing' }],
    ['a pattern that takes for ever', { properties: { n: { type: 'string', pattern: '^(a|a)+$' } } }],
    ['references that double at each level', doublingSchema(40)],
  ])('with %s is given up', (_, hostile) => {
    expect(outputViolation({ type: 'object', ...hostile }, { n: `${'a'.repeat(60)}!` })).toContain(
      'could not be applied',
    );
  });

  test('is checked again after one was given up', () => {
    outputViolation({ ...doublingSchema(40) }, {});
    expect(outputViolation(schema, { n: 1 })).toBeUndefined();
  });

  test.each([
    ['http://json-schema.org/draft-04/schema#', { exclusiveMinimum: true, minimum: 1 }],
    ['http://json-schema.org/draft-07/schema#', { exclusiveMinimum: 1 }],
    ['https://json-schema.org/draft/2019-09/schema', { exclusiveMinimum: 1 }],
    ['https://json-schema.org/draft/2020-12/schema', { exclusiveMinimum: 1 }],
  ])('is read in the draft that it names (%s)', ($schema, rule) => {
    const dated = { $schema, type: 'object', properties: { n: { type: 'number', ...rule } } };
    expect(outputViolation(dated, { n: 2 })).toBeUndefined();
    expect(outputViolation(dated, { n: 1 })).toBeDefined();
  });
});

describe('parameter headers (SEP-2243)', () => {
  const withProperty = (property: JsonObject): JsonObject => ({ type: 'object', properties: { a: property } });

  test.each<[string, JsonObject]>([
    ['none', { type: 'object' }],
    ['on a string', withProperty({ type: 'string', 'x-mcp-header': 'Region' })],
    ['on an integer', withProperty({ type: 'integer', 'x-mcp-header': 'N' })],
    [
      'on a boolean below objects',
      withProperty({ type: 'object', properties: { b: { type: 'boolean', 'x-mcp-header': 'B' } } }),
    ],
    [
      'in data that is no schema',
      withProperty({ type: 'object', default: { 'x-mcp-header': 7 }, enum: [{ 'x-mcp-header': 7 }] }),
    ],
    ['as the name of a property', withProperty({ type: 'object', properties: { 'x-mcp-header': { type: 'array' } } })],
  ])('%s: legal', (_, inputSchema) => {
    expect(paramHeaderFault(inputSchema)).toBeUndefined();
  });

  test.each<[string, JsonObject]>([
    ['on a number', withProperty({ type: 'number', 'x-mcp-header': 'N' })],
    ['on an object', withProperty({ type: 'object', 'x-mcp-header': 'O' })],
    ['on a property of no type', withProperty({ 'x-mcp-header': 'O' })],
    ['on a property of two types', withProperty({ type: ['string', 'null'], 'x-mcp-header': 'O' })],
    ['on the root', { type: 'object', 'x-mcp-header': 'Root' }],
    ['with a space', withProperty({ type: 'string', 'x-mcp-header': 'a b' })],
    ['with a line break', withProperty({ type: 'string', 'x-mcp-header': 'a\r\nb' })],
    ['empty', withProperty({ type: 'string', 'x-mcp-header': '' })],
    ['no string', withProperty({ type: 'string', 'x-mcp-header': 7 })],
    ['below items', withProperty({ type: 'array', items: { type: 'string', 'x-mcp-header': 'I' } })],
    ['below anyOf', withProperty({ anyOf: [{ type: 'string', 'x-mcp-header': 'I' }] })],
    ['in $defs', { type: 'object', $defs: { d: { type: 'string', 'x-mcp-header': 'D' } } }],
    [
      'below properties in $defs',
      { type: 'object', $defs: { d: { properties: { e: { type: 'string', 'x-mcp-header': 'D' } } } } },
    ],
    [
      'twice',
      {
        type: 'object',
        properties: { a: { type: 'string', 'x-mcp-header': 'X' }, b: { type: 'string', 'x-mcp-header': 'x' } },
      },
    ],
  ])('%s: illegal', (_, inputSchema) => {
    expect(paramHeaderFault(inputSchema)).toContain('x-mcp-header');
  });
});

describe('what a server made large', () => {
  const SECRET = 'Zq81kd0Px77Lm2Rv91aaPf63';
  const large = `${SECRET} is not told. `.repeat(100_000);

  test.each([
    ['text', { content: [{ type: 'text', text: large }] }],
    ['structured content', { content: [], structuredContent: { large } }],
    ['an image', { content: [{ ...image, data: Buffer.from(large).toString('base64') }] }],
  ])('INV-S1: %s is searched part by part: the worker does something else in between', async (_, raw) => {
    const store = createMemoryStore();
    const { signal } = new AbortController();
    const rules = { artifacts: store, scrub: createScrubber([SECRET]), maxBytes: 5_000_000, signal };
    let result: ToolResult = { content: [] };
    // Each has five parts.
    expect(await turnsDuring(async () => (result = await toolResultOf(raw, rules)))).toBeGreaterThanOrEqual(4);
    const { content, structured } = result;
    const [first] = content;
    const stored = first?.type === 'image' ? Buffer.from(await store.get(first.artifact)).toString() : '';
    expect(stored + JSON.stringify({ content, structured })).not.toContain(SECRET);
  });

  test('is not stored if nobody waits for the call any more once it has been searched', async () => {
    const nobody = new AbortController();
    const scrub = createScrubber([SECRET]);
    const largeBytes = async (given: Uint8Array): Promise<Uint8Array> => {
      nobody.abort();
      return await scrub.largeBytes(given);
    };
    const artifacts: ArtifactStore = {
      get: async () => new Uint8Array(),
      put: async () => {
        throw new Error('it is stored');
      },
    };
    const rules = { artifacts, scrub: { ...scrub, largeBytes }, maxBytes: 50_000, signal: nobody.signal };
    const { content, warnings } = await toolResultOf({ content: [image] }, rules);
    expect(content).toEqual([]);
    expect(warnings).toEqual([expect.stringContaining('1 of 1 parts were dropped')]);
  });

  test('INV-S1: the worker does something else between two tools of a list, offered or not', async () => {
    const told = `${SECRET} is not told. `;
    const list = new ListedTools(createScrubber([SECRET]), false);
    const offered = { description: told.repeat(1_500), inputSchema: { type: 'object' } };
    const adding = async (): Promise<void> => {
      for (let at = 0; at < 20; at += 1) await list.add({ ...offered, name: `tool-${at}` });
    };
    // Together they have three times the bytes of a turn.
    expect(await turnsDuring(adding)).toBeGreaterThanOrEqual(2);
    const refused = { inputSchema: { type: 'object' } };
    for (let at = 0; at < 4; at += 1) await list.add({ ...refused, name: told.repeat(10_000 + at) });
    let listing: unknown;
    const listed = async (): Promise<void> => void (listing = await list.listing());
    expect(await turnsDuring(listed)).toBeGreaterThanOrEqual(3);
    expect(JSON.stringify(listing)).not.toContain(SECRET);
  });

  test('INV-S1: the name of a tool that is not offered is searched no further than its beginning', async () => {
    const scrub = createScrubber([SECRET]);
    const searched: number[] = [];
    const measured = (given: string): string => {
      searched.push(given.length);
      return scrub.text(given);
    };
    const tools = new ListedTools({ ...scrub, text: measured }, false);
    await tools.add({ name: large, inputSchema: { type: 'object' } });
    const { refused } = await tools.listing();
    expect(refused).toHaveLength(1);
    expect(refused[0]?.name).toMatch(/^\[redacted\] is not told/);
    expect(Math.max(...searched)).toBeLessThan(600_000);
  });

  test('INV-S1: a name of megabytes in a warning is searched no further than its beginning', async () => {
    const searched: number[] = [];
    const scrub = createScrubber([SECRET]);
    const measured = (given: string): string => {
      searched.push(given.length);
      return scrub.text(given);
    };
    const { signal } = new AbortController();
    const rules = { artifacts: createMemoryStore(), scrub: { ...scrub, text: measured }, maxBytes: 50_000, signal };
    const outputSchema = { type: 'object', additionalProperties: false };
    const { warnings = [] } = await toolResultOf({ structuredContent: { [large]: 1 } }, { ...rules, outputSchema });
    expect(warnings.length).toBeGreaterThan(0);
    expect(JSON.stringify(warnings)).not.toContain(SECRET);
    expect(Math.max(...searched)).toBeLessThan(600_000);
  });

  test('INV-S1: the message of an error is quoted on one line, bounded and scrubbed', () => {
    const scrub = createScrubber([SECRET]);
    expect(quoted(scrub, `no\n${SECRET}`)).toBe('no [redacted]');
    expect(quoted(scrub, 'y'.repeat(1_000_000))).toBe(`${'y'.repeat(300)}…`);
    expect(quoted(scrub, `${SECRET} `.repeat(100_000))).toMatch(/^\[redacted\] \[redacted\]/);
  });
});
