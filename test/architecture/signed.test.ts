// In trust mode `signed` no message counts unproven (INV-G2): a handler that is added later must not be the way around it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ROOT } from './source-tree.ts';

const messages = readFileSync(join(ROOT, 'workflows/messages.ts'), 'utf8');
const handlers = readFileSync(join(ROOT, 'workflows/handlers.ts'), 'utf8');

/** Updates of a run that bring something: those without an input say nothing. */
const saying = [...messages.matchAll(/export const (\w+) = defineUpdate<\w+, \[unknown\]>/g)].map(
  ([, name]) => name ?? '',
);

const registrations = handlers.split('setHandler(').slice(1);

test('there are such updates, and each has a handler', () => {
  expect(saying).toEqual(expect.arrayContaining(['decideUpdate', 'sayUpdate', 'stopUpdate']));
});

test.each(saying)('%s: its validator verifies the signature, its handler takes it off', (name) => {
  const own = registrations.find((registration) => registration.trimStart().startsWith(`${name},`)) ?? '';
  expect(own).toMatch(/\bopened(Decision)?\(live, input/);
  expect(own).toMatch(/validator: \(input\) =>[^]*\bassertSigned(Decision)?\(live, /);
});

test('the signal verifies before it admits', () => {
  expect(handlers).toMatch(/refuseUnsigned\(live, decision\) \?\? admi/);
});
