/** A worker is killed after both sinks have a segment and before Temporal knows of it: it is kept once (F1, INV-D3). */
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { startFaultWorld } from '../support/faults/world.ts';
import { startLedgerReceiver, WEBHOOK_SECRET } from '../support/servers/ledger-receiver.ts';
import { headKey } from '../support/signing/keys.ts';
import { until } from '../support/until.ts';
import { keptIn } from '../support/world/ledger-folder.ts';
import { executions, replayOwn } from '../support/world/run-record.ts';
import { during } from '../support/world/during.ts';

const RECOVERY_MS = 180_000;
const KEY = headKey();

const receiver = during(() => startLedgerReceiver());
const world = during(() =>
  startFaultWorld({
    config: {
      ledger: {
        sign: { kid: KEY.kid, privateKeyFile: 'ledger.pem' },
        directory: 'ledger',
        webhook: { url: receiver.url, secret: WEBHOOK_SECRET, timeoutSeconds: 30 },
      },
      models: { main: { provider: 'scripted', script: { steps: [{ text: 'Done.' }] } } },
    },
    files: { 'ledger.pem': KEY.pem },
  }),
);

test(
  'a segment whose acknowledgement was lost with its worker is delivered again and adds nothing',
  async () => {
    const worker = await world.startWorker();
    receiver.answer('keeps it and says nothing');
    const run = await world.start('main');
    await until(() => receiver.received.length > 0, { what: 'a delivery' });
    await worker.kill();
    const root = join(world.engine.directory, 'ledger');
    const [execution] = await executions(world, run.runId);
    const firstRunId = execution?.runId ?? '';
    const before = await keptIn(root, firstRunId);
    expect(before.entries.length).toBeGreaterThan(0);
    expect(receiver.entries(firstRunId)).toEqual(before.entries);
    receiver.answer();
    await world.startWorker();
    await run.result();
    expect(await keptIn(root, firstRunId)).toEqual(before);
    expect(before.entries).toEqual(await run.ledger());
    expect(receiver.entries(firstRunId)).toEqual(before.entries);
    const [first, second] = receiver.received;
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
    expect(second?.body).toBe(first?.body);
    await replayOwn(world, run.runId);
  },
  RECOVERY_MS,
);
