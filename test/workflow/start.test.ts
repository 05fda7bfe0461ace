/**
 * How a run starts and what it answers in the end: starting is idempotent, whoever starts it wrongly hears code and
 * path, and a run that fails says why. One file, because each part is about a run's first or last word.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { WorkflowHandle, WorkflowOptions } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { NativeConnection, Worker } from '@temporalio/worker';
import { codedFailureIn } from '../../contracts/failure.ts';
import { type ApprovalRequest, Decision } from '../../contracts/schemas/request.ts';
import { RunSpec } from '../../contracts/schemas/run-spec.ts';
import { Script } from '../../contracts/schemas/script.ts';
import { blocksOf } from '../support/guide.ts';
import { withCode } from '../support/refusal.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import {
  executions,
  factsOf,
  outcomes,
  refusalOf,
  replayOwn,
  recordedLedger,
  transcript,
} from '../support/world/run-record.ts';
import { decisionOn, openRequests, useEngine, useWorld } from '../support/world/world.ts';

const engine = useEngine();

describe('starting', () => {
  const APPROVAL = { type: 'mcp_approval_response', approval_request_id: 't1.c0', approve: true };

  const { bank, world } = useBank({ taskQueue: 'start' }, { engine });

  const pay = (purpose: string) => ({ tool: 'bank/pay', arguments: { purpose } });
  const END = { text: 'done' };

  describe('with the client library', () => {
    test('the same id and spec is the same run, also once it is over; another spec is a conflict', async () => {
      const spec = world.spec([{ calls: [pay('same')] }, END]);
      const start = async (over: Partial<typeof spec> = {}) =>
        await world.countersign.startRun({ runId: 'same', spec: { ...spec, ...over } });
      const first = await start();
      expect(first.started).toBe(true);
      const [request] = await openRequests(first);
      expect((await start()).started).toBe(false);
      // A default that is written out makes no other spec.
      expect((await start({ limits: {}, grants: [] })).started).toBe(false);
      expect(await refusalOf(start({ input: 'Do something else.' }))).toMatchObject({
        code: 'RUN_ID_CONFLICT',
        facts: { runId: 'same' },
      });
      await first.decide(decisionOn(request, 'ann'));
      const result = await first.result();
      const again = await start();
      expect(again.started).toBe(false);
      expect(await again.result()).toEqual(result);
      expect(await refusalOf(start({ initiator: { id: 'bob' } }))).toMatchObject({ code: 'RUN_ID_CONFLICT' });
      expect(await executions(world, 'same')).toHaveLength(1);
      expect(bank.callsFor('same')).toHaveLength(1);
      await replayOwn(world, 'same');
    });

    test('history names the build that did each workflow task, the one that the worker told; it is versioned by nothing', async () => {
      const run = await world.start([END]);
      await run.result();
      const { events } = await world.client.workflow.getHandle(run.runId).fetchHistory();
      const done = events?.flatMap(({ workflowTaskCompletedEventAttributes: task }) => task ?? []) ?? [];
      expect(world.workers.buildId).toMatch(/^[0-9a-f]{12}$/);
      expect(done.map(({ workerVersion }) => workerVersion?.buildId)).toEqual(done.map(() => world.workers.buildId));
      expect(
        done.every(({ workerVersion, deploymentVersion }) => !workerVersion?.useVersioning && !deploymentVersion),
      ).toBe(true);
    });

    test('ten starts at once make one run', async () => {
      const spec = world.spec([END]);
      const starts = await Promise.all(
        Array.from({ length: 10 }, () => world.countersign.startRun({ runId: 'at-once', spec })),
      );
      expect(starts.filter(({ started }) => started)).toHaveLength(1);
      expect(await starts[0]?.result()).toMatchObject({ output: 'done' });
    });

    test('a spec that is not valid is refused with its path, before anything is sent', async () => {
      const spec = world.spec([END]);
      const start = async (wrong: object) =>
        await refusalOf(world.countersign.startRun({ runId: 'never', spec: { ...spec, ...wrong } }));
      expect(await start({ mode: 'fast' })).toMatchObject({ code: 'SPEC_INVALID', facts: { path: 'mode' } });
      expect(await start({ initiator: {} })).toMatchObject({ code: 'SPEC_INVALID', facts: { path: 'initiator.id' } });
      expect(await start({ limits: { turns: 0 } })).toMatchObject({
        code: 'SPEC_INVALID',
        facts: { path: 'limits.turns' },
      });
      expect(await start({ servers: [{ name: 'bank', headers: { authorization: 'Bearer abcdef' } }] })).toMatchObject({
        code: 'AUTHORIZATION_IN_HEADERS',
      });
      expect(await start({ servers: [{ name: 'bank', token: 'abc' }] })).toMatchObject({
        code: 'SECRET_IN_SPEC',
        facts: { path: 'servers[0].token' },
      });
      expect(await start({ input: [{ role: 'user', content: 'Hi.' }, APPROVAL] })).toMatchObject({
        code: 'APPROVAL_ITEM_IN_INPUT',
        facts: { path: 'input[1]' },
      });
      await expect(world.client.workflow.getHandle('never').describe()).rejects.toThrow('not found');
    });
  });

  describe('by a plain `workflow.start` with JSON', () => {
    async function start(workflowId: string, ...args: readonly unknown[]): Promise<WorkflowHandle> {
      return await world.client.workflow.start('agentRun', {
        workflowId,
        taskQueue: world.config.taskQueue,
        args: [...args],
      });
    }

    async function failureOfStart(workflowId: string, ...args: readonly unknown[]) {
      const handle = await start(workflowId, ...args);
      const ended = await handle.result().then(
        () => undefined,
        (error: unknown) => codedFailureIn(error),
      );
      expect(bank.callsFor(workflowId)).toEqual([]);
      await replayOwn(world, workflowId);
      return { code: ended?.code, path: ended?.facts.path };
    }

    test('a good spec runs, and sets the attributes and memo that the client library would have set', async () => {
      const handle = await start('plain', world.spec([{ calls: [pay('plain')] }, END]));
      const run = world.countersign.run('plain');
      const [request] = await openRequests(run);
      const { searchAttributes, memo } = await handle.describe();
      expect(searchAttributes).toMatchObject({
        CountersignStatus: ['waiting'],
        CountersignInitiator: ['ann'],
        CountersignTenant: ['default'],
        CountersignRoot: ['plain'],
      });
      expect(memo).toMatchObject({ countersignSpecHash: expect.stringMatching(/^[0-9a-f]{64}$/) });
      await run.decide(decisionOn(request, 'ann'));
      expect(await run.result()).toMatchObject({ output: 'done' });
      await replayOwn(world, 'plain');
    });

    test('the client library finds such a run by the same spec', async () => {
      const spec = world.spec([{ calls: [pay('found')] }, END]);
      await start('found', spec);
      await openRequests(world.countersign.run('found'));
      expect((await world.countersign.startRun({ runId: 'found', spec })).started).toBe(false);
      expect(
        await refusalOf(world.countersign.startRun({ runId: 'found', spec: { ...spec, input: 'Else.' } })),
      ).toMatchObject({ code: 'RUN_ID_CONFLICT' });
    });

    test('a bad one ends with code and path, and nothing has happened (S1.2, INV-S1)', async () => {
      const spec = world.spec([{ calls: [pay('bad')] }, END]);
      expect(await failureOfStart('bad-1')).toMatchObject({ code: 'SPEC_INVALID' });
      expect(await failureOfStart('bad-2', 'run!')).toMatchObject({ code: 'SPEC_INVALID' });
      expect(await failureOfStart('bad-3', { ...spec, initiator: { id: 'ann', admin: true } })).toEqual({
        code: 'SPEC_INVALID',
        path: 'initiator.admin',
      });
      expect(await failureOfStart('bad-4', { ...spec, agent: { name: 'clerk', model: 'nobody' } })).toEqual({
        code: 'MODEL_UNKNOWN',
        path: 'agent.model',
      });
      expect(await failureOfStart('bad-5', { ...spec, servers: [{ name: 'vault' }] })).toEqual({
        code: 'SERVER_UNKNOWN',
        path: 'servers[0].name',
      });
      expect(
        await failureOfStart('bad-6', { ...spec, servers: [{ name: 'own', url: 'http://169.254.169.254/mcp' }] }),
      ).toEqual({ code: 'SPEC_INVALID', path: 'servers[0].url' });
      expect(
        await failureOfStart('bad-7', { ...spec, grants: [{ server: 'bank', authorization: 'Bearer s3cr3t-t0ken' }] }),
      ).toEqual({ code: 'SECRET_IN_SPEC', path: 'grants[0].authorization' });
      expect(
        await failureOfStart('bad-8', { ...spec, input: [{ role: 'user', content: 'Go.', decision: 'approve' }] }),
      ).toEqual({ code: 'APPROVAL_ITEM_IN_INPUT', path: 'input[0]' });
      expect(await failureOfStart('bad-9', { ...spec, input: 'x'.repeat(1_500_000) })).toMatchObject({
        code: 'SPEC_INVALID',
        path: 'input',
      });
      const failed = await world.client.workflow.getHandle('bad-7').fetchHistory();
      const last = JSON.stringify(failed.events?.at(-1)?.workflowExecutionFailedEventAttributes);
      expect(last).toContain('rotate');
      expect(last).not.toContain('s3cr3t');
    });

    test('a forged second argument is refused: only continue-as-new carries state', async () => {
      const spec = world.spec([{ calls: [pay('carry')] }, END]);
      const prepared = {
        specHash: 'a'.repeat(64),
        policyVersion: 'a'.repeat(64),
        limits: {},
        initiator: { id: 'ann', groups: [], tenant: 'default' },
        servers: [],
      };
      expect(await failureOfStart('carry-1', spec, { version: 1, prepared })).toEqual({
        code: 'SPEC_INVALID',
        path: 'args[1]',
      });
      expect(await failureOfStart('carry-2', spec, 'x')).toEqual({ code: 'SPEC_INVALID', path: 'args[1]' });
      // `null` is how some languages leave an argument out.
      await start('carry-3', spec, null);
      expect(await openRequests(world.countersign.run('carry-3'))).toHaveLength(1);
    });
  });

  test('a spec too large to be carried is refused with a code', async () => {
    const content = 'é'.repeat(131_072);
    const handle = await world.client.workflow.start('agentRun', {
      workflowId: 'large',
      taskQueue: world.config.taskQueue,
      args: [world.spec([END], { input: Array.from({ length: 5 }, () => ({ role: 'user', content })) })],
    });
    const failed = await handle.result().catch((error: unknown) => codedFailureIn(error));
    expect(failed).toMatchObject(withCode('SPEC_INVALID', '262144 are allowed'));
  });
});

describe('as docs/guide/starting-from-any-language.md shows it (S1.2, S2.2, INV-S1)', () => {
  const PAGE = 'docs/guide/starting-from-any-language.md';
  const RUN = 'ticket-4711';

  let commands: readonly string[];

  const calls = ['first', 'second'].map((purpose) => ({ tool: 'tickets/pay', arguments: { purpose } }));
  const main = { provider: 'scripted' as const, script: Script.parse({ steps: [{ calls }, { text: 'Closed.' }] }) };
  const { bank: tickets, world } = useBank({ models: { main } }, { engine, names: ['tickets'] });
  beforeAll(async () => {
    commands = (await blocksOf(PAGE, 'sh')).flatMap(({ text }) => text.split(/\n(?=temporal )/));
  });

  /** The one command of the page that begins like this. */
  function command(beginning: string): string {
    const [found, ...more] = commands.filter((text) => text.startsWith(`temporal ${beginning}`));
    if (found === undefined || more.length > 0) throw new Error(`not one \`${beginning}\` in ${PAGE}`);
    return found.trim();
  }

  /** The JSON that a command gives to Temporal. */
  function inputOf(text: string): unknown {
    return JSON.parse(/--input '(\{.*\})'/s.exec(text)?.[1] ?? '');
  }

  /** As somebody types it, with the service of this test where a profile would name another. */
  async function type(text: string): Promise<string> {
    const { address, namespace } = world.engine.server;
    const shell = `temporal() { "$TEMPORAL_CLI_PATH" "$@"; }\n${text}`;
    const { stdout } = await promisify(execFile)('sh', ['-c', shell], {
      env: {
        PATH: process.env['PATH'],
        HOME: world.engine.directory,
        TEMPORAL_CLI_PATH: process.env['TEMPORAL_CLI_PATH'],
        TEMPORAL_ADDRESS: address,
        TEMPORAL_NAMESPACE: namespace,
      },
    });
    return stdout;
  }

  /** The page leaves out what only the reader's own query can say. */
  function filledIn(text: string, { digest, runId }: ApprovalRequest, decisionId: string): string {
    return text.replaceAll('5b0c…', decisionId).replaceAll('3f8a…', digest).replaceAll('0198…', runId);
  }

  /** What the command of the page answers, in a form for programs. */
  async function requests(): Promise<readonly ApprovalRequest[]> {
    const query = command(`workflow query --workflow-id ${RUN} --type requests`);
    // Sound: `requests` answers a list of them.
    const { queryResult } = JSON.parse(await type(`${query} --output json`)) as { queryResult: [ApprovalRequest[]] };
    return queryResult[0];
  }

  test('a run that was started, asked, decided by update and by signal with the commands of the page completes', async () => {
    const start = command('workflow start');
    expect(RunSpec.safeParse(inputOf(start))).toMatchObject({ success: true });
    await type(start);
    // The id is taken: a second time is refused, as the page has it.
    await expect(type(start)).rejects.toThrow(/already/i);

    const [one, two] = await until(async () => ((await requests()).length === 2 ? await requests() : undefined), {
      what: 'the two requests of the run',
    });
    if (one === undefined || two === undefined) throw new Error('two requests');
    expect(one).toMatchObject({ callId: 't1.c0', status: 'open', runId: expect.any(String) });
    await until(async () => (await type(command('workflow list'))).includes(RUN), {
      what: 'the run in the list of those that wait',
    });
    expect(tickets.calls).toEqual([]);

    const update = filledIn(command('workflow update'), one, 'd-1');
    expect(Decision.safeParse(inputOf(update))).toMatchObject({ success: true });
    expect(await type(update)).toContain('approved');
    // Sent again under its id it counts once, and is answered.
    expect(await type(update)).toContain('approved');

    const signal = filledIn(command('workflow signal'), two, 'd-2');
    expect(Decision.safeParse(inputOf(signal))).toMatchObject({ success: true });
    await type(signal);

    expect(await type(command('workflow result'))).toMatch(/COMPLETED[^]*Closed\./);
    expect(await outcomes(world.countersign.run(RUN))).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'rejected' });
    expect(tickets.calls.map(({ arguments: args }) => args['purpose'])).toEqual(['first']);
    expect(await type(command(`workflow query --workflow-id ${RUN} --type ledger`))).toContain('run.ended');
  });

  test('every command of the page is one that this test types', () => {
    const typed = ['start', 'list', 'query', 'update', 'signal', 'result'];
    expect(commands.filter((text) => !typed.some((verb) => text.startsWith(`temporal workflow ${verb} `)))).toEqual([]);
    expect(commands).toHaveLength(7);
  });

  test('with a token in clear in it, the same start fails with SECRET_IN_SPEC, and the server hears nothing', async () => {
    const before = tickets.methods.length;
    const token = 'plain-CANARY-4c1e';
    const leaking = command('workflow start')
      .replace(RUN, 'leaking')
      .replace('{ "name": "tickets" }', `{ "name": "tickets", "token": "${token}" }`);
    expect(leaking).toContain(token);
    await type(leaking);
    const failed = await world.client.workflow
      .getHandle('leaking')
      .result()
      .catch((error: unknown) => codedFailureIn(error));
    expect(failed).toMatchObject({ code: 'SECRET_IN_SPEC', facts: { path: 'servers[0].token' } });
    const shown = type(`${command('workflow result').replace(RUN, 'leaking')} --output json`);
    await expect(shown).rejects.toMatchObject({ stdout: expect.stringContaining('SECRET_IN_SPEC') });
    expect(tickets.methods).toHaveLength(before);
  });
});

describe('a run that fails says why with a code, keeps its ledger, and is never repeated', () => {
  const odd = { url: 'http://127.0.0.1:9/mcp', taskQueue: 'odd', credentials: { kind: 'none' } } as const;
  /** Its one server's queue is served by a worker of another make. */
  const world = useWorld({ engine, role: 'runs', config: { taskQueue: 'failing', servers: { odd } } });

  const END = { text: 'done' };

  /** A worker of another make on a server's queue, whose `discoverTools` fails like this. */
  async function failing(failure: ApplicationFailure, run: () => Promise<void>): Promise<void> {
    const connection = await NativeConnection.connect({ address: world.engine.server.address });
    const other = await Worker.create({
      connection,
      taskQueue: 'odd',
      activities: { discoverTools: () => Promise.reject(failure) },
    });
    await other.runUntil(run);
    await connection.close();
  }

  test('one without a code ends the run as INTERNAL, with its ledger stored', async () => {
    await failing(ApplicationFailure.nonRetryable('something of theirs', 'TheirError'), async () => {
      const run = await world.start([END]);
      expect(await refusalOf(run.result())).toMatchObject(withCode('INTERNAL', 'discoverTools'));
      const ledger = await run.ledger();
      expect(ledger.at(-1)?.fact).toMatchObject({ kind: 'run.ended', status: 'failed', code: 'INTERNAL' });
      expect(await recordedLedger(world, run)).toEqual(ledger);
    });
  });

  test('a run is never repeated by Temporal, whatever retry policy or schedule its starter gave it (INV-X1)', async () => {
    const down = ApplicationFailure.create({ message: 'down', type: 'DISCOVERY_FAILED', nonRetryable: true });
    const start = async (workflowId: string, options: Partial<WorkflowOptions>) => {
      const taskQueue = world.config.taskQueue;
      return await world.client.workflow.start('agentRun', {
        workflowId,
        taskQueue,
        args: [world.spec([END])],
        ...options,
      });
    };
    await failing(down, async () => {
      const retried = await start('retried', { retry: { maximumAttempts: 3, initialInterval: 1 } });
      // In the run's own list such a code may pass; a run as a whole is over.
      await expect(retried.result()).rejects.toMatchObject({ cause: { type: 'DISCOVERY_FAILED', nonRetryable: true } });
      expect((await retried.describe()).runId).toBe(retried.firstExecutionRunId);

      const { firstExecutionRunId } = await start('scheduled', { cronSchedule: '@every 1s' });
      const refused = async () => {
        const { events } = await world.client.workflow.getHandle('scheduled', firstExecutionRunId).fetchHistory();
        const failure = events?.at(-1)?.workflowExecutionFailedEventAttributes?.failure;
        return failure?.applicationFailureInfo?.type === 'SPEC_INVALID' ? true : undefined;
      };
      await until(refused, { what: 'the refusal of a schedule' });
      await world.client.workflow.getHandle('scheduled').terminate();
    });
  });
});

describe('`agent.output` is enforced', () => {
  const world = useWorld({ engine, config: { taskQueue: 'output' } });

  const output = {
    type: 'object',
    properties: { amount: { type: 'number' } },
    required: ['amount'],
    additionalProperties: false,
  };
  const GOOD = '{"amount": 3}';
  const BAD = 'Three, I think.';

  /** A run whose model says these things, one a turn. */
  async function saying(...texts: readonly string[]) {
    const spec = world.spec(texts.map((text) => ({ text })));
    return await world.start([{ text: '' }], { agent: { ...spec.agent, output } });
  }

  test('an answer that fits is the result, as JSON', async () => {
    const run = await saying(GOOD);
    expect(await run.result()).toMatchObject({ status: 'completed', output: { amount: 3 }, turns: 1 });
  });

  test('one that does not fit is sent back once, with what is wrong, and the repaired one counts', async () => {
    const run = await saying('{"amount": "three"}', GOOD);
    expect(await run.result()).toMatchObject({ status: 'completed', output: { amount: 3 }, turns: 2 });
    const messages = await transcript(world, run);
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    expect(messages[2]).toMatchObject({
      text: expect.stringMatching(/does not fit the required JSON Schema.*amount/s),
    });
  });

  test('one that does not fit after that ends the run with a code, its ledger stored', async () => {
    const run = await saying(BAD, BAD, GOOD);
    expect(await refusalOf(run.result())).toMatchObject({ code: 'MODEL_OUTPUT_INVALID' });
    expect(await run.state()).toMatchObject({ status: 'failed', turn: 2 });
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'run.ended')).toMatchObject([{ status: 'failed', code: 'MODEL_OUTPUT_INVALID' }]);
    expect(await recordedLedger(world, run)).toEqual(ledger);
  });

  test('without a schema any text is the result', async () => {
    const run = await world.start([{ text: BAD }]);
    expect(await run.result()).toMatchObject({ output: BAD });
  });
});
