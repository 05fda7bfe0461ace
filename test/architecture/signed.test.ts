// In trust mode `signed` no message counts unproven (INV-G2): a handler that is added later must not be the way around it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { ROOT } from './source-tree.ts';

const messages = readFileSync(join(ROOT, 'workflows/run/messages.ts'), 'utf8');
const handlers = readFileSync(join(ROOT, 'workflows/run/handlers.ts'), 'utf8');

const pauses = readFileSync(join(ROOT, 'workflows/run/pauses.ts'), 'utf8');
/** Registered there, each in the same way. */
const answering = ['resolveOutcomeUpdate', 'provideInputUpdate', 'authorizeUpdate'];

/** From a dispatch, which has no key: it shows a question, and what is proven is the answer, where it was asked (docs/adr/0040). */
const dispatched = ['inputAskedUpdate'];

/** Updates of a run that bring something: those without an input say nothing. */
const saying = [...messages.matchAll(/export const (\w+) = defineUpdate<\w+, \[unknown\]>/g)].map(
  ([, name]) => name ?? '',
);

const registrations = handlers.split('setHandler(').slice(1);

test('there are such updates, and each has a handler', () => {
  expect(saying).toEqual(expect.arrayContaining(['decideUpdate', 'sayUpdate', 'stopUpdate', ...answering]));
});

test.each(saying.filter((name) => ![...answering, ...dispatched].includes(name)))(
  '%s: its validator verifies the signature, its handler takes it off',
  (name) => {
    const own = registrations.find((registration) => registration.trimStart().startsWith(`${name},`)) ?? '';
    expect(own).toMatch(/\bopened(Decision)?\(live, input/);
    expect(own).toMatch(/validator: \(input\) =>[^]*\bassertSigned(Answer)?\(live, /);
  },
);

test('what answers a request about something else than consent is registered in the one way that verifies', () => {
  for (const name of answering) expect(pauses).toContain(`register(live, ${name}, `);
  expect(pauses).toMatch(
    /function validate[^]*?openedAnswer\(live, input, taker\.parse\)[^]*?assertSignedAnswer\(live, taker\.purpose, answer\);\s+const admission/,
  );
  expect(pauses).toMatch(/function take[^]*?openedAnswer\(live, input, taker\.parse\)/);
});

test('the signal verifies before it admits', () => {
  expect(handlers).toMatch(/refuseUnsigned\(live, decision\) \?\? admi/);
});

describe('a catalog', () => {
  const catalog = readFileSync(join(ROOT, 'workflows/catalog/handlers.ts'), 'utf8');

  test('registers every update that says something in the one way that verifies', () => {
    const own = readFileSync(join(ROOT, 'workflows/catalog/messages.ts'), 'utf8');
    const names = [...own.matchAll(/export const (\w+) = defineUpdate<\w+, \[unknown\]>/g)].map(
      ([, name]) => name ?? '',
    );
    expect(names).toContain('connectUpdate');
    for (const name of names) expect(catalog).toContain(`register(live, ${name}, {`);
  });

  test('its validator verifies before it looks at anything else, its handler takes the signature off', () => {
    expect(catalog).toMatch(
      /validator: \(input\) => \{\s+assertOpenable\(live, input\);[^]*?assertSignedChange\(live, [^]*?repeated/,
    );
    expect(catalog).toMatch(
      /async \(input\) => \{\s+assertReadable\(input\);\s+live\.updates \+= 1;\s+const opened = openedChange\(live, input\);/,
    );
  });
});
