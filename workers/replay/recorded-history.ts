/**
 * Reads histories from files. The JSON is that of the SDK's `historyToJSON`, of `temporal workflow show -o
 * json`, or of the download of Temporal UI (not decoded).
 *
 * 1. A file that is no history is reported, never skipped: a replay that skips what it cannot read proves nothing.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { CountersignError } from '../../contracts/errors.ts';

export type History = ReturnType<typeof historyFromJSON>;

export type Recorded =
  | { readonly kind: 'history'; readonly name: string; readonly workflowId: string; readonly history: History }
  | { readonly kind: 'unreadable'; readonly name: string; readonly workflowId: string; readonly error: Error };

/** Such a file beside a history holds what was sent to the run at its end; see `test/replay`. */
const NOT_A_HISTORY = '.inputs.json';

/**
 * @param paths files, and folders whose `*.json` are taken, subfolders included
 * @throws CountersignError `USAGE` if a path does not exist, or there is nothing to replay
 */
export async function historyFiles(paths: readonly string[]): Promise<string[]> {
  const files = (await Promise.all(paths.map(filesOf))).flat();
  if (files.length === 0)
    throw new CountersignError(
      'USAGE',
      `There is no history (*.json) in ${paths.join(', ')}; name files or folders that hold some.`,
    );
  return files;
}

export async function* recordedHistories(files: readonly string[]): AsyncGenerator<Recorded> {
  for (const file of files) yield await readHistory(file);
}

export async function readHistory(file: string): Promise<Recorded> {
  try {
    const history = historyFromJSON(JSON.parse(await readFile(file, 'utf8')));
    const first = history.events?.[0]?.workflowExecutionStartedEventAttributes;
    if (first === undefined || first === null) throw new TypeError('does not begin with the start of a workflow');
    // Servers before 1.21 do not record the id.
    return { kind: 'history', name: file, workflowId: first.workflowId || basename(file, '.json'), history };
  } catch (error) {
    return {
      kind: 'unreadable',
      name: file,
      workflowId: '',
      error: new Error(`not a history: ${reasonOf(error)}`, { cause: error }),
    };
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function filesOf(path: string): Promise<string[]> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw new CountersignError('USAGE', `There is no file or folder ${path}.`, { path });
  if (!found.isDirectory()) return [path];
  const names = await readdir(path, { recursive: true });
  return names
    .filter((name) => name.endsWith('.json') && !name.endsWith(NOT_A_HISTORY))
    .toSorted()
    .map((name) => join(path, name));
}
