/**
 * Runs by the command line: what is shown, what counts, every refusal with its exit code, starting and following, and
 * what it does for operators. One file, because all of it asks one service.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import type { DecisionAck, LedgerEntry } from '../../client/index.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { END, pay, startCliWorld } from '../support/scenes/cli-world.ts';
import { documentOf, errorOf, runCommand } from '../support/cli.ts';
import { withCode } from '../support/refusal.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const service = during(() => startCliWorld());

const HOSTILE = '\u001b[2J\u202eevil';

test('a run by commands: start, requests, approve, result, ledger, verify-ledger (S2.2, S2.3)', async () => {
  const [request] = await service.waiting('life');
  expect(service.bank.callsFor('life')).toEqual([]);

  const listed = documentOf<{ requests: ApprovalRequest[] }>(await service.cli(['requests', 'life', '--json']));
  expect(listed).toEqual({ runId: 'life', requests: [request] });
  const inbox = await until(async () => {
    const { runs } = documentOf<{ runs: { runId: string; pending: { requests: unknown[] } }[] }>(
      await service.cli(['requests', '--json']),
    );
    return runs.find(({ runId }) => runId === 'life');
  });
  expect(inbox.pending.requests).toEqual([
    expect.objectContaining({ callId: 't1.c0', tool: 'pay', digest: request?.digest }),
  ]);

  // What waits for somebody is listed by id and by group, and nothing else is.
  const waitsFor = async (...who: string[]): Promise<string> => (await service.cli(['requests', ...who])).out;
  expect(await waitsFor('--as', 'ann')).toContain('life');
  expect(await waitsFor('--as', 'zoe', '--group', 'sales', '--group', 'ops')).toContain('life');
  expect(await waitsFor('--as', 'ops', '--group', 'ann')).toBe('No run waits for them.\n');

  const approved = documentOf<DecisionAck>(
    await service.approve('life', 't1.c0', 'ann', '--digest', request?.digest ?? '', '--comment', 'checked'),
  );
  expect(approved).toMatchObject({
    runId: 'life',
    callId: 't1.c0',
    status: 'approved',
    decidedBy: 'ann',
    server: 'bank',
    tool: 'pay',
    digest: request?.digest,
  });
  const result = await service.cli(['result', 'life', '--json']);
  expect(result.exitCode).toBe(0);
  expect(documentOf(result)).toMatchObject({ runId: 'life', status: 'completed', output: 'All is paid.', calls: 1 });
  expect(service.bank.callsFor('life')).toHaveLength(1);

  const { entries } = documentOf<{ entries: LedgerEntry[] }>(await service.cli(['ledger', 'life', '--json']));
  expect(entries.map(({ fact }) => fact.kind)).toEqual(
    expect.arrayContaining(['verdict', 'request.opened', 'decision.accepted', 'dispatched', 'outcome', 'run.ended']),
  );
  expect(documentOf(await service.cli(['verify-ledger', 'life', '--json']))).toEqual({
    runId: 'life',
    verdict: 'chained',
    length: entries.length,
    head: entries.at(-1)?.hash,
    faults: [],
    branches: 1,
    signedTo: 0,
    heads: [],
    ended: true,
    historyFrom: 0,
    signatures: { checked: 0, unchecked: 0 },
  });
  expect(documentOf(await service.cli(['show', 'life', '--json']))).toMatchObject({
    workflowId: 'life',
    status: 'completed',
    pending: 0,
  });
});

describe('a decision that does not count changes nothing (INV-G2, S2.3)', () => {
  test('a second one, while the run goes on: exit code 5, and who decided first (D-8)', async () => {
    await service.waiting('second', [pay('second'), pay('second')]);
    expect((await service.approve('second', 't1.c0', 'ann')).exitCode).toBe(0);
    for (const again of [
      await service.approve('second', 't1.c0', 'ben'),
      await service.cli(['reject', 'second', 't1.c0', '--as', 'ben', '--reason', 'no', '--json']),
    ]) {
      expect(again.exitCode).toBe(5);
      expect(errorOf(again)).toMatchObject({
        code: 'ALREADY_DECIDED',
        message: expect.stringContaining('approved by ann'),
        facts: { callId: 't1.c0', decidedBy: 'ann', decidedAt: expect.any(String) },
      });
    }
    await service.approve('second', 't1.c1');
    await service.cli(['result', 'second']);
    expect(service.bank.callsFor('second')).toHaveLength(2);
  });

  test('a second one, when the run is over: the same answer, from the ledger (D-8)', async () => {
    await service.waiting('over');
    await service.approve('over', 't1.c0', 'ann');
    await service.cli(['result', 'over']);
    const again = await service.approve('over', 't1.c0', 'ben');
    expect(again.exitCode).toBe(5);
    expect(errorOf(again)).toMatchObject({ code: 'ALREADY_DECIDED', facts: { decidedBy: 'ann' } });
  });

  test('one that is sent again under its id gets its first answer, also when the run is over (INV-D3)', async () => {
    await service.waiting('resent', [pay('resent'), pay('resent')]);
    const send = () => service.approve('resent', 't1.c0', 'ann', '--decision-id', 'd-1');
    const first = documentOf<DecisionAck>(await send());
    expect(first.decisionId).toBe('d-1');
    expect(documentOf(await send())).toEqual(first);
    // Another one under it gets none, whether the run answers or its ledger.
    const reject = ['reject', 'resent', 't1.c0', '--as', 'ann', '--reason', 'no', '--decision-id', 'd-1', '--json'];
    const expectRefused = async () => {
      const refused = await service.cli(reject);
      expect([refused.exitCode, errorOf(refused)]).toMatchObject([
        2,
        { code: 'DECISION_INVALID', facts: { path: 'decisionId' } },
      ]);
    };
    await expectRefused();
    await service.approve('resent', 't1.c1');
    await service.cli(['result', 'resent']);
    expect(documentOf(await send())).toMatchObject({
      callId: 't1.c0',
      decisionId: 'd-1',
      decidedBy: 'ann',
      decidedAt: first.decidedAt,
    });
    await expectRefused();
    expect(service.bank.callsFor('resent')).toHaveLength(2);
  });

  test('one for another digest than the shown: exit code 5, and nothing is sent', async () => {
    const [request] = await service.waiting('stale');
    const stale = await service.approve('stale', 't1.c0', 'ann', '--digest', 'f'.repeat(64));
    expect(stale.exitCode).toBe(5);
    expect(errorOf(stale)).toMatchObject(withCode('DIGEST_MISMATCH', request?.digest ?? '?'));
    expect((await openRequests(service.world.countersign.run('stale')))[0]?.digest).toBe(request?.digest);
    await service.cli(['stop', 'stale', '--as', 'ann', '--reason', 'enough']);
  });

  test('one of a stranger: exit code 3; of an unknown call or run: 4', async () => {
    await service.waiting('stranger');
    const refused = await service.approve('stranger', 't1.c0', 'mallory', '--group', 'sales');
    expect(refused.exitCode).toBe(3);
    expect(errorOf(refused)).toMatchObject({ code: 'APPROVER_NOT_ENTITLED' });
    const unknownCall = await service.approve('stranger', 't7.c0');
    expect([unknownCall.exitCode, errorOf(unknownCall).code]).toEqual([4, 'CALL_UNKNOWN']);
    const unknownRun = await service.approve('nobody', 't1.c0');
    expect([unknownRun.exitCode, errorOf(unknownRun).code]).toEqual([4, 'RUN_NOT_FOUND']);
    expect((await service.approve('stranger', 't1.c0', 'cleo', '--group', 'sales', '--group', 'ops')).exitCode).toBe(0);
    await service.cli(['result', 'stranger']);
    expect(service.bank.callsFor('stranger')).toHaveLength(1);
  });
});

describe('approve asks whoever sits at a terminal (G-6, INV-G2)', () => {
  const answering = (answer: string, asked: string[] = []) => ({
    ask: async (question: string) => {
      asked.push(question);
      return answer;
    },
  });

  test('it shows the request, and sends what was shown after a yes only', async () => {
    const [request] = await service.waiting('asks');
    const approve = ['approve', 'asks', 't1.c0', '--as', 'ann'];
    const asked: string[] = [];
    for (const no of ['', 'n', 'yess', 'no']) {
      const left = await service.cli(approve, answering(no, asked));
      expect([left.exitCode, left.err]).toEqual([2, expect.stringContaining('You did not say yes; nothing was sent.')]);
      expect(left.out).toContain(`"purpose":"asks"`);
      expect(left.out).toContain(request?.digest);
    }
    expect(new Set(asked)).toEqual(new Set(['Approve call t1.c0 as ann? [y/N] ']));
    expect(await openRequests(service.world.countersign.run('asks'))).toHaveLength(1);
    const done = await service.cli(approve, answering('Yes'));
    expect(done).toMatchObject({ exitCode: 0, out: expect.stringContaining('approved') });
    await service.cli(['result', 'asks']);
    expect(service.bank.callsFor('asks')).toHaveLength(1);
  });

  test('without one, or with --yes, it takes only what is named by digest, or by 32 characters of it', async () => {
    const [request] = await service.waiting('named');
    const { digest = '' } = request ?? {};
    const approve = ['approve', 'named', 't1.c0', '--as', 'ann', '--json'];
    for (const more of [[], ['--yes']]) {
      const refused = await service.cli([...approve, ...more]);
      expect([refused.exitCode, errorOf(refused)]).toMatchObject([
        2,
        { code: 'USAGE', message: expect.stringContaining('--digest') },
      ]);
    }
    const shortOne = await service.cli([...approve, '--digest', digest.slice(0, 31)]);
    expect([shortOne.exitCode, errorOf(shortOne).code]).toEqual([2, 'USAGE']);
    const other = await service.cli([
      ...approve,
      '--yes',
      '--digest',
      `${digest.slice(0, 31)}${digest[31] === '0' ? '1' : '0'}`,
    ]);
    expect([other.exitCode, errorOf(other).code]).toEqual([5, 'DIGEST_MISMATCH']);
    expect(service.bank.callsFor('named')).toEqual([]);
    expect((await service.cli([...approve, '--yes', '--digest', digest.slice(0, 32)])).exitCode).toBe(0);
    await service.cli(['result', 'named']);
    expect(service.bank.callsFor('named')).toHaveLength(1);
  });

  test('what changes between the question and the yes is refused', async () => {
    const [first] = await service.waiting('changes');
    const run = service.world.countersign.run('changes');
    const left = await service.cli(['approve', 'changes', 't1.c0', '--as', 'ann'], {
      ask: async () => {
        if (first !== undefined) await run.decide(decisionOn(first, 'ben', 'reject'));
        return 'y';
      },
    });
    expect([left.exitCode, left.err]).toEqual([5, expect.stringContaining('ALREADY_DECIDED')]);
    await service.cli(['result', 'changes']);
    expect(service.bank.callsFor('changes')).toEqual([]);
  });

  test('what was not there to be shown is not approved', async () => {
    await service.waiting('absent');
    const left = await service.cli(['approve', 'absent', 't2.c0', '--as', 'ann'], answering('y'));
    expect([left.exitCode, left.err]).toEqual([4, expect.stringContaining('CALL_UNKNOWN')]);
    await service.cli(['stop', 'absent', '--as', 'ann', '--reason', 'enough']);
  });

  test('of several it shows each, and asks once', async () => {
    await service.waiting('both', [pay('both', 'one'), pay('both', 'two')]);
    const asked: string[] = [];
    // A digest that is named holds also where somebody is asked.
    const other = ['approve', 'both', '--all', '--as', 'ann', '--digest', 'f'.repeat(64)];
    const refused = await service.cli(other, answering('y', asked));
    expect([refused.exitCode, asked]).toEqual([5, []]);
    const done = await service.cli(['approve', 'both', '--all', '--as', 'ann'], answering('y', asked));
    expect(done.exitCode).toBe(0);
    expect(asked).toEqual(['Approve these 2 calls as ann? [y/N] ']);
    for (const part of ['"note":"one"', '"note":"two"', 'approved']) expect(done.out).toContain(part);
    await service.cli(['result', 'both']);
    expect(service.bank.callsFor('both')).toHaveLength(2);
  });
});

test('a rejected call does not run, and the reason stands in the ledger', async () => {
  await service.waiting('rejected');
  const rejected = await service.cli(['reject', 'rejected', 't1.c0', '--as', 'ben', '--reason', 'too much', '--json']);
  expect(documentOf(rejected)).toMatchObject({ status: 'rejected', decidedBy: 'ben' });
  await service.cli(['result', 'rejected']);
  expect(service.bank.callsFor('rejected')).toEqual([]);
  expect((await service.cli(['ledger', 'rejected'])).out).toMatch(
    /decision\.accepted {2}t1\.c0 {3}reject by ben, digest [0-9a-f]{12}…: too much/,
  );
});

test('what people read of a hostile call is inert, and its arguments are whole (INV-G2)', async () => {
  const [request] = await service.waiting('hostile', [pay('hostile', HOSTILE)]);
  for (const args of [
    ['requests', 'hostile'],
    ['requests', 'hostile', '--json'],
  ]) {
    const { out } = await service.cli(args);
    expect(out).not.toMatch(/[^\P{C}\n]/u);
    expect(out).toContain('evil');
  }
  expect(
    documentOf<{ requests: ApprovalRequest[] }>(await service.cli(['requests', 'hostile', '--json'])).requests[0]
      ?.arguments,
  ).toEqual({ purpose: 'hostile', note: HOSTILE });
  const text = (await service.cli(['requests', 'hostile'])).out;
  expect(text).toContain(`countersign approve hostile t1.c0 --as ann --digest ${request?.digest}`);
  await service.cli(['stop', 'hostile', '--as', 'ann', '--reason', 'enough']);
});

describe('several calls decided by one command (F27, INV-G3)', () => {
  const notes = (purpose: string) => ['one', 'two', 'three'].map((note) => pay(purpose, note));

  test('--all shows what it would do, and does it with --yes', async () => {
    await service.waiting('all', notes('all'));
    const shown = await service.cli(['approve', 'all', '--all', '--as', 'ann', '--json']);
    expect(shown.exitCode).toBe(2);
    expect(JSON.parse(shown.out)).toMatchObject({ would: 'approve', requests: [{}, {}, {}], others: [] });
    // Both are told: what it would do, and that it did nothing.
    expect(shown.err).toContain('add --yes');
    expect(await openRequests(service.world.countersign.run('all'), 3)).toHaveLength(3);
    expect(service.bank.callsFor('all')).toEqual([]);
    const { digest } = JSON.parse(shown.out) as { digest: string };
    const approveAll = async (...more: string[]) =>
      await service.cli(['approve', 'all', '--all', '--as', 'ann', '--yes', '--json', ...more]);
    expect((await approveAll()).exitCode).toBe(2);
    expect((await approveAll('--digest', 'f'.repeat(64))).exitCode).toBe(5);
    expect(service.bank.callsFor('all')).toEqual([]);
    const done = await approveAll('--digest', digest.slice(0, 32));
    expect(documentOf<{ results: { status: string }[] }>(done).results.map(({ status }) => status)).toEqual([
      'approved',
      'approved',
      'approved',
    ]);
    await service.world.countersign.run('all').result();
    expect(service.bank.callsFor('all')).toHaveLength(3);
    // Nothing is left to decide, and that is no success.
    for (const more of [[], ['--yes'], ['--yes', '--digest', digest]]) {
      const none = await service.cli(['approve', 'all', '--all', '--as', 'ann', ...more]);
      expect([none.exitCode, none.err]).toEqual([5, expect.stringContaining('Nothing of run all waits that ann may')]);
    }
  });

  test('of two that are named, one that somebody else decides meanwhile does not stop the other', async () => {
    await service.waiting('some', notes('some'));
    const run = service.world.countersign.run('some');
    const [one, two] = await openRequests(run, 3);
    // As two commands at the same time would: what was shown is decided by the time it is sent.
    const stale = decisionOn(one, 'ben');
    await run.decide(decisionOn(one, 'ann', 'reject'));
    const answers = await run.decideAll([stale, decisionOn(two, 'ben')]);
    expect(answers).toMatchObject([
      { callId: 't1.c0', kind: 'refused', error: { code: 'ALREADY_DECIDED', facts: { decidedBy: 'ann' } } },
      { callId: 't1.c1', kind: 'accepted', ack: { status: 'approved' } },
    ]);
    const named = await service.cli([
      'reject',
      'some',
      't1.c1',
      't1.c2',
      '--as',
      'ann',
      '--reason',
      'late',
      '--yes',
      '--json',
    ]);
    expect(named.exitCode).toBe(5);
    expect(errorOf(named)).toMatchObject({ code: 'REQUEST_NOT_OPEN' });
    const rest = await service.cli(['reject', 'some', '--all', '--as', 'ann', '--reason', 'late', '--yes']);
    expect(rest).toMatchObject({ exitCode: 0, out: expect.stringMatching(/t1\.c2 +rejected/) });
    await run.result();
    expect(service.bank.callsFor('some')).toHaveLength(1);
  });
});

const TOKEN = 'cli-CANARY-7f3a9c';

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
      '3',
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

  test('somebody who interrupts it ends it, which is no success: the run goes on', async () => {
    await service.waiting('left');
    const controller = new AbortController();
    const watched = service.cli(['watch', 'left'], {
      signal: controller.signal,
      onOut: (text) => (text.includes('request.opened') ? controller.abort() : undefined),
    });
    const { exitCode, err } = await watched;
    expect(exitCode).toBe(6);
    expect(err).toMatch(/^error RESULT_UNCERTAIN: .*interrupted.*: countersign watch left --from \d+\n$/);
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
    causes: { build: 0, query: 0, unknown: 0, unread: 1 },
    results: [{ ok: false, isUnread: true, error: expect.stringContaining('not a history') }],
  });
  expect(JSON.parse(broken.err)).toMatchObject({
    error: { code: 'REPLAY_FAILED', message: expect.stringContaining('1 of 1 histories could not be read') },
  });
  // A file that is none says nothing of the history after it.
  const history = await service.world.client.workflow.getHandle('replayed').fetchHistory();
  await writeFile(join(service.world.engine.directory, 'history.json'), historyToJSON(history));
  const after = await service.cli(['replay', 'no-history.json', 'history.json', '--json']);
  expect(documentOf(after)).toMatchObject({ results: [{ ok: false }, { ok: true }] });
});
