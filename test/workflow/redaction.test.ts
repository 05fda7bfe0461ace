/** Arguments that policy keeps back stand in nothing that is shown in passing or lasts, and are bound all the same (G-6, INV-G2). */
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { REDACTED } from '../../domain/policy/redaction.ts';
import { documentOf, runCommand } from '../support/cli.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { keptIn } from '../support/world/ledger-folder.ts';
import { headKey, writeHeadKey } from '../support/signing/keys.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

const SECRET = 'DE02-canary-1203';

let engine: TestEngine;
let bank: RecordingServer;
let world: World;
let run: RunHandle;
let request: ApprovalRequest;

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  world = await startWorld({
    engine,
    config: {
      policy: { redact: [{ server: 'bank', arguments: ['note'] }] },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
      ledger: { sign: await writeHeadKey(engine.directory, headKey()), directory: 'ledger' },
    },
  });
  const call = { tool: 'bank/pay', arguments: { purpose: 'kept-back', note: SECRET } };
  run = await world.start([{ calls: [call] }, { text: 'done' }]);
  const [open] = await openRequests(run);
  if (open === undefined) throw new Error('there is no request');
  request = open;
});
afterAll(async () => {
  await world.stop();
  await bank.close();
  await engine.stop();
});

const cli = async (...args: readonly string[]) =>
  await runCommand([...args, '--address', engine.server.address, '--namespace', 'default'], {
    directory: engine.directory,
  });

test('current details, memo and search attributes do not show them', async () => {
  const handle = world.client.workflow.getHandle(run.runId);
  const metadata = inspect(await handle.query('__temporal_workflow_metadata'), { depth: Infinity });
  expect(metadata).toContain(REDACTED);
  expect(metadata).not.toContain(SECRET);
  const { memo, typedSearchAttributes } = await handle.describe();
  expect(inspect({ memo, typedSearchAttributes }, { depth: Infinity })).not.toContain(SECRET);
});

test('the command line shows them only to whoever asks for them', async () => {
  for (const format of [[], ['--json']]) {
    const shown = await cli('requests', run.runId, '--full', ...format);
    expect(shown.out).toContain(REDACTED);
    expect(shown.out).not.toContain(SECRET);
    expect((await cli('requests', run.runId, '--reveal', ...format)).out).toContain(SECRET);
  }
});

test('whoever decides sees them, and decides exactly them: the digest binds what is kept back', async () => {
  expect(request.redact).toEqual(['note']);
  expect(request.arguments).toMatchObject({ note: SECRET });
  await run.decide(decisionOn(request, 'ann'));
  await run.result();
  expect(bank.callsFor('kept-back')).toMatchObject([{ arguments: { note: SECRET } }]);
});

test('neither the record nor an export of it holds them', async () => {
  const { entries } = await keptIn(join(engine.directory, 'ledger'), run.runId);
  expect(entries.length).toBeGreaterThan(5);
  expect(JSON.stringify(entries)).not.toContain(SECRET);
  for (const format of ['jsonl', 'csv']) {
    const { exitCode, out } = await cli('ledger', run.runId, '--export', format);
    expect([exitCode, out.includes(SECRET)]).toEqual([0, false]);
    expect(out).toContain('argumentsHash');
  }
  expect(documentOf(await cli('verify-ledger', run.runId, '--json'))).toMatchObject({ verdict: 'chained' });
});
