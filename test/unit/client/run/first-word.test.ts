/** What a starter is told of the first events of its run. */
import { expect, test } from '@jest/globals';
import { defaultPayloadConverter } from '@temporalio/common';
import { loadDataConverter } from '@temporalio/common/lib/internal-non-workflow/index.js';
import type { Engine } from '../../../../client/engine/engine.ts';
import { firstWord } from '../../../../client/run/start-run.ts';

const answered = (value: unknown) => ({
  activityTaskCompletedEventAttributes: { result: { payloads: [defaultPayloadConverter.toPayload(value)] } },
});
const asked = (name: string) => ({ activityTaskScheduledEventAttributes: { activityType: { name } } });
const TAKEN = { eventType: 7 };
const PREPARED = { specHash: 'hash' };
const list = (server: string, ...missing: readonly string[]) => ({
  server,
  tools: { sha256: 'a'.repeat(64), bytes: 1, contentType: 'application/json' },
  count: 1,
  refused: [],
  missing: missing.map((name) => ({ name, near: ['lookup'] })),
});

/** Each page is what one long poll answers; then nothing more comes. */
async function wordOf(...pages: readonly (readonly object[])[]) {
  const left = [...pages];
  const getWorkflowExecutionHistory = async () => {
    const events = left.shift();
    if (events === undefined) throw new Error('it was asked again');
    return { history: { events }, nextPageToken: new Uint8Array([1]) };
  };
  const client = {
    connection: { workflowService: { getWorkflowExecutionHistory } },
    options: { namespace: 'default', loadedDataConverter: loadDataConverter(undefined) },
  };
  // Sound: the reader uses nothing else of an engine.
  const engine = { client, read: async (_: string, act: () => Promise<unknown>) => await act() } as unknown as Engine;
  return await firstWord(engine, 'run-1', 60_000);
}

test('the first activity may tell of all lists: the starter waits for no other event', async () => {
  const begun = { ...PREPARED, found: [list('bank', 'lokup'), list('open')] };
  expect(await wordOf([TAKEN], [answered(begun)])).toEqual({
    word: 'taken',
    missing: [{ server: 'bank', name: 'lokup', near: ['lookup'] }],
  });
  expect(await wordOf([TAKEN, answered({ ...PREPARED, found: [7, { server: 'bank' }] })])).toEqual({
    word: 'taken',
    missing: [],
  });
});

test.each(['modelStep', 'stretch'])('lists that are asked for one by one are there when %s is', async (name) => {
  const pages = [[TAKEN, answered(PREPARED)], [answered(list('bank', 'lokup'))], [asked(name)]];
  expect(await wordOf(...pages)).toEqual({
    word: 'taken',
    missing: [{ server: 'bank', name: 'lokup', near: ['lookup'] }],
  });
});
