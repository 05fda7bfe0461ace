/** The recorded histories, and what lies beside each. */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { fileOf, folderOf, LIST, type RecordedInputs } from './recording/recording.ts';
import { CORPUS_ENCRYPTION, CORPUS_TRUST } from './recording/stage.ts';
import { type History, readHistory, type Recorded } from '../../workers/replay/recorded-history.ts';

// Replay workers say when they start and stop; only errors are wanted.
Runtime.install({
  logger: new DefaultLogger('ERROR'),
  telemetryOptions: { logging: { filter: { core: 'ERROR', other: 'ERROR' } } },
});

/**
 * Every release, oldest first, with the SHA-256 of its list of histories. Neither a list nor a history is ever written
 * again: a release that changes what runs do adds a folder of its own.
 */
export const RELEASES = [
  { version: '1.0.0-rc.1', list: 'afd5eff1a15b24df176702ec158535a125dc886d156228ab329246f5f77984a2' },
  { version: '1.0.0-rc.2', list: '41b060352be2b3a1c6a61257faaee7de74dd2ebd57a624180f41cdf76fc5204e' },
  { version: '1.0.0-rc.3', list: '7184c96123fe39368918fc4c108c56f1726732f8d7e01191744aad217e4eadd4' },
  { version: '1.0.0-rc.4', list: '6976644b9edb2be5151876e2d0bac65b8d2e636eb213f7811549319e6542e4a1' },
  { version: '1.0.0-rc.5', list: '5539e471f4a02bec098b5d06b27aad8add800143b7c6cce7863b543f02d9f2f9' },
] as const;

/** Folders of histories by the release; a recording may be tried before it is kept. */
export const FOLDERS: ReadonlyMap<string, string> = new Map(
  process.env['COUNTERSIGN_HISTORIES'] === undefined
    ? RELEASES.map(({ version }) => [version, folderOf(version)])
    : [['tried', process.env['COUNTERSIGN_HISTORIES']]],
);

/** What the histories were recorded with. */
export const CONFIG = { encryption: CORPUS_ENCRYPTION, trust: CORPUS_TRUST };

/** Returns the files of a release by its list: name → SHA-256. */
export function listed(folder: string): ReadonlyMap<string, string> {
  const lines = readFileSync(join(folder, LIST), 'utf8').trimEnd().split('\n');
  return new Map(lines.map((line) => [line.slice(66), line.slice(0, 64)]));
}

/** Name → path without extension. A point that a later release has recorded again has that release before its name. */
const PLACES = new Map<string, string>();
for (const [version, folder] of FOLDERS)
  for (const file of listed(folder).keys()) {
    const point = /^(.*)\.inputs\.json$/.exec(file)?.[1];
    if (point !== undefined) PLACES.set(PLACES.has(point) ? `${version}/${point}` : point, join(folder, point));
  }

/** Every history that there must be. */
export const HISTORIES: readonly string[] = [...PLACES.keys()];

export function placeOf(name: string): string {
  const place = PLACES.get(name);
  if (place === undefined) throw new Error(`there is no recorded history ${name}`);
  return place;
}

export async function* recorded(names: readonly string[] = HISTORIES): AsyncGenerator<Recorded> {
  for (const name of names) yield { ...(await readHistory(fileOf(placeOf(name)))), name };
}

export async function historyOf(name: string): Promise<History> {
  const read = await readHistory(fileOf(placeOf(name)));
  if (read.kind === 'unreadable') throw read.error;
  return read.history;
}

export async function inputsOf(name: string): Promise<RecordedInputs> {
  // Sound: the recorder wrote it in this shape.
  return JSON.parse(await readFile(`${placeOf(name)}.inputs.json`, 'utf8')) as RecordedInputs;
}
