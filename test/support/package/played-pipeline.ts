/**
 * Plays the job of a pipeline file as its system would: step after step in bash, with its environment and conditions.
 * The command `countersign` is answered in this process, by the code under test, so that no call of it costs a start.
 */
import { execFile } from 'node:child_process';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { parse } from 'yaml';
import { type CommandResult, runCommand } from '../cli.ts';
import { readDeployed } from './deployment.ts';

type Env = Readonly<Record<string, string>>;

interface Step {
  readonly name?: string;
  readonly uses?: string;
  readonly run?: string;
  readonly if?: string;
  readonly env?: Env;
}
interface Pipeline {
  readonly env: Env;
  readonly jobs: Readonly<Record<string, { readonly env?: Env; readonly steps: readonly Step[] }>>;
}

export interface PlayedStep {
  readonly name: string;
  readonly status: 'passed' | 'failed' | 'skipped' | 'cancelled';
  readonly said: string;
}

interface PlayOptions {
  /** Where the steps run; `.bin` in it holds the commands that are played. */
  readonly folder: string;
  /** `${{ vars.NAME }}` of the file. */
  readonly vars: Env;
  /** What a copy of the file would have changed under `env`. */
  readonly env: Env;
  /** Answers in place of the code under test. */
  readonly answer?: (args: readonly string[]) => CommandResult;
  /** The step during which somebody cancels the job, or its time is over. It is not run. */
  readonly cancelledIn?: string;
}

/** Makes `countersign` ask the server whose port it is given; all others end well and do nothing. */
const COMMAND = `#!/usr/bin/env node
const [, , port, ...args] = process.argv;
const body = JSON.stringify({ args, env: process.env });
fetch('http://127.0.0.1:' + port, { method: 'POST', body }).then(async (answer) => {
  const { out, err, exitCode } = await answer.json();
  process.stdout.write(out);
  process.stderr.write(err);
  process.exitCode = exitCode;
});
`;

export async function playPipeline(name: string, options: PlayOptions): Promise<readonly PlayedStep[]> {
  const { folder, env, answer } = options;
  // Sound: each field that is read is used below, and a missing one fails the test.
  const pipeline = parse(readDeployed(name)) as Pipeline;
  const commands = createServer((request, response) => {
    void (async () => {
      // Sound: as COMMAND writes it.
      const asked = JSON.parse(await text(request)) as {
        readonly args: string[];
        readonly env: Record<string, string>;
      };
      const { args, env: given } = asked;
      // A process reads these itself; this one has others.
      const { TEMPORAL_ADDRESS: address = '', TEMPORAL_NAMESPACE: namespace = '' } = given;
      const all = [...args, '--address', address, '--namespace', namespace];
      const result = answer?.(args) ?? (await runCommand(all, { env: given, directory: folder }));
      response.end(JSON.stringify(result));
    })();
  });
  await new Promise<void>((resolve) => void commands.listen(0, '127.0.0.1', resolve));
  // Sound: a server that listens at a port of TCP.
  const { port } = commands.address() as AddressInfo;
  try {
    const bin = join(folder, '.bin');
    await mkdir(bin, { recursive: true });
    await writeFile(join(bin, 'command.cjs'), COMMAND);
    await script(bin, 'countersign', `exec "${process.execPath}" "${join(bin, 'command.cjs')}" ${port} "$@"`);
    await script(bin, 'npm', 'exit 0');
    const path = `${bin}:${process.env['PATH'] ?? ''}`;
    const played: PlayedStep[] = [];
    for (const job of Object.values(pipeline.jobs)) {
      const given = { ...pipeline.env, ...job.env, ...env };
      played.push(...(await playSteps(job.steps, { ...options, env: { ...given, PATH: path } })));
    }
    return played;
  } finally {
    commands.close();
  }
}

async function playSteps(steps: readonly Step[], options: PlayOptions): Promise<PlayedStep[]> {
  const { folder, vars, env, cancelledIn } = options;
  const kept = join(folder, 'kept-env');
  await writeFile(kept, '');
  const played: PlayedStep[] = [];
  for (const step of steps) {
    if (step.run === undefined) continue;
    const added = Object.fromEntries(
      (await readFile(kept, 'utf8')).split('\n').flatMap((line) => {
        const [, key, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
        return key === undefined ? [] : [[key, value ?? '']];
      }),
    );
    const now = withVars({ ...env, ...added, ...step.env }, vars);
    const name = step.name ?? step.run;
    if (!isDue(step.if ?? '', now, played)) played.push({ name, status: 'skipped', said: '' });
    else if (name === cancelledIn) played.push({ name, status: 'cancelled', said: '' });
    else played.push({ name, ...(await shell(step.run, folder, { ...now, GITHUB_ENV: kept })) });
  }
  return played;
}

function withVars(env: Env, vars: Env): Env {
  const filled = (value: string): string =>
    value.replaceAll(/\$\{\{ vars\.(\w+) \}\}/g, (_, name: string) => {
      const found = vars[name];
      if (found === undefined) throw new Error(`the file asks for a variable ${name}`);
      return found;
    });
  return Object.fromEntries(Object.entries(env).map(([key, value]) => [key, filled(value)]));
}

const STATES_ASKED: Readonly<Record<string, readonly PlayedStep['status'][]>> = {
  'failure()': ['failed'],
  '(failure() || cancelled())': ['failed', 'cancelled'],
};

/** Reads conditions of the forms that the file has. */
function isDue(condition: string, env: Env, played: readonly PlayedStep[]): boolean {
  const parts = condition.split(' && ').filter((part) => part !== '');
  const ended = played.find(({ status }) => status === 'failed' || status === 'cancelled')?.status;
  const wanted = STATES_ASKED[parts[0] ?? ''];
  // A step that asks for no state waits for success.
  if (wanted === undefined ? ended !== undefined : ended === undefined || !wanted.includes(ended)) return false;
  const rest = wanted === undefined ? parts : parts.slice(1);
  return rest.every((part) => {
    const [, left = '', right = '', literal] = /^env\.(\w+) != (?:env\.(\w+)|'(.*)')$/.exec(part) ?? [];
    if (left === '') throw new Error(`a condition of another form: ${part}`);
    return (env[left] ?? '') !== (literal ?? env[right] ?? '');
  });
}

async function script(folder: string, name: string, line: string): Promise<void> {
  await writeFile(join(folder, name), `#!/bin/sh\n${line}\n`);
  await chmod(join(folder, name), 0o755);
}

async function shell(line: string, cwd: string, env: Env): Promise<Pick<PlayedStep, 'status' | 'said'>> {
  return await new Promise((resolve) => {
    execFile('bash', ['--noprofile', '--norc', '-e', '-c', line], { cwd, env }, (error, out, err) =>
      resolve({ status: error === null ? 'passed' : 'failed', said: out + err }),
    );
  });
}
