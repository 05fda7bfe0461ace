/**
 * A worker is killed (SIGKILL) while it fetches a token (F1, F13, INV-X1, INV-S2): for the list at the start of a run,
 * and for a call that a person has approved. By the tool server's log nothing was sent with a token that never came.
 */
import { expect, test } from '@jest/globals';
import { executionsOf, expectSound } from '../support/faults/oracle.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { startHostile } from '../support/oauth/provider.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { outcomes, replayOwn } from '../support/world/run-record.ts';
import { decisionOn, requestThat } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Longer than the heartbeat timeout of a call, on a busy machine. */
const RECOVERY_MS = 180_000;

const answers = (): void =>
  issuer.behave({ token: () => ({ body: { access_token: 'good', token_type: 'Bearer', expires_in: 90 } }) });
const hangs = (): void => issuer.behave({ token: () => 'hang' });

const bank = during(() => startRecordingServer());
const issuer = during(() => startHostile({ token: () => 'hang' }));
const world = during(async () => {
  const credentials = { kind: 'client-credentials', issuer: issuer.issuer, clientId: 'c', clientSecret: 's' } as const;
  return await startFaultWorld({
    config: {
      servers: { bank: { url: bank.url, credentials } },
      policy: { approvers: { ids: ['bob'] }, unknownOutcomes: 'record' },
      models: {
        paying: {
          provider: 'scripted',
          script: { steps: [{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'p' } }] }, { text: 'Done.' }] },
        },
      },
    },
  });
});

test(
  'for a list: the next worker fetches another, and the run goes on; for a call: nobody knows, and nothing was sent',
  async () => {
    const first = await world.startWorker();
    const run = await world.start('paying');
    await issuer.arrived;
    await first.kill();
    answers();
    const second = await world.startWorker();
    const request = await requestThat(run, ({ status }) => status === 'open', 'a request', RECOVERY_MS);
    const before = issuer.seen.length;
    hangs();
    await run.decide(decisionOn(request, 'bob'));
    await until(() => issuer.seen.length > before, { what: 'the request for the token of the call' });
    await second.kill();
    answers();
    await world.startWorker();
    await run.result({ deadlineMs: RECOVERY_MS });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'unknown' });
    expect(executionsOf(bank.calls, run, 't1.c0')).toBe(0);
    await expectSound(run, bank.calls);
    await replayOwn(world, run.runId);
  },
  2 * RECOVERY_MS,
);
