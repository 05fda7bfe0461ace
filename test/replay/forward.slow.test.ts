// From the points at which runs of the release wait, the next build goes on to their end on a real server (INV-D1,
// INV-X1).
//
// The smaller choice has every kind of wait once. Others: COUNTERSIGN_FORWARD=all (or points, with commas) node
// scripts/test.mjs slow forward.
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import {
  doubledIn,
  type Ended,
  type Ending,
  ENDINGS,
  isAsking,
  type Play,
  playForward,
  releasedBundle,
  scenarioOf,
  waitingPoints,
} from './forward.ts';
import { SCENARIOS } from './recording/scenarios.ts';
import { openStage, type Stage } from './recording/stage.ts';

jest.setTimeout(600_000);

interface Chosen extends Play {
  /** How the calls of the run end. */
  readonly outcomes: readonly string[];
}

const play = (point: string, ending: Ending, ...outcomes: readonly string[]): Chosen => ({ point, ending, outcomes });

/** Plays that may stand beside each other: their scenes leave workers and the tool server alone. */
const TOGETHER: readonly Chosen[] = [
  play('pending', 'decide', 'succeeded', 'succeeded'),
  play('pending', 'expire', 'succeeded', 'expired'),
  play('pending', 'cancel', 'succeeded', 'cancelled'),
  // The first of these is sent again by the scene, and its answer is lost again.
  play('lost', 'decide', 'succeeded', 'succeeded', 'failed'),
  play('lost', 'expire', 'unknown', 'unknown', 'unknown'),
  play('lost', 'cancel', 'unknown', 'unknown', 'unknown'),
  play('server-asks', 'decide', 'succeeded', 'succeeded'),
  play('server-asks', 'expire', 'expired', 'expired'),
  play('server-asks', 'cancel', 'cancelled', 'cancelled'),
  play('one-of-two', 'decide', 'succeeded'),
  play('one-of-two', 'cancel', 'cancelled'),
  play('say-queued', 'decide', 'succeeded'),
  play('extended', 'decide', 'succeeded', 'succeeded'),
  play('continued-second', 'decide', 'succeeded', 'succeeded'),
  play('continued-second', 'cancel', 'succeeded', 'cancelled'),
  // What was sent before the reset is not sent again.
  play('reset-waiting', 'decide', 'succeeded', 'unknown'),
  play('edited-waits', 'decide', 'succeeded'),
  play('standing', 'decide', 'succeeded', 'succeeded', 'rejected', 'succeeded'),
  play('linked-continued', 'decide', 'succeeded', 'succeeded', 'denied'),
  play('told', 'decide', 'succeeded', 'succeeded'),
  play('stretched-asking', 'decide', ...Array.from({ length: 6 }, () => 'succeeded')),
  play('stretched-asking', 'cancel', 'succeeded', 'succeeded', 'cancelled', 'succeeded'),
  play('hosted-pending', 'decide', 'succeeded'),
  play('client-away', 'decide', 'succeeded'),
  play('unread', 'decide', 'succeeded'),
  play('counted', 'decide', 'succeeded', 'succeeded', 'succeeded'),
];

/** Each has the stage to itself. */
const ALONE: readonly Chosen[] = [
  // The worker that makes the first call is replaced, and a person says what became of it.
  play('mid-call', 'decide', 'failed', 'rejected'),
  play('decided-not-dispatched', 'decide', 'succeeded'),
  play('open-question', 'decide', 'succeeded'),
  play('unauthorized', 'decide', 'succeeded', 'rejected', 'succeeded'),
  play('task', 'decide', 'succeeded'),
  play('rolling-interrupted', 'decide', 'cancelled'),
  play('signed', 'decide', 'succeeded', 'succeeded'),
  play('away', 'decide'),
  // One process is cut off, and a second one is replaced: two attempts of a stretch are lost.
  play('stretch-lost', 'decide', 'succeeded', 'succeeded', 'succeeded', 'succeeded'),
];

const MOST_TOGETHER = 10;

/** Scenes that may stand beside each other in the choice of all points; any other has the stage to itself. */
const MANY = new Set(TOGETHER.map(({ point }) => scenarioOf(point).name));

/** `all`, or names of points; undefined for the smaller choice. */
const WANTED = process.env['COUNTERSIGN_FORWARD'];

const CHOSEN: readonly (readonly Play[])[] =
  WANTED === undefined
    ? groupsOf([...TOGETHER, ...ALONE])
    : groupsOf(
        waitingPoints()
          .filter((point) => WANTED === 'all' || WANTED.split(',').includes(point))
          .flatMap((point) => endingsOf(point).map((ending) => ({ point, ending }))),
      );

/** A run that stands alone is played on as recorded; one that asks nobody has nothing that could expire. */
function endingsOf(point: string): readonly Ending[] {
  if (!MANY.has(scenarioOf(point).name)) return ['decide'];
  // The deadline of a request that was postponed is too far away.
  return isAsking(point) && scenarioOf(point).name !== 'postponed' ? ENDINGS : ['decide', 'cancel'];
}

function groupsOf(plays: readonly Play[]): readonly (readonly Play[])[] {
  const isOfMany = ({ point }: Play): boolean => MANY.has(scenarioOf(point).name);
  const many = plays.filter(isOfMany);
  const groups = Array.from({ length: Math.ceil(many.length / MOST_TOGETHER) }, (_, index) =>
    many.slice(index * MOST_TOGETHER, (index + 1) * MOST_TOGETHER),
  );
  return [...groups, ...plays.filter((each) => !isOfMany(each)).map((each) => [each])];
}

let stage: Stage;
let builds: { readonly release: WorkflowBundle; readonly next: WorkflowBundle };

beforeAll(async () => {
  const present = await sharedBundle();
  builds = {
    release: releasedBundle(present) ?? { code: present.code, buildId: 'release' },
    next: { code: present.code, buildId: 'next' },
  };
  const executable = process.env['TEMPORAL_CLI_PATH'];
  if (executable === undefined) throw new Error('TEMPORAL_CLI_PATH is not set: run the tests through `npm test`');
  stage = await openStage(
    executable,
    Object.fromEntries(SCENARIOS.map(({ name, script }) => [name, script])),
    builds.release,
  );
}, 120_000);
afterAll(async () => stage.stop());

test.each(CHOSEN.map((group) => [group.map(({ point, ending }) => `${point}: ${ending}`).join(', '), group] as const))(
  '%s',
  async (_, group) => {
    const ends = await playForward(stage, group, builds);
    for (const [index, end] of ends.entries()) expectEnd(group[index], end);
  },
);

test('control: the tool server counts by run and call, and a call that comes twice is seen', () => {
  const seen = stage.tools.calls();
  const [{ point, ending } = { point: '', ending: 'decide' }] = CHOSEN[0] ?? [];
  const workflowId = `run-${scenarioOf(point).name}-${point}-${ending}`;
  const own = seen.filter(({ key, tool }) => key.startsWith(`${workflowId}/`) && tool === 'write_note');
  expect(own).toHaveLength(1);
  expect(doubledIn(seen, workflowId)).toEqual([]);
  expect(doubledIn([...seen, ...own], workflowId)).toEqual(own.map(({ key }) => key));
});

function expectEnd(played: Play | Chosen | undefined, end: Ended): void {
  const whole = { failedTasks: [], builds: ['release', 'next'], doubled: [] };
  if (played === undefined || !('outcomes' in played)) {
    // Scenes end their runs in ways of their own; a catalog has no end.
    expect({ played, end }).toEqual({ played, end: { ...end, ...whole } });
    expect(['COMPLETED', 'CANCELLED', 'RUNNING']).toContain(end.status);
    return;
  }
  const { ending, outcomes } = played;
  const status = ending === 'cancel' ? 'CANCELLED' : 'COMPLETED';
  expect({ played, end }).toEqual({ played, end: { ...whole, status, outcomes } });
}
