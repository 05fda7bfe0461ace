/** What `start`, `watch`, `result` and `show` say at once, where a worker answers and where there is none (S2.3). */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { Config } from '../../contracts/schemas/config.ts';
import { startWorkers, type Workers } from '../../workers/worker.ts';
import { type CommandResult, documentOf, errorOf } from '../support/cli.ts';
import { type CliWorld, END, startCliWorld } from '../support/scenes/cli-world.ts';
import { factsOf } from '../support/world/run-record.ts';

const QUEUE = 'nobody-serves-this';
const NOBODY = new RegExp(
  `No worker takes runs from task queue ${QUEUE} of namespace default\\..*countersign worker[^\\n]*`,
);

let service: CliWorld;
let late: Workers | undefined;
beforeAll(async () => {
  service = await startCliWorld();
  const { directory } = service.world.engine;
  await writeFile(join(directory, 'unserved.yaml'), stringify({ taskQueue: QUEUE }));
});
afterAll(async () => {
  await late?.stop();
  await service.stop();
});

async function unserved(...args: readonly string[]): Promise<CommandResult> {
  return await service.cli([...args, '--config', 'unserved.yaml']);
}

test.each([
  ['model', { agent: { name: 'clerk', model: 'scirpt-1' } }, 'MODEL_UNKNOWN', 'agent.model', /"scirpt-1".*script-1/],
  ['server', { servers: [{ name: 'bnak' }] }, 'SERVER_UNKNOWN', 'servers[0].name', /"bnak".*bank/],
])(
  'an unknown %s is an error of `start`: code, path, the name, and what may be meant',
  async (_, over, code, path, says) => {
    // So that there is a model with a name like it.
    service.spec([END]);
    const result = await service.start(`unknown-${code}`, { ...service.spec([END]), ...over });
    expect(result.exitCode).toBe(2);
    expect(errorOf(result)).toMatchObject({ code, message: expect.stringMatching(says), facts: { path } });
  },
);

test('a tool in allowedTools that its server does not have is named, with what may be meant; the run goes on', async () => {
  const servers = [{ name: 'bank', allowedTools: ['pya', 'lookup'] }];
  const result = await service.start('mistyped', service.spec([END], { servers }));
  expect(result.exitCode).toBe(0);
  expect(documentOf(result)).toMatchObject({
    started: true,
    warning: {
      code: 'TOOL_UNKNOWN',
      message: expect.stringMatching(/servers\[0\]\.allowedTools.*bank.*"pya".*Did you mean pay\?/),
    },
  });
  const run = service.world.countersign.run('mistyped');
  await run.result();
  expect(factsOf(await run.ledger(), 'tools.discovered')).toMatchObject([{ missing: ['pya'] }]);
});

test('where no worker polls its queue, each command says so, with queue and namespace, and nothing is lost', async () => {
  const spec = JSON.stringify(service.spec([END]));
  const args = ['start', '-', '--id', 'unserved', '--config', 'unserved.yaml'];
  const started = await service.cli([...args, '--json', '--deadline', '1'], { input: spec });
  expect(started).toMatchObject({ exitCode: 0, err: '' });
  expect(documentOf(started)).toMatchObject({
    started: true,
    warning: { code: 'ENGINE_UNAVAILABLE', message: expect.stringMatching(NOBODY) },
  });

  const shown = await unserved('show', 'unserved', '--json', '--deadline', '4');
  expect(shown.exitCode).toBe(6);
  expect(errorOf(shown)).toMatchObject({
    code: 'ENGINE_UNAVAILABLE',
    message: expect.stringMatching(NOBODY),
    facts: { runId: 'unserved', taskQueue: QUEUE },
  });
  const watched = await unserved('watch', 'unserved', '--deadline', '3');
  expect(watched.err).toMatch(new RegExp(`^waiting: ${NOBODY.source}\n`));
  const awaited = await unserved('result', 'unserved', '--deadline', '1');
  expect(awaited.err).toMatch(new RegExp(`^waiting: ${NOBODY.source}\n`));
  expect(awaited.exitCode).toBe(6);
  const lines = (await unserved('result', 'unserved', '--deadline', '1', '--json')).err.split('\n');
  expect(lines.slice(0, 2).map((line): unknown => JSON.parse(line))).toMatchObject([
    { waiting: { code: 'ENGINE_UNAVAILABLE', message: expect.stringMatching(NOBODY) } },
    { error: { code: 'RESULT_UNCERTAIN' } },
  ]);

  const { world } = service;
  const { address, namespace } = world.engine.server;
  const config = Config.parse({ ...world.config, taskQueue: QUEUE });
  const loaded = { config, baseDirectory: world.engine.directory, path: undefined };
  late = await startWorkers({ loaded, connectionOptions: { address }, namespace, bundle: world.bundle });
  expect(await unserved('result', 'unserved', '--json')).toMatchObject({ exitCode: 0, err: '' });
});
