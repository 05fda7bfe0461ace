/** What docs/guide/starting-from-any-language.md shows, typed into a shell as it stands there (S1.2, S2.2, INV-S1). */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { codedFailureIn } from '../../contracts/failure.ts';
import { type ApprovalRequest, Decision } from '../../contracts/schemas/request.ts';
import { RunSpec } from '../../contracts/schemas/run-spec.ts';
import { Script } from '../../contracts/schemas/script.ts';
import { blocksOf } from '../support/guide.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { outcomes } from '../support/run-record.ts';
import { until } from '../support/until.ts';
import { startWorld, type World } from '../support/world.ts';

const PAGE = 'docs/guide/starting-from-any-language.md';
const RUN = 'ticket-4711';

let tickets: RecordingServer;
let world: World;
let commands: readonly string[];

beforeAll(async () => {
  tickets = await startRecordingServer();
  const calls = ['first', 'second'].map((purpose) => ({ tool: 'tickets/pay', arguments: { purpose } }));
  world = await startWorld({
    config: {
      servers: { tickets: { url: tickets.url, credentials: { kind: 'none' } } },
      models: { main: { provider: 'scripted', script: Script.parse({ steps: [{ calls }, { text: 'Closed.' }] }) } },
    },
  });
  commands = (await blocksOf(PAGE, 'sh')).flatMap(({ text }) => text.split(/\n(?=temporal )/));
});
afterAll(async () => {
  await world.stop();
  await tickets.close();
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
  await until(async () => ((await type(command('workflow list'))).includes(RUN) ? true : undefined), {
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
