/**
 * The command line at its edges: a sweep of the artifact directory under runs that need it (INV-D3); what became of a
 * call; and what `start`, `watch`, `result` and `show` say at once, where a worker answers and where there is none
 * (S2.3).
 */
import { readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { msToTs } from '@temporalio/common/lib/time.js';
import { stringify } from 'yaml';
import { Config } from '../../contracts/schemas/config.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { StoreNamespace } from '../../contracts/schemas/stores.ts';
import { startWorkers, type Workers } from '../../workers/worker.ts';
import { type CliWorld, END, pay, startCliWorld } from '../support/scenes/cli-world.ts';
import { type CommandResult, documentOf, errorOf, runCommand } from '../support/cli.ts';
import { lostCall } from '../support/scenes/lost-answers.ts';
import { until } from '../support/until.ts';
import { decisionOn, requestFor } from '../support/world/world.ts';
import { factsOf, transcript } from '../support/world/run-record.ts';

let service: CliWorld;
let late: Workers | undefined;
beforeAll(async () => {
  service = await startCliWorld();
  await writeFile(join(service.world.engine.directory, 'unserved.yaml'), stringify({ taskQueue: QUEUE }));
});
afterAll(async () => {
  await late?.stop();
  await service.stop();
});

const QUEUE = 'nobody-serves-this';

describe('a sweep of the artifact directory (INV-D3)', () => {
  interface Report {
    readonly artifacts: number;
    readonly young: number;
    readonly needed: number;
    readonly removed: readonly { readonly sha256: string }[];
  }

  /** All that is stored becomes a hundred days old. */
  async function age(): Promise<void> {
    const { engine, config } = service.world;
    const root = join(engine.directory, config.artifacts.directory);
    const old = new Date(Date.now() - 100 * 86_400_000);
    for (const entry of await readdir(root, { recursive: true, withFileTypes: true }))
      if (entry.isFile()) await utimes(join(entry.parentPath, entry.name), old, old);
  }

  test('an open run that has continued as new keeps its tools, results and segments; what nobody names goes', async () => {
    const { world, cli } = service;
    const large = { tool: 'bank/big', arguments: { characters: 20_000 } };
    const run = await world.start([{ calls: [large] }, { calls: [pay('sweep')] }, END], {
      servers: [{ name: 'bank' }],
      limits: { resultBytes: 1_000, turnsPerExecution: 1 },
      policy: { servers: { bank: { tools: { big: 'allow' } } } },
    });
    const first = await requestFor(run, 't1.c0').catch(() => undefined);
    if (first !== undefined) await run.decide(decisionOn(first, 'ann'));
    const request = await requestFor(run, 't2.c0');
    await until(async () => factsOf(await run.ledger(), 'run.rolled').length > 0);
    const garbage = await world.artifacts.put(new TextEncoder().encode('a result that nobody remembers'), 'text/plain');
    await age();

    const answered = await cli(['artifacts', 'sweep', '--older-than', '90d', '--dry-run', '--json']);
    expect(answered).toMatchObject({ exitCode: 0, err: '' });
    const would = documentOf<Report>(answered);
    expect(would.removed).toEqual([{ sha256: garbage.sha256, bytes: garbage.bytes }]);
    expect(would.needed).toBeGreaterThanOrEqual(3);
    await world.artifacts.get(garbage);

    const swept = await cli(['artifacts', 'sweep', '--older-than', '90d']);
    expect(swept).toMatchObject({ exitCode: 0, out: expect.stringContaining('Removed 1, ') });
    await expect(world.artifacts.get(garbage)).rejects.toMatchObject({ code: 'ARTIFACT_MISSING' });

    // By workers that remember nothing.
    await world.restartWorkers();
    await run.decide(decisionOn(request, 'ann'));
    expect(await run.result()).toMatchObject({ status: 'completed', output: END.text });
    const told = (await transcript(world, run)).flatMap((message) => (message.role === 'tool' ? message.results : []));
    const [outcome] = told.map((result) => result.outcome);
    if (outcome?.kind !== 'succeeded' || outcome.result.full === undefined) throw new Error('no large result');
    expect((await world.artifacts.get(outcome.result.full)).length).toBeGreaterThan(20_000);
    expect(await cli(['verify-ledger', run.runId])).toMatchObject({ exitCode: 0 });
  });

  test('how old must be said, and be an hour at least', async () => {
    const { cli } = service;
    expect(errorOf(await cli(['artifacts', 'sweep', '--json']))).toMatchObject({ code: 'USAGE' });
    for (const wrong of ['10', '59m', '0d', 'ever'])
      expect(errorOf(await cli(['artifacts', 'sweep', '--older-than', wrong, '--json']))).toMatchObject({
        code: 'USAGE',
      });
  });

  test('where another namespace cannot be read nothing is removed (INV-D3)', async () => {
    const { world, cli } = service;
    const garbage = await world.artifacts.put(new TextEncoder().encode('garbage'), 'text/plain');
    await age();
    const refused = await cli(['artifacts', 'sweep', '--older-than', '90d', '--also', 'nowhere', '--json']);
    expect(refused.exitCode).not.toBe(0);
    expect(Buffer.from(await world.artifacts.get(garbage)).toString()).toBe('garbage');
  });

  describe('whose histories are read does not hang on what the command is told', () => {
    let garbage: ArtifactRef;
    const records = (): string =>
      join(service.world.engine.directory, service.world.config.artifacts.directory, '.countersign-namespaces');
    beforeEach(async () => {
      garbage = await service.world.artifacts.put(new TextEncoder().encode('garbage'), 'text/plain');
      await age();
    });

    test('a worker has recorded its namespace as Temporal knows it', async () => {
      const { engine } = service.world;
      const { workflowService } = (await engine.connect()).connection;
      const { namespaceInfo } = await workflowService.describeNamespace({ namespace: engine.server.namespace });
      expect(await readdir(records())).toEqual([`${namespaceInfo?.id}.json`]);
    });

    test('from another namespace those of the store are read too, and what waits there keeps what it needs', async () => {
      const { world } = service;
      const run = await world.start([{ calls: [pay('elsewhere')] }, END], { servers: [{ name: 'bank' }] });
      const request = await requestFor(run, 't1.c0');
      await age();
      const { workflowService } = (await world.engine.connect()).connection;
      const other = 'elsewhere';
      await workflowService.registerNamespace({
        namespace: other,
        workflowExecutionRetentionPeriod: msToTs('1 day'),
      });
      const swept = await until(async () => {
        const { address } = world.engine.server;
        // A new namespace is known to all of Temporal a moment later.
        const answer = await runCommand(
          ['artifacts', 'sweep', '--older-than', '90d', '--json', '--address', address, '--namespace', other],
          { directory: world.engine.directory },
        );
        return answer.exitCode === 0 ? answer : undefined;
      });
      expect(documentOf<{ namespaces: unknown; removed: unknown }>(swept)).toMatchObject({
        namespaces: [other, world.engine.server.namespace],
        removed: [{ sha256: garbage.sha256 }],
      });
      await world.restartWorkers();
      await run.decide(decisionOn(request, 'ann'));
      expect(await run.result()).toMatchObject({ status: 'completed' });
    });

    test('INV-D3: at another Temporal service nothing is removed', async () => {
      const { cli, world } = service;
      const [own = ''] = await readdir(records());
      // What that service would find: a store of a namespace of the same name that is not its own.
      const theirs = join(records(), 'of-another-service.json');
      const { name } = StoreNamespace.parse(JSON.parse(await readFile(join(records(), own), 'utf8')));
      for (const named of [name, 'not-there']) {
        await writeFile(theirs, JSON.stringify({ name: named, id: 'of-another-service' }));
        const refused = await cli(['artifacts', 'sweep', '--older-than', '90d', '--json']);
        expect(errorOf(refused)).toMatchObject({ code: 'SWEEP_REFUSED', message: expect.stringContaining(theirs) });
      }
      await rm(theirs);
      expect(Buffer.from(await world.artifacts.get(garbage)).toString()).toBe('garbage');
    });
  });
});

describe('what became of a call, by the command line', () => {
  async function lost(id: string): Promise<ApprovalRequest> {
    const call = { tool: 'bank/slow', arguments: { purpose: id } };
    const spec = service.spec([{ calls: [call] }, END], { limits: { callTimeoutSeconds: 1 } });
    expect(await service.start(id, spec)).toMatchObject({ exitCode: 0 });
    const run = service.world.countersign.run(id);
    const request = await until(async () => (await run.requests())[0], { what: 'the request' });
    await run.decide(decisionOn(request, 'ann'));
    return await lostCall(run, 't1.c0', 2);
  }

  const resolve = async (id: string, ...more: readonly string[]) =>
    await service.cli(['resolve', id, 't1.c0', ...more, '--json']);

  test('is shown with what is known and the verb that answers it, and is not approved with the others', async () => {
    const request = await lost('shown');
    const { out } = await service.cli(['requests', 'shown']);
    expect(out).toContain('it was sent, and may or may not have run');
    expect(out).toContain(`countersign resolve shown t1.c0 retry|succeeded|failed --as ann --digest ${request.digest}`);
    const inbox = await until(async () => {
      const listed = (await service.cli(['requests'])).out;
      return listed.includes('t1.c0 bank/slow (outcome)') ? listed : undefined;
    });
    expect(inbox).toContain('shown');
    const { out: state } = await service.cli(['show', 'shown']);
    expect(state).toContain('waiting');
    const all = await service.cli(['approve', 'shown', '--all', '--as', 'ann', '--yes', '--json']);
    expect([all.exitCode, JSON.parse(all.out)]).toMatchObject([5, { requests: [], others: [] }]);
    expect(all.err).toContain('Nothing of run shown waits that ann may approve');
    const one = await service.approve('shown', 't1.c0', 'ann', '--digest', request.digest);
    expect([one.exitCode, errorOf(one).code]).toEqual([3, 'DECISION_NOT_PERMITTED']);
    expect((await resolve('shown', 'failed', '--as', 'ben', '--message', 'No payment is there.')).exitCode).toBe(0);
    const ledger = await service.cli(['ledger', 'shown']);
    expect(ledger.out).toContain('outcome.resolved');
    expect(ledger.out).toContain('failed by ben');
  });

  test('a retry sends it once more; its receipt is had again by its id, also when the run is over', async () => {
    const { digest } = await lost('again');
    service.bank.release('again');
    const answer = async () => await resolve('again', 'retry', '--as', 'ann', '--decision-id', 'mine');
    const first = documentOf(await answer());
    expect(first).toMatchObject({ runId: 'again', callId: 't1.c0', answer: 'retry', decidedBy: 'ann', digest });
    await service.cli(['result', 'again']);
    expect(documentOf(await answer())).toMatchObject({ answer: 'retry', decidedBy: 'ann', decisionId: 'mine' });
    const second = await resolve('again', 'failed', '--as', 'ben', '--message', 'x');
    expect([second.exitCode, errorOf(second).code]).toEqual([5, 'ALREADY_DECIDED']);
    expect(service.bank.callsFor('again')).toHaveLength(2);
  });

  test('what is recorded is confirmed in words', async () => {
    await lost('words');
    const { out, exitCode } = await service.cli([
      'resolve',
      'words',
      't1.c0',
      'succeeded',
      '--as',
      'ann',
      '--result',
      'Payment 7 is booked.',
      '--comment',
      'seen',
    ]);
    expect(exitCode).toBe(0);
    expect(out).toMatch(/succeeded\s+t1\.c0\s+bank\/slow/);
    const verified = documentOf(await service.cli(['verify-ledger', 'words', '--json']));
    expect(verified).toMatchObject({ verdict: 'chained', faults: [] });
  });

  test('a refusal has its exit code', async () => {
    await lost('refused');
    const codeOf = async (...more: readonly string[]) => {
      const refused = await resolve('refused', ...more);
      return [refused.exitCode, errorOf(refused).code];
    };
    expect(await codeOf('retry', '--as', 'mallory')).toEqual([3, 'APPROVER_NOT_ENTITLED']);
    expect(await codeOf('retry', '--as', 'ann', '--digest', 'f'.repeat(64))).toEqual([5, 'DIGEST_MISMATCH']);
    expect(await codeOf('maybe', '--as', 'ann')).toEqual([2, 'USAGE']);
    expect(await codeOf('succeeded', '--as', 'ann')).toEqual([2, 'USAGE']);
    expect(await codeOf('retry', '--as', 'ann', '--message', 'x')).toEqual([2, 'USAGE']);
    const nowhere = await service.cli(['resolve', 'refused', 't9.c9', 'retry', '--as', 'ann', '--json']);
    expect([nowhere.exitCode, errorOf(nowhere).code]).toEqual([5, 'REQUEST_NOT_OPEN']);
    await resolve('refused', 'failed', '--as', 'ann', '--message', 'x');
  });
});

describe('what is said at once (S2.3)', () => {
  const NOBODY = new RegExp(
    `No worker takes runs from task queue ${QUEUE} of namespace default\\..*configuration of the other workers.*countersign worker[^\\n]*--config FILE[^\\n]*`,
  );

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
    // Temporal names a worker once its first poll has arrived: until then, the command says that it waits for one.
    expect(await unserved('result', 'unserved', '--json')).toMatchObject({ exitCode: 0 });
    expect(await unserved('result', 'unserved', '--json')).toMatchObject({ exitCode: 0, err: '' });
  });
});
