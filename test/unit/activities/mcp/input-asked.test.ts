/** What a server asks for, as it is read: all of it is understood and bounded, or nobody is asked (F11, F26; INV-S1). */
import { describe, expect, test } from '@jest/globals';
import { type Asked, readAsked } from '../../../../activities/mcp/input-round.ts';
import { createScrubber } from '../../../../activities/scrubbing/scrubber.ts';
import { InputRequest } from '../../../../contracts/schemas/input.ts';

function read(raw: Record<string, unknown>, secrets: readonly string[] = []): Asked {
  return readAsked(raw, (value, state) =>
    createScrubber([...secrets, ...(state === undefined ? [] : [state])]).value(value),
  );
}

function formOf(properties: unknown, more: object = {}): Record<string, unknown> {
  const requestedSchema = { type: 'object', properties, ...more };
  return { inputRequests: { it: { method: 'elicitation/create', params: { message: 'M', requestedSchema } } } };
}

function urlOf(url: unknown): Record<string, unknown> {
  return { inputRequests: { it: { method: 'elicitation/create', params: { mode: 'url', message: 'M', url } } } };
}

function only(asked: Asked): InputRequest {
  if (asked.kind !== 'asked' || asked.requests['it'] === undefined) throw new Error(JSON.stringify(asked));
  // What is kept fits the contract.
  return InputRequest.parse(asked.requests['it']);
}

describe('forms', () => {
  test('every kind of field that MCP has', () => {
    const request = only(
      read(
        formOf(
          {
            name: {
              type: 'string',
              title: 'Name',
              description: 'Yours',
              minLength: 1,
              maxLength: 1e9,
              format: 'email',
              default: 'x',
            },
            odd: { type: 'string', format: 'hostname', pattern: '(a+)+$' },
            age: { type: 'integer', minimum: 1, maximum: 9, default: 2 },
            sure: { type: 'boolean', default: true },
            plain: { type: 'string', enum: ['a', 'b'], enumNames: ['A'], default: 'a' },
            titled: { type: 'string', oneOf: [{ const: 'a', title: 'A' }, { const: 'b' }] },
            many: { type: 'array', items: { type: 'string', enum: ['a'] }, minItems: 1, maxItems: 2, default: ['a'] },
            several: { type: 'array', items: { anyOf: [{ const: 'a', title: 'A' }] }, default: 'a' },
          },
          { required: ['name', 'name'] },
        ),
      ),
    );
    expect(request).toMatchObject({
      kind: 'form',
      message: 'M',
      required: ['name'],
      fields: {
        name: {
          type: 'text',
          title: 'Name',
          description: 'Yours',
          minLength: 1,
          maxLength: 10_000,
          format: 'email',
          default: 'x',
        },
        odd: { type: 'text' },
        age: { type: 'integer', minimum: 1, maximum: 9, default: 2 },
        sure: { type: 'boolean', default: true },
        plain: { type: 'choice', options: [{ value: 'a', title: 'A' }, { value: 'b' }], default: 'a' },
        titled: { type: 'choice', options: [{ value: 'a', title: 'A' }, { value: 'b' }] },
        many: { type: 'choices', options: [{ value: 'a' }], minItems: 1, maxItems: 2, default: ['a'] },
        several: { type: 'choices', options: [{ value: 'a', title: 'A' }] },
      },
    });
  });

  test.each<[string, Record<string, unknown>]>([
    ['a number that no JSON can keep', formOf({ a: { type: 'number', default: Infinity } })],
    ['one where nobody reads it', formOf({ a: { type: 'boolean' } }, { x: [-Infinity] })],
    ['a nested object', formOf({ a: { type: 'object', properties: {} } })],
    ['a list of anything', formOf({ a: { type: 'array', items: { type: 'string' } } })],
    ['a list without items', formOf({ a: { type: 'array' } })],
    ['no schema at all', formOf({ a: true })],
    ['no properties', formOf(undefined)],
    ['a required field that is not there', formOf({}, { required: ['x'] })],
    ['required that is no list', formOf({}, { required: 'x' })],
    [
      'too many fields',
      formOf(Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`f${n}`, { type: 'boolean' }]))),
    ],
    ['a field called __proto__', formOf(JSON.parse('{"__proto__":{"type":"boolean"}}'))],
    ['a field without a name', formOf({ '': { type: 'boolean' } })],
    ['a long name', formOf({ ['x'.repeat(101)]: { type: 'boolean' } })],
    ['a long title', formOf({ a: { type: 'boolean', title: 'x'.repeat(1_001) } })],
    ['a title that is no text', formOf({ a: { type: 'boolean', title: 1 } })],
    ['a bound that is no number', formOf({ a: { type: 'number', minimum: '1' } })],
    ['a length that is no count', formOf({ a: { type: 'string', minLength: -1 } })],
    ['no options', formOf({ a: { type: 'string', enum: [] } })],
    ['too many options', formOf({ a: { type: 'string', enum: Array.from({ length: 201 }, String) } })],
    ['an option that is no text', formOf({ a: { type: 'string', oneOf: [{ const: 1 }] } })],
    ['no parameters', { inputRequests: { it: { method: 'elicitation/create' } } }],
    [
      'an unknown mode',
      { inputRequests: { it: { method: 'elicitation/create', params: { mode: 'voice', message: 'M' } } } },
    ],
    ['no message', { inputRequests: { it: { method: 'elicitation/create', params: {} } } }],
    ['an unknown method', { inputRequests: { it: { method: 'x/y', params: {} } } }],
    ['sampling', { inputRequests: { it: { method: 'sampling/createMessage', params: {} } } }],
    ['roots', { inputRequests: { it: { method: 'roots/list', params: {} } } }],
    ['nothing at all', {}],
    ['requests that are no object', { inputRequests: 'x' }],
    ['too many requests', { inputRequests: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`r${n}`, {}])) }],
    ['too many bytes', { inputRequests: { it: { junk: 'x'.repeat(33_000) } } }],
    [
      'requests that nest too deeply',
      { inputRequests: { it: JSON.parse(`${'['.repeat(200)}${']'.repeat(200)}`) as unknown } },
    ],
    ['a state that is no text', { requestState: 7 }],
    ['a state that is too long', { requestState: 'x'.repeat(32_769) }],
    ['a state that is too long in bytes', { requestState: '漢'.repeat(10_923) }],
    // Each option comes as two letters, and is kept as an object.
    [
      'a form that is longer as it is kept',
      formOf(
        Object.fromEntries(
          Array.from({ length: 30 }, (_, at) => [
            `f${at}`,
            { type: 'string', enum: Array.from({ length: 200 }, () => 'x') },
          ]),
        ),
      ),
    ],
    ['a state that is no Unicode', { requestState: 'abcdef\ud800' }],
  ])('%s: not understood', (_, raw) => {
    expect(read(raw)).toEqual({ kind: 'not-understood', reason: expect.any(String) });
  });
});

describe('URLs (F26)', () => {
  test('are https, and name their host in ASCII', () => {
    expect(only(read(urlOf('https://xn--pypal-4ve.example/login')))).toMatchObject({ host: 'xn--pypal-4ve.example' });
    // Cyrillic letters look like Latin ones: people are shown what DNS is asked.
    expect(only(read(urlOf('https://раypal.example/')))).toMatchObject({
      host: expect.stringMatching(/^xn--/),
      url: expect.stringMatching(/^https:\/\/xn--/),
    });
  });

  test.each([
    'http://id.example/',
    'javascript:alert(1)',
    'data:text/html,x',
    'file:///etc/passwd',
    'https://paypal.example@evil.example/',
    'https://:secret@evil.example/',
    'id.example',
    '',
    7,
    `https://id.example/${'x'.repeat(2_048)}`,
  ])('%s: not understood', (url) => {
    expect(read(urlOf(url))).toMatchObject({ kind: 'not-understood' });
  });
});

describe('what is kept', () => {
  test('INV-S1: no secret of the connection, and nothing of the state, wherever the server repeats it', () => {
    const token = 'tok-0123456789abcdef';
    const state = 'v1.c3RhdGU.bWFj-0123456789';
    const raw = {
      ...formOf({ [`f-${token}`]: { type: 'string', description: `state ${state}` } }),
      requestState: state,
    };
    const asked = read(raw, [token]);
    if (asked.kind !== 'asked') throw new Error('it asks');
    expect(asked.state).toBe(state);
    expect(JSON.stringify(asked.requests)).not.toContain(token);
    expect(JSON.stringify(asked.requests)).not.toContain(state);
  });

  test('the hash is of the key and all that was sent, also of what is not shown', () => {
    const hashes = [
      formOf({ a: { type: 'string' } }),
      formOf({ a: { type: 'string', pattern: 'x' } }),
      formOf({ b: { type: 'string' } }),
    ].map((raw) => only(read(raw)).hash);
    expect(new Set(hashes).size).toBe(3);
    expect(only(read(formOf({ a: { type: 'string' } }))).hash).toBe(hashes[0]);
  });
});

test('requests that are far too large are refused before they are searched for secrets', () => {
  let searched = 0;
  const many = { inputRequests: { it: 'x'.repeat(1_000_000) } };
  expect(readAsked(many, (value) => ((searched += 1), value))).toEqual({
    kind: 'not-understood',
    reason: 'its requests have more than 32768 bytes',
  });
  expect(searched).toBe(0);
});
