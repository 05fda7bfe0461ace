// What deploy/ names exists, and is what the code uses: no container engine runs in these tests.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from '@jest/globals';
import { quietProgram } from '../support/cli.ts';
import { parse } from 'yaml';
import { ERRORS } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, DIGEST_WORKFLOW, RUN_WORKFLOW, TICKET_WORKFLOW } from '../../contracts/names.ts';
import { Config } from '../../contracts/schemas/config.ts';
import { CodecServerConfig } from '../../contracts/schemas/gateway.ts';
import { loadConfig } from '../../workers/config/load.ts';
import { readDeployed, stages, told, unit } from '../support/package/deployment.ts';
import { ROOT } from './source-tree.ts';

interface Service {
  readonly image: string;
  readonly command?: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, unknown>> | readonly string[];
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly stop_grace_period?: string;
  readonly profiles?: readonly string[];
  readonly read_only?: boolean;
  readonly user?: string;
  readonly cap_drop?: readonly string[];
  readonly build?: { readonly context: string; readonly dockerfile: string };
}
interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

// Sound: the tests below read each of its fields.
const compose = parse(readDeployed('compose.yaml'), { merge: true }) as Compose;
const { services } = compose;
const ours = Object.entries(services).filter(([, { image }]) => image.startsWith('countersign:'));
const worker = unit('countersign-worker@.service');
const gatewayUnit = unit('countersign-gateway.service');
const codecUnit = unit('countersign-codec-server.service');
const setup = unit('countersign-setup.service');

const loaded = await loadConfig(join(ROOT, 'deploy/config/countersign.yaml'), { ANTHROPIC_API_KEY: 'key' }, ROOT);
const { config } = loaded;
const program = await quietProgram();

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

/** Reads the words as the command line does, and starts nothing. @returns the verb, if the program takes the line */
function taken(words: readonly string[]): string | undefined {
  const [name, ...rest] = words;
  const command = program.commands.find((each) => each.name() === name);
  const { operands, unknown } = command?.parseOptions([...rest]) ?? { operands: [], unknown: rest };
  return operands.length === 0 && unknown.length === 0 ? name : undefined;
}

test('the image is built of all that the build compiles, of files that are there, and passes .dockerignore', () => {
  const [build = []] = stages();
  const copied = build.filter(({ name }) => name === 'COPY').flatMap(({ words }) => words.slice(0, -1));
  expect(copied.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  const compiled = [...read('tsconfig.build.json').matchAll(/"(\w+)\/\*\*\/\*\.ts"/g)].map(([, folder = '']) => folder);
  expect(compiled.length).toBeGreaterThan(6);
  expect(
    [...compiled, 'scripts', 'package.json', 'package-lock.json'].filter((path) => !copied.includes(path)),
  ).toEqual([]);
  const admitted = read('.dockerignore')
    .split('\n')
    .filter((line) => line.startsWith('!'));
  expect(admitted.map((line) => line.slice(1)).toSorted()).toEqual(copied.toSorted());
});

test('it runs the command as nobody special, on a Node that the package takes', () => {
  expect(told('USER')).toEqual(['65532:65532']);
  expect(told('ENTRYPOINT')).toEqual(['["/nodejs/bin/node", "/app/dist/cli/main.js"]']);
  expect(existsSync(join(ROOT, 'cli/main.ts'))).toBe(true);
  const [, command = ''] = /^\["(\w+)"\]$/.exec(told('CMD')[0] ?? '') ?? [];
  expect(taken([command])).toBe('worker');
  expect(told('EXPOSE')).toEqual([config.health?.port, config.gateway?.port].map(String));
  expect(told('ENV')).toContain('COUNTERSIGN_CONFIG=/etc/countersign/countersign.yaml');
  expect(read('workers/config/load.ts')).toContain("'COUNTERSIGN_CONFIG'");
  const bases = stages().map(([from]) => from?.text ?? '');
  expect(bases).toEqual([
    expect.stringMatching(/node:24-bookworm-slim AS build$/),
    expect.stringMatching(/nodejs24-debian12:nonroot$/),
  ]);
  expect(told('RUN')).toEqual([]);
});

test('Compose starts verbs of the program, with files, volumes and variables that are there', () => {
  expect(ours.map(([name]) => name)).toEqual(['store', 'setup', 'worker', 'gateway', 'codec-server']);
  for (const [name, { build, read_only: isReadOnly, user, cap_drop: dropped, volumes = [] }] of ours) {
    expect({ isReadOnly, user, dropped }).toEqual({ isReadOnly: true, user: told('USER')[0], dropped: ['ALL'] });
    expect(existsSync(join(ROOT, 'deploy', build?.context ?? '', build?.dockerfile ?? ''))).toBe(true);
    const [mounted = '', ...named] = volumes;
    const [source = '', target, how] = mounted.split(':');
    // The folder, not the file: a container keeps a single file that is mounted, also where another has replaced it.
    expect(statSync(join(ROOT, 'deploy', source)).isDirectory()).toBe(true);
    expect(how).toBe('ro');
    const [file] = readdirSync(join(ROOT, 'deploy', source));
    expect(told('ENV')).toContain(`COUNTERSIGN_CONFIG=${target}/${file}`);
    // A gateway reads artifacts alone, and a codec server has none.
    const mode = name === 'gateway' ? ':ro' : '';
    expect(named).toEqual(name === 'codec-server' ? [] : [`artifacts:${config.artifacts.directory}${mode}`]);
    expect(Object.keys(compose.volumes)).toContain('artifacts');
  }
  expect(taken(services['setup']?.command ?? [])).toBe('setup');
  expect(taken(services['worker']?.command ?? [])).toBe('worker');
  expect(taken(services['gateway']?.command ?? [])).toBe('gateway');
  expect(taken(services['codec-server']?.command ?? [])).toBe('codec-server');
  for (const { depends_on: needs = [] } of Object.values(services))
    expect(Object.keys(services)).toEqual(
      expect.arrayContaining(Array.isArray(needs) ? [...needs] : Object.keys(needs)),
    );
  const shared = ['TEMPORAL_ADDRESS', 'TEMPORAL_NAMESPACE'];
  const payloadKey = 'COUNTERSIGN_PAYLOAD_KEY';
  expect(Object.keys(services['gateway']?.environment ?? {})).toEqual([...shared, payloadKey]);
  const passed = Object.keys(services['worker']?.environment ?? {});
  const wanted = [...readDeployed('config/countersign.yaml').matchAll(/\$\{(\w+)\}/g)].map(([, name]) => name);
  expect(passed).toEqual([...shared, ...wanted, payloadKey]);
  const asked = [...readDeployed('compose.yaml').matchAll(/\$\{(\w+):[?-]/g)].map(([, name]) => name);
  const offered = [...readDeployed('example.env').matchAll(/^(\w+)=/gm)].map(([, name]) => name);
  expect(new Set(offered)).toEqual(new Set(asked));
});

test('its ports and probes are those of the configuration, and open on this machine only', () => {
  const published = Object.values(services).flatMap(({ ports = [] }) => ports);
  expect(published.length).toBeGreaterThan(0);
  expect(published.filter((port) => !port.startsWith('127.0.0.1:'))).toEqual([]);
  expect(services['worker']?.environment?.['TEMPORAL_ADDRESS']).toBe('temporal:7233');
  expect(services['temporal']?.ports).toEqual(['127.0.0.1:7233:7233']);
  const probe = services['worker']?.healthcheck?.test ?? [];
  expect(probe.slice(0, 3)).toEqual(['CMD', '/nodejs/bin/node', '--eval']);
  expect(probe[3]).toContain(`http://127.0.0.1:${config.health?.port}/healthz`);
  expect(config.health?.host).toBe('0.0.0.0');
  const { gateway } = services;
  expect(gateway?.ports).toEqual([`127.0.0.1:${config.gateway?.port}:${config.gateway?.port}`]);
  expect(gateway?.healthcheck?.test[3]).toContain(`http://127.0.0.1:${config.gateway?.port}/health'`);
  expect(read('gateway/routes/service.ts')).toContain("'/health'");
  const { port } = CodecServerConfig.parse({});
  const codec = services['codec-server'];
  expect(codec?.ports).toEqual([`127.0.0.1:${port}:${port}`]);
  expect(codec?.healthcheck?.test[3]).toContain(`http://127.0.0.1:${port}/health'`);
  expect(read('gateway/codec/server.ts')).toContain("'/health'");
  expect(codec?.profiles).toEqual(['codec']);
  expect(Object.keys(codec?.environment ?? {})).toEqual(['TEMPORAL_NAMESPACE', 'COUNTERSIGN_PAYLOAD_KEY']);
  expect(config.gateway).toMatchObject({ host: '0.0.0.0', oidc: {} });
  expect(read('contracts/names.ts')).toContain("'/healthz'");
});

test('a worker has its grace time and 15 s more to end, and a store that is marked', () => {
  const seconds = config.worker.shutdownGraceSeconds + 15;
  expect(services['worker']?.stop_grace_period).toBe(`${seconds}s`);
  expect(worker.get('TimeoutStopSec')).toEqual([String(seconds)]);
  const { entrypoint, command = [] } = services['store'] ?? {};
  expect(entrypoint).toEqual(['/nodejs/bin/node', '--eval']);
  expect(command[0]).toContain(`'${config.artifacts.directory}/.countersign-store'`);
  expect(read('activities/artifacts/root.ts')).toContain(".countersign-store'");
  expect(config.artifacts.directory).toBe(`/var/lib/${worker.get('StateDirectory')?.[0]}/artifacts`);
});

test('the units start verbs of the installed package, as a user of their own', () => {
  const [main, verb, ...words] = (worker.get('ExecStart')?.[0] ?? '').split(' ').slice(1);
  expect(main).toBe('/opt/countersign/node_modules/countersign/dist/cli/main.js');
  for (const role of ['all', 'runs', 'tools'])
    expect(taken([verb ?? '', ...words.map((word) => word.replace('%i', role))])).toBe('worker');
  const [same, ...line] = (setup.get('ExecStart')?.[0] ?? '').split(' ').slice(1);
  expect(same).toBe(main);
  expect(taken(line)).toBe('setup');
  const [again, ...gatewayLine] = (gatewayUnit.get('ExecStart')?.[0] ?? '').split(' ').slice(1);
  expect(again).toBe(main);
  expect(taken(gatewayLine)).toBe('gateway');
  expect(gatewayUnit.get('EnvironmentFile')).toEqual(['/etc/countersign/gateway.environment']);
  const [alike, ...codecLine] = (codecUnit.get('ExecStart')?.[0] ?? '').split(' ').slice(1);
  expect(alike).toBe(main);
  expect(taken(codecLine)).toBe('codec-server');
  expect(codecUnit.get('EnvironmentFile')).toEqual(['/etc/countersign/codec-server.environment']);
  for (const each of [worker, setup, gatewayUnit, codecUnit]) expect(each.get('User')).toEqual(['countersign']);
  for (const each of [worker, setup]) {
    expect(each.get('Environment')).toContain(told('ENV').find((text) => text.startsWith('COUNTERSIGN_CONFIG=')));
    expect(each.get('EnvironmentFile')?.[0]).toBe('/etc/countersign/environment');
  }
});

test('workers of two roles on one machine have secrets and a configuration each', () => {
  const [shared, own] = worker.get('EnvironmentFile') ?? [];
  expect([shared, own]).toEqual(['/etc/countersign/environment', '-/etc/countersign/%i.environment']);
  const guide = read('docs/operations/installing.md');
  for (const role of ['runs', 'tools']) {
    expect(guide).toContain(`/etc/countersign/${role}.environment`);
    expect(guide).toContain(`countersign-worker@${role}`);
  }
});

test('the gateway may list the interfaces of the machine, as its HTTP server does where it is bound to all of them', () => {
  expect(read('node_modules/fastify/lib/server.js')).toContain('os.networkInterfaces()');
  for (const each of [gatewayUnit, codecUnit])
    expect(each.get('RestrictAddressFamilies')?.[0]?.split(' ')).toContain('AF_NETLINK');
});

test('the guide installs the configuration on a machine so that no other machine reaches its ports', () => {
  const [, script = '', source = ''] =
    /^sed '([^']+)' (deploy\/\S+) \| install /m.exec(read('docs/operations/installing.md')) ?? [];
  const { stdout } = spawnSync('sed', [script, join(ROOT, source)], { encoding: 'utf8' });
  const { health, gateway } = Config.parse(parse(stdout));
  expect([health, gateway]).toMatchObject([{ host: '127.0.0.1' }, { host: '127.0.0.1' }]);
  expect(stdout.replaceAll('host: 127.0.0.1', 'host: 0.0.0.0')).toBe(readDeployed('config/countersign.yaml'));
});

test('systemd finds nothing wrong in the units, where it is installed', () => {
  const units = ['countersign-worker@.service', 'countersign-gateway.service', 'countersign-setup.service'].map(
    (name) => join(ROOT, 'deploy/systemd', name),
  );
  const { error, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...units], { encoding: 'utf8' });
  if (error !== undefined) return;
  // What it says of other units of this machine, and of a package that is not installed here, is no fault of ours.
  const about = stderr.split('\n').filter((line) => units.some((path) => line.includes(basename(path))));
  expect(about.filter((line) => !/not executable|No such file|not found/.test(line))).toEqual([]);
});

test('what to do for a harmless, a risky and a failed deploy stands on two pages, with each exit code', () => {
  const guide = read('docs/operations/deploying.md');
  expect(guide.split(/\s+/).length).toBeLessThanOrEqual(900);
  const heads = [...guide.matchAll(/^## (.*)$/gm)].map(([, head]) => head);
  expect(heads).toEqual(expect.arrayContaining(['A harmless change', 'A risky change', 'A failed deploy']));
  const codes = new Set(Object.values(ERRORS).map(({ exitCode }) => exitCode));
  const listed = [...guide.matchAll(/^\| (\d) \|/gm)].map(([, code]) => Number(code));
  expect(listed).toEqual([0, ...[...codes].filter((code) => code < 70).toSorted((one, other) => one - other)]);
});

test('the guide names each file, service and path of it', () => {
  const guide = read('docs/operations/installing.md');
  const named = [
    'deploy/Containerfile',
    'deploy/compose.yaml',
    'deploy/config/countersign.yaml',
    'deploy/example.env',
    'deploy/systemd/countersign-worker@.service',
    'countersign-setup',
    'deploy/systemd/countersign-gateway.service',
    '/etc/countersign/gateway.environment',
    '/etc/countersign/environment',
    '/opt/countersign',
    `${config.artifacts.directory}/.countersign-store`,
    ...Object.keys(services).map((name) => `| \`${name}\` |`),
  ];
  expect(named.filter((words) => !guide.includes(words))).toEqual([]);
});

test('what other programs in the same Prometheus count, too, is asked of ours alone', () => {
  const texts = [
    readDeployed('prometheus/alerts.yaml'),
    readDeployed('grafana/countersign.json').replaceAll('\\"', '"'),
  ];
  const types = [RUN_WORKFLOW, CATALOG_WORKFLOW, TICKET_WORKFLOW, DIGEST_WORKFLOW].join('|');
  for (const text of texts)
    expect(
      [
        ...text.matchAll(
          /temporal_workflow_task_execution_failed\{\s*workflow_type=~"([^"]+)"\}|temporal_workflow_task_execution_failed/g,
        ),
      ].map(([, named]) => named),
    ).toEqual([types]);
  const [, panels = ''] = texts;
  const jobs = [...panels.matchAll(/\bprocess_\w+(?:\{job="([\w-]+)"\})?/g)].map(([, job]) => job);
  expect(jobs).toEqual(['countersign-gateway', 'countersign-gateway']);
  expect(read('docs/operations/alerts.md')).toContain('job_name: countersign-gateway');
});
