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
  const histories = new Map(await Promise.all(HISTORIES.map(async (name) => [name, await historyOf(name)] as const)));
  const replayed = [...histories].map(([name, { events }]) => ({
    name,
    workflowId: events?.[0]?.workflowExecutionStartedEventAttributes?.workflowId ?? name,
  }));
  for await (const outcome of withRefusals(replayed, ({ name }) => histories.get(name), { bundle, config: CONFIG }))
    outcomes.push(outcome);
}, 300_000);

test('each recorded run has an outcome, and none is blamed', () => {
  expect(outcomes.map(({ name }) => name)).toEqual(HISTORIES);
  expect(outcomes.filter(({ error }) => error !== undefined)).toEqual([]);
});
