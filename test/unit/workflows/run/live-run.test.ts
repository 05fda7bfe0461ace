/** When a run hands over: what fits into the input of its next execution. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, test } from '@jest/globals';
import type { Say } from '../../../../contracts/schemas/request.ts';
import type { RunSpec } from '../../../../contracts/schemas/run-spec.ts';
import type { Carry } from '../../../../contracts/wire/carry.ts';
import { toCarry } from '../../../../domain/run/carry.ts';
import { EMPTY_JOURNAL, Journal } from '../../../../domain/run/journal.ts';
import { admitSaid } from '../../../../domain/run/message-queue.ts';
import { startRun } from '../../../../domain/state/run.ts';

// The part of what the SDK gives to a workflow's code that is read here.
const info = { workflowId: 'run-1', runId: 'r'.repeat(36), workflowType: 'agentRun', continueAsNewSuggested: true };
Object.assign(globalThis, { AsyncLocalStorage });
const { RootCancellationScope } = await import('@temporalio/workflow/lib/cancellation-scope.js');
Object.assign(globalThis, { __TEMPORAL_ACTIVATOR__: { info, rootScope: new RootCancellationScope() } });
const { LiveRun } = await import('../../../../workflows/run/live-run.ts');

/** @param padding characters of a message that waits */
function runOf(padding: number): InstanceType<typeof LiveRun> {
  return runWith([{ messageId: 'm1', text: 'x'.repeat(padding), from: 'ann' }]);
}

function runWith(queue: readonly Say[]): InstanceType<typeof LiveRun> {
  const run = { ...startRun(0), queue };
  const prepared = { servers: [], limits: { turnsPerExecution: 40 } };
  // Sound: nothing else of a run is read here.
  const carry = { ...toCarry(run), prepared, toolset: [], journal: EMPTY_JOURNAL, earlier: [] } as unknown as Carry;
  return new LiveRun({ input: [] } as unknown as RunSpec, carry);
}

test('a run that begins to hand over fits with what it has just stored, so it does not begin again and again', () => {
  let [fits, not] = [0, 3_000_000];
  while (not - fits > 1) {
    const middle = Math.floor((fits + not) / 2);
    if (runOf(middle).reasonToRoll === undefined) not = middle;
    else fits = middle;
  }
  const segment = { sha256: 'a'.repeat(64), bytes: 1_000_000, contentType: 'application/json' };
  const journal = new Journal({ ...EMPTY_JOURNAL, ledgerLength: 100_000, transcriptLength: 100_000 });
  const head = journal.head(segment);
  expect(runOf(fits).isTooLarge(head)).toBe(false);
  // Temporal terminates a run whose next input has more than 2 MiB.
  const most = JSON.stringify([runOf(fits).carriedSpec, runOf(fits).carry(head)]).length;
  expect(most).toBeLessThan(2_097_152);
  expect(runOf(fits + 90_000).isTooLarge(head)).toBe(true);
});

test('a run hands over whatever messages wait: an execution takes 2,000 updates, and no decision after them', () => {
  const waiting: Say[] = [];
  for (let n = 0; n < 6_000; n += 1) {
    const said: Say = { messageId: `${n}`.padEnd(200, 'm'), text: 'x', from: 'a'.repeat(200) };
    if (admitSaid({ ...startRun(0), queue: waiting }, said) !== undefined) break;
    waiting.push(said);
  }
  expect(runWith(waiting).reasonToRoll).toBe('history');
});
