/**
 * `verify-ledger` over every source: the run with its history, the artifact store, a record, a file (J, F39, INV-D3).
 * Arguments that policy keeps back stand in nothing that is shown in passing or lasts, and are bound all the same
 * (G-6, INV-G2).
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { compareWithHistory, readDeeds, type RecordedDeeds } from '../../client/ledger/history.ts';
import type { AnyEntry } from '../../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { REDACTED } from '../../domain/policy/redaction.ts';
import { commandsAt, documentOf, errorOf, runCommand } from '../support/cli.ts';
import { startEngine } from '../support/engine.ts';
import type { RecordingServer } from '../support/servers/recording-server.ts';
import { headKey, writeHeadKey } from '../support/signing/keys.ts';
import { until } from '../support/until.ts';
import { startBank } from '../support/world/bank-world.ts';
import { keptIn } from '../support/world/ledger-folder.ts';
import { decideNext, decisionOn, openRequests, rolled, type World } from '../support/world/world.ts';

const KEY = headKey();
let bank: RecordingServer;
let world: World;
let run: RunHandle;
let open: RunHandle;
let segment: string;

const PAY = { calls: [{ tool: 'bank/pay', arguments: { purpose: 'p' } }] };
const END = { text: 'done' };

beforeAll(async () => {
  const engine = await startEngine();
  const ledger = { sign: await writeHeadKey(engine.directory, KEY), directory: 'ledger' };
  const policy = { redact: [{ server: 'bank', arguments: ['note'] }] };
  ({ bank, world } = await startBank({ ledger, policy }, { engine }));
  await writeFile(join(engine.directory, 'keys.json'), JSON.stringify({ keys: [KEY.publicJwk] }));
  await writeFile(join(engine.directory, 'other.json'), JSON.stringify({ keys: [headKey().publicJwk] }));
  run = await world.start([PAY, PAY, END]);
  open = await world.start([PAY, END]);
  await openRequests(open);
  await openRequests(run);
  await run.say({ messageId: 'm-1', from: 'ann', text: 'And be quick.' });
  await rolled(world, run.runId);
  await decideNext(run, 'ann');
  await until(async () => (await run.state()).turn === 2, { what: 'turn 2' });
  await decideNext(run, 'ann', 'reject');
  segment = (await run.result()).segment?.sha256 ?? '';
});
afterAll(async () => {
  await world.stop();
  await world.engine.stop();
});

const command = async (args: readonly string[]) => await commandsAt(world.engine)(args);
/** Without a server. */
const offline = async (...args: readonly string[]) =>
  await runCommand(['verify-ledger', run.runId, '--json', ...args], { directory: world.engine.directory });
const online = async (...args: readonly string[]) => await command(['verify-ledger', run.runId, '--json', ...args]);

interface Report {
  readonly verdict: string;
  readonly length: number;
  readonly faults: readonly { readonly kind: string; readonly seq: number }[];
}

describe('a ledger that nobody touched is intact', () => {
  test('as the run tells it, and as history does', async () => {
    const result = await online();
    expect(documentOf(result)).toMatchObject({ verdict: 'chained', faults: [], historyFrom: 0, ended: true });
  });

  test('while the run waits', async () => {
    expect(documentOf(await command(['verify-ledger', open.runId, '--json']))).toMatchObject({
      verdict: 'chained',
      ended: false,
    });
  });

  test('in its record, without a server: every entry stands under a head that the key has signed', async () => {
    const { length } = await run.ledger();
    expect(documentOf(await offline('--records', 'ledger', '--keys', 'keys.json'))).toMatchObject({
      verdict: 'chained',
      length,
      signedTo: length,
      heads: [
        { kid: 'worker-1', from: 0, verified: true },
        { to: length, verified: true },
      ],
    });
  });

  test('in the artifact store, without a server', async () => {
    const { length } = await run.ledger();
    expect(documentOf(await offline('--segment', segment))).toMatchObject({ verdict: 'chained', length, ended: true });
  });

  test('in one file that holds the lines of its record', async () => {
    const { files } = await keptIn(join(world.engine.directory, 'ledger'), run.runId);
    const texts = await Promise.all(
      files.map(async (file) => await readFile(join(world.engine.directory, 'ledger', file), 'utf8')),
    );
    await writeFile(join(world.engine.directory, 'one.jsonl'), texts.join(''));
    const whole = await online('--file', 'one.jsonl', '--keys', 'keys.json', '--live');
    expect(documentOf(whole)).toMatchObject({ verdict: 'chained' });
  });
});

describe('a ledger that was changed', () => {
  /** Of a copy of the record, in which one text is another. */
  async function changed(from: string, to: string, ...args: readonly string[]) {
    const text = await readFile(join(world.engine.directory, 'one.jsonl'), 'utf8');
    expect(text).toContain(from);
    await writeFile(join(world.engine.directory, 'changed.jsonl'), text.replace(from, to));
    const result = await online('--file', 'changed.jsonl', ...args);
    return { result, report: documentOf<Report>(result) };
  }

  test('is not intact: exit code 7, the entry and how, on standard output and on standard error', async () => {
    const { result, report } = await changed('"initiator":"ann"', '"initiator":"eve"');
    expect(result.exitCode).toBe(7);
    expect(report).toMatchObject({ verdict: 'broken', faults: [{ kind: 'altered', seq: 0 }] });
    expect(errorOf({ ...result, out: '' })).toMatchObject({
      code: 'LEDGER_BROKEN',
      facts: { seq: 0, kind: 'altered' },
      message: expect.stringContaining('Entry 0'),
    });
  });

  test('is told from one whose run a query damaged: with --live, since history is consistent, somebody changed it', async () => {
    const { result, report } = await changed('"initiator":"ann"', '"initiator":"eve"', '--live');
    const text = expect.stringContaining("somebody changed the record, unless Temporal's database was restored");
    expect(report).toMatchObject({ because: { cause: 'somebody', text } });
    expect(errorOf({ ...result, out: '' })).toMatchObject({ code: 'LEDGER_BROKEN', facts: { cause: 'somebody' } });
  });

  test('a wrong key file or a head of elsewhere accuses nobody, with a copy or without one', async () => {
    const named = [
      ['--file', 'one.jsonl', '--keys', 'other.json', '--live'],
      ['--file', 'one.jsonl', '--head', 'f'.repeat(64), '--live'],
      ['--head', 'f'.repeat(64)],
    ];
    for (const args of named) {
      const report = documentOf<Report>(await online(...args));
      expect(report).toMatchObject({ verdict: 'broken' });
      expect(report).not.toHaveProperty('because');
    }
  });

  test('or whose keys are others: foreign heads', async () => {
    const report = documentOf<Report>(await offline('--records', 'ledger', '--keys', 'other.json'));
    expect(new Set(report.faults.map(({ kind }) => kind))).toEqual(new Set(['foreign-head', 'unsigned']));
  });

  test('or is of another run, is not there, or cannot be read: exit codes of their own', async () => {
    const named = async (...args: string[]) =>
      await runCommand(['verify-ledger', ...args], { directory: world.engine.directory });
    expect((await named('another', '--records', 'ledger')).exitCode).toBe(4);
    expect((await named(run.runId, '--records', 'nowhere')).exitCode).toBe(2);
    expect((await named('another', '--segment', segment)).exitCode).toBe(2);
    expect((await named(run.runId, '--file', 'one.jsonl', '--records', 'ledger')).exitCode).toBe(2);
    expect((await named(run.runId, '--segment', 'f'.repeat(64))).exitCode).toBe(6);
  });
});

describe('agreement with history', () => {
  let deeds: RecordedDeeds;
  let entries: readonly AnyEntry[];
  beforeAll(async () => {
    deeds = await readDeeds(world.client, run.runId);
    entries = await run.ledger();
  });
  const isKind = (kind: string) => (entry: AnyEntry) => entry.fact.kind === kind;
  const faults = (before: readonly AnyEntry[], after = before, known = deeds) =>
    compareWithHistory({ before, after }, known).map(({ seq, reason }) => `${seq} ${reason}`);
  /** Entries of which the first of a kind says something else. */
  const said = (kind: string, over: object): readonly AnyEntry[] => {
    const at = entries.findIndex(isKind(kind));
    return entries.map((entry, index) => (index === at ? { ...entry, fact: { ...entry.fact, ...over } } : entry));
  };
  const seqOf = (kind: string): number => entries.findIndex(isKind(kind));

  test('holds for the run as it is', () => {
    expect(deeds.accepted.size).toBe(3);
    expect(deeds.dispatched.size).toBe(1);
    expect(faults(entries)).toEqual([]);
  });

  test.each([
    ['decision.accepted', { decisionId: 'invented' }, 'nobody sent'],
    ['decision.accepted', { signature: { sha256: 'a'.repeat(64) } }, 'another signature'],
    ['said', { messageId: 'invented' }, 'nobody sent'],
    ['dispatched', { callId: 't9.c9' }, 'history does not'],
    ['outcome', { outcomeHash: 'a'.repeat(64) }, 'another outcome'],
  ])('an entry %s that history does not know is found: %j', (kind, over, reason) => {
    expect(faults(said(kind, over))[0]).toMatch(new RegExp(`^${seqOf(kind)} .*${reason}`));
  });

  test.each(['decision.accepted', 'said', 'dispatched', 'outcome'])(
    'what history knows and the ledger leaves out is found: %s',
    (kind) => {
      expect(faults(entries.filter((entry) => !isKind(kind)(entry))).join()).toMatch(/is not there/);
    },
  );

  test('an outcome that the run did not learn is no fault', () => {
    expect(faults(said('outcome', { outcome: 'unknown', outcomeHash: 'a'.repeat(64) }))).toEqual([]);
  });

  test('what came while history was read is no fault', () => {
    const early = entries.slice(0, seqOf('decision.accepted'));
    expect(faults(early, entries)).toEqual([]);
  });

  test('entries of executions that are not retained are left to the chain', () => {
    const from = seqOf('decision.accepted') + 1;
    const later = said('decision.accepted', { decisionId: 'forgotten' });
    expect(faults(later, entries, { ...deeds, from })).toEqual([]);
  });
});

describe('what policy keeps back (G-6, INV-G2)', () => {
  let kept: RunHandle;
  let request: ApprovalRequest;

  beforeAll(async () => {
    kept = await world.start([
      { calls: [{ tool: 'bank/pay', arguments: { purpose: 'kept-back', note: SECRET } }] },
      END,
    ]);
    [request] = await openRequests(kept);
  });

  const SECRET = 'DE02-canary-1203';

  test('current details, memo and search attributes do not show them', async () => {
    const handle = world.client.workflow.getHandle(kept.runId);
    const metadata = inspect(await handle.query('__temporal_workflow_metadata'), { depth: Infinity });
    expect(metadata).toContain(REDACTED);
    expect(metadata).not.toContain(SECRET);
    const { memo, typedSearchAttributes } = await handle.describe();
    expect(inspect({ memo, typedSearchAttributes }, { depth: Infinity })).not.toContain(SECRET);
  });

  test('the command line shows them only to whoever asks for them', async () => {
    for (const format of [[], ['--json']]) {
      const shown = await command(['requests', kept.runId, '--full', ...format]);
      expect(shown.out).toContain(REDACTED);
      expect(shown.out).not.toContain(SECRET);
      expect((await command(['requests', kept.runId, '--reveal', ...format])).out).toContain(SECRET);
    }
  });

  test('whoever decides sees them, and decides exactly them: the digest binds what is kept back', async () => {
    expect(request.redact).toEqual(['note']);
    expect(request.arguments).toMatchObject({ note: SECRET });
    await kept.decide(decisionOn(request, 'ann'));
    await kept.result();
    expect(bank.callsFor('kept-back')).toMatchObject([{ arguments: { note: SECRET } }]);
  });

  test('neither the record nor an export of it holds them', async () => {
    const { entries } = await keptIn(join(world.engine.directory, 'ledger'), kept.runId);
    expect(entries.length).toBeGreaterThan(5);
    expect(JSON.stringify(entries)).not.toContain(SECRET);
    for (const format of ['jsonl', 'csv']) {
      const { exitCode, out } = await command(['ledger', kept.runId, '--export', format]);
      expect([exitCode, out.includes(SECRET)]).toEqual([0, false]);
      expect(out).toContain('argumentsHash');
    }
    expect(documentOf(await command(['verify-ledger', kept.runId, '--json']))).toMatchObject({ verdict: 'chained' });
  });
});
