/** Starting and following runs by the command line; what it does for operators. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { LedgerEntry } from '../../client/index.ts';
import { documentOf, errorOf, runCommand } from '../support/cli.ts';
import { type CliWorld, END, pay, startCliWorld } from '../support/scenes/cli-world.ts';
import { until } from '../support/until.ts';

const TOKEN = 'cli-CANARY-7f3a9c';

let service: CliWorld;
beforeAll(async () => {
  service = await startCliWorld();
});
afterAll(async () => service.stop());

async function workflowExists(id: string): Promise<boolean> {
  return await service.world.client.workflow
    .getHandle(id)
    .describe()
    .then(
      () => true,
      () => false,
    );
}

describe('starting', () => {
  test.each([
    ['an unknown field', { tools: [] }, 'SPEC_INVALID', 'tools'],
    ['a wrong limit', { limits: { turns: 0 } }, 'SPEC_INVALID', 'limits.turns'],
    ['a token in clear', { grants: [{ server: 'bank', token: TOKEN }] }, 'SECRET_IN_SPEC', 'grants[0].token'],
    [
      'an authorization header',
      { servers: [{ name: 'bank', headers: { Authorization: TOKEN } }] },
      expect.any(String),
      expect.stringContaining('servers[0].headers'),
    ],
  ])('a spec with %s: code, path, exit code 2, and nothing is started', async (_what, over, code, path) => {
    const id = `bad-${Object.keys(over).join()}`;
    const result = await service.cli(['start', '-', '--id', id, '--json'], {
      input: JSON.stringify({ ...service.spec([END]), ...over }),
    });
    expect(result.exitCode).toBe(2);
    expect(errorOf(result)).toMatchObject({ code, facts: { path } });
    expect(result.err).not.toContain(TOKEN);
    expect(await workflowExists(id)).toBe(false);
  });

  test('twice with the same spec is once; with another spec it is a conflict, exit code 5 (INV-D3)', async () => {
    const spec = service.spec([END]);
    expect(documentOf(await service.start('twice', spec))).toEqual({ runId: 'twice', started: true });
    expect(documentOf(await service.start('twice', spec))).toEqual({ runId: 'twice', started: false });
    const other = await service.start('twice', { ...spec, input: 'Something else.' });
    expect([other.exitCode, errorOf(other).code]).toEqual([5, 'RUN_ID_CONFLICT']);
  });

  test('--wait brings the result; with a deadline, no longer than that', async () => {
    expect(documentOf(await service.start('waited', service.spec([END]), '--wait'))).toMatchObject({
      runId: 'waited',
      started: true,
      result: { status: 'completed' },
    });
    const unfinished = await service.start(
      'unfinished',
      service.spec([{ calls: [pay('unfinished')] }, END]),
      '--wait',
      '--deadline',
      '1',
    );
    expect([unfinished.exitCode, errorOf(unfinished).code]).toEqual([6, 'RESULT_UNCERTAIN']);
    expect((await service.cli(['stop', 'unfinished', '--as', 'ann', '--reason', 'enough'])).exitCode).toBe(0);
    expect(documentOf(await service.cli(['result', 'unfinished', '--json']))).toMatchObject({
      status: 'stopped',
      because: 'enough',
    });
  });

  test('a message is said once under its id, and interrupts where it is told to', async () => {
    await service.waiting('spoken');
    const say = (id: string, text: string, ...more: string[]) =>
      service.cli(['say', 'spoken', '--as', 'ben', '--text', text, '--message-id', id, '--json', ...more]);
    expect(documentOf(await say('m1', 'Do it.'))).toMatchObject({ runId: 'spoken', messageId: 'm1' });
    const other = await say('m1', 'Leave it.');
    expect([other.exitCode, errorOf(other).code]).toEqual([2, 'MESSAGE_INVALID']);
    expect((await say('m2', 'Leave it.', '--interrupt')).exitCode).toBe(0);
    expect(documentOf(await service.cli(['result', 'spoken', '--json']))).toMatchObject({ status: 'completed' });
    const { out } = await service.cli(['ledger', 'spoken']);
    expect(out).toMatch(/said .* by ben, interrupting\n.* request\.closed .* cancelled\n/);
    expect((await say('m3', 'And?')).exitCode).toBe(5);
  });

  test('a run that fails ends `result` with the code that ended it', async () => {
    const spec = { ...service.spec([END]), agent: { name: 'clerk', model: 'no-such-model' } };
    const failed = await service.start('failing', spec, '--wait');
    expect([failed.exitCode, errorOf(failed)]).toEqual([
      2,
      expect.objectContaining({ code: 'MODEL_UNKNOWN', facts: expect.objectContaining({ path: 'agent.model' }) }),
    ]);
  });

  test('a token from a variable is sealed: the server gets it, and nobody else sees it (INV-S1, S1.1)', async () => {
    await writeFile(
      join(service.world.engine.directory, 'countersign.yaml'),
      JSON.stringify({ servers: { vault: { url: service.bank.url } } }),
    );
    const spec = service.spec([{ calls: [{ tool: 'vault/lookup', arguments: { purpose: 'sealed' } }] }, END], {
      servers: [{ name: 'vault' }],
    });
    const args = [
      'start',
      '-',
      '--id',
      'sealed',
      '--wait',
      '--json',
      '--authorization',
      'vault=VAULT_TOKEN',
      '--sealing-key',
      'vault=zone.jwk',
    ];
    const result = await service.cli(args, { input: JSON.stringify(spec), env: { VAULT_TOKEN: TOKEN } });
    expect(result).toMatchObject({ exitCode: 0, err: '' });
    expect(service.bank.callsFor('sealed').map(({ headers }) => headers.authorization)).toEqual([`Bearer ${TOKEN}`]);
    const history = JSON.stringify(await service.world.client.workflow.getHandle('sealed').fetchHistory());
    const said = await Promise.all(
      [
        ['ledger', 'sealed', '--json'],
        ['show', 'sealed'],
        ['requests', 'sealed'],
      ].map((command) => service.cli(command)),
    );
    for (const text of [result.out, history, ...said.map(({ out, err }) => out + err)])
      expect(text).not.toContain(TOKEN);
  });
});

describe('watching', () => {
  test('one JSON line per event, in order, until the run ends', async () => {
    await service.waiting('watched');
    const lines: string[] = [];
    const watched = service.cli(['watch', 'watched', '--json'], { onOut: (text) => lines.push(text) });
    await until(async () => lines.some((line) => line.includes('request.opened')) || undefined);
    await service.approve('watched', 't1.c0');
    expect((await watched).exitCode).toBe(0);
    // Sound: lines of the ledger's own JSON.
    const entries = lines.map((line) => JSON.parse(line) as LedgerEntry);
    expect(entries.map(({ seq }) => seq)).toEqual(entries.map((_, index) => index));
    expect(entries.at(-1)?.fact).toMatchObject({ kind: 'run.ended', status: 'completed' });
    expect((await service.cli(['watch', 'watched', '--from', String(entries.length - 1), '--json'])).out).toBe(
      lines.at(-1),
    );
  });

  test('somebody who interrupts it ends it, and the run goes on', async () => {
    await service.waiting('left');
    const controller = new AbortController();
    const watched = service.cli(['watch', 'left'], {
      signal: controller.signal,
      onOut: (text) => (text.includes('request.opened') ? controller.abort() : undefined),
    });
    expect((await watched).err).toBe('');
    expect((await service.cli(['show', 'left'])).out).toMatch(/^left {2}waiting\n/);
    await service.cli(['stop', 'left', '--as', 'ann', '--reason', 'enough']);
  });
});

test('a ledger that was written to a file is checked without a server, and one changed entry is found: exit code 7', async () => {
  await service.start('kept', service.spec([END]), '--wait');
  const kept = await service.cli(['ledger', 'kept', '--json']);
  const file = join(service.world.engine.directory, 'kept.json');
  await writeFile(file, kept.out);
  const { entries } = documentOf<{ entries: LedgerEntry[] }>(kept);
  expect(
    (await service.cli(['verify-ledger', 'kept', '--file', 'kept.json', '--head', entries[1]?.hash ?? ''])).exitCode,
  ).toBe(0);
  await writeFile(file, kept.out.replace('"agent":"clerk"', '"agent":"crook"'));
  const changed = await service.cli(['verify-ledger', 'kept', '--file', 'kept.json', '--json']);
  expect(changed.exitCode).toBe(7);
  expect(errorOf({ ...changed, out: '' })).toMatchObject({ code: 'LEDGER_BROKEN', facts: { runId: 'kept', seq: 0 } });
  expect(documentOf(changed)).toMatchObject({ verdict: 'broken', faults: [{ kind: 'altered', seq: 0 }] });
  const otherHead = await service.cli(['verify-ledger', 'kept', '--head', 'f'.repeat(64), '--json']);
  expect([otherHead.exitCode, errorOf({ ...otherHead, out: '' }).code]).toEqual([7, 'LEDGER_BROKEN']);
});

test('setup says that all is there, and names a namespace that is not', async () => {
  expect(documentOf(await service.cli(['setup', '--json']))).toMatchObject({ namespace: 'default', added: [] });
  const missing = await runCommand([
    'setup',
    '--json',
    '--address',
    service.world.engine.server.address,
    '--namespace',
    'elsewhere',
  ]);
  expect([missing.exitCode, errorOf(missing).code]).toEqual([6, 'SETUP_INCOMPLETE']);
});

test('a query that Temporal does not understand is a usage error', async () => {
  const result = await service.cli(['replay', '--live', '--query', 'nonsense =', '--json']);
  expect([result.exitCode, errorOf(result).code]).toEqual([2, 'USAGE']);
});

test('the histories of the live namespace replay with this code; a file that is none fails the check: exit code 7 (INV-D1)', async () => {
  await service.waiting('replayed');
  await service.approve('replayed', 't1.c0');
  await service.cli(['result', 'replayed']);
  const live = await service.cli(['replay', '--live', '--query', `WorkflowId = 'replayed'`, '--json']);
  expect(live).toMatchObject({ exitCode: 0, err: '' });
  expect(documentOf(live)).toMatchObject({ replayed: 1, failed: 0, results: [{ workflowId: 'replayed', ok: true }] });
  await writeFile(join(service.world.engine.directory, 'no-history.json'), '{"events": []}');
  const broken = await service.cli(['replay', 'no-history.json', '--json']);
  expect(broken.exitCode).toBe(7);
  expect(documentOf(broken)).toMatchObject({
    replayed: 1,
    failed: 1,
    results: [{ ok: false, error: expect.stringContaining('not a history') }],
  });
  expect(JSON.parse(broken.err)).toMatchObject({ error: { code: 'REPLAY_FAILED' } });
});
