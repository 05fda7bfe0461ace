/** The first activity of a run: it goes on where it may, and only the check of the spec fails the run (docs/adr/0062). */
import { expect, test } from '@jest/globals';
import { ActivityCancelledError, ActivityPausedError } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { type BeginParts, createBegin } from '../../../../activities/stretch/begin.ts';
import type { RunSpecInput } from '../../../../contracts/schemas/run-spec.ts';
import type { Discovery, ServerBinding } from '../../../../contracts/schemas/tool.ts';
import type { PreparedRun } from '../../../../contracts/wire/run.ts';
import type { BeginRecord, BegunRun } from '../../../../contracts/wire/stretch.ts';
import { failureOf } from '../../../../contracts/failure.ts';
import { preparedRun } from '../../../support/builders/prepared-run.ts';
import { runSpecInput } from '../../../support/builders/run-spec.ts';
import { until } from '../../../support/until.ts';

const BOUNDS = { turns: 5, seconds: 15, bytes: 100_000 };
const SERVERS: readonly ServerBinding[] = ['files', 'mail'].map((name) => ({ name, url: `https://${name}.test/mcp` }));
const ANSWER = {
  parts: [{ type: 'text' as const, text: 'Hi.' }],
  usage: { inputTokens: 1, outputTokens: 1 },
  finish: 'stop' as const,
};

function found(server: string, over: Partial<Discovery> = {}): Discovery {
  const tools = { sha256: 'e'.repeat(64), bytes: 2, contentType: 'application/json' };
  return { server, tools, count: 1, refused: [], ...over };
}

function prepared(over: Partial<PreparedRun> = {}): PreparedRun {
  return { ...preparedRun(), servers: SERVERS, stretch: BOUNDS, ...over };
}

async function begun(
  over: Partial<BeginParts> = {},
  { left, alone }: { left?: BeginRecord; alone?: true } = {},
): Promise<{ readonly answer: BegunRun; readonly told: readonly BeginRecord[] }> {
  const told: BeginRecord[] = [];
  const activity = createBegin({
    prepareRun: async () => prepared(),
    discoverTools: async ({ server }) => found(server.name),
    modelStep: async () => ANSWER,
    callTool: async () => {
      throw new Error('no call was proposed');
    },
    believesRecords: true,
    cancelsCalls: async () => false,
    completion: {
      heartbeat: async (_, record) => void told.push(record),
      complete: async () => undefined,
      fail: async () => undefined,
    },
    ...over,
  });
  const environment = new MockActivityEnvironment(
    { scheduledTimestampMs: Date.now(), ...(left && { heartbeatDetails: left }) },
    { logger: new DefaultLogger('ERROR') },
  );
  const more: [] | [true] = alone === true ? [true] : [];
  const answer = await environment.run<[RunSpecInput, ...([] | [true])], BegunRun, typeof activity>(
    activity,
    runSpecInput(),
    ...more,
  );
  return { answer, told };
}

test('lists the tools of all servers, and takes the first stretch', async () => {
  const { answer } = await begun();
  expect(answer.found?.map(({ server }) => server)).toEqual(['files', 'mail']);
  expect(answer.times?.listed).toBeGreaterThanOrEqual(answer.times?.prepared ?? Number.NaN);
  expect(answer.turns).toMatchObject([{ step: ANSWER }]);
});

test.each<[string, Partial<BeginParts>, { alone?: true }]>([
  ['the run is to do the rest itself', {}, { alone: true }],
  ['the run takes no stretches', { prepareRun: async () => preparedRun() }, {}],
  ['the worker calls no servers', { discoverTools: undefined }, {}],
  ['records are not believed', { believesRecords: false }, {}],
  [
    'a server has a queue of its own',
    { prepareRun: async () => prepared({ servers: SERVERS.map((server) => ({ ...server, taskQueue: 'mail' })) }) },
    {},
  ],
  [
    'one list does not come',
    {
      discoverTools: async ({ server }) => {
        if (server.name === 'mail') throw new Error('away');
        return found(server.name);
      },
    },
    {},
  ],
  [
    'one list wants another grant',
    {
      discoverTools: async ({ server }) =>
        server.name === 'mail'
          ? { server: 'mail', authorization: { reason: 'TOOL_FORBIDDEN', message: 'no', wants: 'grant' } }
          : found(server.name),
    },
    {},
  ],
  [
    'what it prepared is large',
    { prepareRun: async () => prepared({ opening: [{ role: 'user', text: 'x'.repeat(70_000) }] }) },
    {},
  ],
])('answers the prepared run alone where %s', async (_, parts, options) => {
  const { answer } = await begun(parts, options);
  expect(answer.specHash).toBe(preparedRun().specHash);
  expect(answer.found).toBeUndefined();
  expect(answer.turns).toBeUndefined();
});

test('takes no stretch where its lists are too large for the record', async () => {
  const refused = Array.from({ length: 50 }, (_, n) => ({ name: `t${n}`, reason: 'x'.repeat(1_500) }));
  const { answer } = await begun({ discoverTools: async ({ server }) => found(server.name, { refused }) });
  expect(answer.found).toHaveLength(2);
  expect(answer.turns).toBeUndefined();
});

test('leaves a model that does not answer to the run, with the lists', async () => {
  const { answer } = await begun({
    modelStep: async () => {
      throw new Error('away');
    },
  });
  expect(answer.found).toHaveLength(2);
  expect(answer.turns).toBeUndefined();
});

test('tells the run why its model refuses the first step for good, and the run need not ask again', async () => {
  const { answer } = await begun({
    modelStep: async () => {
      throw failureOf('MODEL_REJECTED', 'No.', { status: 401 });
    },
  });
  expect(answer).toMatchObject({ failed: { code: 'MODEL_REJECTED', message: 'No.', facts: { status: 401 } } });
  expect(answer.found).toHaveLength(2);
  expect(answer.turns).toBeUndefined();
});

test.each([
  ['may pass', failureOf('MODEL_UNAVAILABLE', 'Away.')],
  ['is the end of the step', new CancelledFailure('over')],
])('leaves a failure of the first step that %s to the run, which asks again', async (_, failure) => {
  const { answer } = await begun({
    modelStep: async () => {
      throw failure;
    },
  });
  expect(answer.found).toHaveLength(2);
  expect(answer.failed).toBeUndefined();
});

test.each([ActivityPausedError, ActivityCancelledError])(
  'leaves a refusal to the run once the activity is no longer wanted (%p)',
  async (Ended) => {
    const told: BeginRecord[] = [];
    const { answer } = await begun({
      modelStep: async () => {
        await until(() => told.length > 0, { what: 'a heartbeat' });
        throw failureOf('MODEL_REJECTED', 'No.');
      },
      completion: {
        heartbeat: async (_, record) => {
          told.push(record);
          throw new Ended('ended');
        },
        complete: async () => undefined,
        fail: async () => undefined,
      },
    });
    expect(answer.found).toHaveLength(2);
    expect(answer.failed).toBeUndefined();
  },
);

test('fails where the spec is refused', async () => {
  const refusing = begun({
    prepareRun: async () => {
      throw new Error('refused');
    },
  });
  await expect(refusing).rejects.toThrow('refused');
});

test('returns what an attempt before it has left, and asks nobody', async () => {
  const left: BeginRecord = {
    times: { prepared: 1, listed: 2 },
    prepared: prepared(),
    found: [found('files'), found('mail')],
    turns: [{ step: ANSWER, at: 1 }],
  };
  const nobody = async (): Promise<never> => {
    throw new Error('asked');
  };
  const { answer } = await begun({ prepareRun: nobody, discoverTools: nobody, modelStep: nobody }, { left });
  expect(answer.turns).toEqual(left.turns);
  expect(answer.found).toEqual(left.found);
  expect(answer.times).toEqual(left.times);
});

test('INV-S2: a record is not read where nobody proves it (trust mode signed)', async () => {
  const forged: BeginRecord = { prepared: prepared({ specHash: 'f'.repeat(64) }), found: [found('files')], turns: [] };
  const { answer, told } = await begun({ believesRecords: false }, { left: forged });
  expect(answer.specHash).toBe(preparedRun().specHash);
  expect(told).toEqual([]);
});
