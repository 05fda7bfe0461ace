/** Reading visibility: a call that is never answered ends nothing but itself. */
import { expect, test } from '@jest/globals';
import { Projection } from '../../../gateway/projection/projection.ts';
import { rowOf, stuckRuns } from '../../../gateway/projection/visibility.ts';
import { fakeClient } from '../../support/servers/fake-client.ts';
import { until } from '../../support/until.ts';

/** A client of a Temporal that answers once, and then never until the caller gives up. */
function silentAfter(answers: number) {
  let left = answers;
  let aborts = new AbortController().signal;
  const deadlines: number[] = [];
  const call = async () => {
    if (left > 0) {
      left -= 1;
      return { executions: [], nextPageToken: new Uint8Array() };
    }
    return await new Promise<never>((_, reject) => aborts.addEventListener('abort', () => reject(new Error('away'))));
  };
  const withAbortSignal = async <T>(signal: AbortSignal, ask: () => Promise<T>) => {
    aborts = signal;
    return await ask();
  };
  const workflowService = { listWorkflowExecutions: call, describeWorkflowExecution: call };
  return { client: fakeClient({ connection: { withAbortSignal }, workflowService }, deadlines), deadlines };
}

test('each call has a deadline, and a gateway stops although Temporal does not answer', async () => {
  const { client, deadlines } = silentAfter(2);
  const projection = new Projection({ client, most: 100, everyMs: 1 });
  await projection.start();
  await until(() => deadlines.length === 3, { what: 'a call that is not answered' });
  await projection.stop();
  for (const at of deadlines) expect(at).toBeGreaterThan(0);
});

test('reading one run has a deadline', async () => {
  const { client, deadlines } = silentAfter(1);
  expect(await rowOf(client, 'run-1')).toBeUndefined();
  expect(deadlines).toHaveLength(1);
});

/** A client of a Temporal without runs, which counts so. */
function counting(count: () => Promise<{ readonly count: bigint }>) {
  const asked: unknown[] = [];
  const workflowService = {
    listWorkflowExecutions: async () => ({ executions: [], nextPageToken: new Uint8Array() }),
    countWorkflowExecutions: async (query: unknown) => {
      asked.push(query);
      return await count();
    },
  };
  return { client: fakeClient({ workflowService }), asked };
}

/** As gRPC's client fails with this status. */
async function failing(code: number): Promise<never> {
  throw Object.assign(new Error('refused'), { code, details: 'refused', metadata: {} });
}

const { signal } = new AbortController();

test('runs that do not go on are counted by one query, as Temporal marks them', async () => {
  const { client, asked } = counting(async () => ({ count: 7n }));
  expect(await stuckRuns(client, signal)).toBe(7);
  expect(asked).toEqual([
    {
      namespace: 'default',
      query:
        "WorkflowType = 'agentRun' AND ExecutionStatus = 'Running' AND TemporalReportedProblems IN ('category=WorkflowTaskFailed', 'category=WorkflowTaskTimedOut')",
    },
  ]);
});

test('a Temporal that marks no runs says that it cannot tell, and one that is away says nothing', async () => {
  expect(await stuckRuns(counting(async () => await failing(3)).client, signal)).toBeUndefined();
  await expect(stuckRuns(counting(async () => await failing(14)).client, signal)).rejects.toThrow('refused');
});

test('a gateway counts once for many sweeps and for all who look, and only where it is told to', async () => {
  const sweeping = async (
    stuckEveryMs: number | undefined,
    count: () => Promise<{ readonly count: bigint }>,
    least = 0,
  ) => {
    const { client, asked } = counting(count);
    const projection = new Projection({
      client,
      most: 100,
      everyMs: 1,
      ...(stuckEveryMs === undefined ? {} : { stuckEveryMs }),
    });
    await projection.start();
    const { asOf = 0 } = projection;
    await until(() => (projection.asOf ?? 0) > asOf + 20 && asked.length >= least, { what: 'some sweeps' });
    await projection.stop();
    return { stuck: projection.stuck, times: asked.length };
  };
  expect(await sweeping(600_000, async () => ({ count: 7n }))).toEqual({ stuck: 7, times: 1 });
  expect(await sweeping(1, async () => await failing(3))).toEqual({ stuck: undefined, times: 1 });
  expect(await sweeping(undefined, async () => ({ count: 7n }))).toEqual({ stuck: undefined, times: 0 });
  // What was known stays while Temporal is away, and it is asked again.
  let times = 0;
  const away = await sweeping(1, async () => ((times += 1) === 1 ? { count: 7n } : await failing(14)), 2);
  expect(away.stuck).toBe(7);
  expect(away.times).toBeGreaterThan(1);
});
