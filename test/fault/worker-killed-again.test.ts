/**
 * Workers are killed (SIGKILL) again and again while runs are at whatever point they happen to be (F1, F2): every run
 * completes, every decision counts once, no call runs twice (INV-D3, INV-X1).
 */
import { expect, jest, test } from '@jest/globals';
import type { LedgerEntry, RunHandle } from '../../client/index.ts';
import { expectSound } from '../support/faults/oracle.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { factsOf, replayOwn } from '../support/world/run-record.ts';
import { decisionOn } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** A call or model step in the hands of a killed worker is noticed by its heartbeat timeout, 15 s in these worlds, some of them in turn. */
const LONG_MS = 300_000;
jest.setTimeout(LONG_MS);
const RUNS = 10;
const TURNS = 2;

const server = during(() => startRecordingServer());
const call = (tool: string) => ({ tool: `once/${tool}`, arguments: { purpose: '{{turn}}' } });
const world = during(() =>
  startFaultWorld({
    config: {
      servers: { once: { url: server.url, credentials: { kind: 'none' } } },
      policy: {
        unknownOutcomes: 'record',
        approvers: { ids: ['bob'] },
        servers: { once: { tools: { lookup: 'allow' } } },
      },
      models: {
        busy: {
          provider: 'scripted',
          script: {
            steps: [{ calls: [call('lookup'), call('pay'), call('lookup')], repeat: TURNS }, { text: 'Done.' }],
          },
        },
      },
    },
  }),
);

async function approveAll(run: RunHandle): Promise<void> {
  for (let turn = 1; turn <= TURNS; turn += 1) {
    const request = await until(
      async () => (await run.requests()).find(({ status, callId }) => status === 'open' && callId === `t${turn}.c1`),
      {
        what: `the request of turn ${turn} of ${run.runId}`,
        withinMs: LONG_MS,
      },
    );
    const decision = decisionOn(request, 'bob');
    // As a careful sender does: the same decision again, until it is answered.
    await until(async () => run.decide(decision), { what: `an answer to ${decision.decisionId}`, withinMs: LONG_MS });
  }
}

/** Waits until that share of all calls was executed, or all that people decide is decided: what was lost before it left never is. */
async function worked(share: number, isDecided: () => boolean): Promise<void> {
  const wanted = share * RUNS * TURNS * 3;
  const isReached = (): boolean => server.calls.length >= wanted || isDecided();
  await until(() => isReached() || undefined, { what: `${wanted} calls`, withinMs: LONG_MS });
}

/** When each call was handed to a worker whose outcome is not known, and when the run was told so. Epoch ms. */
function unknownCalls(ledger: readonly LedgerEntry[]): { left: number; ended: number }[] {
  return ledger.flatMap(({ at, fact }) => {
    if (fact.kind !== 'outcome' || fact.outcome !== 'unknown') return [];
    const sent = ledger.findLast((entry) => entry.fact.kind === 'dispatched' && entry.fact.callId === fact.callId);
    if (sent === undefined) throw new Error(`${fact.callId} was never sent`);
    return [{ left: Date.parse(sent.at), ended: Date.parse(at) }];
  });
}

test('a worker that dies three times under load loses nothing and doubles nothing', async () => {
  let worker = await world.startWorker();
  const runs = await Promise.all(Array.from({ length: RUNS }, () => world.start('busy')));
  let decided = false;
  const approving = Promise.all(runs.map(approveAll)).then(() => {
    decided = true;
  });
  const isDecided = (): boolean => decided;
  const kills: number[] = [];
  for (const share of [0.15, 0.45, 0.75]) {
    await worked(share, isDecided);
    kills.push(Date.now());
    await worker.kill();
    worker = await world.startWorker();
  }
  await approving;
  for (const run of runs) {
    expect(await run.result()).toMatchObject({
      status: 'completed',
      output: 'Done.',
      turns: TURNS + 1,
      calls: TURNS * 3,
    });
    const ledger = await expectSound(run, server.calls);
    expect(factsOf(ledger, 'decision.accepted')).toHaveLength(TURNS);
    const outcomes = factsOf(ledger, 'outcome').map(({ outcome }) => outcome);
    expect(outcomes.filter((outcome) => outcome !== 'succeeded' && outcome !== 'unknown')).toEqual([]);
    // What was in no dying worker's hands is known: an outcome that is `unknown` where nothing was wrong would hide a
    // fault.
    for (const { left, ended } of unknownCalls(ledger))
      expect(kills.some((killed) => left <= killed && killed <= ended)).toBe(true);
  }
  await replayOwn(world);
});
