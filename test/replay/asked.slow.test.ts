// What `countersign replay` asks of its own accord blames no recorded run (INV-G2).
import { beforeAll, expect, test } from '@jest/globals';
import type { ReplayOutcome } from '../../workers/replay/replay.ts';
import { bundleForReading } from '../../workers/replay/replayed-run.ts';
import { withRefusals } from '../../workers/replay/refusals.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { CONFIG, HISTORIES, historyOf } from './corpus.ts';

const outcomes: ReplayOutcome[] = [];

beforeAll(async () => {
  const bundle = await sharedBundle(bundleForReading);
  const replayed = await Promise.all(
    HISTORIES.map(async (name) => {
      const history = await historyOf(name);
      const workflowId = history.events?.[0]?.workflowExecutionStartedEventAttributes?.workflowId ?? name;
      return { name, workflowId, history };
    }),
  );
  for await (const outcome of withRefusals(replayed, { bundle, config: CONFIG })) outcomes.push(outcome);
}, 300_000);

test('each recorded run has an outcome, and none is blamed', () => {
  expect(outcomes.map(({ name }) => name)).toEqual(HISTORIES);
  expect(outcomes.filter(({ error }) => error !== undefined)).toEqual([]);
});
