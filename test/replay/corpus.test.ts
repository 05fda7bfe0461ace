// Every history that was ever recorded replays on this code, and this code would do what those runs did (INV-D1): no waiting run is broken by a deploy.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from '@jest/globals';
import { bundleForReplay, compareHistories } from '../../workers/replay/semantics.ts';
import { replayHistories, type ReplayOutcome } from '../../workers/replay/replay.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { CONFIG, fileOf, FOLDER, HISTORIES, historyOf, recorded } from './corpus.ts';

const replayed = new Map<string, ReplayOutcome>();
const compared = new Map<string, ReplayOutcome>();
let production: string;

beforeAll(async () => {
  const bundle = await sharedBundle();
  production = bundle.code;
  for await (const outcome of replayHistories(recorded(), { bundle, config: CONFIG }))
    replayed.set(outcome.name, outcome);
  const inspected = await sharedBundle(bundleForReplay);
  for await (const outcome of compareHistories(recorded(), { bundle: inspected, config: CONFIG }))
    compared.set(outcome.name, outcome);
  // Every history twice, and two bundles: minutes on a busy machine.
}, 300_000);

test('the corpus holds the histories of the list, each with its inputs, and nothing else', async () => {
  const files = (await readdir(FOLDER)).filter((name) => name !== 'README.md');
  expect(files.sort()).toEqual(HISTORIES.flatMap((name) => [`${name}.inputs.json`, fileOf(name)]).sort());
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
  for await (const { error } of compareHistories(recorded(['agent-run.v1.pending']), { bundle, config: CONFIG })) {
    expect(error?.message).toMatch('does not show what it does');
  }
});

test('no history names a machine, a user or a folder', async () => {
  const named: string[] = [];
  for (const file of await readdir(FOLDER)) {
    const text = await readFile(join(FOLDER, file), 'utf8');
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
