/**
 * How fast the sinks of the ledger port take records: one at a time, as one run delivers, and many runs at once.
 *
 * `npx tsx bench/ledger.ts --seconds 5 --entries 60`
 */
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { setUpRoot } from '../activities/artifacts/root.ts';
import { createDelivery, createHeadSigner, type DeliverLedger, type LedgerSink } from '../activities/ledger/port.ts';
import { createLedgerDirectory, LEDGER_ROOT } from '../activities/ledger/directory.ts';
import { createEgress } from '../activities/egress/fetch.ts';
import { createLedgerWebhook } from '../activities/ledger/webhook.ts';
import type { LedgerEntry, LedgerFact } from '../contracts/schemas/ledger.ts';
import { GENESIS, sealEntry } from '../domain/run/journal.ts';

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '5' }, entries: { type: 'string', default: '60' } },
});
const seconds = Number(values.seconds);
/** Of one segment: what a run of about ten countersigned calls records. */
const perSegment = Number(values.entries);

const hash = 'a'.repeat(64);
const FACTS: readonly LedgerFact[] = [
  {
    kind: 'verdict',
    callId: 't1.c0',
    verdict: 'ask',
    rules: ['r'],
    server: 's',
    tool: 't',
    argumentsHash: hash,
    policyVersion: hash,
  },
  { kind: 'dispatched', callId: 't1.c0', attempt: 1, decisionId: 'd-1' },
  { kind: 'outcome', callId: 't1.c0', outcome: 'succeeded', outcomeHash: hash },
];

function chain(): LedgerEntry[] {
  const entries: LedgerEntry[] = [];
  for (let seq = 0; seq < perSegment; seq += 1) {
    const [fact] = FACTS.slice(seq % FACTS.length);
    if (fact !== undefined) entries.push(sealEntry(seq, entries.at(-1)?.hash ?? GENESIS, seq, fact));
  }
  return entries;
}

const segment = chain();

/** So many runs deliver one segment after the other, each the first of another run. @returns segments per second */
async function rate(deliver: DeliverLedger, lanes: number): Promise<number> {
  const start = performance.now();
  let count = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() - start < seconds * 1_000) {
      const runId = randomUUID();
      await deliver({ namespace: 'default', workflowId: `bench-${runId}`, firstRunId: runId, runId }, segment);
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return (count * 1_000) / (performance.now() - start);
}

const folder = await mkdtemp(join(tmpdir(), 'countersign-bench-ledger-'));
const root = join(folder, 'ledger');
setUpRoot(root, true, LEDGER_ROOT);
const pem = generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' });
await writeFile(join(folder, 'key.pem'), pem);
const sign = await createHeadSigner({ kid: 'bench', privateKeyFile: 'key.pem' }, folder);
// Answers when it has read all, and keeps nothing: what is measured is our side.
const receiver = createServer(
  (request, response) => void request.resume().on('end', () => response.writeHead(204).end()),
);
await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
// Sound: a listening TCP server has an address of this form.
const { port } = receiver.address() as AddressInfo;
const secret = `whsec_${Buffer.alloc(32, 'b').toString('base64')}`;
const webhook = { url: `http://127.0.0.1:${port}/`, secret, timeoutSeconds: 10 };
const egress = { allowLoopback: true, allowInsecure: false, allowPrivate: [] };

const sinks: Readonly<Record<string, LedgerSink>> = {
  directory: createLedgerDirectory(root),
  webhook: createLedgerWebhook(
    webhook,
    createEgress({ rules: egress, origins: new Set([new URL(webhook.url).origin]) }),
  ),
};
try {
  for (const [adapter, sink] of Object.entries(sinks))
    for (const lanes of [1, 16]) {
      const segments = await rate(createDelivery(sign, [sink]), lanes);
      const line = {
        figure: `ledger port: ${adapter}, ${lanes} at a time`,
        unit: 'segments/s',
        countersign: Math.round(segments),
      };
      process.stdout.write(`${JSON.stringify({ ...line, entriesPerSecond: Math.round(segments * perSegment) })}\n`);
    }
} finally {
  receiver.close();
  receiver.closeAllConnections();
  await rm(folder, { recursive: true, force: true });
}
