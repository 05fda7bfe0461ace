/**
 * The steps of deploy/Containerfile, run as a shell would in an empty folder, and a worker as its last stage leaves it:
 * as user 65532, where nothing but the state may be written. Nothing is replayed: it looks at processes from outside.
 *
 * What needs a network is played: `npm ci` links the packages of this repository, and `npm prune --omit=dev` takes the
 * links of development away (package-lock.json). Where the tests are not root, or that user may not read this
 * repository, the user stays the same.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { parse, stringify } from 'yaml';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { type Instruction, readDeployed, stages, told } from '../support/package/deployment.ts';
import { Hopeless, until } from '../support/until.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LIMIT_MS = 240_000;
const [USER = 0] = (told('USER')[0] ?? '').split(':').map(Number);

let engine: TestEngine;
/** Root folder of each stage. */
let build: string;
let image: string;
let stub: string;

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-image-'));
  [build, image, stub] = [join(folder, 'build'), join(folder, 'image'), join(folder, 'bin')];
  for (const each of [build, image, stub]) mkdirSync(each);
  writeFileSync(join(stub, 'npm'), NPM);
  chmodSync(join(stub, 'npm'), 0o755);
  const [first = [], last = []] = stages();
  carryOut(first, build);
  carryOut(last, image);
  // Readable by all, as an image is.
  execFileSync('chmod', ['-R', 'a+rX', folder]);
  engine = await startEngine();
}, LIMIT_MS);
afterAll(async () => {
  await engine?.stop();
  if (image !== undefined) rmSync(join(image, '..'), { recursive: true, force: true });
});

/** Plays `npm`, with the packages that are here. */
const NPM = `#!/usr/bin/env node
const { lstatSync, mkdirSync, readFileSync, rmSync, symlinkSync } = require('node:fs');
const { dirname, join } = require('node:path');
const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'));
const [verb, ...flags] = process.argv.slice(2);
const from = (path) => join(${JSON.stringify(ROOT)}, path);
const top = Object.entries(packages).filter(([path]) => /^node_modules\\/(?:@[^/]+\\/)?[^/]+$/.test(path));
const isThere = (path) => { try { return lstatSync(path) !== undefined; } catch { return false; } };
if (verb === 'ci') {
  for (const path of [...top.map(([name]) => name), 'node_modules/.package-lock.json']) {
    if (!isThere(from(path))) continue;
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(from(path), path);
  }
} else if (verb === 'prune' && flags.includes('--omit=dev')) {
  for (const [path, { dev }] of top) if (dev) rmSync(path, { force: true });
} else throw new Error('npm ' + process.argv.slice(2).join(' '));
`;

/** Carries out the steps of a stage below `root`, as the engine would. */
function carryOut(steps: readonly Instruction[], root: string): void {
  let directory = root;
  for (const { name, text, words, options } of steps) {
    if (name === 'WORKDIR') mkdirSync((directory = join(root, text)), { recursive: true });
    if (name === 'RUN')
      execFileSync('sh', ['-c', text], {
        cwd: directory,
        stdio: 'pipe',
        env: { HOME: root, PATH: `${stub}:${process.env['PATH'] ?? ''}` },
      });
    if (name !== 'COPY') continue;
    const sources = words.slice(0, -1);
    const target = words.at(-1) ?? '';
    for (const source of sources) {
      const place = target.startsWith('/') ? join(root, target) : join(directory, target);
      const from = options.includes('--from=build') ? join(build, source) : join(ROOT, source);
      cpSync(from, sources.length > 1 ? join(place, source) : place, { recursive: true, verbatimSymlinks: true });
      const owner = options.flatMap((option) => /^--chown=(\d+):(\d+)$/.exec(option) ?? []);
      if (isRoot() && owner.length > 0) execFileSync('chown', ['-R', `${owner[1]}:${owner[2]}`, place]);
    }
  }
}

function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/**
 * The user of the image, where this process may change to it and that user may read the packages, which are links into
 * this repository. Otherwise the user stays the same, and the log says so.
 */
function asUser(): { readonly uid?: number; readonly gid?: number } {
  if (!isRoot()) return {};
  const user = { uid: USER, gid: USER };
  const reads = ['-e', 'fs.readFileSync(process.argv[1])', join(ROOT, 'node_modules/zod/package.json')];
  if (spawnSync(process.execPath, reads, { cwd: '/', ...user }).status === 0) return user;
  process.stderr.write(`user ${USER} may not read ${ROOT}: what is started stays with the user of this test\n`);
  return {};
}

/** The program that the image starts. */
function command(): string {
  const [, main = ''] = JSON.parse(told('ENTRYPOINT')[0] ?? '[]') as readonly string[];
  return join(image, main);
}

test('the last stage holds JavaScript, the dependencies of production and no sources', () => {
  expect(readdirSync(join(image, 'app')).toSorted()).toEqual(['dist', 'node_modules', 'package.json']);
  const packages = readdirSync(join(image, 'app/node_modules'));
  expect(packages).toContain('zod');
  expect(packages).not.toContain('typescript');
  expect(readdirSync(join(image, 'var/lib/countersign'))).toEqual(['artifacts']);
});

test('its command says its version', () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  const said = spawnSync(process.execPath, [command(), '--version'], { encoding: 'utf8', cwd: '/' });
  expect(said).toMatchObject({ status: 0, stdout: `${version}\n`, stderr: '' });
});

/** Writes the file of `deploy/`, for this machine: the volume lies elsewhere, and ports may be taken. */
function writeConfig(): string {
  const state = join(image, 'var/lib/countersign/artifacts');
  // Sound: the configuration is checked when it is loaded.
  const { health: _, ...own } = parse(readDeployed('config/countersign.yaml')) as ConfigInput;
  const gateway = { ...own.gateway, host: '127.0.0.1', port: 0 };
  const path = join(image, 'countersign.yaml');
  writeFileSync(path, stringify({ ...own, gateway, artifacts: { directory: state } } satisfies ConfigInput));
  return path;
}

/** The environment of a service of `deploy/compose.yaml`, at this test's Temporal. */
function environment(extra: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const { address, namespace } = engine.server;
  const temporal = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace };
  return { NODE_ENV: 'production', COUNTERSIGN_CONFIG: join(image, 'countersign.yaml'), ...temporal, ...extra };
}

/** Runs a command of the image as its user until it says `sign`, looks at it, and asks it to end. */
async function served(
  words: readonly string[],
  env: NodeJS.ProcessEnv,
  sign: string,
  look: (said: string) => Promise<void> | void,
): Promise<void> {
  const as = asUser();
  const child = spawn(process.execPath, [command(), ...words], { env, cwd: '/', stdio: 'pipe', ...as });
  const ended = new Promise<number | null>((resolve) => void child.once('exit', resolve));
  const lines: string[] = [];
  const said = (): string => lines.join('');
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => void lines.push(text));
  try {
    await until(
      () => {
        if (child.exitCode !== null) throw new Hopeless(said());
        return said().includes(sign);
      },
      { what: sign, withinMs: 60_000 },
    );
    await look(said());
    child.kill('SIGTERM');
    expect(await ended).toBe(0);
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
}

test(
  'setup, worker and gateway of it run as its user, with nothing to write but the state, until they are asked to end',
  async () => {
    // What the service `store` of deploy/compose.yaml does.
    writeFileSync(join(image, 'var/lib/countersign/artifacts/.countersign-store'), '');
    writeConfig();
    execFileSync('chmod', ['-R', 'a-w', join(image, 'app')]);
    const secrets = { ANTHROPIC_API_KEY: 'none' };
    const as = asUser();
    const options = { env: environment(secrets), cwd: '/', encoding: 'utf8', ...as } as const;
    expect(spawnSync(process.execPath, [command(), 'setup'], options)).toMatchObject({ status: 0, stderr: '' });

    // Sound: the form of CMD, which `test/architecture/deploy.test.ts` holds.
    const words = JSON.parse(told('CMD')[0] ?? '[]') as readonly string[];
    await served(words, environment(secrets), 'worker (all) of namespace', (said) =>
      expect(said).toContain('"bundle":"built"'),
    );
    await served(['gateway', '--json'], environment(), '"url":', async (said) => {
      const [, url = ''] = /"url":"([^"]+)"/.exec(said) ?? [];
      await until(async () => (await fetch(`${url}/health`)).ok, { what: 'a gateway whose lists are current' });
      expect((await fetch(`${url}/v1/requests`)).status).toBe(401);
    });
  },
  LIMIT_MS,
);
