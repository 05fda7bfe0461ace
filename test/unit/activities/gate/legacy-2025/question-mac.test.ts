/** That a worker of the zone was asked a question, and nobody else has written it (INV-G1). */
import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { createQuestionMacs, type QuestionMacs } from '../../../../../activities/gate/legacy-2025/open-question.ts';
import { derivedFrom } from '../../../../../activities/mcp/state-seal.ts';
import { FormRequest, InputRequests } from '../../../../../contracts/schemas/input.ts';
import type { DispatchInput } from '../../../../../contracts/wire/tools.ts';
import { NAME, PAGE } from '../../../../support/builders/provision.ts';

const REQUESTS: InputRequests = { who: NAME, page: PAGE };
const PEM = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' });

function macsOf(...keys: readonly string[]): QuestionMacs {
  const macs = createQuestionMacs(keys.map((key) => Buffer.from(key.padEnd(32, key))));
  if (macs === undefined) throw new Error('there is a key');
  return macs;
}

// Sound: only the fields that are bound.
const callWith = (over: object = {}): DispatchInput =>
  ({
    run: { namespace: 'default', workflowId: 'run-1' },
    callId: 't1.c0',
    target: { serverUrl: 'https://s.example', tool: 'pay' },
    server: { name: 'bank' },
    arguments: { amount: 1 },
    ...over,
  }) as unknown as DispatchInput;

const macs = macsOf('one');
const marked = macs.marked(REQUESTS, callWith());

test('each question has its own, as the schema has it, and nothing else of it changes', () => {
  const { who, page } = InputRequests.parse(marked);
  expect(marked).toEqual({ who: { ...NAME, mac: who?.mac }, page: { ...PAGE, mac: page?.mac } });
  expect(who?.mac).not.toBe(page?.mac);
  expect(macs.areOurs(marked, callWith())).toBe(true);
  // What was answered besides is left out where people are asked the others.
  expect(macs.areOurs({ who: marked['who'] ?? NAME }, callWith())).toBe(true);
  // Marked again it is the same: what is compared stays equal.
  expect(macs.marked(marked, callWith())).toEqual(marked);
});

describe('it is none of ours', () => {
  const { who = NAME } = marked;
  const FORM = FormRequest.parse(NAME);
  test.each<[string, InputRequests]>([
    ['with another text', { who: { ...who, message: 'Do you like blue?' } }],
    ['with the hash of another question', { who: { ...who, hash: PAGE.hash } }],
    ['with other fields', { who: { ...FORM, fields: {}, mac: who.mac } }],
    ['under another key', { other: who }],
    ['of another kind', { who: { ...PAGE, hash: who.hash, mac: who.mac } }],
    ['without one', { who: NAME }],
    ['with one that is none', { who: { ...NAME, mac: 'f'.repeat(64) } }],
    ['with one of another length', { who: { ...NAME, mac: 'ff' } }],
    ['beside one that is', { ...marked, more: NAME }],
  ])('%s', (_, requests: InputRequests) => {
    expect(macs.areOurs(requests, callWith())).toBe(false);
  });

  test.each<[string, object]>([
    ['another namespace', { run: { namespace: 'other', workflowId: 'run-1' } }],
    ['another run', { run: { namespace: 'default', workflowId: 'run-2' } }],
    ['another call', { callId: 't1.c1' }],
    ['another URL', { target: { serverUrl: 'https://t.example', tool: 'pay' } }],
    ['another server of the same URL', { server: { name: 'admin' } }],
    ['another tool', { target: { serverUrl: 'https://s.example', tool: 'refund' } }],
    ['a call with other arguments', { arguments: { amount: 2 } }],
  ])('in %s', (_, over) => {
    expect(macs.areOurs(marked, callWith(over))).toBe(false);
  });
});

describe('keys', () => {
  test('rotate: the first marks, all prove; one that is gone proves nothing', () => {
    const rotated = macsOf('two', 'one');
    expect(rotated.areOurs(marked, callWith())).toBe(true);
    const fresh = rotated.marked(REQUESTS, callWith());
    expect(fresh).not.toEqual(marked);
    // What answers are matched by is the same.
    expect(fresh['who']?.hash).toBe(marked['who']?.hash);
    expect(macs.areOurs(fresh, callWith())).toBe(false);
    expect(macsOf('two').areOurs(marked, callWith())).toBe(false);
  });

  test('without one nothing is marked', () => {
    expect(createQuestionMacs([])).toBeUndefined();
  });

  test('one for this is no key for anything else', () => {
    const pem = String(PEM);
    expect(derivedFrom(pem, 'questions')).toEqual(derivedFrom(pem, 'questions'));
    expect(derivedFrom(pem, 'questions')).not.toEqual(derivedFrom(pem));
  });
});
