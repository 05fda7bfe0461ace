/**
 * The package as somebody installs it: packed, unpacked into an empty project, compiled against, and run there.
 * How it is installed without a network: `test/support/package/packed.ts`. Nothing here is replayed: it looks at
 * processes from outside.
 */
import { execFile, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { stringify } from 'yaml';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { startScriptedServer } from '../../testing/index.ts';
import { startEngine } from '../support/engine.ts';
import { importsOf } from '../architecture/source-tree.ts';
import { BUNDLED } from '../../scripts/bundle-commands.mjs';
import { blocksOf } from '../support/guide.ts';
import { install, type Project } from '../support/package/packed.ts';
import { type SharedPack, sharedPack } from '../support/package/shared-pack.ts';
import { startWorkerProcess } from '../support/world/worker-process.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** With compilers, a server and bundlers, on a busy machine. */
jest.setTimeout(240_000);
const MOST_BYTES = 3_000_000;

let packed: SharedPack;
let project: Project;
let bin: string;

beforeAll(async () => {
  packed = await sharedPack();
  project = install(packed);
  bin = join(project.folder, 'node_modules/.bin/countersign');
});
afterAll(() => project?.remove());

/** Runs a tool of the repository. */
function tool(path: string, args: readonly string[], cwd = project.folder) {
  return spawnSync(process.execPath, [join(ROOT, 'node_modules', path), ...args], { cwd, encoding: 'utf8' });
}

/** Runs a module of the project, which ends with status 0. */
async function runs(path: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [path], {
    cwd: project.folder,
    env: { ...process.env, ...env },
  });
  return stdout;
}

test('it holds what runs and no more, in 3 MB', () => {
  expect(statSync(packed.tarball).size).toBeLessThanOrEqual(MOST_BYTES);
  const places = new Set(packed.paths.map((path) => path.replace(/^(dist|docs\/schema)\/.*/, '$1')));
  expect([...places].toSorted()).toEqual([
    'LICENSE',
    'README.md',
    'countersign.example.yaml',
    'dist',
    'docs/schema',
    'examples/write-a-summary.yaml',
    'package.json',
    'scripts/countersign.mjs',
  ]);
  expect(packed.paths.filter((path) => /(?<!\.d)\.ts$|(?:^|\/)test\//.test(path))).toEqual([]);
  for (const script of ['build', 'prepack']) expect(packed.manifest.scripts[script]).toBe('node scripts/build.mjs');
});

test('its JavaScript imports declared dependencies alone, and its declarations name files that are there', () => {
  const dist = join(packed.folder, 'dist');
  const texts = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((name) => /\.(js|d\.ts)$/.test(name));
  const imports = texts.flatMap((name) =>
    // The compiler writes the imports that it adds to declarations with the other quotes.
    importsOf(name, readFileSync(join(dist, name), 'utf8').replaceAll('"', "'")),
  );
  expect(imports.length).toBeGreaterThan(1_000);
  const packages = imports
    .filter(({ target, isRelative }) => !isRelative && !isBuiltin(target))
    .map(({ target }) => /^(?:@[^/]+\/)?[^/]+/.exec(target)?.[0] ?? target);
  const declared = Object.keys(packed.manifest.dependencies);
  expect([...new Set(packages)].filter((name) => !declared.includes(name))).toEqual([]);
  const there = new Set(texts);
  const files = imports.filter(({ isRelative }) => isRelative).map(({ target }) => target);
  expect(files.filter((target) => !there.has(target))).toEqual([]);
});

test('publint and Are The Types Wrong have nothing to say', () => {
  const linted = tool(
    'publint/src/cli.js',
    ['--strict', '--pack', 'false'],
    join(project.folder, 'node_modules/countersign'),
  );
  expect(linted).toMatchObject({ status: 0, stdout: expect.stringContaining('All good!') });
  const flags = ['--profile', 'esm-only', '--no-emoji', '--no-color'];
  const typed = tool('@arethetypeswrong/cli/dist/index.js', [packed.tarball, ...flags]);
  expect({ status: typed.status, said: typed.stdout }).toMatchObject({ status: 0 });
}, 60_000);

const EVERY_ENTRY = `import { Countersign, type RunSpecInput } from 'countersign';
import { bundleWorkflows, loadConfig, startWorkers } from 'countersign/worker';
import { agentRun, toolCatalog } from 'countersign/workflows';
import { Config, type ConfigInput, RunSpec } from 'countersign/schemas';
import { startTestWorld } from 'countersign/testing';
import schema from 'countersign/schemas/run-spec.schema.json' with { type: 'json' };
const spec: RunSpecInput = RunSpec.parse({});
const config: ConfigInput = { taskQueue: 'own' };
export const used = [Countersign, bundleWorkflows, loadConfig, startWorkers, agentRun, toolCatalog, schema];
export const values = [spec, Config.parse(config), startTestWorld];
`;
/** The only declarations that do not pass: Temporal's, which take a type from \`ms\` 3, whose exports hide it. */
const NOT_OURS = /@temporalio\/common\/lib\/time\.d\.ts\(\d+,\d+\): error TS7016: .* 'ms'/;

test.each([
  ['nodenext', 'nodenext'],
  ['esnext', 'bundler'],
])(
  'a file that uses every entry compiles with module %s and moduleResolution %s, without skipLibCheck',
  (module, moduleResolution) => {
    project.write('entries.ts', EVERY_ENTRY);
    project.write(
      'wrong.ts',
      `import { Countersign } from 'countersign';\nexport const wrong: string = Countersign;\n`,
    );
    const strict = { strict: true, skipLibCheck: false, noEmit: true };
    const compilerOptions = {
      target: 'es2023',
      module,
      moduleResolution,
      types: ['node'],
      resolveJsonModule: true,
      ...strict,
    };
    project.write('tsconfig.json', JSON.stringify({ compilerOptions, files: ['entries.ts', 'wrong.ts'] }));
    const { stdout } = tool('typescript/bin/tsc', ['-p', '.', '--pretty', 'false']);
    const said = stdout.split('\n').filter((line) => line.includes('error TS') && !NOT_OURS.test(line));
    expect(said).toEqual([expect.stringMatching(/^wrong\.ts\(2,14\): error TS2322/)]);
  },
  60_000,
);

test('the README’s sample runs against a worker that the installed command starts', async () => {
  const engine = await startEngine();
  const ledger = await startScriptedServer({ book_invoice: { answer: () => 'booked' } });
  try {
    const config: ConfigInput = {
      servers: { ledger: { url: ledger.url, credentials: { kind: 'none' } } },
      egress: { allowLoopback: true },
      models: {
        main: {
          provider: 'scripted',
          script: {
            steps: [{ calls: [{ tool: 'ledger/book_invoice', arguments: { amount: 1180 } }] }, { text: 'Booked.' }],
          },
        },
      },
    };
    const configFile = project.write('countersign.yaml', stringify(config));
    const { address, namespace } = engine.server;
    const worker = await startWorkerProcess({ configFile, address, namespace, built: bin });
    try {
      expect(worker.log()).toContain('"bundle":"built"');
      const [sample] = await blocksOf('README.md', 'ts');
      const connected = sample?.text.replace(
        'Connection.connect()',
        'Connection.connect({ address: process.env.TEMPORAL_ADDRESS })',
      );
      await runs(
        project.write('sample.mjs', `${connected}\nconsole.log((await run.result()).output);\nprocess.exit(0);\n`),
        {
          TEMPORAL_ADDRESS: address,
        },
      ).then((said) => expect(said).toBe('Booked.\n'));
      expect(ledger.calls).toEqual([expect.objectContaining({ tool: 'book_invoice', arguments: { amount: 1180 } })]);
      const shown = spawnSync(bin, ['result', 'invoice-4711', '--address', address, '--json'], { encoding: 'utf8' });
      expect(shown).toMatchObject({ status: 0, stderr: '' });
      expect(JSON.parse(shown.stdout)).toMatchObject({ status: 'completed', output: 'Booked.' });
      const loaded = loadedBy(['requests', '--address', address]);
      // Its packages are in the bundle, too.
      expect(loaded.filter((path) => /\/node_modules\/(?!countersign\/)/.test(path))).toEqual([]);
      expect(loaded.filter((path) => path.includes('/dist/')).length).toBeLessThanOrEqual(MOST_FILES);
      expect(heavyIn(loadedBy(['policy', 'explain', 'ledger', 'book_invoice']))).toContain('@marcbachmann/cel-js');
    } finally {
      await worker.kill();
    }
  } finally {
    await ledger.stop();
    await engine.stop();
  }
});

test('a world for tests starts in jest, set up as the guide says', async () => {
  for (const name of ['jest', '@swc/jest']) {
    const path = join('node_modules', name);
    mkdirSync(dirname(join(project.folder, path)), { recursive: true });
    symlinkSync(join(ROOT, path), join(project.folder, path));
  }
  const [config] = await blocksOf('docs/guide/library.md', 'js');
  project.write('jest.config.mjs', config?.text ?? '');
  project.write(
    'world.test.ts',
    `import { startTestWorld } from 'countersign/testing';
test('runs', async () => {
  const world = await startTestWorld();
  const run = await world.start([{ text: 'Done.' }]);
  expect(await run.result()).toMatchObject({ output: 'Done.' });
  await world.stop();
});
`,
  );
  const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'node_modules/jest/bin/jest.js')], {
    cwd: project.folder,
    encoding: 'utf8',
    env: { ...process.env, NODE_OPTIONS: '--experimental-vm-modules' },
    timeout: 120_000,
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: expect.stringContaining('1 passed') });
});

/** That a bundled command loads: each costs Node about a millisecond of processor time. */
const MOST_FILES = 15;

test('commands that people run all day are bundled, with the licences of what is in them', () => {
  const folder = join(packed.folder, 'dist/cli/bundled');
  const names = readdirSync(folder);
  for (const verb of BUNDLED) {
    expect(names).toContain(`${verb}.js`);
    const paths = loadedBy([verb, '--help']).filter((path) => path.endsWith('.js') && path.includes('/dist/cli/'));
    expect(paths.filter((path) => !/\/dist\/cli\/(?:main\.js|bundled\/)/.test(path))).toEqual([]);
    expect(paths.length).toBeGreaterThan(2);
  }
  const licences = readFileSync(join(folder, 'LICENSES.txt'), 'utf8');
  for (const name of ['@temporalio/client', '@grpc/grpc-js', 'protobufjs', 'zod', 'commander'])
    expect(licences).toMatch(new RegExp(`^${name} \\d.*\\n(?:.+\\n)*\\n\\S`, 'm'));
  // What is bundled takes the rest of the package as it lies there.
  const texts = names.filter((name) => name.endsWith('.js')).map((name) => readFileSync(join(folder, name), 'utf8'));
  const outside = texts.flatMap((text) => [...text.matchAll(/import\("(\.\.[^"]+)"\)/g)].map(([, path = '']) => path));
  expect(outside).toContain('../../workers/replay/replayed-run.js');
  expect(outside.filter((path) => !existsSync(join(folder, path)))).toEqual([]);
});

/** Notes each file that Node loads, as a module or by `require`, those of packages in packages too. */
const NOTING = `import { appendFileSync } from 'node:fs';
import { register, Module } from 'node:module';
const hook = 'import { appendFileSync } from "node:fs"; export async function load(url, context, next) { appendFileSync(process.env.LOADED, url + "\\\\n"); return next(url, context); }';
register('data:text/javascript,' + encodeURIComponent(hook));
process.on('exit', () => appendFileSync(process.env.LOADED, Object.keys(Module._cache).join('\\n')));
`;

/** @returns the files that a command of the installed package loads, which ends with status 0 */
function loadedBy(args: readonly string[]): readonly string[] {
  const list = project.write('loaded.txt', '');
  const noting = project.write('noting.mjs', NOTING);
  const env = { ...process.env, NODE_OPTIONS: `--import ${noting}`, LOADED: list };
  const { status, stderr } = spawnSync(bin, args, { cwd: project.folder, encoding: 'utf8', env });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return readFileSync(list, 'utf8').split('\n');
}

/** @returns packages of workers, models, stores, tracing and policy among the files */
function heavyIn(paths: readonly string[]): readonly string[] {
  const heavy =
    /node_modules\/(@temporalio\/(?:worker|core-bridge)|ai|@ai-sdk\/[^/]+|aws4fetch|undici|@opentelemetry\/sdk[^/]*|@modelcontextprotocol\/[^/]+|@marcbachmann\/cel-js|re2js|@cfworker\/json-schema|oauth4webapi|pino|jose)\//;
  expect(
    paths.some((path) => path.includes('node_modules/@temporalio/') || path.includes('countersign/dist/cli/')),
  ).toBe(true);
  return [...new Set(paths.flatMap((path) => heavy.exec(path)?.[1] ?? []))];
}

const OWN = `import { strict as assert } from 'node:assert';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode } from '@temporalio/worker';
import { bundleWorkflows, loadConfig, startWorkers } from 'countersign/worker';
import { startTestWorld } from 'countersign/testing';

const at = (name) => fileURLToPath(new URL(name, import.meta.url));
const refused = { code: 'BUNDLE_INCOMPLETE', message: /countersign\\/workflows/ };
await assert.rejects(bundleWorkflows({ workflowsPath: at('bare.ts') }), refused);
const bundle = await bundleWorkflows({ workflowsPath: at('own.ts') });
assert.ok(!bundle.code.includes(at('own.ts')), 'the bundle names the machine');

const files = { write: { answer: ({ text }) => 'wrote ' + text } };
const world = await startTestWorld({ bundle, servers: { files } });
const own = { taskQueue: 'countersign', workflowId: 'own', args: ['Ann'] };
assert.equal(await world.client.workflow.execute('greet', own), 'Hello Ann.');
const run = await world.start([{ calls: [{ tool: 'files/write', arguments: { text: 'x' } }] }, { text: 'Done.' }]);
const request = await world.approveNext(run, 'ann');
assert.equal(request.tool, 'write');
assert.equal((await run.result()).output, 'Done.');
assert.deepEqual(world.servers.files.calls.map((call) => call.arguments), [{ text: 'x' }]);

const logger = { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error() {} };
const foreign = { ...(await bundleWorkflowCode({ workflowsPath: at('own.ts'), logger })), buildId: 'foreign' };
const connectionOptions = { address: world.address };
const loaded = await loadConfig(undefined, {});
await assert.rejects(startWorkers({ loaded, connectionOptions, namespace: 'default', bundle: foreign }), refused);
await world.stop();
console.log('ok');
`;

test.each(['01-one-approval', '05-policy-as-code', '06-fastify-backend'])(
  'a copy of examples/%s runs by tsx in a project that has installed the package',
  async (name) => {
    const copy = join(project.folder, name);
    cpSync(join(ROOT, 'examples', name), copy, { recursive: true });
    const [promised] = await blocksOf(`examples/${name}/README.md`, 'text');
    const tsx = join(ROOT, 'node_modules/tsx/dist/cli.mjs');
    const { stdout } = await promisify(execFile)(process.execPath, [tsx, 'main.ts'], { cwd: copy });
    expect(stdout).toBe(promised?.text);
  },
);

test('own workflows run beside those of runs in a world for tests, and a bundle without ours is refused', async () => {
  const greet = 'export async function greet(name: string): Promise<string> {\n  return `Hello ${name}.`;\n}\n';
  project.write('own.ts', `export * from 'countersign/workflows';\n${greet}`);
  project.write('bare.ts', greet);
  expect(await runs(project.write('own.mjs', OWN))).toBe('ok\n');
});
