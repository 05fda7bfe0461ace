/** Implements `countersign dev`, which runs everything on this machine for trying things out. */
import { existsSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { shellWord } from '../../domain/text/shell-word.ts';
import { loadConfig, type LoadedConfig } from '../../workers/config/load.ts';
import { findTemporalCli, startDevServer } from '../../workers/dev-server.ts';
import { filesystemServerUrl, startFilesystemServer } from '../../workers/filesystem-server.ts';
import { packageRoot } from '../../workers/setup.ts';
import { demoModel, prepareFolder, writeConfig } from '../dev/folder.ts';
import { choosePort, Stack } from '../dev/stack.ts';
import * as option from '../session/options.ts';
import type { Terminal } from '../session/terminal.ts';
import { type Answer, ended, print, verb } from '../session/verb.ts';
import { fields } from '../views/format.ts';
import { trustText } from '../views/run.ts';

/** Temporal's default port, which every other command tries. */
const DEFAULT_PORT = 7233;
const DEFAULT_GATEWAY_PORT = 8235;
const DEFAULT_DIRECTORY = '.countersign';

const OPTIONS = {
  directory: option.preset(
    DEFAULT_DIRECTORY,
    option.text('<folder>', 'database, artifacts and the files of the demo MCP server'),
  ),
  port: option.preset(DEFAULT_PORT, option.port('of Temporal; 0: any that is free')),
  uiPort: option.preset(8233, option.port('of Temporal UI')),
  filesPort: option.preset(8234, option.port('of the demo MCP server')),
  gatewayPort: option.port(`of the gateway (default: ${DEFAULT_GATEWAY_PORT}, or any that is free with --port 0)`),
  untilEof: option.flag('end when standard input does, for programs that start this one'),
} satisfies option.OptionRows;

type DevOptions = option.Values<typeof OPTIONS> & option.GlobalOptions;

export const DEV = verb({
  name: 'dev',
  summary: 'Temporal, a worker, the gateway and a demo MCP server on this machine',
  description: 'Run Temporal with its UI, a worker, the gateway and a demo MCP server on this machine, until Ctrl-C',
  options: OPTIONS,
  examples: ['dev', 'dev --port 0 --ui-port 0 --files-port 0 --directory /tmp/try'],
  note: `With a countersign.yaml here, or --config, the worker uses that; it may name the demo MCP server as \${COUNTERSIGN_FILES_URL},
and needs egress.allowLoopback: true for what is on this machine.`,
  run: async ({ options, terminal }) => {
    await dev(options, terminal);
    return undefined;
  },
});

async function dev(options: DevOptions, terminal: Terminal): Promise<void> {
  const asked = new AbortController();
  const interrupted = askedToEnd(terminal, options.untilEof === true).then(() => asked.abort());
  const stack = new Stack(asked.signal);
  try {
    print(terminal, devAnswer(await startAll(stack, options, terminal)), options.json === true);
    const name = await Promise.race([stack.firstEnded(), interrupted]);
    if (name !== undefined)
      throw new CountersignError('ENGINE_UNAVAILABLE', `${name} ended by itself; everything else is stopped.`);
  } catch (error) {
    // Asked to end before everything was up.
    if (error !== asked.signal.reason) throw error;
  } finally {
    if (options.json !== true && !stack.isEmpty) terminal.err('\nstopping …\n');
    for (const trouble of await stack.stop()) terminal.err(`did not stop well: ${trouble}\n`);
  }
}

/** Starts part after part. One function, because each part needs what those before it have said. */
async function startAll(stack: Stack, options: DevOptions, terminal: Terminal) {
  const executable = findTemporalCli(terminal.env);
  const model = demoModel(terminal.env);
  const namespace = options.namespace ?? 'default';
  const { gatewayPort = options.port === 0 ? 0 : DEFAULT_GATEWAY_PORT } = options;
  // Ports are checked before the first slow step, so that a mistake is reported at once.
  const ports = {
    temporal: await choosePort(options.port, '--port', 'Temporal'),
    ui: await choosePort(options.uiPort, '--ui-port', 'Temporal UI'),
    files: await choosePort(options.filesPort, '--files-port', 'the demo MCP server'),
    gateway: await choosePort(gatewayPort, '--gateway-port', 'the gateway'),
  };
  const directory = resolve(terminal.directory, options.directory);
  const folder = await prepareFolder(directory);
  const filesUrl = filesystemServerUrl(ports.files);
  await writeConfig(folder, model, filesUrl);
  const loaded = await configOf(options, terminal, folder.config, filesUrl);
  if (options.json !== true) terminal.err('starting Temporal, the demo MCP server, a worker and the gateway …\n');
  // These modules take a second to load, so other commands do without them.
  const { startWorkers } = await import('../../workers/worker.ts');
  const { installWorkerLog } = await import('../session/runtime.ts');
  const log = installWorkerLog(loaded);
  const files = await stack.start(
    'The demo MCP server',
    () => startFilesystemServer(folder.files, ports.files),
    ({ exited }) => exited,
  );
  const { startDevCodec, startDevGateway } = await import('../dev/gateway.ts');
  const codec = await stack.start('The codec server', () =>
    startDevCodec(loaded, { namespace, uiPort: ports.ui }, terminal),
  );
  const engine = await stack.start(
    'Temporal',
    () =>
      startDevServer({
        executable,
        dbFilename: folder.database,
        port: ports.temporal,
        uiPort: ports.ui,
        namespace,
        ownGroup: true,
        ...defined({ uiCodecEndpoint: codec?.url }),
      }),
    ({ exited }) => exited,
  );
  const workers = await stack.start(
    'The worker',
    () => startWorkers({ loaded, connectionOptions: { address: engine.address }, namespace, log }),
    ({ stopped }) => stopped,
  );
  const inFolder = { ...terminal, env: { ...terminal.env, COUNTERSIGN_FILES_URL: filesUrl } };
  const isOurs = loaded.path === folder.config;
  const { address } = engine;
  const place = { address, namespace, port: ports.gateway, filesUrl: isOurs ? filesUrl : undefined };
  const gateway = await stack.start('The gateway', () => startDevGateway(loaded, place, inFolder));
  const example = packedExample();
  const shown = (path: string): string => {
    const near = relative(terminal.directory, path);
    return near.startsWith('..') ? path : near;
  };
  return {
    address,
    namespace,
    uiUrl: engine.uiUrl ?? '',
    codec: codec?.url,
    gateway: gateway && { url: gateway.gateway.url, isOpen: gateway.isOpen },
    files: { url: files.url, folder: folder.files },
    model: isOurs ? model.label : undefined,
    config: shown(loaded.path ?? folder.config),
    directory: shown(directory),
    taskQueue: loaded.config.taskQueue,
    trust: loaded.config.trust,
    buildId: workers.buildId ?? '',
    /** Environment variables with which commands in another terminal find this server. */
    environment: defined({
      TEMPORAL_ADDRESS: options.port === DEFAULT_PORT ? undefined : address,
      TEMPORAL_NAMESPACE: namespace === 'default' ? undefined : namespace,
      COUNTERSIGN_CONFIG: options.directory === DEFAULT_DIRECTORY || !isOurs ? undefined : folder.config,
    }),
    example: example && shown(example),
  };
}

/** The spec that the scripted model fits; the package brings it, a folder with nothing but `dist/` does not. */
function packedExample(): string | undefined {
  const root = packageRoot();
  const path = root && fileURLToPath(new URL('examples/write-a-summary.yaml', root));
  return path !== undefined && existsSync(path) ? path : undefined;
}

async function configOf(
  { config }: DevOptions,
  { env, directory }: Terminal,
  built: string,
  filesUrl: string,
): Promise<LoadedConfig> {
  const environment = { ...env, COUNTERSIGN_FILES_URL: filesUrl };
  const own = await loadConfig(config, environment, directory);
  return own.path === undefined ? await loadConfig(built, environment, directory) : own;
}

async function askedToEnd(terminal: Terminal, withInput: boolean): Promise<void> {
  const aborted = ended(terminal.interrupted());
  await Promise.race(withInput ? [aborted, terminal.input()] : [aborted]);
}

export type DevAddresses = Awaited<ReturnType<typeof startAll>>;

export function devAnswer(addresses: DevAddresses): Answer {
  const { directory, trust, example, ...told } = addresses;
  const { address, namespace, uiUrl, codec, gateway, files, model, config, taskQueue, buildId, environment } = told;
  const set = Object.entries(environment).map(([name, value]) => `${name}=${shellWord(value)}`);
  const tries = [
    ...(set.length > 0 ? [`export ${set.join(' ')}`] : []),
    `countersign start ${shellWord(example ?? '')} --id summary-1`,
    'countersign requests summary-1',
    'countersign approve summary-1 t3.c0 --as ann',
    'countersign result summary-1',
    'countersign ledger summary-1',
  ];
  return {
    json: told,
    text: (paint) =>
      [
        `\n${paint('bold', 'Countersign is running.')}\n`,
        fields(paint, [
          ['Temporal', `${address}, namespace ${namespace}`],
          ['Temporal UI', paint('cyan', uiUrl)],
          ['codec', codec && `${codec}  (DEVELOPMENT: whoever reaches it reads encrypted runs, as Temporal UI does)`],
          ['gateway', gateway && gatewayText(gateway)],
          ['MCP server', `${files.url}  (server-filesystem on ${directory}/files)`],
          ['model', model],
          ['worker', `build ${buildId}, queue ${taskQueue}, configuration ${config}`],
          ['trust', trustText(trust, namespace)],
        ]),
        ...(model === undefined || example === undefined
          ? []
          : [
              `\nTry, in another terminal (countersign is npx countersign, unless it is on PATH):\n\n${tries.map((line) => `  ${line}`).join('\n')}`,
            ]),
        `\n${paint('dim', `Ctrl-C ends all of it. Runs are kept in ${directory}/temporal.db.`)}`,
      ].join('\n'),
  };
}

function gatewayText({ url, isOpen }: NonNullable<DevAddresses['gateway']>): string {
  return isOpen ? `${url}  (DEVELOPMENT LOGIN: whoever reaches it may sign in as anybody)` : url;
}
