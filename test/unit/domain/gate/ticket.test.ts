/** Which calls of MCP clients are equal: a ticket stands for one person, client, tool and set of arguments. */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  type GateCall,
  isGateRun,
  isTicketId,
  mayStart,
  ownerOf,
  runOfTicket,
  ticketIdOf,
} from '../../../../domain/gate/ticket.ts';
import { canonicalJson } from '../../../../domain/text/canonical.ts';
import { forAll } from '../../../support/for-all.ts';

const word = fc.string({ minLength: 1, maxLength: 12 });
const call: fc.Arbitrary<GateCall> = fc.record({
  tenant: word,
  person: word,
  client: word,
  server: word,
  tool: word,
  // Sound: JSON without -0, as a parser gives it.
  arguments: fc.dictionary(word, fc.oneof(word, fc.integer(), fc.boolean())) as fc.Arbitrary<GateCall['arguments']>,
});

test('two calls have one ticket exactly if all of person, client, tool and arguments are the same', () => {
  forAll(call, call, fc.boolean(), (one, other, same) => {
    const second = same ? { ...one } : other;
    expect(ticketIdOf(one) === ticketIdOf(second)).toBe(canonicalJson({ ...one }) === canonicalJson({ ...second }));
  });
});

test('any part that differs makes another ticket', () => {
  forAll(call, fc.constantFrom('tenant', 'person', 'client', 'server', 'tool'), (one, part) => {
    expect(ticketIdOf({ ...one, [part]: `${one[part]}x` })).not.toBe(ticketIdOf(one));
    expect(ticketIdOf({ ...one, arguments: { ...one.arguments, [`${part}-more`]: 1 } })).not.toBe(ticketIdOf(one));
  });
});

test('the order of arguments is none of their meaning, and no argument stands in an id', () => {
  const one = { tenant: 'acme', person: 'ann', client: 'coder', server: 'bank', tool: 'pay' };
  const id = ticketIdOf({ ...one, arguments: { amount: 12_345, to: 'secret-account' } });
  expect(ticketIdOf({ ...one, arguments: { to: 'secret-account', amount: 12_345 } })).toBe(id);
  expect(id).toMatch(/^gate\/acme\/[0-9a-f]{16}\/[0-9a-f]{64}$/);
  expect(isTicketId(id)).toBe(true);
  expect(id.startsWith(ownerOf(one))).toBe(true);
  expect(id.startsWith(ownerOf({ ...one, client: 'other' }))).toBe(false);
});

test('the run of a ticket is one that a client may name, and no other run is', () => {
  forAll(fc.uuid(), (execution) => expect(isGateRun(runOfTicket(execution))).toBe(true));
  for (const other of ['run-1', 'gate-', 'gate-../x', 'catalog/acme/bank', `gate-${'a'.repeat(37)}`])
    expect(isGateRun(other)).toBe(false);
});

test('a ticket starts its call for ten minutes, and reads it after that', () => {
  expect([mayStart(0), mayStart(599_999), mayStart(600_000), mayStart(86_400_000)]).toEqual([true, true, false, false]);
});
