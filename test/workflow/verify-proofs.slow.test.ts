/** `verify-ledger --trust`: who signed the start and the decisions of a run is verified from Temporal's history (J, INV-G2, F22). */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { sealEntry } from '../../domain/run/journal.ts';
import { documentOf, errorOf, runCommand } from '../support/cli.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { headKey, writeHeadKey } from '../support/signing/keys.ts';
import { person, service, type TestKey, writeTrust } from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { decideNext, decisionOn, openRequests, rolled, startWorld, type World } from '../support/world/world.ts';

let engine: TestEngine;
let bank: RecordingServer;
let world: World;
let plain: World;
let run: RunHandle;
let unsigned: RunHandle;

const backend = service('backend', ['ops']);
const ben = person('ben', 'ben');
const PAY = { calls: [{ tool: 'bank/pay', arguments: { purpose: 'p' } }] };
const STEPS = [PAY, PAY, { text: 'done' }];
const initiator = { id: 'acme|ann' };

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  await writeTrust(join(engine.directory, 'trust.jwks'), backend, ben);
  const config: ConfigInput = {
    policy: { approvers: { ids: ['acme|ann', 'acme|ben'] } },
    servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
    ledger: { sign: await writeHeadKey(engine.directory, headKey()), directory: 'ledger' },
  };
  const trust = { mode: 'signed', jwks: 'trust.jwks' } as const;
  world = await startWorld({ engine, client: { signer: backend.signer }, config: { ...config, trust } });
  plain = await startWorld({ engine, bundle: world.bundle, config: { ...config, taskQueue: 'plain' } });
  run = await world.start(STEPS, { initiator });
  const [first] = await openRequests(run);
  await rolled(world, run.runId);
  // Of the execution before, as it was shown there.
  if (first !== undefined) await run.decide(decisionOn(first, 'acme|ann'));
  await until(async () => (await run.state()).turn === 2, { what: 'turn 2' });
  await decideNext(run, 'acme|ben', 'reject');
  await run.result();
  unsigned = await plain.start([PAY, { text: 'done' }], { initiator }, { runId: 'unsigned' });
  await decideNext(unsigned, 'acme|ann', 'reject');
  await unsigned.result();
});

afterAll(async () => {
  await plain.stop();
  await world.stop();
  await bank.close();
  await engine.stop();
});

interface Report {
  readonly verdict: string;
  readonly signatures: { readonly checked: number; readonly unchecked: number };
  readonly faults: readonly { readonly kind: string; readonly seq: number; readonly reason: string }[];
}

const offline = async (...args: readonly string[]) =>
  await runCommand(['verify-ledger', ...args], { directory: engine.directory });
const online = async (...args: readonly string[]) =>
  await offline(...args, '--address', engine.server.address, '--namespace', 'default');
/** With a file of these keys. */
async function reportFor(of: RunHandle, ...keys: readonly (TestKey | TestKey['entry'])[]) {
  await writeTrust(join(engine.directory, 'asked.jwks'), ...keys);
  const result = await online(of.runId, '--trust', 'asked.jwks', '--json');
  return { result, report: documentOf<Report>(result) };
}
const seqsOf = async (of: RunHandle, kind: string): Promise<number[]> =>
  (await of.ledger()).filter(({ fact }) => fact.kind === kind).map(({ seq }) => seq);

describe('a run that was signed', () => {
  test('is proven: the start and both decisions, over a continuation', async () => {
    const { result, report } = await reportFor(run, backend);
    expect(report).toMatchObject({ verdict: 'intact', faults: [], signatures: { checked: 3, unchecked: 0 } });
    expect(result.exitCode).toBe(0);
    expect((await online(run.runId, '--trust', 'asked.jwks')).out).toContain(
      '3 signatures of decisions and start checked',
    );
  });

  test('by a key that was replaced since', async () => {
    const retired = new Date(Date.now() + 60_000).toISOString();
    const { entry } = backend;
    const { report } = await reportFor(run, { ...entry, countersign: { ...entry.countersign, retired } });
    expect(report.faults).toEqual([]);
  });

  test.each<readonly [string, string, readonly (TestKey | TestKey['entry'])[]]>([
    ['whose key was revoked', 'proof-foreign-key', [ben]],
    [
      'whose key was replaced before',
      'proof-not-entitled',
      [{ ...backend.entry, countersign: { ...backend.entry.countersign, retired: '2020-01-01T00:00:00.000Z' } }],
    ],
    [
      'whose key speaks for another issuer',
      'proof-not-entitled',
      [{ ...backend.entry, countersign: { ...backend.entry.countersign, iss: 'other' } }],
    ],
    ['whose key is another one under that name', 'proof-altered', [{ ...ben.entry, kid: 'backend' }]],
  ])('%s: each entry is named, and how; exit code 7', async (_what, kind, keys) => {
    const { result, report } = await reportFor(run, ...keys);
    const seqs = [...(await seqsOf(run, 'run.started')), ...(await seqsOf(run, 'decision.accepted'))];
    expect(report.faults.map((fault) => `${fault.kind} ${fault.seq}`)).toEqual(seqs.map((seq) => `${kind} ${seq}`));
    expect(result.exitCode).toBe(7);
    expect(errorOf({ ...result, out: '' })).toMatchObject({ code: 'LEDGER_BROKEN', facts: { kind, seq: 0 } });
  });
});

describe('signatures that were not checked are counted', () => {
  test('where nobody gave keys', async () => {
    const result = await online(run.runId);
    expect(result.exitCode).toBe(0);
    expect(result.out).toMatch(/2 signatures .* were not checked: name the trusted keys with --trust/);
  });

  test('where only the record is there, whatever keys are given', async () => {
    await writeTrust(join(engine.directory, 'asked.jwks'), backend);
    const args = [run.runId, '--records', 'ledger', '--trust', 'asked.jwks'];
    expect(documentOf(await offline(...args, '--json'))).toMatchObject({
      verdict: 'chained',
      signatures: { checked: 0, unchecked: 3 },
    });
    expect((await offline(...args)).out).toMatch(/3 signatures .* were not checked: .*history, which was not asked/);
    expect(documentOf(await online(...args, '--live', '--json'))).toMatchObject({
      verdict: 'intact',
      signatures: { checked: 3, unchecked: 0 },
    });
  });
});

test('J: what somebody adds to a copy is not taken for signed because the run itself is', async () => {
  await writeTrust(join(engine.directory, 'asked.jwks'), backend);
  const entries = await run.ledger();
  const decision = entries.find(({ fact }) => fact.kind === 'decision.accepted')?.fact;
  const last = entries.at(-1);
  if (decision?.kind !== 'decision.accepted' || last === undefined) throw new Error('nothing was decided');
  const { signature: _, ...forged } = { ...decision, decisionId: 'forged' };
  const added = sealEntry(entries.length, last.hash, Date.parse(last.at), forged);
  const exported = await runCommand(
    ['ledger', run.runId, '--export', 'jsonl', '--address', engine.server.address, '--namespace', 'default'],
    { directory: engine.directory },
  );
  const [line] = exported.out.split('\n');
  await writeFile(join(engine.directory, 'true.jsonl'), exported.out);
  await writeFile(
    join(engine.directory, 'longer.jsonl'),
    `${exported.out.trimEnd()}\n${JSON.stringify({ ...JSON.parse(line ?? ''), entry: added })}\n`,
  );
  const verify = async (file: string) =>
    documentOf<Report>(await online(run.runId, '--file', file, '--live', '--trust', 'asked.jwks', '--json'));
  expect(await verify('true.jsonl')).toMatchObject({ verdict: 'intact', signatures: { checked: 3, unchecked: 0 } });
  expect(await verify('longer.jsonl')).toMatchObject({
    verdict: 'broken',
    faults: [{ kind: 'proof-unsigned', seq: added.seq }],
    signatures: { checked: 3, unchecked: 1 },
  });
});

test('a run that nobody signed is not proven, whatever its ledger says', async () => {
  const { report } = await reportFor(unsigned, backend, ben);
  const [decided] = await seqsOf(unsigned, 'decision.accepted');
  expect(report.faults.map(({ kind, seq }) => `${kind} ${seq}`)).toEqual([
    'proof-unsigned 0',
    `proof-unsigned ${decided}`,
  ]);
  expect(documentOf(await online(unsigned.runId, '--json'))).toMatchObject({ verdict: 'chained', faults: [] });
});

test('without keys nothing is called intact; keys that the configuration trusts are asked by themselves', async () => {
  const forged = await online(unsigned.runId);
  expect([forged.exitCode, forged.out]).toEqual([0, expect.stringMatching(/^chained; signatures not checked /)]);
  const config = join(engine.directory, 'signed.yaml');
  await writeFile(config, 'trust: { mode: signed, jwks: configured.jwks }\n');
  await writeTrust(join(engine.directory, 'configured.jwks'), backend);
  const configured = async (of: RunHandle, ...args: readonly string[]) =>
    await online(of.runId, '--config', config, ...args);
  const proven = await configured(run);
  expect([proven.exitCode, proven.out]).toEqual([
    0,
    expect.stringMatching(/^intact .* 3 signatures of decisions and start checked/),
  ]);
  const broken = await configured(unsigned, '--json');
  expect(broken.exitCode).toBe(7);
  expect(documentOf<Report>(broken)).toMatchObject({
    verdict: 'broken',
    faults: [{ kind: 'proof-unsigned', seq: 0 }, {}],
  });
  // As the record alone has it: each signature is named by a key that may say so, and none was seen.
  const copy = await offline(run.runId, '--records', 'ledger', '--config', config);
  expect([copy.exitCode, copy.out]).toEqual([0, expect.stringMatching(/^chained; signatures not checked /)]);
  for (const without of ['--no-trust', '--no-history']) {
    const unasked = await configured(unsigned, without);
    expect([unasked.exitCode, unasked.out]).toEqual([0, expect.stringMatching(/^chained; signatures not checked /)]);
  }
  await writeFile(config, 'trust: { mode: signed, jwks: nowhere.jwks }\n');
  const unreadable = await configured(run, '--json');
  expect(unreadable.exitCode).not.toBe(0);
  expect(errorOf(unreadable)).toMatchObject({ code: 'TRUST_UNAVAILABLE' });
  await writeFile(config, 'trust: { mode: temporal }\n');
  expect(documentOf(await configured(run, '--json'))).toMatchObject({ verdict: 'chained' });
});

test('keys that cannot be read, or stand there twice, are no keys: exit code 2', async () => {
  expect((await online(run.runId, '--trust', 'nowhere.jwks')).exitCode).toBe(2);
  await writeTrust(join(engine.directory, 'twice.jwks'), backend, backend);
  expect((await online(run.runId, '--trust', 'twice.jwks')).exitCode).toBe(2);
});
