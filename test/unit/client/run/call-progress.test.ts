/** Telling how far calls have come is beside the watch: it ends no watch, and ends with it. */
import { describe, expect, test } from '@jest/globals';
import { defaultPayloadConverter, toPayloads } from '@temporalio/common';
import {
  type CallProgress,
  readProgress,
  tellingOnce,
  tellWhile,
  type Underway,
} from '../../../../client/run/progress.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';

const at = (progress: number): CallProgress => ({ callId: 't1.c0', sentAt: '2026-01-01T00:00:00.000Z', progress });

/** Looks that answer in turn; the last one ends what is waited for, as an event would. */
function scene(...looks: readonly (Underway | Error)[]) {
  const told: number[][] = [];
  let asked = 0;
  let end: (how: 'well' | 'badly') => void = () => undefined;
  const waiting = new Promise<void>((resolve, reject) => {
    end = (how) => (how === 'well' ? resolve() : reject(new Error('the watch has its own trouble')));
  });
  const look = async (): Promise<Underway> => {
    const next = looks[asked];
    asked += 1;
    if (asked === looks.length) end('well');
    if (next === undefined) throw new Error('asked after the end');
    return await (next instanceof Error ? Promise.reject(next) : Promise.resolve(next));
  };
  const tell = (all: Underway): void => void told.push(all.progress.map(({ progress }) => progress));
  return { told, waiting, look, tell, end, asked: () => asked };
}

test('an execution that cannot be looked at is looked at again, and what it says then is told', async () => {
  const away = new Error('no answer');
  const { told, waiting, look, tell, asked } = scene(away, away, { waits: true, progress: [at(0.5)], retries: [] });
  await tellWhile(waiting, look, tell, 1);
  expect([asked(), told]).toEqual([3, [[0.5]]]);
});

test('where no worker waits for an answer, nothing is looked at before the next event', async () => {
  const { told, waiting, look, tell, asked } = scene(
    { waits: false, progress: [], retries: [] },
    { waits: true, progress: [at(1)], retries: [] },
  );
  await tellWhile(waiting, look, tell, 1);
  expect([asked(), told]).toEqual([1, [[]]]);
});

test('what ends the watch badly ends the telling, and is left to the watch to say', async () => {
  const { waiting, look, tell, end, asked } = scene(
    { waits: true, progress: [], retries: [] },
    { waits: true, progress: [], retries: [] },
  );
  end('badly');
  await expect(tellWhile(waiting, look, tell, 60_000)).resolves.toBeUndefined();
  await expect(waiting).rejects.toThrow('its own trouble');
  expect(asked()).toBe(1);
});

test('each word of a server is told once, for each call', () => {
  const heard: CallProgress[] = [];
  const tell = tellingOnce<CallProgress>(
    ({ progress }) => progress,
    (news) => void heard.push(...news),
  );
  const other = { ...at(0.5), callId: 't1.c1' };
  tell([at(0.5)]);
  tell([at(0.5), other]);
  tell([]);
  tell([at(0.75), other]);
  expect(heard).toEqual([at(0.5), other, at(0.75)]);
});

/** As Temporal describes an execution whose activities said this last. */
async function read(...heartbeats: readonly unknown[]): Promise<Underway> {
  return await readOf('callTool', ...heartbeats);
}

async function readOf(name: string, ...heartbeats: readonly unknown[]): Promise<Underway> {
  const pendingActivities = heartbeats.map((details) => ({
    activityType: { name },
    heartbeatDetails: { payloads: toPayloads(defaultPayloadConverter, details) },
  }));
  const client = fakeClient({
    workflow: { getHandle: () => ({ describe: async () => await Promise.resolve({ raw: { pendingActivities } }) }) },
    options: { loadedDataConverter: { payloadConverter: defaultPayloadConverter, payloadCodecs: [] } },
  });
  return await readProgress(client, 'nightly', 'run-1');
}

test('a heartbeat says what it says, as far as it can be believed', async () => {
  const odd = [{ callId: '\u001b[2J' }, { sentAt: '\u001b]0;owned\u0007' }].map((over) => ({ ...at(1), ...over }));
  expect(await read({ ...at(0.5), phase: 'sent', total: 2 }, ...odd, at(3))).toEqual({
    waits: true,
    progress: [{ ...at(0.5), total: 2 }, at(3)],
    retries: [],
  });
});

describe.each(['stretch', 'prepareRun'])('the heartbeat of `%s`', (name) => {
  const beat = (progress: unknown): object => ({ turns: [], progress });
  const heard = async (...beats: readonly unknown[]): Promise<Underway['progress']> =>
    (await readOf(name, ...beats)).progress;

  test('says it of each call under way', async () => {
    const other = { ...at(3), callId: 't1.c1', total: 4 };
    expect(await heard(beat([at(0.5), other]))).toEqual([at(0.5), other]);
  });

  test('says nothing where it has only a record', async () => {
    expect(await heard({ turns: [] }, undefined, 'odd', beat('odd'), at(1))).toEqual([]);
  });

  test('is read as far as it can be believed, and no further than a worker writes', async () => {
    const odd = [{ ...at(1), callId: '\u001b[2J' }, null, { ...at(1), progress: '9' }, at(2)];
    expect(await heard(beat(odd))).toEqual([at(2)]);
    expect(await heard(beat(Array.from({ length: 1_000 }, () => at(1))))).toHaveLength(20);
  });
});
