/** Every registered activity, run by somebody who is no run: none reaches `tools/call` (INV-G1). */
import { status as grpcStatus } from '@grpc/grpc-js';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { ServiceError } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { codedFailureIn } from '../../contracts/failure.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import { runSideActivities, toolSideActivities } from '../../workers/composition.ts';
import { type Forger, startForger } from '../support/forgery/forger.ts';

let forger: Forger;

beforeAll(async () => {
  forger = await startForger();
});
afterAll(async () => forger.stop());

let callsBefore = 0;
beforeEach(() => {
  callsBefore = forger.bank.calls.length;
});
const newCalls = (): number => forger.bank.calls.length - callsBefore;

/** As the workers of this configuration register them. */
async function registered(): Promise<Readonly<Record<string, unknown>>> {
  const { config, engine, artifacts, client } = forger.world;
  const loaded = { config, baseDirectory: engine.directory, path: undefined };
  return {
    ...(await runSideActivities(loaded, artifacts, client)),
    ...(await toolSideActivities(loaded, artifacts, client)),
  };
}

/** Runs an activity on a genuine input, as somebody that Temporal says this of. Answers with what it returns or throws. */
async function runAs(name: string, info: object): Promise<unknown> {
  // Sound: each registered activity takes one input.
  const activity = (await registered())[name] as (input: unknown) => Promise<unknown>;
  const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR') });
  return await environment
    .run(activity, forger.genuine.get(name))
    .catch((error: unknown) => codedFailureIn(error) ?? error);
}

const names = Object.values(ACTIVITIES);

test('every activity that a worker registers is named here, with the input of a genuine run', async () => {
  expect(Object.keys(await registered()).toSorted()).toEqual([...names].toSorted());
  expect([...forger.genuine.keys()].toSorted()).toEqual([...names].toSorted());
});

const FORBIDDEN = { code: 'DISPATCH_FORBIDDEN' };
/** For one workflow type each: a run's tools for runs, a catalog's for catalogs. */
const LISTING: readonly string[] = [ACTIVITIES.discoverTools, ACTIVITIES.discoverCatalog];

test.each(names)('%s, run by nobody, by a workflow of another type or by another run, calls no tool', async (name) => {
  const before = forger.contacts();
  const { runId } = forger.approved;
  const another = {
    workflowType: 'agentRun',
    namespace: 'default',
    workflowExecution: { workflowId: 'another', runId },
  };
  for (const info of [{}, { workflowType: undefined }, { workflowType: 'agentRun' }, another]) {
    const answer = await runAs(name, info);
    if (name === ACTIVITIES.callTool) expect(answer).toMatchObject({ kind: 'refused', ...FORBIDDEN });
    if (LISTING.includes(name)) expect(answer).toMatchObject(FORBIDDEN);
  }
  // Not even a list is asked for.
  expect(forger.contacts()).toBe(before);
});

test('callTool, repeated by the very run that made the call, or by it after a reset, calls no tool', async () => {
  const { runId, run } = forger.approved;
  const { workflowId, namespace } = run;
  const own = { workflowType: 'agentRun', workflowNamespace: namespace, workflowExecution: { workflowId, runId } };
  // It may have left before: that is no refusal.
  const again = { kind: 'ended', outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN' } };
  expect(await runAs(ACTIVITIES.callTool, { ...own, attempt: 2 })).toMatchObject(again);
  const revived = { ...own, workflowExecution: { workflowId, runId: 'revived' } };
  expect(await runAs(ACTIVITIES.callTool, revived)).toMatchObject({ kind: 'reopen', code: 'DISPATCH_STALE_RUN' });
  expect(newCalls()).toBe(0);
});

test.each(names)('%s, scheduled by a workflow that is no run, calls no tool', async (name) => {
  const { genuine, approved } = forger;
  const before = forger.contacts();
  const input = (workflowId: string) => ({ ...genuine.get(name), run: { ...approved.run, workflowId } });
  const answer = await forger.forge('somethingElse', name, input).catch((error: unknown) => codedFailureIn(error));
  if (name === ACTIVITIES.callTool) expect(answer).toMatchObject({ kind: 'refused', ...FORBIDDEN });
  if (LISTING.includes(name)) expect(answer).toMatchObject(FORBIDDEN);
  expect(forger.contacts()).toBe(before);
});

test('a standalone activity, started by a client, calls no tool', async () => {
  const { client, config } = forger.world;
  const started = client.activity.execute(ACTIVITIES.callTool, {
    id: 'standalone',
    taskQueue: config.taskQueue,
    args: [forger.approved],
    startToCloseTimeout: '10s',
  });
  const answer: unknown = await started.catch((error: unknown) => codedFailureIn(error) ?? error);
  // A server that knows no standalone activities refuses it itself; where one runs, our own activity must.
  if (answer instanceof ServiceError) expect(answer.cause).toMatchObject({ code: grpcStatus.UNIMPLEMENTED });
  else expect(answer).toMatchObject({ kind: 'refused', ...FORBIDDEN });
  expect(newCalls()).toBe(0);
});
