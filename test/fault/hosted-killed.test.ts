/**
 * A worker process is killed (SIGKILL) with one hosted call waiting for a person and one under way at the provider
 * (docs/adr/0080, INV-X1): by the log of the server behind the provider, each is made once at most.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { HOSTING_KEY, type HostingProvider, startHostingProvider } from '../support/models/hosting-provider.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { type RecordingServer, startRecordingServer, TOOLS } from '../support/servers/recording-server.ts';
import { outcomes, replayOwn } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

/** Longer than the heartbeat timeout of a call, on a busy machine. */
const RECOVERY_MS = 180_000;

let bank: RecordingServer;
let provider: HostingProvider;
let world: FaultWorld;

beforeAll(async () => {
  provider = await startHostingProvider();
  // The provider's client takes no list with a tool whose hints are of the wrong type.
  bank = await startRecordingServer({ tools: TOOLS.filter(({ name }) => name !== 'odd') });
  world = await startFaultWorld({
    config: {
      models: {
        gpt: {
          provider: 'openai',
          model: 'gpt-5.1',
          baseUrl: provider.baseUrl,
          asksBeforeCalls: true,
          apiKey: HOSTING_KEY,
        },
      },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' }, execute: 'hosted' } },
      policy: { approvers: { ids: ['bob'] }, servers: { bank: { tools: { slow: 'allow' } } } },
    },
    // A decision may have to wait for the next worker.
    client: { deadlineMs: 60_000 },
  });
}, RECOVERY_MS);
afterAll(async () => {
  await world?.stop();
  await Promise.all([provider.close(), bank.close()]);
});

async function started(tool: string, purpose: string): Promise<RunHandle> {
  provider.script(purpose, [{ calls: [{ server: 'bank', tool, arguments: { purpose } }] }, { text: 'done' }]);
  return await world.start('gpt', { input: purpose });
}

test(
  'what waits is made once approved; what was under way is asked about, and not made again',
  async () => {
    const worker = await world.startWorker();
    const waiting = await started('pay', 'waiting');
    const underWay = await started('slow', 'under way');
    const [request] = await openRequests(waiting);
    await bank.held('under way');
    await worker.kill();
    await world.startWorker();
    await waiting.decide(decisionOn(request, 'bob'));
    await waiting.result();
    expect(await outcomes(waiting)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('waiting')).toHaveLength(1);
    const lost = await lostCall(underWay, 't1.c0', 1, RECOVERY_MS);
    expect(lost).toMatchObject({ hosted: 'gpt', about: { kind: 'outcome', attempt: 1 } });
    bank.release('under way');
    await underWay.resolveOutcome(resolutionOf(lost, 'bob', { kind: 'failed', message: 'nothing there' }));
    await underWay.result();
    expect(bank.callsFor('under way')).toHaveLength(1);
    expect(provider.asked.filter(({ approves }) => approves)).toHaveLength(2);
    await replayOwn(world, waiting.runId, underWay.runId);
  },
  2 * RECOVERY_MS,
);
