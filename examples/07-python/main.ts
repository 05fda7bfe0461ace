/** Starts a service for the Python script, which starts a run, approves it and verifies its ledger by itself. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startTestWorld } from 'countersign/testing';

const at = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const python = process.env['EXAMPLE_PYTHON'] ?? at('.venv/bin/python');

const steps = [{ calls: [{ tool: 'bank/transfer', arguments: { to: 'größe', amount: 0.00001 } }] }, { text: 'Paid.' }];
const world = await startTestWorld({
  servers: { bank: { transfer: { answer: () => 'sent' } } },
  config: { models: { main: { provider: 'scripted', script: { steps } } }, policy: { approvers: { ids: ['ben'] } } },
});
const folder = await mkdtemp(join(tmpdir(), 'countersign-example-'));
try {
  const spec = {
    agent: { name: 'clerk', model: 'main' },
    input: 'Pay what is due.',
    initiator: { id: 'ann' },
    servers: [{ name: 'bank' }],
  };
  const file = join(folder, 'spec.json');
  await writeFile(file, JSON.stringify(spec));
  const { stdout } = await promisify(execFile)(python, [at('approve.py'), file, 'python-1', 'ben'], {
    env: { ...process.env, TEMPORAL_ADDRESS: world.address, PYTHONDONTWRITEBYTECODE: '1', PYTHONIOENCODING: 'utf-8' },
  });

  // What Python says of the run is what the library says of it.
  const ledger = await world.countersign.run('python-1').ledger();
  assert.match(stdout, /approved by ben/);
  assert(stdout.includes(`ledger intact: ${ledger.length} entries, head ${ledger.at(-1)?.hash}`), stdout);
  assert.equal(world.servers['bank']?.calls.length, 1);
  console.log(`Python approved the call and verified ${ledger.length} entries`);
} finally {
  await rm(folder, { recursive: true, force: true });
  await world.stop();
}
