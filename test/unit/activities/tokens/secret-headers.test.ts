/** Which texts in the headers of a server are scrubbed: by the name, by the look, or since the environment gave them (INV-S1). */
import { expect, test } from '@jest/globals';
import { secretHeaderValues } from '../../../../activities/tokens/configured.ts';

test.each(['X-Pass', 'x-pwd', 'X_PIN', 'Pin', 'X-Api-Key', 'Cookie2'])('a header whose name says so: %s', (name) => {
  expect(secretHeaderValues({ [name]: ' hunter2 ' }, undefined)).toEqual(['hunter2']);
});

test.each(['X-Session', 'X-Session-Id', 'X-Access', 'x-access.id'])(
  'a header whose name may say so, if its value is no short word: %s',
  (name) => {
    expect(secretHeaderValues({ [name]: ' hunter22 ' }, undefined)).toEqual(['hunter22']);
    expect(secretHeaderValues({ [name]: 'read' }, undefined)).toEqual([]);
  },
);

test.each(['X-Compass', 'X-Passenger', 'X-Opinion', 'X-Obsession', 'X-Accessory', 'X-Pin2', 'X-Region'])(
  'no header that holds such a word in another: %s',
  (name) => {
    expect(secretHeaderValues({ [name]: 'north' }, undefined)).toEqual([]);
  },
);

test('a value that looks random', () => {
  const random = '0f8fad5bd9cb469fa165';
  expect(secretHeaderValues({ 'X-Tenant': random, 'X-Docs': 'https://a1.example.com/docs' }, undefined)).toEqual([
    random,
  ]);
});

test('what the environment gave, from eight characters on: shorter it is an ordinary word as well as a secret', () => {
  const headers = { 'X-Ward': 'code correct-horse', 'X-Env': 'prod' };
  expect(secretHeaderValues(headers, [' correct-horse ', 'prod', '1234567', '12345678'])).toEqual([
    'correct-horse',
    '12345678',
  ]);
  // A name counts whatever the length, and nothing is listed twice.
  expect(secretHeaderValues({ 'X-Pin': '1234', 'X-Pass': 'correct-horse' }, ['1234', 'correct-horse'])).toEqual([
    '1234',
    'correct-horse',
  ]);
});
