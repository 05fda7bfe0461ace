// Every history that was ever recorded replays on this code, and this code would do what those runs did (INV-D1): no
// waiting run is broken by a deploy.
import { appendFile, cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test } from '@jest/globals';
import { sha256Hex } from '../../domain/text/canonical.ts';
import { bundleForReading } from '../../workers/replay/replayed-run.ts';
import { compareHistories } from '../../workers/replay/semantics.ts';
import { replayHistories, type ReplayOutcome } from '../../workers/replay/replay.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { CONFIG, FOLDERS, HISTORIES, historyOf, listed, recorded, RELEASES } from './corpus.ts';
import { folderOf, LIST } from './recording/recording.ts';

const replayed = new Map<string, ReplayOutcome>();
const compared = new Map<string, ReplayOutcome>();
let production: string;

beforeAll(async () => {
  const bundle = await sharedBundle();
  production = bundle.code;
  for await (const outcome of replayHistories(recorded(), { bundle, config: CONFIG }))
    replayed.set(outcome.name, outcome);
  const inspected = await sharedBundle(bundleForReading);
  for await (const outcome of compareHistories(recorded(), { bundle: inspected, config: CONFIG }))
    compared.set(outcome.name, outcome);
  // Every history twice, and two bundles: minutes on a busy machine.
}, 300_000);

test.each(RELEASES)(
  'the histories of $version are those of its list: none is edited, missing, recorded again or new',
  async ({ version, list }) => {
    const folder = folderOf(version);
    expect(sha256Hex(await readFile(join(folder, LIST), 'utf8'))).toBe(list);
    expect(await changedIn(folder)).toEqual([]);
  },
);

test('control: a history that is edited, missing or new is said', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'countersign-corpus-'));
  try {
    const [{ version }] = RELEASES;
    await cp(folderOf(version), folder, { recursive: true });
    await appendFile(join(folder, 'agent-run.pending.json'), ' ');
    await rm(join(folder, 'agent-run.rejected.json'));
    await writeFile(join(folder, 'agent-run.other.json'), '{}');
    expect(await changedIn(folder)).toEqual([
      'agent-run.other.json',
      'agent-run.pending.json',
      'agent-run.rejected.json',
    ]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test.each(HISTORIES)('%s replays on the bundle of the workers', (name) => {
  expect(replayed.get(name)).toBeDefined();
  expect(replayed.get(name)?.error?.message).toBeUndefined();
});

test.each(HISTORIES)('%s: this code would send, wait for and answer what was recorded', (name) => {
  expect(compared.get(name)).toBeDefined();
  expect(compared.get(name)?.error?.message).toBeUndefined();
});

test('no workflow task of a recorded run failed on the server, save the one at which it was reset', async () => {
  const failed: string[] = [];
  for (const name of HISTORIES)
    for (const { workflowTaskFailedEventAttributes: task } of (await historyOf(name)).events ?? [])
      if (task && !task.newRunId) failed.push(`${name}: ${task.failure?.message}`);
  expect(failed).toEqual([]);
});

test('what shows commands is in no worker', () => {
  expect(production).not.toContain('replayInspector');
});

test('a bundle that shows nothing is not taken for one that does the same', async () => {
  const bundle = await sharedBundle();
  for await (const { error } of compareHistories(recorded(['agent-run.pending']), { bundle, config: CONFIG })) {
    expect(error?.message).toMatch('does not show what it does');
  }
});

test('no history names a machine, a user or a folder', async () => {
  const named: string[] = [];
  const files = await Promise.all(
    [...FOLDERS.values()].map(async (folder) => (await readdir(folder)).map((file) => join(folder, file))),
  );
  for (const file of files.flat()) {
    const text = await readFile(file, 'utf8');
    // Payloads stand in base64.
    const clear = [...text.matchAll(/"data":\s*"([A-Za-z0-9+/]+=*)"/g)].map(([, data = '']) =>
      Buffer.from(data, 'base64').toString('utf8'),
    );
    const found = [text, ...clear].flatMap(
      (part) => part.match(/file:\/\/|\/(?:home|root|Users|tmp|var)\/|"\d+@[\w.-]+|[A-Z]:\\Users/g) ?? [],
    );
    named.push(...found.map((what) => `${file}: ${what}`));
  }
  expect(named).toEqual([]);
});

/** Returns the files of a folder that are not as its list says. */
async function changedIn(folder: string): Promise<string[]> {
  const sums = listed(folder);
  const there = (await readdir(folder)).filter((name) => name !== LIST);
  const changed: string[] = [];
  for (const name of new Set([...there, ...sums.keys()])) {
    const text = there.includes(name) ? await readFile(join(folder, name), 'utf8') : undefined;
    if (text === undefined || sha256Hex(text) !== sums.get(name)) changed.push(name);
  }
  return changed.sort();
}
