/** What every `LedgerSink` does: section 8 F39, J (audit), INV-D3. One file, because both sinks run the same suite. */
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { setUpRoot } from '../../activities/artifacts/root.ts';
import { createLedgerDirectory, folderOf, LEDGER_ROOT } from '../../activities/ledger/directory.ts';
import type { LedgerSink } from '../../activities/ledger/port.ts';
import { createLedgerWebhook } from '../../activities/ledger/webhook.ts';
import { readRecords } from '../../client/ledger/files.ts';
import type { AnyEntry, LedgerLine } from '../../contracts/schemas/ledger.ts';
import { sealEntry } from '../../domain/run/journal.ts';
import { chainOf, recordOf, STREAM } from '../support/builders/ledger-record.ts';
import { saidFact } from '../support/builders/ledger.ts';
import { loopbackEgress } from '../support/egress.ts';
import { withCode } from '../support/refusal.ts';
import { type LedgerReceiver, startLedgerReceiver, WEBHOOK_SECRET } from '../support/servers/ledger-receiver.ts';

export interface KeptLedger {
  /** By number, then by hash. */
  readonly entries: readonly AnyEntry[];
  readonly signedHeads: readonly string[];
}

export interface LedgerHarness {
  readonly name: string;
  /** A sink with nothing in it, and a second one on the same store, as of another worker. */
  create(): Promise<{
    readonly sink: LedgerSink;
    readonly other: LedgerSink;
    kept(firstRunId?: string): Promise<KeptLedger>;
  }>;
}

const CONFLICT = { code: 'LEDGER_CONFLICT', traits: { retryable: true } };

function ledgerSuite({ name, create }: LedgerHarness): void {
  describe(`the ledger port: ${name}`, () => {
    test('keeps the entries of a record, and its signed head', async () => {
      const { sink, kept } = await create();
      const chain = chainOf(5);
      await sink.deliver(recordOf(chain.slice(0, 3), {}, 'e30.e30.one'));
      await sink.deliver(recordOf(chain.slice(3), {}, 'e30.e30.two'));
      expect(await kept()).toEqual({ entries: chain, signedHeads: ['e30.e30.one', 'e30.e30.two'] });
    });

    test('F16: the same record twice adds nothing', async () => {
      const { sink, other, kept } = await create();
      const chain = chainOf(4);
      await sink.deliver(recordOf(chain));
      const before = await kept();
      await other.deliver(recordOf(chain));
      await sink.deliver(recordOf(chain.slice(1, 3)));
      expect(await kept()).toEqual(before);
    });

    test('of a record that overlaps, the rest is added', async () => {
      const { sink, kept } = await create();
      const chain = chainOf(6);
      for (const to of [2, 5, 3, 6]) await sink.deliver(recordOf(chain.slice(0, to)));
      expect((await kept()).entries).toEqual(chain);
    });

    test('INV-D3: two workers that deliver the same segment at once, and a longer one, keep each entry once', async () => {
      const { sink, other, kept } = await create();
      const chain = chainOf(30);
      const lengths = [10, 30, 20, 10, 30, 20, 10, 30];
      await Promise.all(
        lengths.map(async (to, index) => (index % 2 === 0 ? sink : other).deliver(recordOf(chain.slice(0, to)))),
      );
      expect((await kept()).entries).toEqual(chain);
    });

    test('a gap is refused, and nothing is kept', async () => {
      const { sink, kept } = await create();
      const chain = chainOf(5);
      await expect(sink.deliver(recordOf(chain.slice(2)))).rejects.toMatchObject(CONFLICT);
      await sink.deliver(recordOf(chain.slice(0, 2)));
      const before = await kept();
      await expect(sink.deliver(recordOf(chain.slice(3)))).rejects.toMatchObject(CONFLICT);
      expect(await kept()).toEqual(before);
    });

    test('F39: another entry in the place of one that is known is refused, also where its chain is sound', async () => {
      const { sink, kept } = await create();
      const chain = chainOf(5);
      await sink.deliver(recordOf(chain));
      const before = await kept();
      const rewritten = chainOf(7, 'other', chain.slice(0, 3));
      for (const record of [recordOf(rewritten), recordOf(rewritten.slice(3)), recordOf(rewritten.slice(5))])
        await expect(sink.deliver(record)).rejects.toMatchObject(CONFLICT);
      expect(await kept()).toEqual(before);
    });

    test('a first entry that does not begin a chain is refused', async () => {
      const { sink, kept } = await create();
      const headless = sealEntry(0, 'a'.repeat(64), 0, saidFact());
      await expect(sink.deliver(recordOf([headless]))).rejects.toMatchObject(CONFLICT);
      expect((await kept()).entries).toEqual([]);
    });

    test('INV-G2, F38: a run that a reset made continues from an earlier entry, and both branches are kept', async () => {
      const { sink, other, kept } = await create();
      const chain = chainOf(5);
      await sink.deliver(recordOf(chain));
      const branch = chainOf(7, 'reset', chain.slice(0, 3));
      const reset = { runId: 'reset-1', resetOf: STREAM.runId };
      for (const worker of [sink, other]) await worker.deliver(recordOf(branch.slice(0, 6), reset));
      await sink.deliver(recordOf(branch, reset));
      // The execution after it was not made by a reset itself.
      const longer = chainOf(9, 'reset', branch);
      await sink.deliver(recordOf(longer.slice(7), { runId: 'after-reset' }));
      const { entries } = await kept();
      expect(entries).toHaveLength(5 + 6);
      expect(new Set(entries)).toEqual(new Set([...chain, ...longer.slice(3)]));
    });

    test('S1.1: runs are kept apart, also two of one workflow id', async () => {
      const { sink, kept } = await create();
      const [one, two] = [chainOf(3, 'one'), chainOf(2, 'two')];
      await sink.deliver(recordOf(one));
      await sink.deliver(recordOf(two, { firstRunId: '3f0c-later', runId: '3f0c-later' }));
      expect((await kept()).entries).toEqual(one);
      expect((await kept('3f0c-later')).entries).toEqual(two);
    });

    test('a workflow id of any letters is kept', async () => {
      const { sink, kept } = await create();
      const workflowId = `catalog/default/../${'ä'.repeat(200)}\n*`;
      const chain = chainOf(2);
      await sink.deliver(recordOf(chain, { workflowId }));
      await sink.deliver(recordOf(chain, { workflowId }));
      expect((await kept()).entries).toEqual(chain);
    });

    test('whatever is delivered in whatever pieces, again and at once: what stands there is the chain', async () => {
      const piece = fc.record({ from: fc.nat(11), length: fc.integer({ min: 1, max: 12 }), again: fc.boolean() });
      await fc.assert(
        fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 12 }), async (pieces) => {
          const { sink, other, kept } = await create();
          const chain = chainOf(12);
          let known = 0;
          for (const { from, length, again } of pieces) {
            const to = Math.min(from + length, chain.length);
            const record = recordOf(chain.slice(from, to));
            const tries = [sink.deliver(record), ...(again ? [other.deliver(record)] : [])];
            const ends = (await Promise.allSettled(tries)).map(({ status }) => status);
            const expected = from <= known ? 'fulfilled' : 'rejected';
            expect(new Set(ends)).toEqual(new Set([expected]));
            if (from <= known) known = Math.max(known, to);
          }
          expect((await kept()).entries).toEqual(chain.slice(0, known));
        }),
        { numRuns: 40 },
      );
    });
  });
}

let parent: string;
beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'countersign-ledger-'));
});
afterAll(async () => rm(parent, { recursive: true, force: true }));

let made = 0;
function newRoot(): string {
  made += 1;
  const root = join(parent, `ledger-${made}`);
  setUpRoot(root, true, LEDGER_ROOT);
  return root;
}

/** Without what is no record. */
async function filesOf(root: string, firstRunId = STREAM.firstRunId): Promise<string[]> {
  const all = await readdir(root, { recursive: true });
  return all.filter((path) => path.includes(`~${firstRunId}/`) && path.endsWith('.jsonl')).toSorted();
}

async function linesOf(root: string, firstRunId?: string): Promise<LedgerLine[]> {
  const files = await filesOf(root, firstRunId);
  const texts = await Promise.all(files.map(async (file) => await readFile(join(root, file), 'utf8')));
  // Sound: the sink under test has written them.
  return texts.flatMap((text) => text.trimEnd().split('\n')).map((line) => JSON.parse(line) as LedgerLine);
}

ledgerSuite({
  name: 'a directory',
  create: async () => {
    const root = newRoot();
    return {
      sink: createLedgerDirectory(root),
      other: createLedgerDirectory(root),
      kept: async (firstRunId) => {
        const lines = await linesOf(root, firstRunId);
        return {
          entries: lines.flatMap((line) => ('entry' in line ? [line.entry] : [])),
          signedHeads: lines.flatMap((line) => ('signedHead' in line ? [line.signedHead] : [])),
        };
      },
    };
  },
});

const receivers: LedgerReceiver[] = [];
afterAll(async () => {
  await Promise.all(receivers.map(async (receiver) => receiver.close()));
});
async function newReceiver(): Promise<LedgerReceiver> {
  const receiver = await startLedgerReceiver();
  receivers.push(receiver);
  return receiver;
}
const webhookTo = ({ url }: { readonly url: string }, timeoutSeconds = 10) =>
  createLedgerWebhook({ url, secret: WEBHOOK_SECRET, timeoutSeconds }, loopbackEgress());

ledgerSuite({
  name: 'a webhook',
  create: async () => {
    const receiver = await newReceiver();
    return {
      sink: webhookTo(receiver),
      other: webhookTo(receiver),
      kept: async (firstRunId = STREAM.firstRunId) => ({
        entries: receiver.entries(firstRunId),
        signedHeads: receiver.signedHeads(firstRunId),
      }),
    };
  },
});

describe('the ledger directory', () => {
  const AWAY = { code: 'LEDGER_UNAVAILABLE', traits: { retryable: true } };

  test('files and folders are for their owner alone, named by number and the hash before, and no temporary file stays', async () => {
    const root = newRoot();
    const chain = chainOf(5);
    const sink = createLedgerDirectory(root);
    await sink.deliver(recordOf(chain.slice(0, 3)));
    await sink.deliver(recordOf(chain));
    const folder = folderOf(root, recordOf(chain).head);
    expect((await readdir(folder)).toSorted()).toEqual([
      '000000000000-0000000000000000.jsonl',
      `000000000003-${chain[2]?.hash.slice(0, 16)}.jsonl`,
    ]);
    for (const path of [join(folder, '..'), folder]) expect((await stat(path)).mode & 0o777).toBe(0o700);
    for (const file of await filesOf(root)) expect((await stat(join(root, file))).mode & 0o777).toBe(0o600);
  });

  test('what the disk refuses names the field, the directory and the reason', async () => {
    const root = newRoot();
    const record = recordOf(chainOf(1));
    // A file where a folder should be: no user, not even root, can write below it.
    await writeFile(join(folderOf(root, record.head), '..'), '');
    await expect(createLedgerDirectory(root).deliver(record)).rejects.toMatchObject({
      ...AWAY,
      message: expect.stringContaining(`: ledger.directory ${root} cannot be used (ENOTDIR). It is tried again`),
    });
  });

  test('a line without its end is not there: what comes again is written again, and nothing acknowledged is lost', async () => {
    const root = newRoot();
    const chain = chainOf(6);
    const sink = createLedgerDirectory(root);
    await sink.deliver(recordOf(chain.slice(0, 4)));
    const file = join(root, (await filesOf(root))[0] ?? '');
    const whole = await readFile(file, 'utf8');
    // In the middle of the last entry: it and the head are gone.
    const lines = whole.split('\n');
    await truncate(file, lines.slice(0, 3).join('\n').length + 20);
    await sink.deliver(recordOf(chain));
    const kept = (await readdir(folderOf(root, recordOf(chain).head))).toSorted();
    expect(kept).toHaveLength(2);
    const second = await readFile(join(folderOf(root, recordOf(chain).head), kept[1] ?? ''), 'utf8');
    expect(second.split('\n').filter((line) => line.includes('"entry"'))).toHaveLength(3);
  });

  test.each([
    ['nothing', 0],
    ['a piece of its first line', 30],
  ])('of a file of which %s is left, all is written again, beside it', async (_, bytes) => {
    const root = newRoot();
    const chain = chainOf(6);
    const sink = createLedgerDirectory(root);
    await sink.deliver(recordOf(chain.slice(0, 2)));
    await sink.deliver(recordOf(chain.slice(0, 4)));
    for (const file of await filesOf(root)) await truncate(join(root, file), bytes);
    // Two workers, and a record that is longer than the one that was lost.
    await Promise.all([sink, createLedgerDirectory(root)].map(async (each) => each.deliver(recordOf(chain))));
    await sink.deliver(recordOf(chain));
    const { entries, faults } = await readRecords(root, STREAM.workflowId);
    expect(entries).toEqual(chain);
    expect(faults).toEqual([]);
  });

  test('F39: a line that was changed is refused, and what was to follow it waits', async () => {
    const root = newRoot();
    const chain = chainOf(4);
    const sink = createLedgerDirectory(root);
    await sink.deliver(recordOf(chain.slice(0, 2)));
    const file = join(root, (await filesOf(root))[0] ?? '');
    await writeFile(file, (await readFile(file, 'utf8')).replace('m-1', 'm-9'));
    for (const record of [recordOf(chain.slice(2)), recordOf(chain)])
      await expect(sink.deliver(record)).rejects.toMatchObject(withCode('LEDGER_CONFLICT', 'line 2'));
    expect(await filesOf(root)).toHaveLength(1);
  });

  test('what a dead worker left half-written is no record', async () => {
    const root = newRoot();
    const chain = chainOf(3);
    const folder = folderOf(root, recordOf(chain).head);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, '.5d0c.tmp'), '{"namespace":"default","work');
    await createLedgerDirectory(root).deliver(recordOf(chain));
    expect((await linesOf(root)).filter((line) => 'entry' in line)).toHaveLength(3);
  });

  test.each([
    ['is a bare mount point', async (root: string) => rm(join(root, LEDGER_ROOT.marker)), '.countersign-ledger'],
    ['cannot hold a folder', async (root: string) => writeFile(join(root, '3f'), 'no folder'), 'ENOTDIR'],
  ])('a directory that %s is away, says why, and keeps nothing', async (_, damage, reason) => {
    const root = newRoot();
    await damage(root);
    const before = await readdir(root, { recursive: true });
    await expect(createLedgerDirectory(root).deliver(recordOf(chainOf(2)))).rejects.toMatchObject({
      ...AWAY,
      message: expect.stringContaining(reason),
    });
    expect(await readdir(root, { recursive: true })).toEqual(before);
  });

  // The superuser may write everywhere.
  const ownerOnly = process.getuid?.() === 0 ? test.skip : test;
  ownerOnly('a read-only directory is away, and works again once it can be written', async () => {
    const root = newRoot();
    const sink = createLedgerDirectory(root);
    const chain = chainOf(2);
    await sink.deliver(recordOf(chain.slice(0, 1)));
    const folder = folderOf(root, recordOf(chain).head);
    await chmod(folder, 0o500);
    await expect(sink.deliver(recordOf(chain))).rejects.toMatchObject(AWAY);
    await chmod(folder, 0o700);
    await sink.deliver(recordOf(chain));
    expect((await linesOf(root)).filter((line) => 'entry' in line)).toHaveLength(2);
  });

  test('a directory with a file in the place of a folder is away, and works again once the folder is back', async () => {
    const root = newRoot();
    const sink = createLedgerDirectory(root);
    const chain = chainOf(2);
    await sink.deliver(recordOf(chain.slice(0, 1)));
    const folder = folderOf(root, recordOf(chain).head);
    await rename(folder, `${root}-kept`);
    await writeFile(folder, 'no folder');
    await expect(sink.deliver(recordOf(chain))).rejects.toMatchObject(AWAY);
    await rm(folder);
    await rename(`${root}-kept`, folder);
    await sink.deliver(recordOf(chain));
    expect((await linesOf(root)).filter((line) => 'entry' in line)).toHaveLength(2);
  });
});

describe('the ledger webhook', () => {
  let receiver: LedgerReceiver;
  beforeEach(async () => {
    receiver = await newReceiver();
  });
  afterEach(() => receiver.answer());
  const record = recordOf(chainOf(3));

  test('sends the same id and the same body whenever it sends the same record', async () => {
    for (const _ of [1, 2]) await webhookTo(receiver).deliver(record);
    const [first, second] = receiver.received;
    expect(second?.body).toBe(first?.body);
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
    expect(first?.headers['webhook-id']).toMatch(/^[0-9a-f]{64}$/);
  });

  test.each([302, 400, 401, 404, 429, 500, 503])('a %d acknowledges nothing, and is tried again', async (status) => {
    receiver.answer((_, response) =>
      response.writeHead(status, { location: '/elsewhere', 'retry-after': '7' }).end('no'),
    );
    await expect(webhookTo(receiver).deliver(record)).rejects.toMatchObject({
      code: 'LEDGER_UNAVAILABLE',
      facts: { retryAfterMs: 7_000 },
      message: expect.stringContaining(String(status)),
    });
    // Redirects are not followed.
    expect(receiver.received).toHaveLength(1);
  });

  test('an answer that does not come, or does not end, is not waited for', async () => {
    receiver.answer(() => undefined);
    await expect(webhookTo(receiver, 1).deliver(record)).rejects.toMatchObject(
      withCode('LEDGER_UNAVAILABLE', 'timed out'),
    );
    receiver.answer((_, response) => void response.writeHead(200).write('and so on'));
    await webhookTo(receiver, 1).deliver(record);
  });

  test('INV-S1: no error names the secret, the address or what the receiver said', async () => {
    const sink = createLedgerWebhook(
      {
        url: `${receiver.url}/path-canary`,
        secret: WEBHOOK_SECRET,
        timeoutSeconds: 5,
      },
      loopbackEgress(),
    );
    const errors: unknown[] = [];
    receiver.answer((_, response) => response.writeHead(500, 'reason-canary').end('body-canary'));
    errors.push(await sink.deliver(record).catch((error: unknown) => error));
    receiver.answer((request) => request.socket.destroy());
    errors.push(await sink.deliver(record).catch((error: unknown) => error));
    await receiver.close();
    errors.push(await sink.deliver(record).catch((error: unknown) => error));
    for (const error of errors) {
      expect(error).toMatchObject({ code: 'LEDGER_UNAVAILABLE' });
      expect(inspect(error, { depth: Infinity, showHidden: true })).not.toMatch(/canary|whsec|127\.0\.0\.1/);
    }
  });
});
