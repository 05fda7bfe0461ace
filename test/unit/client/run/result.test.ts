/** A wait for a result lasts until the run ends: pauses of Temporal are not its end, once Temporal has answered. */
import { expect, test } from '@jest/globals';
import { Metadata, status as grpcStatus } from '@grpc/grpc-js';
import type { CountersignError } from '../../../../contracts/errors.ts';
import { SingleCall } from '../../../../client/run/single-call.ts';
import { Engine } from '../../../../client/engine/engine.ts';
import { answerOf } from '../../../../cli/verbs/call.ts';
import { RunHandle } from '../../../../client/run/run-handle.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';
import { withCode } from '../../../support/refusal.ts';

const grpc = (code: number): Error =>
  Object.assign(new Error(`It was ${code}.`), { code, details: `It was ${code}.`, metadata: new Metadata() });
const CANCELLED = grpc(grpcStatus.CANCELLED);
const UNAVAILABLE = grpc(grpcStatus.UNAVAILABLE);
const LATE = grpc(grpcStatus.DEADLINE_EXCEEDED);

/** Answers of Temporal, one after the other; the last one stays. Whatever is no error is an answer. */
function oneAfterTheOther<T>(...answers: readonly (Error | T)[]) {
  const told = { times: 0 };
  const ask = async (): Promise<T> => {
    const answer = answers[Math.min(told.times, answers.length - 1)];
    told.times += 1;
    if (answer instanceof Error) throw answer;
    // Sound: what is no error is of this type, and there is one.
    return await Promise.resolve(answer as T);
  };
  return { told, ask };
}

const running = { runId: 'r', status: { name: 'RUNNING' }, taskQueue: 'runs' };
const completed = { status: 'completed', output: 'Done.' };

function runOf(
  result: () => Promise<unknown>,
  describe: () => Promise<unknown> = async () => running,
  { callMs = 10_000, isServed = true }: { readonly callMs?: number; readonly isServed?: boolean } = {},
): RunHandle {
  const workflowService = { describeTaskQueue: async () => ({ pollers: isServed ? [{}] : [] }) };
  const client = fakeClient({ connection: { workflowService }, workflow: { getHandle: () => ({ result, describe }) } });
  return new RunHandle(new Engine(client, callMs), 'run-1', undefined);
}

test('a server that shuts down, and is away for a while, does not end it', async () => {
  const result = oneAfterTheOther<unknown>(CANCELLED, UNAVAILABLE, CANCELLED, completed);
  const describe = oneAfterTheOther<unknown>(running, UNAVAILABLE, running);
  const told: string[] = [];
  const onPause = (trouble: { readonly code: string }): void => void told.push(trouble.code);
  expect(await runOf(result.ask, describe.ask).result({ onPause })).toEqual(completed);
  expect(result.told.times).toBe(4);
  expect(told).toContain('ENGINE_UNAVAILABLE');
});

test('nor where each call may last as long as the wait, as commands have it', async () => {
  const result = oneAfterTheOther<unknown>(CANCELLED, completed);
  expect(await runOf(result.ask, undefined, { callMs: 60_000 }).result({ deadlineMs: 60_000 })).toEqual(completed);
});

test('its deadline does', async () => {
  const ended = runOf(oneAfterTheOther(LATE).ask, undefined, { callMs: 400 }).result({ deadlineMs: 900 });
  await expect(ended).rejects.toMatchObject(withCode('RESULT_UNCERTAIN', 'did not end in time'));
});

test('a Temporal that has never answered is told after the deadline of a call', async () => {
  const result = oneAfterTheOther(completed);
  const ended = runOf(result.ask, oneAfterTheOther(UNAVAILABLE).ask, { callMs: 400 }).result();
  await expect(ended).rejects.toMatchObject({ code: 'ENGINE_UNAVAILABLE' });
  expect(result.told.times).toBe(0);
});

test('who has given up before it began does not wait', async () => {
  const result = oneAfterTheOther<unknown>(completed);
  const run = runOf(result.ask);
  await run.result({ deadlineMs: 10_000 });
  for (const deadlineMs of [10_000, 60_000])
    await expect(run.result({ deadlineMs, signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'RESULT_UNCERTAIN',
    });
  expect(result.told.times).toBe(1);
});

test('a connection that was closed on this side ends it', async () => {
  const describe = oneAfterTheOther<unknown>(running, CANCELLED);
  const ended = runOf(oneAfterTheOther(CANCELLED).ask, describe.ask).result();
  await expect(ended).rejects.toMatchObject({ code: 'ENGINE_UNAVAILABLE' });
});

test('a wait as short as a call is one call', async () => {
  const describe = oneAfterTheOther<unknown>(running);
  expect(await runOf(oneAfterTheOther(completed).ask, describe.ask).result({ deadlineMs: 10_000 })).toEqual(completed);
  expect(describe.told.times).toBe(0);
  const failed = runOf(oneAfterTheOther(UNAVAILABLE).ask).result({ deadlineMs: 10_000 });
  await expect(failed).rejects.toMatchObject({ code: 'ENGINE_UNAVAILABLE' });
});

test('whoever waits for a single call is told, too, that nobody works on it', async () => {
  const answer = { callId: 't1.c0', outcome: { kind: 'denied', code: 'POLICY_DENIED', message: 'no' } };
  const told: string[] = [];
  let end: (result: unknown) => void = () => undefined;
  const ended = new Promise<unknown>((resolve) => (end = resolve));
  const single = new SingleCall(
    runOf(async () => await ended, undefined, { isServed: false }),
    true,
  );
  const onPause = ({ message }: CountersignError): void => {
    told.push(message);
    end({ ...completed, output: JSON.stringify(answer) });
  };
  expect(await answerOf(single, undefined, { onWait: () => undefined, onPause })).toMatchObject(answer);
  expect(told).toEqual([expect.stringContaining('No worker takes runs from task queue runs')]);
});
