/**
 * No sound workflow task fails by the guard of queries, whichever task of whichever recorded run it is (INV-D1,
 * docs/adr/0044).
 *
 * Of what a replay hands over as done the guard doubts nothing. So each task of each history is made the newest one:
 * live, behind what was replayed, with what the run cancels in it.
 */
import { expect, jest, test } from '@jest/globals';
import type { WorkflowInfo } from '@temporalio/workflow';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import type { History, Recorded } from '../../workers/replay/recorded-history.ts';
import { replayHistories } from '../../workers/replay/replay.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { refusingTasks } from '../support/faults/rebuilt-points.ts';
import { CONFIG, HISTORIES, recorded } from './corpus.ts';
import { cutAtTasks, setBack } from './newest-task.ts';

/** Each task is a replay of all before it: a minute and more on a busy machine. */
jest.setTimeout(600_000);
/** Runs that are stopped, handed over or continued while something is under way: where tasks are of most kinds. */
const CROSSING =
  /^agent-run\.(all-at-once|away|cancelled-at-start|continued|edit-stopped|judging|reset-stopped|rolling|thinking|unproven|withdrawn)/;
const NEWEST = HISTORIES.filter((name) => CROSSING.test(name) && !name.endsWith('encrypted'));

interface Seen {
  tasks: number;
  readonly failed: string[];
  /** Workflow ids of runs of which the guard has refused a task. */
  readonly refused: Set<string>;
}

async function seen(
  names: readonly string[],
  bundle: WorkflowBundle,
  told: (history: History) => History = (history) => history,
): Promise<Seen> {
  const result: Seen = { tasks: 0, failed: [], refused: new Set() };
  async function* tasks(): AsyncGenerator<Recorded> {
    for await (const each of recorded(names)) {
      if (each.kind === 'unreadable') throw each.error;
      for (const [index, history] of cutAtTasks(each.history).entries())
        yield { ...each, name: `${each.name}, task ${index + 1}`, history: told(history) };
    }
  }
  const refused = {
    fn: ({ workflowId }: WorkflowInfo): void => void result.refused.add(workflowId),
    callDuringReplay: true,
  };
  for await (const { name, error } of replayHistories(tasks(), {
    bundle,
    config: CONFIG,
    sinks: { queryGuard: { refused } },
  })) {
    result.tasks += 1;
    if (error !== undefined) result.failed.push(`${name}: ${error.message}`);
  }
  return result;
}

const SOUND = { failed: [], refused: new Set() };

test('none of any recorded run', async () => {
  const { tasks, ...found } = await seen(HISTORIES, await sharedBundle());
  expect(found).toEqual(SOUND);
  expect(tasks).toBeGreaterThan(1_000);
});

test("none where the server's clock steps back before it", async () => {
  const { tasks, ...found } = await seen(NEWEST, await sharedBundle(), setBack);
  expect(found).toEqual(SOUND);
  expect(tasks).toBeGreaterThan(100);
});

test('a guard that refused whatever it doubts would fail them: those in which a run cancels what it has under way', async () => {
  const { refused } = await seen(NEWEST, refusingTasks(await sharedBundle()));
  expect([...refused].toSorted((one, other) => one.localeCompare(other))).toEqual([
    'run-away',
    'run-away-stopped',
    'run-edit-stopped-at-once',
    'run-judging-cancelled',
    'run-judging-stopped',
    'run-reset-stopped',
    'run-rolling-cancelled',
    'run-rolling-stopped',
    'run-thinking-cancelled',
    'run-thinking-stopped',
  ]);
});
