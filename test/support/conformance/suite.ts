/** Runs scenarios of the MCP project's own conformance suite, and reads what they checked. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { moduleFile } from '../servers/real-servers.ts';

export const REVISIONS = ['2025-11-25', '2026-07-28'] as const;
export type Revision = (typeof REVISIONS)[number];

/** Revision → scenario → the reason why it is left out. */
export type Named = Readonly<Record<string, Readonly<Record<string, string>>>>;
type Leg = 'client' | 'server';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const SUITE = '@modelcontextprotocol/conformance';

/** Scenarios of a revision, those included that the suite runs without scoring them. */
export function scenariosOf(revision: string, leg: Leg): readonly string[] {
  // Sound: the shape of the suite's own requirement files; a scenario too few fails the first test.
  const required = parse(readFileSync(moduleFile(`${SUITE}/requirements/${revision}.yaml`), 'utf8')) as Readonly<
    Record<Leg, readonly string[]>
  > & {
    readonly not_scored: readonly { readonly scenario: string; readonly leg: string }[];
  };
  const unscored = required.not_scored.flatMap((each) => (each.leg === leg ? [each.scenario] : []));
  return [...required[leg], ...unscored];
}

/** Runs the suite's command, and returns all that it says. */
export async function suite(...args: readonly string[]): Promise<string> {
  const shim = join(ROOT, 'test/support/conformance/fs.mjs');
  const child = spawn(process.execPath, ['--import', shim, moduleFile(`${SUITE}/dist/index.js`), ...args], {
    cwd: ROOT,
    env: { PATH: [dirname(process.execPath), process.env['PATH'] ?? ''].join(delimiter) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => said.push(text));
  await once(child, 'close');
  return said.join('');
}

/** Names of the scenarios that the suite lists. */
export async function listedScenarios(leg: Leg): Promise<readonly string[]> {
  return (await suite('list', `--${leg}`)).split('\n').flatMap((line) => /^ +- (\S+)/.exec(line)?.[1] ?? []);
}

export interface Check {
  readonly id: string;
  readonly status: string;
  readonly errorMessage?: string;
}

export async function checksIn(directory: string): Promise<readonly Check[]> {
  const [file] = (await readdir(directory, { recursive: true })).filter((name) => name.endsWith('checks.json'));
  // Sound: what the suite writes for every scenario that it has run.
  return file === undefined ? [] : (JSON.parse(await readFile(join(directory, file), 'utf8')) as readonly Check[]);
}
