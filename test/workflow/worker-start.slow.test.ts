/**
 * `countersign worker`: where it refuses to start, with what to do, and what it says that it serves; its log, one JSON
 * object a line, with message, server and code, Temporal's own lines too.
 */
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { Worker } from '@temporalio/worker';
import { stringify } from 'yaml';
import { Countersign } from '../../client/index.ts';
import { Config, type ConfigInput } from '../../contracts/schemas/config.ts';
import { freePort } from '../../workers/dev-server.ts';
import { startWorkers } from '../../workers/worker.ts';
import { type CommandOptions, type CommandResult, documentOf, errorOf, runCommand } from '../support/cli.ts';
import { LOOPBACK } from '../support/egress.ts';
import { withCode, refusalOf } from '../support/refusal.ts';
import { until } from '../support/until.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/world/worker-process.ts';
import { startEngine } from '../support/engine.ts';
import { during } from '../support/world/during.ts';

const engine = during(() => startEngine());

describe('at its start', () => {
  /** Without any search attribute; and with one of them as another type than ours. */
  const BARE = 'bare';
  const FOREIGN = 'foreign';
  const TEXT = 1;

  let client: Client;

  beforeAll(async () => {
    client = await engine.connect();
    const { workflowService, operatorService } = client.connection;
    const url = 'http://127.0.0.1:1/mcp';
    const servers = {
      bank: { url, taskQueue: 'bank-tools', credentials: { kind: 'none' } },
      notes: { url, credentials: { kind: 'none' } },
    };
    const config = { taskQueue: 'runs', servers, egress: LOOPBACK, log: { level: 'error' } };
    await writeFile(join(engine.directory, 'countersign.yaml'), stringify(config));
    for (const namespace of [BARE, FOREIGN])
      await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod: msToTs('1 day') });
    // A namespace is known everywhere in the server some seconds after it was registered.
    for (const namespace of [BARE, FOREIGN])
      await until(async () => operatorService.listSearchAttributes({ namespace }), { what: namespace });
    const searchAttributes = { CountersignStatus: TEXT };
    await until(
      async () => {
        await operatorService.addSearchAttributes({ namespace: FOREIGN, searchAttributes });
        return true;
      },
      { what: 'the foreign attribute' },
    );
  });

  async function worker(
    namespace: string,
    more: readonly string[] = [],
    options: CommandOptions = {},
  ): Promise<CommandResult> {
    const args = ['worker', '--address', engine.server.address, '--namespace', namespace, '--json', ...more];
    return await runCommand(args, { directory: engine.directory, ...options });
  }

  /** The way to Temporal, which is closed at first. */
  async function startGate(to: string) {
    const [host = '', port = ''] = to.split(':');
    const sockets = new Set<Socket>();
    let isOpen = false;
    let turnedAway = 0;
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      if (!isOpen) {
        turnedAway += 1;
        socket.destroy();
        return;
      }
      const onward = connect(Number(port), host);
      sockets.add(onward);
      onward.on('error', () => socket.destroy());
      socket.on('close', () => onward.destroy());
      socket.pipe(onward).pipe(socket);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const at = server.address();
    if (at === null || typeof at === 'string') throw new Error('no port');
    return {
      address: `127.0.0.1:${at.port}`,
      turnedAway: () => turnedAway,
      open: () => {
        isOpen = true;
      },
      close: async () => {
        for (const socket of sockets) socket.destroy();
        server.close();
        await once(server, 'close');
      },
    };
  }

  /** What it says once it polls; then it is asked to end. */
  async function answerOf(role: string): Promise<CommandResult> {
    const stop = new AbortController();
    return await worker('default', ['--role', role], { signal: stop.signal, onOut: () => stop.abort() });
  }

  test('in a namespace that is not there: SETUP_INCOMPLETE, exit code 6, and the command that creates it', async () => {
    const result = await worker('elsewhere');
    expect(result.exitCode).toBe(6);
    expect(errorOf(result)).toMatchObject(
      withCode('SETUP_INCOMPLETE', 'temporal operator namespace create --namespace elsewhere'),
    );
  });

  test.each(['requests', 'show run-1', 'result run-1', 'replay --live'])(
    '%s in a namespace that is not there says so too, and is no fault of ours',
    async (line) => {
      const args = [...line.split(' '), '--address', engine.server.address, '--namespace', 'elsewhere', '--json'];
      const result = await runCommand(args, { directory: engine.directory });
      expect(result.exitCode).toBe(6);
      expect(errorOf(result)).toMatchObject(withCode('SETUP_INCOMPLETE', 'countersign setup'));
    },
  );

  test.each(['requests', 'show run-1', 'result run-1', 'stop run-1 --as ann --reason r', 'start -', 'catalog list'])(
    '%s in a namespace that is not set up says so, with the address that was asked and the command',
    async (line) => {
      const args = [...line.split(' '), '--address', engine.server.address, '--namespace', BARE, '--json'];
      const spec = { agent: { name: 'clerk', model: 'main' }, input: 'Do it.', initiator: { id: 'ann' }, servers: [] };
      const result = await runCommand(args, { directory: engine.directory, input: JSON.stringify(spec) });
      expect(result.exitCode).toBe(6);
      expect(errorOf(result)).toMatchObject({
        code: 'SETUP_INCOMPLETE',
        message: expect.stringMatching(
          new RegExp(
            `${BARE} of Temporal at ${engine.server.address} lacks.*Run: countersign setup --namespace ${BARE}$`,
          ),
        ),
      });
    },
  );

  test('a worker that is started before Temporal answers begins once it does', async () => {
    const gate = await startGate(engine.server.address);
    const stop = new AbortController();
    const args = ['worker', '--role', 'tools', '--address', gate.address, '--namespace', 'default', '--json'];
    const run = runCommand(args, {
      directory: engine.directory,
      signal: stop.signal,
      onOut: () => stop.abort(),
    });
    await until(async () => gate.turnedAway() > 0, { what: 'a first try' });
    gate.open();
    expect(await run).toMatchObject({ exitCode: 0 });
    await gate.close();
  });

  test('where its health port is taken no worker is made: one that never runs would keep the process alive', async () => {
    const [host = '', port = ''] = engine.server.address.split(':');
    const config = Config.parse({ health: { host, port: Number(port) } });
    const made = jest.spyOn(Worker, 'create');
    const started = startWorkers({
      loaded: { config, path: undefined, baseDirectory: engine.directory },
      connectionOptions: { address: engine.server.address },
      namespace: 'default',
    });
    expect(await refusalOf(started)).toMatchObject({ code: 'SETUP_INCOMPLETE', facts: { path: 'health.port' } });
    expect(made).not.toHaveBeenCalled();
    made.mockRestore();
  });

  test('without setup it does not start, and prints the command', async () => {
    const refused = await worker(BARE);
    expect(refused.exitCode).toBe(6);
    expect(errorOf(refused)).toMatchObject({
      code: 'SETUP_INCOMPLETE',
      message: expect.stringMatching(/CountersignStatus.*Run: countersign setup --namespace bare$/),
    });
  });

  test('a search attribute of another type is named', async () => {
    const result = await until(async () => {
      const refused = await worker(FOREIGN);
      return errorOf(refused).message.includes('another type') ? refused : undefined;
    });
    expect(result.exitCode).toBe(6);
    expect(errorOf(result)).toMatchObject(withCode('SETUP_INCOMPLETE', 'has CountersignStatus with another type'));
  });

  test('role tools says which queues it polls, and has no workflow bundle; the server that nobody serves is named', async () => {
    const result = await answerOf('tools');
    expect(result.exitCode).toBe(0);
    expect(documentOf(result)).toEqual({
      role: 'tools',
      namespace: 'default',
      taskQueues: ['bank-tools'],
      trust: 'temporal',
      config: join(engine.directory, 'countersign.yaml'),
    });
    expect(result.err).toMatch(/^warning: servers\.notes has no taskQueue of its own: [^\n]+\n$/);
  });

  test('role all polls every queue, with a build id, and leaves no server out', async () => {
    const result = await answerOf('all');
    expect(documentOf(result)).toMatchObject({
      taskQueues: ['runs', 'bank-tools'],
      buildId: expect.stringMatching(/^[0-9a-f]{12}$/),
    });
    expect(result).toMatchObject({ exitCode: 0, err: '' });
  });
});

describe('in its log', () => {
  type Line = Readonly<Record<string, unknown>>;

  let worker: WorkerProcess;
  let tools: WorkerProcess;

  beforeAll(async () => {
    const { address, namespace } = engine.server;
    const configFile = join(engine.directory, 'logged.yaml');
    const config: ConfigInput = {
      taskQueue: 'logged',
      servers: {
        bank: { url: `http://127.0.0.1:${await freePort()}/mcp`, credentials: { kind: 'none' } },
        notes: { url: 'http://127.0.0.1:1/mcp', credentials: { kind: 'none' }, taskQueue: 'notes' },
      },
      models: { script: { provider: 'scripted', script: { steps: [{ text: 'Done.' }] } } },
      egress: LOOPBACK,
    };
    await writeFile(configFile, stringify(config));
    const both = { configFile, address, namespace, shipped: true };
    [worker, tools] = await Promise.all([startWorkerProcess(both), startWorkerProcess({ ...both, role: 'tools' })]);
  }, 180_000);
  afterAll(async () => {
    await worker?.kill();
    await tools?.kill();
  });

  /** Fails where a line of stderr is no JSON. */
  function lines(of = worker): Line[] {
    // Sound: an object, or the next line of the test says what it was.
    const found = of
      .log()
      .split('\n')
      // The command's own words about its configuration, before there is a log.
      .filter((text) => text !== '' && !text.startsWith('warning: '))
      .map((text) => JSON.parse(text) as Line);
    for (const line of found)
      expect(line).toMatchObject({ level: expect.any(String), time: expect.any(String), message: expect.any(String) });
    return found;
  }

  async function lineOf(what: string, matches: (line: Line) => boolean): Promise<Line> {
    return await until(() => lines().find(matches), { what });
  }

  test('its start says what it serves, where, and as which build', async () => {
    expect(await lineOf('the start', ({ message }) => message === 'The worker has started.')).toMatchObject({
      level: 'info',
      role: 'all',
      taskQueues: ['logged', 'notes'],
      namespace: engine.server.namespace,
      address: engine.server.address,
      buildId: expect.stringMatching(/^[0-9a-f]{12}$/),
      bundle: expect.stringMatching(/^(built|made at start)$/),
      memoryMiB: expect.any(Number),
      maxCachedWorkflows: expect.any(Number),
      version: expect.stringMatching(/^\d+\.\d+\.\d+(-rc\.\d+)?$/),
    });
  });

  test('an attempt that failed says which server and why, by code', async () => {
    const countersign = new Countersign({ client: await engine.connect() });
    const spec = {
      agent: { name: 'clerk', model: 'script' },
      input: 'Do it.',
      initiator: { id: 'ann' },
      servers: [{ name: 'bank' }],
    };
    const run = await countersign.startRun({ runId: 'logged', taskQueue: 'logged', spec });
    expect(await lineOf('the failed attempt', ({ activityType }) => activityType === 'discoverTools')).toMatchObject({
      level: 'warn',
      code: expect.stringMatching(/^[A-Z_]+$/),
      server: 'bank',
      workflowId: 'logged',
      activityType: 'discoverTools',
      attempt: 1,
      reason: expect.any(String),
      since: expect.any(String),
    });
    await run.stop({ by: 'ann', reason: 'It has been seen.' });
  });

  test('its end says why, and how long it took', async () => {
    tools.terminate();
    await tools.ended;
    const [stops, stopped] = lines(tools).slice(-2);
    expect(stops).toMatchObject({ message: expect.stringContaining('stops'), why: 'SIGTERM', taskQueues: ['notes'] });
    expect(stopped).toMatchObject({
      message: 'The worker has stopped.',
      role: 'tools',
      why: 'SIGTERM',
      upSeconds: expect.any(Number),
      stoppingMs: expect.any(Number),
    });
  });

  test("lines of Temporal's native part are of the same form", async () => {
    await engine.server.stop('SIGKILL');
    expect(await lineOf('a line of the native part', ({ sdkComponent }) => sdkComponent === 'core')).toMatchObject({
      level: expect.stringMatching(/^(warn|error)$/),
    });
  });
});
