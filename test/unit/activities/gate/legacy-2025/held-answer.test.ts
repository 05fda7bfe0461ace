/** Trust mode `signed`: an answer to a held question is proven as one that a dispatch is given (INV-G1). */
import { describe, expect, test } from '@jest/globals';
import type { ReadCatalog } from '../../../../../activities/catalog/reader.ts';
import { type HeldAnswerParts, peopleOf } from '../../../../../activities/gate/legacy-2025/open-answer.ts';
import type { AskPeople } from '../../../../../activities/mcp/port.ts';
import { Conditions } from '../../../../../activities/policy/condition.ts';
import { CountersignError } from '../../../../../contracts/errors.ts';
import { READ_RESOURCE } from '../../../../../contracts/names.ts';
import type { CatalogSnapshot } from '../../../../../contracts/schemas/catalog.ts';
import { Config } from '../../../../../contracts/schemas/config.ts';
import type { InputRequests, InputResponse } from '../../../../../contracts/schemas/input.ts';
import type { DispatchInput } from '../../../../../contracts/wire/tools.ts';
import { definitionHash } from '../../../../../domain/request/digest.ts';
import type { OfferedTool } from '../../../../../domain/run/toolset.ts';
import { answeredQuestion } from '../../../../support/activities/held-activity.ts';
import { fakeRun } from '../../../../support/activities/held-run.ts';
import { allowedDispatch, inActivity } from '../../../../support/activities/tool-activities.ts';
import type { Refused, Scheduler } from '../../../../../activities/kit/activity.ts';

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
  const parts = { config, conditions: new Conditions(), readCatalog: none, ...more };
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

test('while keys cannot be read, it waits; people have answered', async () => {
  let times = 0;
  const checkSignatures = (): Promise<undefined> => {
    times += 1;
    return times === 1
      ? Promise.reject(new CountersignError('ENGINE_UNAVAILABLE', 'just now'))
      : Promise.resolve(undefined);
  };
  expect(await hears({ checkSignatures })).toEqual(YES);
  expect(times).toBe(2);
});

describe('the catalog as it is when the answer is there counts, whatever it was as the call left (INV-G4)', () => {
  const CONNECTED: CatalogSnapshot = {
    tenant: 'default',
    server: 'peer',
    status: 'connected',
    connection: { url: server.url, trusted: false },
    revision: 1,
    mark: 'm1',
    policyVersion: 1,
    refreshes: 0,
    newTools: 'strategy',
    entries: [],
    listings: {},
    pending: [],
    ledgerLength: 0,
    ledgerHead: 'a'.repeat(64),
  };

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
    let times = 0;
    const readCatalog: ReadCatalog = () => {
      times += 1;
      return times === 1
        ? Promise.reject(new CountersignError('CATALOG_UNAVAILABLE', 'just now'))
        : Promise.resolve(undefined);
    };
    expect(await hears({ readCatalog })).toEqual(YES);
    expect(times).toBe(2);
  });
});

test('nobody is asked where the run, the operator, or this worker does not say how, nor of a read', async () => {
  const without = Config.parse({ servers: { peer: { url: server.url } }, policy: { strategy: 'never' } });
  const read = { ...tool, definition: { ...definition, name: READ_RESOURCE } };
  const { hold: _, ...plain } = input;
  await inActivity(async () => {
    const heldRun = fakeRun();
    expect(peopleIn({ heldRun })).toBeDefined();
    expect(peopleIn({})).toBeUndefined();
    expect(peopleIn({ heldRun, config: without })).toBeUndefined();
    expect(peopleIn({ heldRun }, {}, read)).toBeUndefined();
    const parts = { config, conditions: new Conditions(), readCatalog: none, heldRun };
    expect(peopleOf(plain, parts, { scheduler, now: { tool, pinned: tool } })).toBeUndefined();
    await Promise.resolve();
  }, undefined);
});
