/** What readers of all changes are told: each run as it answers, each reader at its own pace. */
import { expect, test } from '@jest/globals';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import { NewsDesk } from '../../../gateway/projection/news.ts';
import type { Opened } from '../../../gateway/projection/opened.ts';
import type { Known, Projection } from '../../../gateway/projection/projection.ts';
import { approvalRequest } from '../../support/builders/approval-request.ts';
import { heldBytes } from '../../support/heap.ts';
import { until } from '../../support/until.ts';
import { asker, known } from '../../support/scenes/asking.ts';

const REQUEST = approvalRequest();

function desk() {
  let tell = (_: readonly Known[]): void => undefined;
  const waiting = new Map<string, (requests: readonly ApprovalRequest[]) => void>();
  const projection = {
    asOf: 0,
    subscribe: (listener: typeof tell) => {
      tell = listener;
      return () => undefined;
    },
  };
  const opened = {
    requests: async (runId: string) =>
      await new Promise<readonly ApprovalRequest[]>((resolve) => waiting.set(runId, resolve)),
    knownRules: () => [REQUEST.approvers],
  };
  return {
    // Sound: these are what it uses of both.
    news: new NewsDesk(projection as unknown as Projection, opened as unknown as Opened),
    change: (...changed: readonly Known[]) => tell(changed),
    answer: async (runId: string, request = REQUEST) => {
      (await until(() => waiting.get(runId)))([request]);
      waiting.delete(runId);
    },
  };
}

const READER = asker({ seesAll: true });

test('a run that does not answer holds up no news of others', async () => {
  const { news, change, answer } = desk();
  const told: string[] = [];
  news.follow(READER, undefined, (_, { run }) => void told.push(run));
  change(known({ runId: 'stuck', pending: 1 }), known({ runId: 'well', pending: 1 }));
  await answer('well');
  await until(() => told.length === 1);
  expect(told).toEqual(['well']);
  await answer('stuck');
  await until(() => told.length === 2);
  expect(told).toEqual(['well', 'stuck']);
});

test('changes of one run are told in their order', async () => {
  const { news, change, answer } = desk();
  const told: number[] = [];
  news.follow(READER, undefined, (_, { pending }) => void told.push(pending));
  change(known({ runId: 'run-1', pending: 1 }));
  change(known({ runId: 'run-1', pending: 0 }));
  await answer('run-1');
  await until(() => told.length === 2);
  expect(told).toEqual([1, 0]);
});

test('what a reader missed waits until the reader has taken what came before', async () => {
  const { news, change } = desk();
  const ids: string[] = [];
  const first = news.follow(READER, undefined, (id) => void ids.push(id));
  const since = news.newest;
  change(...Array.from({ length: 5 }, (_, index) => known({ runId: `run-${index}` })));
  await until(() => ids.length === 5);
  const slow: string[] = [];
  let release = (): void => undefined;
  const gate = new Promise<void>((resolve) => (release = resolve));
  news.follow(READER, since, async (id) => {
    slow.push(id);
    await gate;
  });
  expect(slow).toEqual(ids.slice(0, 1));
  release();
  await until(() => slow.length === 5);
  expect(slow).toEqual(ids);
  first.end();
});

test('a reader so slow that events are gone is told so once, and then what follows', async () => {
  const { news, change } = desk();
  const quick: string[] = [];
  const slow: string[] = [];
  let lost = 0;
  let release = (): void => undefined;
  const gate = new Promise<void>((resolve) => (release = resolve));
  const takeSlowly = async (id: string): Promise<void> => {
    slow.push(id);
    await gate;
  };
  news.follow(READER, undefined, takeSlowly, () => (lost += 1));
  news.follow(READER, undefined, (id) => void quick.push(id));
  change(...Array.from({ length: 2_500 }, (_, index) => known({ runId: `run-${index}` })));
  await until(() => quick.length === 2_500);
  release();
  await until(() => lost === 1);
  change(known({ runId: 'last' }));
  await until(() => slow.length === 2);
  expect(slow).toEqual([quick[0], quick[2_500]]);
  expect(lost).toBe(1);
});

/** Has runs changed and answered, each by a request of its own. */
async function tellOf(
  { news, change, answer }: ReturnType<typeof desk>,
  requests: Iterable<ApprovalRequest>,
): Promise<readonly string[]> {
  const ids: string[] = [];
  news.follow(READER, undefined, (id) => void ids.push(id));
  for (const request of requests) {
    const [runId, before] = [`run-${ids.length}`, ids.length];
    change(known({ runId, pending: 1 }));
    await answer(runId, request);
    await until(() => ids.length > before);
  }
  return ids;
}

test('the arguments of a request are not kept with the events that tell of it', async () => {
  const all = desk();
  function* large(): Iterable<ApprovalRequest> {
    for (let index = 0; index < 30; index += 1)
      yield { ...REQUEST, arguments: { list: Array.from({ length: 20_000 }, () => ({})) } };
  }
  const before = heldBytes();
  const ids = await tellOf(all, large());
  // Each has more than a megabyte of them.
  expect(heldBytes() - before).toBeLessThan(8_000_000);
  expect(all.news.follow(READER, ids[0], () => undefined)).toMatchObject({ missed: false });
});

test('events that name very many people are kept as far as they have room, and the newest always is', async () => {
  const all = desk();
  const people = (length: number): ApprovalRequest => {
    const ids = Array.from({ length }, (_, index) => `somebody-${index}@example.com`);
    return { ...REQUEST, approvers: { allOf: [{ layer: 'organisation', ids, groups: [] }] } };
  };
  const many = people(20_000);
  const ids = await tellOf(
    all,
    Array.from({ length: 40 }, () => many),
  );
  const missed = (index: number): boolean => all.news.follow(READER, ids[index], () => undefined).missed;
  expect([missed(0), missed(38)]).toEqual([true, false]);
  const [last = ''] = await tellOf(all, [people(500_000)]);
  expect(last).toBe(all.news.newest);
  expect(missed(39)).toBe(false);
});
