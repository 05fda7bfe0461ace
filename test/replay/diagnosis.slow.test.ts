/** Why a history does not replay is told apart: a query, this build, or nobody can say (INV-D1). */
import { beforeAll, expect, test } from '@jest/globals';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import type { History } from '../../workers/replay/recorded-history.ts';
import { type Diagnosis, diagnosisOf } from '../../workers/replay/diagnosis.ts';
import { answersOf, bundleForReading, historyOf, soundnessOf } from '../../workers/replay/replayed-run.ts';
import { damagedByQuery, type Form } from '../support/faults/query-damage.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { CONFIG, recorded } from './corpus.ts';

let bundle: WorkflowBundle;

beforeAll(async () => {
  bundle = await sharedBundle(bundleForReading);
}, 60_000);

async function sound(name: string): Promise<{ readonly history: History; readonly workflowId: string }> {
  for await (const each of recorded([name])) if (each.kind === 'history') return each;
  throw new Error(`no history ${name}`);
}

async function diagnosed(workflowId: string, history: History): Promise<Diagnosis> {
  const options = { bundle, config: CONFIG };
  const soundness = await soundnessOf(workflowId, history, options);
  if (soundness.kind === 'whole') throw new Error('it replays');
  return await diagnosisOf(workflowId, history, soundness, options);
}

const FORMS: readonly Form[] = ['never done', 'not come'];

test.each(FORMS)(
  'a query that took in what belonged to a task that was %s: shown, by the task that is missing',
  async (form) => {
    const { history, workflowId } = await sound('agent-run.say-queued');
    const diagnosis = await diagnosed(workflowId, damagedByQuery(history, form));
    expect(diagnosis).toMatchObject({
      cause: 'query',
      certainty: 'shown',
      text: expect.stringContaining('A query damaged the run'),
    });
  },
);

/** As another build, or this one, would have written it: a timer waits for longer. */
async function longer(writer: string): Promise<{ readonly history: History; readonly workflowId: string }> {
  const { history, workflowId } = await sound('agent-run.say-queued');
  const at = history.events?.findIndex(({ timerStartedEventAttributes: timer }) => timer) ?? -1;
  const events = history.events?.map((event, index) => {
    const { timerStartedEventAttributes: timer, workflowTaskCompletedEventAttributes: done } = event;
    if (index === at && timer)
      // Sound: seconds may be a number where they are encoded.
      return {
        ...event,
        timerStartedEventAttributes: { ...timer, startToFireTimeout: { seconds: 7 } },
      } as unknown as typeof event;
    return done
      ? { ...event, workflowTaskCompletedEventAttributes: { ...done, workerVersion: { buildId: writer } } }
      : event;
  });
  return { history: historyOf(events ?? []), workflowId };
}

test('what another build wrote and this one would do otherwise: the build, as far as can be told', async () => {
  const { history, workflowId } = await longer('another-build');
  expect(await diagnosed(workflowId, history)).toMatchObject({
    cause: 'build',
    certainty: 'likely',
    writtenBy: 'another-build',
    text: expect.stringContaining('This build is at fault, as far as can be told'),
  });
});

test('what a worker wrote that named no build: the build, and that it may be this one', async () => {
  const { history, workflowId } = await longer('@temporalio/worker@1.2.3+0123456789abcdef');
  expect(await diagnosed(workflowId, history)).toMatchObject({
    cause: 'build',
    certainty: 'likely',
    text: expect.stringContaining('it may have been this very one'),
  });
});

test('what this same build wrote and would do otherwise: nobody can say', async () => {
  const { buildId } = await sharedBundle();
  const { history, workflowId } = await longer(buildId);
  expect(await diagnosed(workflowId, history)).toMatchObject({
    cause: 'unknown',
    writtenBy: buildId,
    text: expect.stringContaining('This same build'),
  });
});

test('a damaged history is read up to the last sound task: state, requests and ledger as queries would have told them', async () => {
  const { history, workflowId } = await sound('agent-run.say-queued');
  const damaged = damagedByQuery(history, 'never done');
  const options = { bundle, config: CONFIG };
  const soundness = await soundnessOf(workflowId, damaged, options);
  if (soundness.kind === 'whole') throw new Error('it replays');
  const { answers, upTo } = await answersOf(
    workflowId,
    { history: damaged, runId: 'r-1', task: soundness.task },
    options,
  );
  expect(upTo).toBe(soundness.task - 1);
  expect(answers.state).toMatchObject({ workflowId, runId: 'r-1' });
  expect(answers.ledger?.entries).toHaveLength(answers.state?.ledgerLength ?? -1);
  expect(answers.requests?.length).toBeGreaterThan(0);
});

test('a replay that fails once, and not again, accuses nobody: the run is sound', async () => {
  const { history, workflowId } = await sound('agent-run.say-queued');
  let replays = 0;
  const options = {
    bundle,
    config: CONFIG,
    /** In another namespace the digests of a run are others. */
    get namespace() {
      replays += 1;
      return replays === 1 ? 'another' : 'default';
    },
  };
  expect(await soundnessOf(workflowId, history, options)).toEqual({ kind: 'whole' });
  expect(replays).toBe(2);
});
