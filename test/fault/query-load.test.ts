/**
 * Two worker processes, one of which stands still for half a minute (SIGSTOP) while 48 runs are polled eight times a
 * second and decided at once: what every run has recorded is what a replay on the same build makes of it (INV-D1,
 * docs/adr/0044), and its ledger is whole.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, jest, test } from '@jest/globals';
import { CountersignError, type RunHandle } from '../../client/index.ts';
import type { Recorded } from '../../workers/replay/recorded-history.ts';
import { bundleForReading } from '../../workers/replay/replayed-run.ts';
import { compareHistories } from '../../workers/replay/semantics.ts';
import { expectSound } from '../support/faults/oracle.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { until } from '../support/until.ts';
import { executions, replayOwn } from '../support/world/run-record.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const RUNS = 48;
const STANDSTILL_MS = 30_000;
const POLL_MS = 120;
jest.setTimeout(500_000);
const COMMAND = fileURLToPath(new URL('../../scripts/countersign.mjs', import.meta.url));

let frozen: WorkerProcess;

const server = during(() => startRecordingServer());
const calls = [{ tool: 'office/pay', arguments: { purpose: 'load' } }];
const world = during(async () =>
  startFaultWorld({
    config: {
      taskQueue: 'polled',
      servers: { office: { url: server.url, credentials: { kind: 'none' } } },
      policy: { approvers: { ids: ['bob'] } },
      models: {
        payer: { provider: 'scripted', script: { steps: [{ calls }, { calls }, { calls }, { text: 'Done.' }] } },
      },
    },
    client: { taskQueue: 'polled' },
    // Its histories are compared with the product's own bundle.
    bundle: await sharedBundle(),
  }),
);
beforeAll(async () => {
  await world.startWorker();
  frozen = await world.startWorker();
});

/** As somebody with a page open who says yes to all that comes. */
async function countersigned(run: RunHandle, isOver: () => boolean): Promise<void> {
  const said = new Map<string, ReturnType<typeof decisionOn>>();
  while (!isOver()) {
    try {
      for (const request of await run.requests()) {
        if (request.status !== 'open') continue;
        const decision = said.get(request.digest) ?? decisionOn(request, 'bob');
        said.set(request.digest, decision);
        await run.decide(decision);
      }
    } catch (error) {
      // A worker that stands still: the same is sent again. What has ended meanwhile is asked nothing.
      const passes = error instanceof CountersignError && (error.traits.retryable || error.code === 'RUN_CLOSED');
      const isSettled =
        error instanceof CountersignError && /^(ALREADY_DECIDED|DIGEST_MISMATCH|REQUEST_)/.test(error.code);
      if (!passes && !isSettled) throw error;
    }
    await pause(POLL_MS);
  }
}

/** `countersign replay --live` as an operator starts it. */
async function replayedLive(query: string): Promise<{ readonly stdout: string; readonly exitCode: number }> {
  const { address, namespace } = world.engine.server;
  await until(async () => (await world.client.workflow.count(query)).count >= RUNS, {
    what: 'all runs listed as completed',
  });
  const args = ['replay', '--live', '--query', query, '--config', world.configFile];
  const child = spawn(process.execPath, [COMMAND, ...args, '--address', address, '--namespace', namespace], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  // Sound: the arguments of `close` as Node documents them; it was sent no signal.
  const [exitCode] = (await once(child, 'close')) as [number];
  return { stdout, exitCode };
}

// Each time takes a minute of both cores. `COUNTERSIGN_TIMES=3` plays it three times.
test.each(Array.from({ length: Number(process.env['COUNTERSIGN_TIMES']) || 1 }, (_, at) => at + 1))(
  'one of two workers stands still for half a minute',
  async () => {
    const begin = new Date().toISOString();
    const runs = await Promise.all(Array.from({ length: RUNS }, async () => await world.start('payer')));
    await Promise.all(runs.map((run) => openRequests(run)));
    const ended = new Set<RunHandle>();
    const people = runs.map((run) => countersigned(run, () => ended.has(run)));
    const results = runs.map(async (run) => {
      const result = await run.result();
      ended.add(run);
      return result.status;
    });
    frozen.freeze();
    const since = Date.now();
    await until(() => Date.now() - since > STANDSTILL_MS, {
      what: 'half a minute',
      withinMs: 60_000,
    });
    frozen.thaw();
    expect(new Set(await Promise.all(results))).toEqual(new Set(['completed']));
    await Promise.all(people);
    // Keeps the history of a run that does not replay.
    await replayOwn(world);

    const { stdout, exitCode } = await replayedLive(`ExecutionStatus = 'Completed' AND StartTime >= '${begin}'`);
    // What is said on a terminal, and to programs.
    expect(stdout.split('\n').filter((line) => !/^(?:ok|replays)\b/.test(line) && /FAILED|^ /.test(line))).toEqual([]);
    expect({ exitCode, stdout }).toMatchObject({ exitCode: 0 });
    expect(stdout).toMatch(/\n48 of 48 histories replay\.\n$/);

    const recorded: Recorded[] = [];
    for (const { runId: workflowId } of runs)
      for (const { runId, history } of await executions(world, workflowId))
        recorded.push({ kind: 'history', name: `${workflowId} ${runId}`, workflowId, history });
    const damaged: string[] = [];
    const replay = { bundle: await sharedBundle(bundleForReading), config: world.config };
    for await (const { name, error } of compareHistories(recorded, replay))
      if (error !== undefined) damaged.push(`${name}: ${error.message}`);
    expect(damaged).toEqual([]);
    for (const run of runs) await expectSound(run, server.calls);
  },
);
