/** `npm run demo`, as a newcomer runs it: the whole of it works, and nothing of it is left behind. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, jest, test } from '@jest/globals';
import { ServiceProcess } from '../../examples/demo/service.ts';
import { chatDialect } from '../support/models/chat.ts';
import { said } from '../support/models/dialect.ts';
import { type ModelProvider, startModelProvider } from '../support/models/provider.ts';
import { withCode } from '../support/refusal.ts';
import { until } from '../support/until.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** With it come a server, a bundler and two commands, on a busy machine. */
const LIMIT_MS = 180_000;
jest.setTimeout(LIMIT_MS);
const PROVIDERS = ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'OPENAI_BASE_URL', 'COUNTERSIGN_DEMO_MODEL'];

let provider: ModelProvider | undefined;
let running: ChildProcess | undefined;
afterEach(async () => {
  running?.kill('SIGKILL');
  await provider?.close();
  provider = undefined;
});

class Demo {
  out = '';
  err = '';
  readonly child: ChildProcess;
  readonly exited: Promise<readonly unknown[]>;

  constructor(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !PROVIDERS.includes(name)));
    this.child = spawn(process.execPath, ['scripts/run.mjs', '--engine', 'examples/demo/main.ts', ...args], {
      cwd: ROOT,
      env: { ...own, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    running = this.child;
    this.child.stdout?.on('data', (chunk: Buffer) => (this.out += chunk.toString()));
    this.child.stderr?.on('data', (chunk: Buffer) => (this.err += chunk.toString()));
    this.exited = once(this.child, 'close');
  }

  /** Everything the demo starts has this folder in its arguments. */
  get folder(): string {
    const found = /server-filesystem on (\S+)\/files\n/.exec(this.out)?.[1];
    if (found === undefined) throw new Error(`no folder in: ${this.out}${this.err}`);
    return found;
  }

  async says(text: string): Promise<void> {
    await until(() => this.out.includes(text), {
      what: `"${text}" of the demo, which said ${this.out}${this.err}`,
      withinMs: LIMIT_MS,
    });
  }

  async exitCode(): Promise<unknown> {
    return (await this.exited)[0];
  }

  processes(): string[] {
    return execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => line.includes(this.folder));
  }
}

test('--yes: decides by itself, writes the file once and after the decision, ends all that was started, exit code 0 (INV-G1, INV-X1)', async () => {
  const demo = new Demo(['--yes']);
  await demo.says('1. A run starts');
  // The service, the MCP proxy and its server, Temporal.
  expect(demo.processes().length).toBeGreaterThanOrEqual(4);
  expect(await demo.exitCode()).toBe(0);
  expect(demo.err).toBe('');
  const { out } = demo;
  for (const part of [
    'scripted',
    'allowed at once',
    'asked',
    '"path":"summary.md"',
    'digest',
    'may decide  ann or anybody in reviewers',
    'deadline',
    '/namespaces/default/workflows/summary-',
    'decision.accepted',
    'run.ended',
  ]) {
    expect(out).toContain(part);
  }
  expect(out.match(/^ {2}yes {2}/gm)).toHaveLength(7);
  expect(out).not.toContain('NO ');
  expect(demo.processes()).toEqual([]);
  expect(existsSync(demo.folder)).toBe(false);
});

test('with an OpenAI-compatible server in the environment the same flow runs on its model, and says so', async () => {
  provider = await startModelProvider(chatDialect.schema);
  const write = {
    type: 'call',
    id: 'call_1',
    name: 'files__write_file',
    json: JSON.stringify({ path: 'summary.md', content: 'By a model.\n' }),
  } as const;
  const answers = [said([write]), said([{ type: 'text', text: 'It is written.' }])];
  provider.enqueue(
    ...answers.map((answer) => ({ status: 200, chunks: chatDialect.events(answer), ending: 'end' as const })),
  );
  const demo = new Demo(['--yes'], {
    OPENAI_BASE_URL: provider.baseUrl,
    COUNTERSIGN_DEMO_MODEL: 'local-model',
    OPENAI_API_KEY: 'key-CANARY',
  });
  expect(await demo.exitCode()).toBe(0);
  expect(demo.out).toContain('local-model (OpenAI-compatible, from OPENAI_BASE_URL)');
  expect(demo.out).toContain('It is written.');
  expect(provider.received.map(({ body, violations }) => [body['model'], violations])).toEqual([
    ['local-model', []],
    ['local-model', []],
  ]);
  expect(demo.out + demo.err).not.toContain('CANARY');
  expect(demo.processes()).toEqual([]);
});

test('a model that writes nothing: exit code 1, since nothing was shown', async () => {
  provider = await startModelProvider(chatDialect.schema);
  provider.enqueue({ status: 200, chunks: chatDialect.events(said([{ type: 'text', text: 'No.' }])), ending: 'end' });
  const demo = new Demo(['--yes'], { OPENAI_BASE_URL: provider.baseUrl, COUNTERSIGN_DEMO_MODEL: 'local-model' });
  expect(await demo.exitCode()).toBe(1);
  expect(demo.out).toContain('NO   a write was countersigned');
  expect(demo.processes()).toEqual([]);
});

test('Ctrl-C while it starts: all is ended, exit code 130', async () => {
  const demo = new Demo(['--yes']);
  await demo.says('starting');
  demo.child.kill('SIGINT');
  expect(await demo.exitCode()).toBe(130);
  expect(demo.out).toContain('Everything that was started is ended.');
  expect(demo.err).toBe('');
});

test(
  '--keep stays up until Ctrl-C; killed without a chance to clean up, its service ends all the same',
  async () => {
    const kept = new Demo(['--yes', '--keep']);
    await kept.says('Still running, until Ctrl-C');
    kept.child.kill('SIGINT');
    expect(await kept.exitCode()).toBe(0);
    expect(kept.processes()).toEqual([]);

    const killed = new Demo(['--yes', '--keep']);
    await killed.says('Still running, until Ctrl-C');
    killed.child.kill('SIGKILL');
    await until(() => killed.processes().length === 0, {
      what: 'the end of the service',
      withinMs: 30_000,
    });
    // Nobody was left to remove it.
    await rm(killed.folder, { recursive: true, force: true });
  },
  2 * LIMIT_MS,
);

test('a service that does not start in time is an error with a code, and is ended all the same', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'countersign-demo-test-'));
  const service = new ServiceProcess(folder);
  await expect(service.ready(new AbortController().signal, 1)).rejects.toMatchObject(
    withCode('ENGINE_UNAVAILABLE', 'did not start within 0.001 s'),
  );
  await service.stop();
  await rm(folder, { recursive: true, force: true });
});

test('without a terminal to ask on, and without --yes, it says so and starts nothing', async () => {
  const demo = new Demo([]);
  expect(await demo.exitCode()).toBe(2);
  expect(demo.err).toContain('error USAGE: The demo asks on a terminal');
  expect(demo.out).toBe('');
});
