/** Who is given claims (docs/adr/0047): answers to workflows on the queue of our runs, and what stands in them is Temporal's word. */
import { expect, test } from '@jest/globals';
import { ApplicationFailure, CancelledFailure, type Context } from '@temporalio/activity';
import { defaultPayloadConverter, type Headers, RawValue } from '@temporalio/common';
import type { ExecutionFacts, ReadExecution } from '../../../activities/trust/executions.ts';
import { Config } from '../../../contracts/schemas/config.ts';
import { CLAIMS_FIELD, PLACE_HEADER, type ProvenFailure } from '../../../contracts/zone.ts';
import { digestOfInput } from '../../../domain/signing/zone.ts';
import { startWorkers } from '../../../workers/worker.ts';
import { createZoneInterceptor } from '../../../workers/zone.ts';

const PLACE = { chain: 'chain-1', place: 4, at: 1_780_315_200_000 };
const INPUT = { a: 1 };
const facts: ExecutionFacts = { startedAt: 0, firstRunId: 'r', taskQueue: 'countersign', continued: false };

const headersOf = (value: unknown): Headers => ({ [PLACE_HEADER]: defaultPayloadConverter.toPayload(value) });

/** What an activity of ours comes to, scheduled by a workflow of which Temporal says this. */
async function executed(
  act: (input: unknown) => Promise<unknown>,
  {
    headers = headersOf(PLACE),
    readExecution = async () => facts,
    isScheduled = true,
  }: { readonly headers?: Headers; readonly readExecution?: ReadExecution; readonly isScheduled?: boolean } = {},
): Promise<unknown> {
  const workflowExecution = isScheduled ? { workflowId: 'run-1', runId: 'r' } : undefined;
  const info = { workflowExecution, namespace: 'default', activityType: 'modelStep' };
  // Sound: nothing else of the context is read.
  const { inbound } = createZoneInterceptor({ readExecution, taskQueue: 'countersign' })({
    info,
  } as unknown as Context);
  if (inbound?.execute === undefined) throw new Error('nothing is intercepted');
  return await inbound.execute({ args: [INPUT], headers }, async ({ args }) => await act(args[0]));
}

const claimsIn = (value: unknown): unknown =>
  value instanceof RawValue
    ? JSON.parse(Buffer.from(value.payload.metadata?.[CLAIMS_FIELD] ?? []).toString('utf8'))
    : undefined;

const EXPECTED = {
  ...PLACE,
  activity: 'modelStep',
  namespace: 'default',
  workflowId: 'run-1',
  input: digestOfInput([INPUT]),
};

test('what is answered claims to be that answer, also where the activity changed its input', async () => {
  const answer = await executed(async (input) => Object.assign(input as object, { a: 2 }) && { said: 1 });
  expect(claimsIn(answer)).toEqual({ ...EXPECTED, kind: 'result', input: digestOfInput([{ a: 1 }]) });
  expect(answer instanceof RawValue && defaultPayloadConverter.fromPayload(answer.payload)).toEqual({ said: 1 });
  Object.assign(INPUT, { a: 1 });
});

test('a failure is as it was, with a detail that says it again', async () => {
  const failing = executed(async () => {
    throw ApplicationFailure.create({
      type: 'TOOL_UNAVAILABLE',
      message: 'away',
      nonRetryable: true,
      details: [{ server: 's' }],
    });
  });
  const error: unknown = await failing.catch((thrown: unknown) => thrown);
  if (!(error instanceof ApplicationFailure)) throw new Error('no failure');
  expect(error).toMatchObject({ type: 'TOOL_UNAVAILABLE', message: 'away', nonRetryable: true });
  const [first, last] = error.details ?? [];
  expect(first).toEqual({ server: 's' });
  expect(claimsIn(last)).toEqual({ ...EXPECTED, kind: 'failure' });
  const said = last instanceof RawValue ? defaultPayloadConverter.fromPayload<ProvenFailure>(last.payload) : undefined;
  expect(said).toEqual({ type: 'TOOL_UNAVAILABLE', message: 'away', facts: { server: 's' } });
});

test('what was stopped from outside claims nothing', async () => {
  const stopped = new CancelledFailure('stop');
  await expect(executed(async () => await Promise.reject(stopped))).rejects.toBe(stopped);
});

test.each<readonly [string, Parameters<typeof executed>[1]]>([
  ['a workflow that does not ask for it', { headers: {} }],
  ['a workflow on another queue', { readExecution: async () => ({ ...facts, taskQueue: 'forged' }) }],
  ['a workflow that Temporal does not know', { readExecution: async () => undefined }],
  ['nobody', { isScheduled: false }],
  ['one that says nonsense', { headers: headersOf({ chain: 1, place: 'x' }) }],
  ['one whose header cannot be read', { headers: { [PLACE_HEADER]: { metadata: {} } } }],
])('%s is given no claims', async (_what, given) => {
  const answer = { said: 1 };
  expect(await executed(async () => answer, given)).toBe(answer);
});

test('workers of mode signed do not start without a key of the zone', async () => {
  const config = Config.parse({ trust: { mode: 'signed', jwks: 'trust.jwks' } });
  const loaded = { config, baseDirectory: '.', path: undefined };
  const starting = startWorkers({ loaded, connectionOptions: { address: '127.0.0.1:1' }, namespace: 'default' });
  await expect(starting).rejects.toMatchObject({ code: 'CONFIG_INVALID', facts: { path: 'trust.zone.keys' } });
});
