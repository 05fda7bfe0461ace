/**
 * A worker process is killed (SIGKILL) with one hosted call waiting for a person and one under way at the provider
 * (docs/adr/0080, INV-X1), for each way to approve one: by the log of the server behind the provider, each is made once
 * at most.
 */
import { expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { hostingModel, startHostingProvider } from '../support/models/hosting-provider.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { startRecordingServer, TOOLS } from '../support/servers/recording-server.ts';
import { outcomesAtEnd, replayOwn } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Longer than the heartbeat timeout of a call, on a busy machine. */
const RECOVERY_MS = 180_000;

const provider = during(() => startHostingProvider());
// The provider's client takes no list with a tool whose hints are of the wrong type.
const bank = during(() => startRecordingServer({ tools: TOOLS.filter(({ name }) => name !== 'odd') }));
const world = during(async () => {
  const gpt = hostingModel(provider);
  return await startFaultWorld({
    config: {
      models: { gpt, keeping: { ...gpt, storesAnswers: true } },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' }, execute: 'hosted' } },
      policy: { approvers: { ids: ['bob'] }, servers: { bank: { tools: { slow: 'allow' } } } },
    },
  });
});

async function started(model: string, tool: string, purpose: string): Promise<RunHandle> {
  provider.script(purpose, [{ calls: [{ server: 'bank', tool, arguments: { purpose } }] }, { text: 'done' }]);
  return await world.start(model, { input: purpose });
}

/** The second continues an answer that its provider keeps. */
const MODELS = ['gpt', 'keeping'] as const;

test(
  'what waits is made once approved; what was under way is asked about, and not made again',
  async () => {
    const worker = await world.startWorker();
    const begun = await Promise.all(
      MODELS.map(async (model) => {
        const [waiting, underWay] = [`waiting of ${model}`, `under way of ${model}`];
        const runs = [await started(model, 'pay', waiting), await started(model, 'slow', underWay)] as const;
        const [request] = await openRequests(runs[0]);
        await bank.held(underWay);
        return { model, runs, request, waiting, underWay };
      }),
    );
    await worker.kill();
    await world.startWorker();
    for (const { model, runs, request, ...purposes } of begun) {
      const [waiting, underWay] = runs;
      await waiting.decide(decisionOn(request, 'bob'));
      expect(await outcomesAtEnd(waiting)).toEqual({ 't1.c0': 'succeeded' });
      expect(bank.callsFor(purposes.waiting)).toHaveLength(1);
      const lost = await lostCall(underWay, 't1.c0', 1, RECOVERY_MS);
      expect(lost).toMatchObject({ hosted: model, about: { kind: 'outcome', attempt: 1 } });
      bank.release(purposes.underWay);
      await underWay.resolveOutcome(resolutionOf(lost, 'bob', { kind: 'failed', message: 'nothing there' }));
      await underWay.result();
      expect(bank.callsFor(purposes.underWay)).toHaveLength(1);
    }
    const approving = provider.asked.filter(({ approves }) => approves);
    expect(approving.filter(({ body }) => body['previous_response_id'] === undefined)).toHaveLength(2);
    expect(approving).toHaveLength(4);
    await replayOwn(world, ...begun.flatMap(({ runs }) => runs.map(({ runId }) => runId)));
  },
  2 * RECOVERY_MS,
);
