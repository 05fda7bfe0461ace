/** Whether an open question was asked by a worker of the zone, and whether its answer counts (INV-G1). */
import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, jest, test } from '@jest/globals';
import type { ReadCatalog } from '../../../../../activities/catalog/reader.ts';
import { type HeldAnswerParts, peopleOf } from '../../../../../activities/gate/legacy-2025/open-answer.ts';
import { createQuestionMacs, type QuestionMacs } from '../../../../../activities/gate/legacy-2025/open-question.ts';
import type { Refused, Scheduler } from '../../../../../activities/kit/activity.ts';
import type { AskPeople } from '../../../../../activities/mcp/port.ts';
import { derivedFrom } from '../../../../../activities/mcp/state-seal.ts';
import { Conditions } from '../../../../../activities/policy/condition.ts';
import { CountersignError, type ErrorCode } from '../../../../../contracts/errors.ts';
import { READ_RESOURCE } from '../../../../../contracts/names.ts';
import type { CatalogSnapshot } from '../../../../../contracts/schemas/catalog.ts';
import { Config } from '../../../../../contracts/schemas/config.ts';
import { FormRequest, InputRequests, type InputResponse } from '../../../../../contracts/schemas/input.ts';
import type { DispatchInput } from '../../../../../contracts/wire/tools.ts';
import { definitionHash } from '../../../../../domain/request/digest.ts';
import type { OfferedTool } from '../../../../../domain/run/toolset.ts';
import { answeredQuestion } from '../../../../support/activities/held-activity.ts';
import { fakeRun } from '../../../../support/activities/held-run.ts';
import { allowedDispatch, inActivity } from '../../../../support/activities/tool-activities.ts';
import { catalogSnapshot } from '../../../../support/builders/catalog.ts';
import { NAME, PAGE } from '../../../../support/builders/provision.ts';

// That a worker of the zone was asked a question, and nobody else has written it (INV-G1).

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

// Trust mode `signed`: an answer to a held question is proven as one that a dispatch is given (INV-G1).

const server = { name: 'peer', url: 'https://peer.example/mcp' };
const definition = { name: 'deploy', inputSchema: { type: 'object' } };
const tool: OfferedTool = {
  server: 'peer',
  serverUrl: server.url,
  modelName: 'peer__deploy',
  definition,
  hash: definitionHash(definition),
};
const input: DispatchInput = {
  ...allowedDispatch(tool, {}, [], { server }),
  hold: { seconds: 60 },
};
const { run: identity, runId } = input;
const scheduler: Scheduler = {
  namespace: identity.namespace,
  activity: 'callTool',
  workflowType: 'agentRun',
  workflowId: identity.workflowId,
  runId,
  attempt: 1,
  scheduledAt: 0,
  attemptAt: 0,
};
const config = Config.parse({
  servers: { peer: { url: server.url, elicitation: { holdSeconds: 60 } } },
  policy: { strategy: 'never' },
});
const requests: InputRequests = {
  question: { kind: 'form', message: 'Sure?', fields: {}, required: [], hash: 'a'.repeat(64) },
};
const YES: InputResponse = { action: 'accept', content: {} };

const none: ReadCatalog = () => Promise.resolve(undefined);

/** What the server hears of a good answer. */
async function hears(more: Partial<HeldAnswerParts>): Promise<InputResponse> {
  const run = fakeRun();
  return await inActivity(async () => {
    const people = peopleIn({ heldRun: run, ...more });
    if (people === undefined) throw new Error('nobody can be asked');
    const answer = people(requests, new AbortController().signal);
    const questions = await run.hasAsked(1);
    run.says({ kind: 'answered', provided: answeredQuestion(input, questions, YES) });
    return await answer;
  }, undefined);
}

function peopleIn(more: Partial<HeldAnswerParts>, over: Partial<DispatchInput> = {}, of = tool): AskPeople | undefined {
  const parts = { config, conditions: new Conditions(), readCatalog: none, heldRun: fakeRun(), ...more };
  const now = { tool: of, pinned: of };
  return peopleOf({ ...input, ...over }, parts, { scheduler, now })?.ask;
}

test('signed, it is given; and what is checked is this answer, to this question, by Temporal’s word on the run', async () => {
  const checked: [DispatchInput, Scheduler][] = [];
  const checkSignatures = async (...each: [DispatchInput, Scheduler]): Promise<undefined> => {
    checked.push(each);
    await Promise.resolve();
  };
  expect(await hears({ checkSignatures })).toEqual(YES);
  expect(checked).toEqual([
    [
      {
        ...input,
        input: {
          provided: [expect.objectContaining({ about: { kind: 'input', round: 1, requests, held: true } })],
          leg: { round: 1, requests: { question: { hash: 'a'.repeat(64) } }, used: [] },
        },
      },
      scheduler,
    ],
  ]);
});

test('unsigned, or signed by a key that was revoked, it is not', async () => {
  const refused: Refused = { kind: 'reopen', code: 'SIGNATURE_INVALID', message: 'no', asks: 'input' };
  expect(await hears({ checkSignatures: () => Promise.resolve(refused) })).toEqual({ action: 'cancel' });
});

/** Cannot be read at first, and then has nothing against it. */
function awayOnce(code: ErrorCode) {
  return jest
    .fn<() => Promise<undefined>>()
    .mockRejectedValueOnce(new CountersignError(code, 'just now'))
    .mockResolvedValue(undefined);
}

test('while keys cannot be read, it waits; people have answered', async () => {
  const checkSignatures = awayOnce('ENGINE_UNAVAILABLE');
  expect(await hears({ checkSignatures })).toEqual(YES);
  expect(checkSignatures).toHaveBeenCalledTimes(2);
});

describe('the catalog as it is when the answer is there counts, whatever it was as the call left (INV-G4)', () => {
  const connected = { tenant: 'default', server: 'peer', connection: { url: server.url, trusted: false } };
  const CONNECTED = catalogSnapshot([], connected);

  test.each<[string, CatalogSnapshot, InputResponse]>([
    ['connected: it is given', CONNECTED, YES],
    ['disconnected meanwhile: it is not', { ...CONNECTED, status: 'disconnected' }, { action: 'cancel' }],
  ])('%s', async (_, snapshot, heard) => {
    const asked: unknown[] = [];
    const readCatalog: ReadCatalog = (catalog) => {
      asked.push(catalog);
      return Promise.resolve(snapshot);
    };
    expect(await hears({ readCatalog })).toEqual(heard);
    expect(asked).toEqual([{ tenant: 'default', server: 'peer' }]);
  });

  test('gone, of a server that has one: it is not', async () => {
    const run = fakeRun();
    const over = { server: { ...server, catalog: true as const } };
    const heard = await inActivity(async () => {
      const answer = peopleIn({ heldRun: run }, over)?.(requests, new AbortController().signal);
      const questions = await run.hasAsked(1);
      run.says({ kind: 'answered', provided: answeredQuestion(input, questions, YES) });
      return await answer;
    }, undefined);
    expect(heard).toEqual({ action: 'cancel' });
  });

  test('while it cannot be read, it waits', async () => {
    const readCatalog = awayOnce('CATALOG_UNAVAILABLE');
    expect(await hears({ readCatalog })).toEqual(YES);
    expect(readCatalog).toHaveBeenCalledTimes(2);
  });
});

test('nobody is asked where the run or the operator does not say how, nor of a read', async () => {
  const without = Config.parse({ servers: { peer: { url: server.url } }, policy: { strategy: 'never' } });
  const read = { ...tool, definition: { ...definition, name: READ_RESOURCE } };
  const { hold: _, ...plain } = input;
  await inActivity(async () => {
    const heldRun = fakeRun();
    expect(peopleIn({ heldRun })).toBeDefined();
    expect(peopleIn({ heldRun, config: without })).toBeUndefined();
    expect(peopleIn({ heldRun }, {}, read)).toBeUndefined();
    const parts = { config, conditions: new Conditions(), readCatalog: none, heldRun };
    expect(peopleOf(plain, parts, { scheduler, now: { tool, pinned: tool } })).toBeUndefined();
    await Promise.resolve();
  }, undefined);
});
