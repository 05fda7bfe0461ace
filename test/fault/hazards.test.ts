/**
 * Approvals that come twice, at once, too late, for another call, or around a restart, on every path by which a call
 * comes in (S4.8, B-1, B-12, D-4, D-5, F-2, F1, F2, F16, F17, INV-G1, INV-G2, INV-D3, INV-X1). By the tool server's own
 * count a call runs once where one was approved and never elsewhere, and a refused decision changes nothing.
 */
import { beforeAll, describe, expect, jest, test } from '@jest/globals';
import { type AskedCall, nextOf, type Path, PATHS, startHazardWorld } from '../support/faults/hazard-paths.ts';
import { until } from '../support/until.ts';
import { factsOf, ledgerShows, replayOwn, traceOf } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Longer than the heartbeat timeout of a call, on a busy machine. */
const LONG_MS = 240_000;
jest.setTimeout(LONG_MS);

const scene = during(() => startHazardWorld());

/** Answers to a decision on a call that somebody has decided: the next call of its run waits, or its run is over. */
const DECIDED = ['ALREADY_DECIDED', 'RUN_CLOSED'];
/** The same, of one whose deadline has passed. */
const EXPIRED = ['DECISION_EXPIRED', 'RUN_CLOSED'];
/** Answers to the same decision once more: the first answer, or that its run is over. */
const SAME = ['approved', 'RUN_CLOSED'];

/** The call ran so often, by one decision at most, and nothing else did. */
async function expectRuns({ run }: AskedCall, purpose: string, times: 0 | 1): Promise<void> {
  expect({ purpose, ran: scene.bank.callsFor(purpose).length }).toEqual({ purpose, ran: times });
  expect(scene.bank.callsFor(nextOf(purpose))).toEqual([]);
  const ledger = await run.ledger();
  expect(factsOf(ledger, 'decision.accepted')).toHaveLength(times);
  expect(factsOf(ledger, 'dispatched')).toHaveLength(times);
}

/** These decisions are refused, each with such a code, and the run is as it was. */
async function expectRefused(
  call: AskedCall,
  codes: readonly string[],
  ...decisions: readonly Decision[]
): Promise<void> {
  const before = await traceOf(scene.world, call.run.runId);
  for (const decision of decisions) expect(codes).toContain(await call.decide(decision));
  expect(await traceOf(scene.world, call.run.runId)).toEqual(before);
}
type Decision = ReturnType<typeof decisionOn>;

/** Waits until nothing more happens by itself: the run is over, or its next call waits. */
async function atRest({ run }: AskedCall): Promise<void> {
  const handle = scene.world.client.workflow.getHandle(run.runId);
  const isAtRest = async (): Promise<boolean> =>
    (await handle.describe()).status.name !== 'RUNNING' ||
    factsOf(await run.ledger(), 'request.opened').some(({ callId }) => callId === 't2.c0');
  await until(isAtRest, { what: `${run.runId} at rest`, withinMs: LONG_MS });
}

describe.each(PATHS)('%s', (path) => {
  const purposeOf = (hazard: string): string => `${path}, ${hazard}`;

  test('an approval sent again, by its sender and by others, runs the call once and no other', async () => {
    const purpose = purposeOf('again');
    const call = await scene.ask(path, purpose);
    const decision = decisionOn(call.request, 'ben');
    expect(await call.decide(decision)).toBe('approved');
    expect(await call.told()).toBe('succeeded');
    await atRest(call);
    await expectRefused(call, SAME, decision);
    const { request } = call;
    const others = [decisionOn(request, 'ben'), decisionOn(request, 'cyd'), decisionOn(request, 'cyd', 'reject')];
    await expectRefused(call, DECIDED, ...others);
    await expectRuns(call, purpose, 1);
  });

  test('approvals sent at once, the same twice and two by two people, run the call once', async () => {
    const purpose = purposeOf('at once');
    const call = await scene.ask(path, purpose);
    const [first, other] = [decisionOn(call.request, 'ben'), decisionOn(call.request, 'cyd')];
    const answers = await Promise.all([first, first, other].map(async (decision) => await call.decide(decision)));
    const accepted = answers.filter((answer) => answer === 'approved');
    // The same one twice is one decision; of two that differ one counts.
    expect([1, 2]).toContain(accepted.length);
    expect(answers.filter((answer) => answer !== 'approved' && !DECIDED.includes(answer))).toEqual([]);
    expect(await call.told()).toBe('succeeded');
    await expectRuns(call, purpose, 1);
  });

  test('an approval and a rejection sent at once: what counts is one of them, and the count agrees with it', async () => {
    const purpose = purposeOf('against each other');
    const call = await scene.ask(path, purpose);
    const answers = await Promise.all([
      call.decide(decisionOn(call.request, 'ben')),
      call.decide(decisionOn(call.request, 'cyd', 'reject')),
    ]);
    expect(answers.filter((answer) => DECIDED.includes(answer))).toHaveLength(1);
    const isApproved = answers.includes('approved');
    expect(await call.told()).toBe(isApproved ? 'succeeded' : 'rejected');
    expect(scene.bank.callsFor(purpose)).toHaveLength(isApproved ? 1 : 0);
  });

  test('an approval of another call is none, though tool and arguments are the same', async () => {
    const purpose = purposeOf('another call');
    const call = await scene.ask(path, purpose);
    const other = await scene.ask(PATHS[(PATHS.indexOf(path) + 1) % PATHS.length] ?? path, purpose);
    const own = decisionOn(call.request, 'ben');
    const { digest, runId } = decisionOn(other.request, 'ben');
    await expectRefused(
      call,
      ['DIGEST_MISMATCH', 'DECISION_STALE_RUN'],
      { ...own, digest },
      { ...own, digest, runId },
      { ...own, runId },
      { ...own, digest: 'f'.repeat(64) },
    );
    await expectRefused(call, ['CALL_UNKNOWN'], { ...own, callId: 't2.c0' });
    expect(await openRequests(call.run)).toMatchObject([{ digest: call.request.digest }]);
    await expectRuns(call, purpose, 0);
    expect(await call.decide(own)).toBe('approved');
    expect(await call.told()).toBe('succeeded');
    await expectRuns(call, purpose, 1);
    expect(await openRequests(other.run)).toMatchObject([{ digest }]);
    expect(factsOf(await other.run.ledger(), 'dispatched')).toEqual([]);
  });

  test('an approval after the deadline runs nothing', async () => {
    const purpose = purposeOf('late');
    const call = await scene.ask(path, purpose, 'bare');
    await ledgerShows(call.run, 'outcome', 't1.c0');
    await atRest(call);
    await expectRefused(call, EXPIRED, decisionOn(call.request, 'ben'), decisionOn(call.request, 'cyd'));
    expect(await call.told()).toBe('expired');
    await expectRuns(call, purpose, 0);
  });
});

const POINTS = ['asked', 'approved', 'under way', 'overdue'] as const;
type Point = (typeof POINTS)[number];

describe('kill -9 of the workers', () => {
  const calls = new Map<string, { readonly call: AskedCall; readonly decision: Decision }>();
  const purposeOf = (path: Path, point: Point): string => `${path}, killed while ${point}`;
  const at = (path: Path, point: Point) => {
    const found = calls.get(purposeOf(path, point));
    if (found === undefined) throw new Error(`no call was ${point} by ${path}`);
    return found;
  };
  const decided = async (point: Point): Promise<readonly string[]> =>
    await Promise.all(PATHS.map(async (path) => await at(path, point).call.decide(at(path, point).decision)));

  beforeAll(async () => {
    const { world, bank, worker, ask } = scene;
    const tools = { asked: 'pay', approved: 'pay', 'under way': 'slow', overdue: 'bare' } as const;
    for (const point of POINTS) {
      const asked = async (path: Path): Promise<void> => {
        const purpose = purposeOf(path, point);
        const call = await ask(path, purpose, tools[point]);
        calls.set(purpose, { call, decision: decisionOn(call.request, 'ben') });
      };
      await Promise.all(PATHS.map(asked));
      if (point !== 'under way') continue;
      expect(new Set(await decided(point))).toEqual(new Set(['approved']));
      await Promise.all(PATHS.map(async (path) => await bank.held(purposeOf(path, point))));
    }
    await worker.kill();
    // This one takes decisions and sends nothing: its approvals stand in history when it is killed, and no call has
    // left.
    const taking = await world.startWorker({ role: 'runs' });
    expect(new Set(await decided('approved'))).toEqual(new Set(['approved']));
    await Promise.all(PATHS.map(async (path) => await ledgerShows(at(path, 'approved').call.run, 'dispatched')));
    await taking.kill();
    const deadlines = PATHS.map((path) => Date.parse(at(path, 'overdue').call.request.deadline));
    await until(() => Date.now() > Math.max(...deadlines), { what: 'the deadlines' });
    // Nobody is there to take them. That an earlier one counts stands in history.
    const [known, ...unheard] = await Promise.all([decided('approved'), decided('asked'), decided('overdue')]);
    expect(new Set(known)).toEqual(new Set(['approved']));
    expect(unheard.flat().filter((answer) => answer === 'approved')).toEqual([]);
    expect(PATHS.map((path) => bank.callsFor(purposeOf(path, 'approved')).length)).toEqual(PATHS.map(() => 0));
    await world.startWorker();
  });

  test.each(PATHS)(
    'between question and approval, %s: the approval counts once, and the call runs once',
    async (path) => {
      const { call, decision } = at(path, 'asked');
      const answers = await Promise.all([call.decide(decision), call.decide(decision)]);
      expect(answers.filter((answer) => !SAME.includes(answer))).toEqual([]);
      expect(await call.told()).toBe('succeeded');
      await atRest(call);
      await expectRefused(call, DECIDED, decisionOn(call.request, 'cyd'));
      await expectRuns(call, purposeOf(path, 'asked'), 1);
    },
  );

  test.each(PATHS)(
    'between approval and sending, %s: the call runs once, and another approval adds nothing',
    async (path) => {
      const { call, decision } = at(path, 'approved');
      expect(await call.told()).toBe('succeeded');
      await atRest(call);
      await expectRefused(call, SAME, decision);
      await expectRefused(call, DECIDED, decisionOn(call.request, 'cyd'));
      await expectRuns(call, purposeOf(path, 'approved'), 1);
    },
  );

  test.each(PATHS)(
    'while the call runs, %s: nobody knows what became of it, and no approval sends it again',
    async (path) => {
      const { call, decision } = at(path, 'under way');
      expect(await call.told()).toBe('unknown');
      await atRest(call);
      await expectRefused(call, SAME, decision);
      await expectRefused(call, DECIDED, decisionOn(call.request, 'cyd'));
      await expectRuns(call, purposeOf(path, 'under way'), 1);
    },
  );

  test.each(PATHS)(
    'until the deadline has passed, %s: an approval that waited for a worker is too late',
    async (path) => {
      const { call, decision } = at(path, 'overdue');
      expect(EXPIRED).toContain(await call.decide(decision));
      await atRest(call);
      await expectRefused(call, EXPIRED, decision, decisionOn(call.request, 'cyd'));
      expect(await call.told()).toBe('expired');
      await expectRuns(call, purposeOf(path, 'overdue'), 0);
    },
  );
});

test('what was left behind replays', async () => {
  await replayOwn(scene.world);
});
