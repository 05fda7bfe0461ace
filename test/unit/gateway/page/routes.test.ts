/**
 * The pages without a browser and without a run: what they send, refuse, escape and never lose.
 *
 * One file, because all of it is one table of pages before one source.
 */
import { createHash } from 'node:crypto';
import { get, type ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import cookie from '@fastify/cookie';
import { fastify, type FastifyInstance } from 'fastify';
import { CountersignError } from '../../../../contracts/errors.ts';
import type { KnownTool } from '../../../../gateway/catalog/definitions.ts';
import type { CheckedLedger } from '../../../../gateway/projection/opened.ts';
import type { FormRequest } from '../../../../contracts/schemas/input.ts';
import type { LedgerEntry } from '../../../../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../../../../contracts/schemas/request.ts';
import type { CatalogDetail } from '../../../../contracts/schemas/http/catalogs.ts';
import type { CatalogSent } from '../../../../gateway/catalog/changes.ts';
import type { PageSource, RunRead, Sent, Viewer } from '../../../../gateway/page/kit/port.ts';
import { madeBy } from '../../../../gateway/page/edit/view.ts';
import { Streams } from '../../../../gateway/http/streams.ts';
import { registerPages } from '../../../../gateway/page/routes.ts';
import { acceptedFact, verdictFact } from '../../../support/builders/ledger.ts';
import { runState } from '../../../support/builders/run.ts';
import { NO_CATALOGS } from '../../../support/scenes/quiet-pages.ts';
import { until } from '../../../support/until.ts';

const ANN: Viewer = {
  id: 'ann',
  groups: ['finance'],
  tenant: 'acme',
  may: new Set(),
  seesAll: false,
  until: Date.now() + 3_600_000,
  csrf: createHash('sha256').update('form session-of-ann').digest('base64url'),
};
const PATH = '/runs/run-1/requests/t1.c0';
const HOSTILE = '</textarea><script>alert(1)</script>"\'&\u202E';

const request: ApprovalRequest = {
  namespace: 'default',
  tenant: 'acme',
  workflowId: 'run-1',
  runId: 'temporal-1',
  callId: 't1.c0',
  generation: 1,
  status: 'open',
  digest: 'ab'.repeat(32),
  server: 'bank',
  serverUrl: 'https://bank.example/mcp',
  tool: 'pay',
  definitionHash: 'cd'.repeat(32),
  arguments: { amount: 5, to: 'ben', urgent: false, lines: [{ n: 1 }] },
  rules: ['payments'],
  approvers: {
    allOf: [
      { layer: 'organisation', ids: ['ann'], groups: [], may: ['edit', 'respond'], remember: ['call', 'arguments'] },
    ],
    extendableToSeconds: 200_000,
  },
  openedAt: new Date(Date.now() - 60_000).toISOString(),
  deadline: new Date(Date.now() + 3_600_000).toISOString(),
};

let app: FastifyInstance;
let base: string;
let viewer: Viewer | undefined;
let sent: (Omit<Sent, 'message'> & { readonly message: Readonly<Record<string, unknown>> })[];
let shown: ApprovalRequest[];
let ledger: LedgerEntry[];
let messages: RunRead['messages'];
/** Lines of the gateway's log. */
const logged: string[] = [];
/** Temporal's word of the run, if it has ended without one of its own. */
let ended: Partial<RunRead['facts']>;
let refusal: CountersignError | undefined;
/** A run does this before it answers. */
let taking: (message: Sent) => Promise<void>;
/** What a decision comes to. */
let cameTo: Awaited<ReturnType<PageSource['send']>>;
let tool: KnownTool;
let checked: CheckedLedger;
let started: object[];
let catalogs: PageSource['catalogs'];
let streams: Streams;
/** What the check of a session waits for. */
let checking: () => Promise<void>;

const facts = (runId: string) => ({ runId, initiator: 'carol', startedAt: request.openedAt, status: 'waiting' });

function source(): PageSource {
  return {
    inbox: async () => ({
      requests: shown.map((each) => ({ request: each, run: facts(each.workflowId) })),
      mine: shown.length,
      asOf: request.openedAt,
    }),
    runs: async () => [facts('run-1')],
    run: async (_viewer, runId): Promise<RunRead> => {
      if (runId !== 'run-1') throw new CountersignError('RUN_NOT_FOUND', `There is no run ${runId}.`, { runId });
      const state = runState({ workflowId: runId, ledgerLength: 0, transcriptLength: 0 });
      return { facts: { ...facts(runId), ...ended }, state, requests: shown, ledger, messages, mayTell: true };
    },
    places: ({ may }) => new Set(may.has('start') ? ['start'] : []),
    catalogs: {
      ...NO_CATALOGS,
      get servers() {
        return catalogs.servers;
      },
      list: async (...asked) => await catalogs.list(...asked),
      mayConnect: (...asked) => catalogs.mayConnect(...asked),
      read: async (...asked) => await catalogs.read(...asked),
      send: async (...asked) => await catalogs.send(...asked),
      changes: (...asked) => catalogs.changes(...asked),
    },
    agents: [{ name: 'payer', title: `Payer ${HOSTILE}`, description: HOSTILE, model: 'small', servers: ['bank'] }],
    start: async (_viewer, agent, input, key) => {
      if (refusal !== undefined) throw refusal;
      started.push({ agent, input, key });
      return 'run-1';
    },
    check: async () => {
      if (refusal !== undefined) throw refusal;
      return checked;
    },
    tool: async () => tool,
    send: async (_viewer, message) => {
      if (refusal !== undefined) throw refusal;
      sent.push(message);
      await taking(message);
      return cameTo;
    },
    say: async (_viewer, runId, text) => {
      if (refusal !== undefined) throw refusal;
      sent.push({ runId, update: 'decide', message: { text } });
    },
    stop: async (_viewer, runId, reason) => {
      if (refusal !== undefined) throw refusal;
      sent.push({ runId, update: 'decide', message: { reason } });
    },
    changes: () => () => undefined,
  };
}

beforeEach(async () => {
  viewer = ANN;
  sent = [];
  shown = [request];
  ledger = [];
  messages = [];
  ended = {};
  refusal = undefined;
  cameTo = 'approved';
  taking = async () => undefined;
  tool = {};
  started = [];
  catalogs = NO_CATALOGS;
  const report = { faults: [], length: 7, head: 'ef'.repeat(32), branches: 1, signedTo: 0, ended: false };
  checked = { report, isHeadOfRun: true };
  checking = async () => undefined;
  streams = new Streams({ streams: 10, streamsPerPerson: 5 });
  app = fastify();
  await app.register(cookie);
  registerPages(app, {
    source: source(),
    sessions: {
      origin: undefined,
      sessionOf: async () => ({ value: 'session', seconds: 60 }),
      askerOf: async () => {
        await checking();
        return viewer ?? Promise.reject(new CountersignError('SIGN_IN_REQUIRED', 'nobody'));
      },
    },
    isDevelopment: false,
    hasSignIn: true,
    streams,
    log: { warn: (line) => void logged.push(line) },
  });
  base = await app.listen({ host: '127.0.0.1', port: 0 });
});
afterEach(async () => {
  await app.close();
});

interface Answer {
  readonly statusCode: number;
  readonly headers: Headers;
  readonly body: string;
}

async function ask(url: string, init: RequestInit = {}): Promise<Answer> {
  const headers = { cookie: '__Host-countersign=session-of-ann' };
  const answer = await fetch(new URL(url, base), { redirect: 'manual', headers, ...init });
  return { statusCode: answer.status, headers: answer.headers, body: await answer.text() };
}

/** Sends a form; a field with several values is sent once for each. */
async function post(
  url: string,
  fields: Readonly<Record<string, string | readonly string[]>>,
  csrf = ANN.csrf,
): Promise<Answer> {
  const sentFields = Object.entries({ csrf, ...fields });
  const body = new URLSearchParams();
  for (const [name, values] of sentFields) for (const value of [values].flat()) body.append(name, value);
  return await ask(url, { method: 'POST', body });
}

function entryOf(fact: LedgerEntry['fact']): LedgerEntry {
  return { seq: 0, at: request.openedAt, prev: '', fact, hash: '' };
}

function acceptedFrom(id: string, decisionId = 'd1', decision: 'approve' | 'withdraw' = 'approve'): LedgerEntry {
  const { digest, runId } = request;
  return entryOf(acceptedFact({ decisionId, decision, digest, runId, approver: { id, groups: [] } }));
}

const BOUND = { digest: request.digest, runId: request.runId, decisionId: 'd1' };

test('every page is closed to what comes from elsewhere', async () => {
  for (const url of ['/', '/?show=all', '/runs', '/runs/run-1', PATH, '/runs/none']) {
    const answer = await ask(url);
    expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(answer.headers.get('content-security-policy')).not.toContain('unsafe');
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.body).not.toMatch(/<script(?! type="module" src="\/assets\/page\.js">)|style=|\son[a-z]+=/);
    expect(answer.body).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
  }
});

test('who is not signed in is led to the sign-in, and back', async () => {
  viewer = undefined;
  const answer = await ask(PATH);
  expect(answer.statusCode).toBe(303);
  expect(answer.headers.get('location')).toBe(`/sign-in?to=${encodeURIComponent(PATH)}`);
  expect((await ask('/live')).statusCode).toBe(401);
  const refusedForm = await post(PATH, { ...BOUND, kind: 'approve' });
  expect(refusedForm.statusCode).toBe(401);
  expect(refusedForm.body).toContain('Nothing was sent.');
  expect(sent).toEqual([]);
});

test('what somebody typed whose session has ended stands there to be copied, for a form of an own page alone', async () => {
  viewer = undefined;
  const fields = { ...BOUND, kind: 'reject', reason: `Because ${HOSTILE}`, csrf: 'secret' };
  const sendFrom = async (origin: string, at = PATH) => {
    return await ask(at, { method: 'POST', body: new URLSearchParams(fields), headers: { origin } });
  };
  const { origin: own } = new URL(base);
  const { statusCode, body } = await sendFrom(own);
  expect(statusCode).toBe(401);
  expect(body).toContain('\nBecause &lt;/textarea&gt;');
  expect(body).not.toContain('secret');
  expect(body).toContain(`href="/sign-in?to=${encodeURIComponent(PATH)}"`);
  // The inbox has what waits, if there is no page at the address of the form.
  expect((await sendFrom(own, '/review/decide')).body).toContain('href="/sign-in?to=%2F"');
  expect((await sendFrom('https://evil.example')).body).not.toContain('Because');
  // The page of what is said to a run is that of the run.
  expect((await sendFrom(own, '/runs/run-1/say')).body).toContain('href="/sign-in?to=%2Fruns%2Frun-1"');
  expect(sent).toEqual([]);
});

describe('a form', () => {
  test('without the secret of its session sends nothing', async () => {
    for (const csrf of ['', 'secret-of-ben', `${ANN.csrf}x`]) {
      expect((await post(PATH, { ...BOUND, kind: 'approve' }, csrf)).statusCode).toBe(422);
    }
    expect(sent).toEqual([]);
  });

  test('approves the digest that the page showed (INV-G2)', async () => {
    const answer = await post(PATH, { ...BOUND, kind: 'approve', comment: 'fine\r\nby me' });
    expect(answer.statusCode).toBe(303);
    expect(sent).toEqual([
      {
        runId: 'run-1',
        update: 'decide',
        message: { kind: 'approve', callId: 't1.c0', ...BOUND, comment: 'fine\nby me' },
      },
    ]);
  });

  test('that comes twice counts once, and says so also when its call has gone on', async () => {
    const again = async () => await post(PATH, { ...BOUND, kind: 'approve' });
    // The turn is over, or somebody is asked what became of the call.
    for (const later of [[], [{ ...request, generation: 2, digest: 'ef'.repeat(32) }]]) {
      shown = later;
      ledger = [acceptedFrom('ann')];
      const answer = await again();
      expect([answer.statusCode, answer.headers.get('location')]).toEqual([303, '/runs/run-1?done=t1.c0']);
    }
    shown = [];
    for (const other of [acceptedFrom('ben'), acceptedFrom('ann', 'd2')]) {
      ledger = [other];
      const answer = await again();
      expect([answer.statusCode, answer.body]).toEqual([409, expect.stringContaining('Nothing was sent.')]);
    }
    expect(sent).toEqual([]);
  });

  test('never says who decides', async () => {
    await post(PATH, { ...BOUND, kind: 'approve', approver: 'ben', 'approver.id': 'ben' });
    expect(JSON.stringify(sent)).not.toContain('ben');
  });

  test('remembers an approval for chosen arguments', async () => {
    await post(PATH, { ...BOUND, kind: 'approve', remember: 'arguments', names: '1' });
    expect(sent[0]?.message).toMatchObject({ remember: { scope: 'arguments', names: ['to'] } });
  });

  test('postpones in UTC', async () => {
    await post(PATH, { ...BOUND, kind: 'extend', until: '2030-01-02T03:04' });
    expect(sent[0]?.message).toMatchObject({ kind: 'extend', until: '2030-01-02T03:04:00.000Z' });
  });

  test('that the run refuses comes back with its words and the reason', async () => {
    refusal = new CountersignError('DECISION_EXPIRED', `It expired. ${HOSTILE}`, {});
    const answer = await post(PATH, { ...BOUND, kind: 'reject', reason: `No ${HOSTILE}` });
    expect(answer.statusCode).toBe(410);
    expect(answer.body).toContain('DECISION_EXPIRED');
    expect(answer.body).toContain('No &lt;/textarea&gt;&lt;script&gt;');
    expect(answer.body).not.toContain('<script>');
  });
});

describe('what nobody knows', () => {
  const UNCERTAIN = new CountersignError('RESULT_UNCERTAIN', 'No answer from run run-1 in time.', {});

  test.each([
    ['a request', PATH, { ...BOUND, kind: 'approve' }],
    ['other arguments', PATH, { ...BOUND, kind: 'approve', arguments: '{"amount":8}' }],
  ])('is not told to be a refusal: %s', async (_, url, fields) => {
    refusal = UNCERTAIN;
    const { statusCode, body } = await post(url, fields);
    expect(statusCode).toBe(504);
    expect(body).toContain('Nobody knows yet whether that counts');
    expect(body).toContain('Load the page again');
    expect(body).not.toContain('That did not count');
  });

  test('is told so of one of several, too', async () => {
    refusal = UNCERTAIN;
    const chosen = JSON.stringify(['run-1', 't1.c0', request.digest, request.runId, 'id']);
    const { body } = await post('/review/decide', { kind: 'approve', chosen });
    expect(body).toContain('0 of 1 decided');
    expect(body).toContain('nobody knows yet');
    expect(body).not.toContain('refused');
  });
});

describe('other arguments', () => {
  const edited = (over: Readonly<Record<string, string>>) => ({
    ...BOUND,
    by: madeBy({ request, tool: {} }),
    'argument.0': '7',
    'argument.1': 'ben',
    'argument.2': 'false',
    'argument.3': '[{"n":1}]',
    more: '',
    ...over,
  });
  const DEFINITION = {
    name: 'pay',
    inputSchema: {
      type: 'object',
      required: ['amount'],
      additionalProperties: false,
      properties: {
        amount: { type: 'number', minimum: 1, maximum: 100, description: 'In euros.' },
        to: { type: 'string' },
        urgent: { type: 'boolean' },
        lines: { type: 'array', items: { type: 'object', properties: { n: { type: 'integer' } } } },
        currency: { enum: ['EUR', HOSTILE] },
      },
    },
  };
  const bySchema = (over: Readonly<Record<string, string>>) => ({
    ...edited({
      by: madeBy({ request, tool: { definition: DEFINITION } }),
      'argument.3.length': '1',
      'argument.3.0.0': '1',
      'argument.4': '',
    }),
    ...over,
  });
  const argumentsIn = (body: string) =>
    /name="arguments"\s+value="([^"]*)"/.exec(body)?.[1]?.replaceAll('&quot;', '"') ?? '';

  test('are compared before they are approved', async () => {
    expect((await ask(PATH)).body).toContain(`href="${PATH}/edit"`);
    const compared = await post(`${PATH}/edit`, edited({}));
    expect(compared.statusCode).toBe(200);
    expect(compared.body).toContain('3 other arguments are as they were');
    const value = argumentsIn(compared.body);
    expect(sent).toEqual([]);
    await post(PATH, { ...BOUND, kind: 'approve', arguments: value });
    expect(sent[0]?.message).toMatchObject({ arguments: { amount: 7, to: 'ben', urgent: false, lines: [{ n: 1 }] } });
  });

  test.each([
    ['argument.0', '"seven"', 'arguments.amount must be a number'],
    ['argument.0', '', 'arguments.amount has no value'],
    ['argument.3', '[{', 'arguments.lines must be JSON'],
    ['more', '[1]', 'more must be a JSON object'],
    ['more', '{"amount":9}', 'which has a field above'],
  ])('of a wrong form lose nothing: %s', async (field, value, reason) => {
    const answer = await post(`${PATH}/edit`, edited({ [field]: value, 'argument.1': 'carol' }));
    expect(answer.statusCode).toBe(422);
    expect(answer.body).toContain(reason);
    expect(answer.body).toContain('carol');
  });

  test('that differ in very much are compared as far as a page has room, and told to differ in more', async () => {
    const name = `${'long '.repeat(1_000)}end`;
    const numbers = Array.from({ length: 300 }, (_, index) => index);
    const many = { [name]: numbers, text: 'x'.repeat(100_000), last: 1 };
    shown = [{ ...request, arguments: many }];
    const changed = { [name]: numbers.map((each) => each + 1_000), text: 'y'.repeat(100_000), last: 2 };
    const { body } = await post(`${PATH}/edit`, { ...BOUND, as: 'json', whole: JSON.stringify(changed) });
    const changes = /aria-labelledby="changes">([^]*?)<\/section>/.exec(body)?.[1] ?? '';
    expect(changes).toContain('252 more differences are not shown here. All that will be sent stands below');
    expect(changes).toMatch(/5,006 characters/);
    expect(changes.match(/<dt>/g)).toHaveLength(50);
    expect(changes.length).toBeLessThan(50_000);
    expect(JSON.parse(argumentsIn(body))).toEqual(changed);
    expect(body).toContain('To read them as JSON, change them again.');
    expect(body).not.toContain('<pre');

    shown = [{ ...request, arguments: { text: many.text, last: 1 } }];
    const large = { ...BOUND, as: 'json', whole: JSON.stringify({ text: changed.text, last: 2 }) };
    const other = /aria-labelledby="changes">([^]*?)<\/section>/.exec((await post(`${PATH}/edit`, large)).body)?.[1];
    expect(other).toContain('differs, with 200,004 characters before and after');
    expect(other).toContain('1 of those above is too large to be shown here.');
    expect(other).toMatch(/last[^]*was[^]*1[^]*becomes[^]*2/);
    expect(other).not.toContain('yyy');
  });

  test('of a request that changed meanwhile are not compared, and not lost', async () => {
    const answer = await post(`${PATH}/edit`, edited({ digest: 'ef'.repeat(32), 'argument.1': 'carol' }));
    expect(answer.statusCode).toBe(412);
    expect(answer.body).toMatch(/id="argument\.1"[^>]*>\s*carol/);
  });

  test('of a request whose arguments changed meanwhile stand beside a new form, and not in its fields', async () => {
    tool = { definition: DEFINITION };
    const sentNames = /name="names"\s+value="([^"]*)"/.exec((await ask(`${PATH}/edit`)).body)?.[1] ?? '';
    const names = sentNames.replaceAll('&quot;', '"');
    const { amount: _, ...others } = request.arguments;
    shown = [{ ...request, digest: 'ef'.repeat(32), arguments: { ...others, to: 'dora' } }];
    const answer = await post(`${PATH}/edit`, bySchema({ names, 'argument.0': '77', 'argument.1': 'carol' }));
    expect(answer.statusCode).toBe(412);
    const [, lost = ''] = /aria-labelledby="lost">([\s\S]*?)<\/section>/.exec(answer.body) ?? [];
    expect(lost).toMatch(/amount[\s\S]*77[\s\S]*to[\s\S]*carol/);
    const fields = answer.body.slice(answer.body.indexOf('</section>', answer.body.indexOf('id="lost"')));
    expect(fields).toMatch(/id="argument\.0"[^>]*>\s*dora/);
    expect(fields).not.toMatch(/carol|"77"/);
    // The page is a new form: what comes back from it is read by the new arguments.
    const by = madeBy({ request: shown[0] ?? request, tool });
    expect(fields).toContain(`name="by" value="${by}"`);
  });

  test('that were compared for other arguments stand by their names', async () => {
    const { amount: _, ...others } = request.arguments;
    shown = [{ ...request, digest: 'ef'.repeat(32), arguments: others }];
    const compared = JSON.stringify({ ...request.arguments, to: 'carol' });
    const answer = await post(`${PATH}/edit`, { ...BOUND, as: 'again', arguments: compared });
    expect(answer.statusCode).toBe(412);
    expect(answer.body).toMatch(/id="argument\.0"[^>]*>\s*carol/);
    expect(answer.body).toMatch(/id="more"[^>]*>\s*\{\s*&quot;amount&quot;: 5/);
  });

  test('with characters that a field would change stand as JSON again', async () => {
    for (const to of ['a\rb', 'a\u0000', 'pay \u202e001']) {
      const changed = JSON.stringify({ ...request.arguments, to });
      const { body } = await post(`${PATH}/edit`, { ...BOUND, as: 'again', arguments: changed });
      expect(body).toMatch(/<details class="card fold edit" +open>/);
      expect(body.includes(to)).toBe(false);
    }
  });

  test('have fields by the schema, and its reasons stand at the fields', async () => {
    tool = { definition: DEFINITION };
    const { body } = await ask(`${PATH}/edit`);
    expect(body).toMatch(/id="argument\.0"[^>]*type="number"[^>]*min="1" max="100"[^>]*value="5" required/);
    for (const part of ['In euros.', 'number, 1 to 100', 'type="checkbox" value="true"', '1 more that may stay out'])
      expect(body).toContain(part);
    expect(body).not.toContain('<script>alert');
    expect(body).not.toContain('name="more"');
    const answer = await post(`${PATH}/edit`, bySchema({ 'argument.0': '700', 'argument.3.0.0': '1.5' }));
    expect(answer.statusCode).toBe(422);
    expect(answer.body).toMatch(/id="argument\.0\.problem">\s*<bdi dir="ltr">must be at most 100/);
    expect(answer.body).toMatch(/id="argument\.3\.0\.0\.problem">\s*<bdi dir="ltr">must be a whole number/);
    expect(answer.body).toContain('value="700"');
    expect(answer.body).toContain('aria-invalid="true"');
    expect(answer.body).toMatch(/type="checkbox" value="true" *\/>/);
  });

  test('keep a box that is checked, which a browser sends behind its empty one', async () => {
    tool = { definition: DEFINITION };
    const compared = await post(`${PATH}/edit`, { ...bySchema({}), 'argument.2': ['false', 'true'] });
    expect(JSON.parse(argumentsIn(compared.body))).toMatchObject({ urgent: true });
  });

  test('are left out, chosen and added by the form alone', async () => {
    tool = { definition: DEFINITION };
    const added = await post(`${PATH}/edit`, bySchema({ add: 'argument.3', 'argument.1': 'carol' }));
    expect(added.body).toContain('id="argument.3.1.0"');
    expect(added.body).toContain('carol');
    const more = { 'argument.3.length': '2', 'argument.3.1.0': '2', 'argument.1.omit': 'on', 'argument.4': '0' };
    const compared = await post(`${PATH}/edit`, bySchema(more));
    expect(JSON.parse(argumentsIn(compared.body))).toEqual({
      amount: 7,
      urgent: false,
      lines: [{ n: 1 }, { n: 2 }],
      currency: 'EUR',
    });
  });

  test('that the run refuses stand in their fields again', async () => {
    tool = { definition: DEFINITION };
    refusal = new CountersignError('ARGUMENTS_INVALID', 'The run says no.', {});
    const changed = JSON.stringify({ amount: 8, lines: [{ n: 1 }, { n: 42 }], currency: HOSTILE });
    const answer = await post(PATH, { ...BOUND, kind: 'approve', arguments: changed, comment: 'mine' });
    expect(answer.body).toContain('The run says no.');
    expect(answer.body).toMatch(/id="argument\.0"[^>]*value="8"/);
    expect(answer.body).toMatch(/id="argument\.3\.1\.0"[^>]*value="42"/);
    expect(answer.body).toMatch(/name="argument\.1\.omit"[^>]* checked/);
    expect(answer.body).toMatch(/<option value="1" selected>/);
    expect(answer.body).toContain('name="comment" value="mine"');
    // Fields cannot hold this: it stands as JSON.
    const other = await post(PATH, { ...BOUND, kind: 'approve', arguments: '{"amount":8,"lines":"none"}' });
    expect(other.body).toContain('&quot;lines&quot;: &quot;none&quot;');
    expect(other.body).toMatch(/<details class="card fold edit" +open>/);
  });

  test('are also written as JSON', async () => {
    const whole = { ...BOUND, as: 'json', whole: '{"amount":6}' };
    expect(argumentsIn((await post(`${PATH}/edit`, whole)).body)).toBe('{"amount":6}');
    const endless = await post(`${PATH}/edit`, { ...whole, whole: '{"amount":1e400,"note":"mine"}' });
    expect(endless.statusCode).toBe(422);
    expect(endless.body).toMatch(/id="whole\.problem">\s*<bdi dir="ltr">holds 1e400, which cannot be kept exactly/);
    expect(endless.body).toContain('&quot;note&quot;:&quot;mine&quot;');
    const wrong = await post(`${PATH}/edit`, { ...whole, whole: '{"amount":' });
    expect(wrong.statusCode).toBe(422);
    expect(wrong.body).toContain('{&quot;amount&quot;:</textarea');
    const again = await post(`${PATH}/edit`, { ...BOUND, as: 'again', arguments: '{"amount":6}', comment: 'kept' });
    expect(again.body).toMatch(/id="argument\.0"[^>]*value="6"/);
    expect(again.body).toContain('value="kept"');
  });

  test('are read by what the form was made by, or not at all', async () => {
    const answer = await post(`${PATH}/edit`, bySchema({ 'argument.1': 'carol' }));
    expect(answer.body).toContain('cannot be read just now');
    expect(sent).toEqual([]);
  });

  test('are not for people who may not change them', async () => {
    viewer = { ...ANN, id: 'eve', groups: [] };
    expect((await ask(`${PATH}/edit`)).body).toContain('Nothing can be changed here');
  });
});

describe('several together', () => {
  const chosen = JSON.stringify(['run-1', 't1.c0', request.digest]);
  /** As the page of the review sends it. */
  const reviewed = (callId: string) => JSON.stringify(['run-1', callId, request.digest, request.runId, callId]);

  test('are shown once more, and only as they were chosen', async () => {
    expect((await post('/review', { chosen })).body).toContain('Review 1 request');
    const stale = await post('/review', { chosen: JSON.stringify(['run-1', 't1.c0', 'ef'.repeat(32)]) });
    expect(stale.body).toContain('changed or closed meanwhile');
  });

  test('each has its own answer', async () => {
    const review = await post('/review', { chosen });
    const shownIn = (text: string) =>
      /name="chosen"\s+value="([^"]*)"/.exec(text)?.[1]?.replaceAll('&quot;', '"') ?? '';
    const four = shownIn(review.body);
    // Each page has an id of its own: that of another approver would be taken for theirs.
    expect(shownIn((await post('/review', { chosen })).body)).not.toBe(four);
    expect((await post('/review/decide', { kind: 'approve', chosen: four })).body).toContain('1 of 1 decided');
    refusal = new CountersignError('ALREADY_DECIDED', 'ben was faster.', {});
    const late = await post('/review/decide', { kind: 'reject', chosen: four });
    expect(late.body).toContain('0 of 1 decided');
    expect(late.body).toContain('ben was faster.');
    expect(sent).toHaveLength(1);
  });

  test('a run that does not answer holds back none of the others, and each stands in its place', async () => {
    taking = async ({ message }) => {
      if (message['callId'] === 't1.c0') await until(() => sent.length === 2, { what: 'the other decision' });
    };
    const { body } = await post('/review/decide', { kind: 'approve', chosen: ['t1.c0', 't1.c1'].map(reviewed) });
    expect(body).toContain('2 of 2 decided');
    expect(body).toMatch(/call t1\.c0[^]*call t1\.c1/);
  });

  test('of which some need more people are not all told to be decided', async () => {
    cameTo = 'counted';
    const one = await post('/review/decide', { kind: 'approve', chosen: reviewed('t1.c0') });
    expect(one.body).toContain('0 of 1 decided, 1 waits for others');
    expect(one.body).toContain('your approval counts; more people must agree');
    const two = await post('/review/decide', { kind: 'approve', chosen: ['t1.c0', 't1.c1'].map(reviewed) });
    expect(two.body).toContain('0 of 2 decided, 2 wait for others');
    expect(two.body).not.toContain('>decided<');
  });

  test('are as many as have room; the others are told of, and get no decision', async () => {
    const calls = ['t1.c0', 't1.c1', 't1.c2', 't1.c3'];
    shown = calls.map((callId) => ({ ...request, callId, arguments: { text: 'x'.repeat(120_000) } }));
    const all = calls.map((callId) => JSON.stringify(['run-1', callId, request.digest]));
    const { body } = await post('/review', { chosen: all });
    expect(body).toContain('Review 2 requests');
    expect(body).toContain('2 more of those that you chose have no room here, and get no decision');
    expect(body.match(/name="chosen"/g)).toHaveLength(2);
    // One alone is shown, however large.
    shown = [{ ...request, arguments: { text: 'x'.repeat(262_144) } }];
    expect((await post('/review', { chosen })).body).toContain('Review 1 request');
  });

  test('a choice that is no choice is refused', async () => {
    expect((await post('/review', { chosen: 'no JSON' })).statusCode).toBe(422);
  });
});

describe('other answers', () => {
  const ABOUT = {
    outcome: { kind: 'outcome', message: 'The connection closed.', attempt: 1, sentAt: request.openedAt },
    authorization: {
      kind: 'authorization',
      server: 'bank',
      reason: 'TOOL_INSUFFICIENT_SCOPE',
      message: 'More is needed.',
      wants: 'consent',
      scopes: ['pay:write'],
      round: 1,
    },
    input: {
      kind: 'input',
      round: 1,
      requests: {
        'a key': {
          kind: 'form',
          message: 'Which seat?',
          hash: 'aa'.repeat(32),
          required: ['seat'],
          fields: {
            seat: { type: 'choice', options: [{ value: '12A', title: 'Window' }] },
            meals: { type: 'integer', title: 'Meals on board' },
            wifi: { type: 'boolean' },
            extras: { type: 'choices', options: [{ value: 'bag' }, { value: 'lounge' }] },
            note: { type: 'text' },
          },
        },
        page: {
          kind: 'url',
          message: 'Sign here.',
          url: 'https://bank.example/x',
          host: 'bank.example',
          hash: 'bb'.repeat(32),
        },
      },
    },
  } satisfies Record<string, ApprovalRequest['about']>;
  const asks = (fields: FormRequest['fields'], required: string[] = []): void => {
    const question: FormRequest = { kind: 'form', message: 'Who?', hash: 'aa'.repeat(32), required, fields };
    shown = [{ ...request, about: { kind: 'input', round: 1, requests: { who: question } } }];
  };

  test.each([
    [undefined, 'withdraw', {}, 'decide', {}],
    [undefined, 'respond', { answer: 'Done by hand.' }, 'decide', { answer: 'Done by hand.' }],
    [undefined, 'reject', { reason: 'No.' }, 'decide', { reason: 'No.' }],
    ['outcome', 'succeeded', { result: 'It ran.' }, 'resolveOutcome', { result: 'It ran.' }],
    ['outcome', 'failed', { message: 'It did not.' }, 'resolveOutcome', { message: 'It did not.' }],
    ['outcome', 'retry', {}, 'resolveOutcome', {}],
    ['authorization', 'consent', { comment: 'fine' }, 'authorize', { comment: 'fine' }],
    ['authorization', 'decline', { reason: 'No.' }, 'authorize', { reason: 'No.' }],
    ['input', 'decline', {}, 'provideInput', {}],
    ['input', 'cancel', {}, 'provideInput', {}],
  ] as const)('about %s: %s goes to the run as its own update', async (about, kind, fields, update, told) => {
    shown = [about === undefined ? request : { ...request, about: ABOUT[about] }];
    if (about !== undefined) expect((await ask(PATH)).body).toContain(`value="${kind}"`);
    expect((await post(PATH, { ...BOUND, kind, ...fields })).statusCode).toBe(303);
    expect(sent).toEqual([{ runId: 'run-1', update, message: { kind, callId: 't1.c0', ...BOUND, ...told } }]);
  });

  test.each([
    [undefined, 'Why a person is asked', 'Asked by'],
    ['input', 'What policy says of the call', 'Judged by'],
    ['outcome', 'What policy says of the call', 'Judged by'],
  ] as const)('only for consent is it a rule that asks: %s', async (about, heading, by) => {
    shown = [{ ...request, explain: [], ...(about !== undefined && { about: ABOUT[about] }) }];
    const { body } = await ask(PATH);
    expect(body).toContain(`>${heading}</h2>`);
    expect(body).toContain(`<li>${by} `);
  });

  test('the fields of a question are read as their kinds, and empty ones are left out', async () => {
    shown = [{ ...request, about: ABOUT.input }];
    const { body } = await ask(PATH);
    for (const part of ['Which seat?', 'Window', 'bank.example', 'required']) expect(body).toContain(part);
    const typed = { 'field.0.0': '12A', 'field.0.1': '2', 'field.0.2': 'true', 'field.0.3': ['bag', 'lounge'] };
    expect((await post(PATH, { ...BOUND, kind: 'provide', ...typed, 'field.0.4': '' })).statusCode).toBe(303);
    expect(sent[0]?.message['responses']).toEqual({
      'a key': { action: 'accept', content: { seat: '12A', meals: 2, wifi: true, extras: ['bag', 'lounge'] } },
      page: { action: 'accept' },
    });
  });

  test('a field of a wrong kind is named, and nothing is sent', async () => {
    shown = [{ ...request, about: ABOUT.input }];
    const answer = await post(PATH, { ...BOUND, kind: 'provide', 'field.0.0': '12A', 'field.0.1': 'two' });
    expect(answer.statusCode).toBe(422);
    expect(answer.body).toContain('Meals on board must be a number');
    expect(sent).toEqual([]);
  });

  test.each([
    ['.5', 0.5],
    ['007', 7],
    ['-00.50', -0.5],
    ['+3.', 3],
    ['-1e3', -1_000],
    [' 2 ', 2],
  ])('a number may be written as browsers take it: %s', async (text, meals) => {
    shown = [{ ...request, about: ABOUT.input }];
    await post(PATH, { ...BOUND, kind: 'provide', 'field.0.1': text });
    expect(sent[0]?.message['responses']).toMatchObject({ 'a key': { content: { meals } } });
  });

  test('a text of very many digits that is no number takes no time', async () => {
    const text = `${'1'.repeat(300_000)}x`;
    shown = [{ ...request, about: ABOUT.input }];
    const answered = await post(PATH, { ...BOUND, kind: 'provide', 'field.0.1': text });
    expect([answered.statusCode, answered.body.includes('must be a number')]).toEqual([422, true]);
  });

  test.each(['0x10', '1e999', ' ', '.', '12345678901234567890', '0.12345678901234567890123'])(
    '%s is no number that can be sent',
    async (text) => {
      shown = [{ ...request, about: ABOUT.input }];
      expect((await post(PATH, { ...BOUND, kind: 'provide', 'field.0.1': text })).statusCode).toBe(422);
      expect(sent).toEqual([]);
    },
  );

  test('after a refused decline the form of the answer has its defaults still', async () => {
    asks({
      seat: { type: 'text', default: '12A' },
      extras: { type: 'choices', options: [{ value: 'bag' }, { value: 'lounge' }], default: ['bag'] },
    });
    refusal = new CountersignError('DIGEST_MISMATCH', 'It changed.', {});
    const { body } = await post(PATH, { ...BOUND, kind: 'decline' });
    expect(body).toContain('\n12A</textarea>');
    expect(body).toMatch(/value="bag"\s+checked/);
    // An answer without them has none.
    const answered = await post(PATH, { ...BOUND, kind: 'provide', 'field.0.0': '' });
    expect(answered.body).not.toContain('12A</textarea>');
    expect(answered.body).not.toMatch(/value="bag"\s+checked/);
  });

  test('a list that may stay empty is left out where the schema wants one or more', async () => {
    const extras = { type: 'choices' as const, options: [{ value: 'bag' }], minItems: 1 };
    asks({ extras, needed: extras, none: { type: 'choices', options: [{ value: 'bag' }] } }, ['needed']);
    await post(PATH, { ...BOUND, kind: 'provide' });
    // The run says what is wrong with one that is required.
    expect(sent[0]?.message['responses']).toEqual({ who: { action: 'accept', content: { needed: [], none: [] } } });
  });

  test('a forged list of choices is passed over', async () => {
    shown = [{ ...request, about: ABOUT.input }];
    refusal = new CountersignError('DIGEST_MISMATCH', 'It changed.', {});
    const forged = { ...BOUND, kind: 'provide', 'field.0.3.all': 'x' };
    expect((await post(PATH, forged)).statusCode).toBe(refusal.traits.httpStatus);
  });

  test('the fields of a question say what the schema of the server asks for', async () => {
    const fields: FormRequest['fields'] = {
      age: { type: 'integer', minimum: 18, maximum: 120 },
      name: { type: 'text', minLength: 2, maxLength: 40 },
      mail: { type: 'text', format: 'email' },
      on: { type: 'text', format: 'date' },
      extras: { type: 'choices', options: [{ value: 'bag' }, { value: 'lounge' }], minItems: 1, maxItems: 2 },
    };
    asks(fields, ['age']);
    const { body } = await ask(PATH);
    const fieldOf = (index: number) =>
      new RegExp(`<(?:input|textarea)[^>]*name="field\\.0\\.${index}"[^>]*>`).exec(body)?.[0];
    expect(fieldOf(0)).toMatch(/ required type="number" step="any" min="18" max="120"/);
    expect(body).toContain('whole number, 18 to 120, required');
    expect(fieldOf(1)).toMatch(/^<textarea .* inputmode="text" rows="1" minlength="2"/);
    // A browser would cut what is pasted, and counts otherwise than the schema.
    expect(fieldOf(1)).not.toContain('maxlength');
    expect(body).toContain('text, 2 to 40 characters, may stay empty');
    expect(fieldOf(2)).toMatch(/^<textarea .* inputmode="email"/);
    expect(fieldOf(3)).toContain('type="date"');
    expect(body).toContain('some of 2, 1 to 2, may stay empty');
  });

  test('a text keeps its line breaks and outer spaces: in the form, in what is sent, and in a form that comes back', async () => {
    const text = '\n two\nlines ';
    asks({ why: { type: 'text', default: text }, mail: { type: 'text', format: 'email', default: ' a@b ' } });
    // A browser drops the first line break of the field.
    const fresh = await ask(PATH);
    expect(fresh.body).toContain(`rows="3">\n${text}</textarea>`);
    expect(fresh.body).toContain(`>\n a@b </textarea>`);
    const typed = { 'field.0.0': text.replaceAll('\n', '\r\n'), 'field.0.1': ' a@b ' };
    await post(PATH, { ...BOUND, kind: 'provide', ...typed });
    expect(sent[0]?.message['responses']).toEqual({
      who: { action: 'accept', content: { why: text, mail: ' a@b ' } },
    });
    refusal = new CountersignError('DECISION_INVALID', 'no.', { path: 'responses.who.content.why' });
    const back = await post(PATH, { ...BOUND, kind: 'provide', ...typed });
    expect(back.body.replaceAll('\r\n', '\n')).toContain(`rows="3">\n${text}</textarea>`);
  });

  test('a refused answer comes back with every choice, and the reason stands at its field', async () => {
    shown = [{ ...request, about: ABOUT.input }];
    const message = 'responses.a key.content.extras must name at most 1 options; nothing was changed.';
    refusal = new CountersignError('DECISION_INVALID', message, { path: 'responses.a key.content.extras' });
    const typed = { 'field.0.0': '12A', 'field.0.1': '2', 'field.0.3': ['bag', 'lounge'], 'field.0.4': HOSTILE };
    const { statusCode, body } = await post(PATH, { ...BOUND, kind: 'provide', ...typed, opened: 'yes' });
    expect(statusCode).toBe(422);
    expect(body).toMatch(/value="12A"\s+selected/);
    expect(body).toMatch(/value="bag"\s+checked/);
    expect(body).toMatch(/value="lounge"\s+checked/);
    expect(body).toMatch(/name="opened"[^>]* checked/);
    expect(body).not.toContain('<script>alert');
    expect(body).toContain('aria-describedby="field.0.3.problem"');
    expect(/id="field\.0\.3\.problem">.*?<\/p>/s.exec(body)?.[0]).toContain('at most 1 options');
    expect(body).not.toContain('id="field.0.1.problem"');
  });

  test('a fresh grant is never asked for in a page', async () => {
    shown = [{ ...request, about: { ...ABOUT.authorization, wants: 'grant' } }];
    const { body } = await ask(PATH);
    expect(body).toContain('never');
    expect(body).not.toContain('value="grant"');
  });
});

test('an answer counts where the ledger says so, and not where a link does', async () => {
  const said = async () => (await ask('/runs/run-1?done=t1.c0')).body.includes('Your answer counts.');
  expect(await said()).toBe(false);
  ledger = [acceptedFrom('ben')];
  expect(await said()).toBe(false);
  ledger = [acceptedFrom('ann')];
  expect(await said()).toBe(true);
  ledger = [acceptedFrom('ann'), acceptedFrom('ann', 'd2', 'withdraw'), acceptedFrom('ben')];
  expect(await said()).toBe(false);
  expect((await ask('/runs/run-1?done=t1.c0')).body).toContain('Your approval is taken back.');
});

test('nothing is offered that the person may not do (S2.3)', async () => {
  viewer = { ...ANN, id: 'eve', groups: [] };
  const { body } = await ask(PATH);
  expect(body).toContain('Not yours to decide');
  expect(body).not.toMatch(/<button[^>]*class="button (?:approve|reject)/);
});

test('a request says that the provider of a model makes the call, and only then (docs/adr/0080)', async () => {
  expect((await ask(PATH)).body).not.toContain('Called by');
  shown = [{ ...request, hosted: 'g\u202Ept' }];
  const { body } = await ask(PATH);
  expect(body.replaceAll(/<[^>]*>/g, '').replaceAll(/\s+/g, ' ')).toMatch(
    /Called by ?the provider of model gU\+202Ept/,
  );
  expect(body).not.toContain('\u202E');
});

test('a closed request offers nothing', async () => {
  shown = [{ ...request, status: 'approved', decidedBy: { id: 'ben', groups: [] }, decidedAt: request.openedAt }];
  const { body } = await ask(PATH);
  expect(body).toContain('Nothing can be decided here any more');
  expect(body).toContain('approved');
});

test('hostile words of servers, tools and models are shown and do nothing', async () => {
  shown = [
    {
      ...request,
      tool: HOSTILE,
      server: HOSTILE,
      description: HOSTILE,
      arguments: { [HOSTILE]: HOSTILE },
      explain: [{ rule: HOSTILE, text: HOSTILE }],
    },
  ];
  for (const url of ['/', '/runs/run-1', PATH]) {
    const { body } = await ask(url);
    expect(body).not.toContain('<script>alert');
    expect(body).not.toContain('\u202E');
    expect(body).toContain('&lt;script&gt;alert(1)');
  }
});

test('a call that waits for nobody shows its run, and takes no answer', async () => {
  const answer = await ask('/runs/run-1/requests/t9.c9');
  expect(answer.statusCode).toBe(200);
  expect(answer.body).toContain('Call t9.c9 waits for nobody any more.');
  const late = await post('/runs/run-1/requests/t9.c9', { ...BOUND, kind: 'approve' });
  expect(late.statusCode).toBe(409);
  expect(sent).toEqual([]);
});

test('a run that was terminated is over, whatever it said last', async () => {
  ended = { status: 'terminated', endedAt: request.openedAt };
  shown = [];
  const { body } = await ask('/runs/run-1');
  expect(body).toContain('<span class="outcome terminated">terminated</span>');
  expect(body).not.toContain('Stop the run');
});

describe('what is said to a run', () => {
  test.each([
    ['say', 'text'],
    ['stop', 'reason'],
  ])('%s keeps its line breaks, and comes back with what was typed where it is refused', async (verb, name) => {
    expect((await post(`/runs/run-1/${verb}`, { [name]: 'one\r\ntwo' })).statusCode).toBe(303);
    expect(sent[0]?.message).toEqual({ [name]: 'one\ntwo' });
    refusal = new CountersignError('MESSAGE_INVALID', `${name} is too long.`, { path: name });
    const { statusCode, body } = await post(`/runs/run-1/${verb}`, { [name]: `one ${HOSTILE}`, messageId: 'm1' });
    expect(statusCode).toBe(422);
    expect(body).toContain(`${name} is too long.`);
    expect(body).toMatch(new RegExp(`<details class="choice" open>[^]*name="${name}"[^>]*>\none &lt;/textarea&gt;`));
    expect(body).not.toContain('data-live');
    // A message that may have been taken counts once.
    if (verb === 'say') expect(body).toMatch(/name="messageId" value="m1"/);
    ended = { status: 'completed', endedAt: request.openedAt };
    const late = await post(`/runs/run-1/${verb}`, { [name]: `one ${HOSTILE}` });
    expect(late.body).toMatch(/What you typed <span[^>]*>\(copy it if you need it\)<[^]*>\none &lt;\/textarea&gt;/);
  });

  test('is told to the operator, too, where that is whose it is to mend', async () => {
    for (const [at, fields] of [
      ['/runs/run-1/say', { text: 'two' }] as const,
      [PATH, { ...BOUND, kind: 'approve' }] as const,
    ]) {
      logged.length = 0;
      refusal = new CountersignError('CONFIG_INVALID', 'a key is missing.', {});
      await post(at, fields);
      expect(logged).toEqual(['page failed: a key is missing.']);
    }
  });

  test('under an id that another message has used comes back with a new one', async () => {
    refusal = new CountersignError('MESSAGE_INVALID', 'used.', { path: 'messageId' });
    const { body } = await post('/runs/run-1/say', { text: 'two', messageId: 'm1' });
    expect(body).toMatch(/name="messageId" value="[^"]{20,}"/);
    expect(body).toContain('\ntwo</textarea>');
  });

  test('of several requests together keeps its line breaks', async () => {
    const chosen = JSON.stringify(['run-1', 't1.c0', request.digest, request.runId, 'd1']);
    await post('/review/decide', { kind: 'reject', chosen, words: 'one\r\ntwo' });
    expect(sent[0]?.message).toMatchObject({ reason: 'one\ntwo' });
  });

  test('a refused consent keeps its comment', async () => {
    const about = { kind: 'authorization', server: 'bank', message: 'More.', wants: 'consent', round: 1 } as const;
    shown = [{ ...request, about: { ...about, reason: 'TOOL_INSUFFICIENT_SCOPE' } }];
    refusal = new CountersignError('DECISION_INVALID', 'no.', {});
    expect((await post(PATH, { ...BOUND, kind: 'consent', comment: 'well thought' })).body).toContain('well thought');
  });
});

describe('the definition of the tool', () => {
  const now = { name: 'pay', title: 'Pay', description: 'Pays.', inputSchema: { type: 'object' } };
  const before = { ...now, description: `Pays nobody. ${HOSTILE}` };

  test('stands there in full, with what an operator has said of it', async () => {
    tool = { definition: { ...now, annotations: { destructiveHint: true } }, isAcknowledged: true };
    shown = [{ ...request, annotations: { destructiveHint: true } }];
    const { body } = await ask(PATH);
    for (const part of [
      'The whole definition',
      'it may destroy something',
      'has acknowledged this definition',
      'Pays.',
    ])
      expect(body).toContain(part);
    expect(body).not.toContain('Changed since');
  });

  test('shows what has changed since it was approved', async () => {
    tool = { definition: now, earlier: { definition: before, of: 'catalog' } };
    const { body } = await ask(PATH);
    expect(body).toContain('Changed since an operator acknowledged it in the catalog');
    expect(body).toMatch(/<del>[\s\S]*Pays nobody\.[\s\S]*<\/del><ins>[\s\S]*Pays\.[\s\S]*<\/ins>/);
    expect(body).not.toContain('<script>alert');
  });

  test('that nobody has kept is said to be missing, beside the earlier one', async () => {
    tool = { earlier: { definition: before, of: 'run' } };
    const { body } = await ask(PATH);
    expect(body).toContain('Changed since this run listed its tools');
    expect(body).toContain('cannot be read');
    expect(body).toContain('As it was');
  });
});

test('earlier calls of the tool in this run are told with their ends, and those of other tools are not', async () => {
  const verdict = (callId: string, name: string) => entryOf(verdictFact({ callId, tool: name }));
  ledger = [
    verdict('t1.c1', 'pay'),
    verdict('t1.c2', 'pay'),
    verdict('t1.c3', 'other'),
    verdict('t1.c0', 'pay'),
    entryOf({ kind: 'outcome', callId: 't1.c1', outcome: 'rejected', outcomeHash: request.digest }),
    entryOf({ kind: 'outcome', callId: 't1.c3', outcome: 'failed', outcomeHash: request.digest }),
  ];
  const { body } = await ask(PATH);
  const [, section = ''] = /aria-labelledby="earlier">([\s\S]*?)<\/section>/.exec(body) ?? [];
  expect(section).toContain('2 calls.');
  expect(section).toMatch(/rejected<\/span> t1\.c1/);
  expect(section).not.toMatch(/t1\.c3|t1\.c0/);
});

describe('a conversation', () => {
  const call = (callId: string, bytes: number) =>
    ({
      type: 'call',
      callId,
      providerCallId: callId,
      name: 'bank__pay',
      arguments: { text: 'x'.repeat(bytes), last: HOSTILE },
    }) as const;
  const RUN = '/runs/run-1';
  const LINK = /href="\/runs\/run-1\/messages\/(\d+\/\d+)"/g;

  test('is shown as far as a page has room, newest first; each part without room is whole on a page of its own', async () => {
    const result = { content: [{ type: 'text' as const, text: 'r'.repeat(200_000) }] };
    messages = [
      { at: 7, message: { role: 'user', text: 'u'.repeat(70_000) } },
      { at: 8, message: { role: 'assistant', parts: [{ type: 'text', text: 'first' }, call('t1.c0', 60_000)] } },
      {
        at: 9,
        message: {
          role: 'tool',
          results: [
            { callId: 't1.c0', providerCallId: 'p', name: 'bank__pay', outcome: { kind: 'succeeded', result } },
            { callId: 't1.c1', providerCallId: 'q', name: 'bank__pay', outcome: { kind: 'cancelled', reason: 'over' } },
          ],
        },
      },
      { at: 10, message: { role: 'assistant', parts: [call('t2.c0', 30_000), { type: 'text', text: 'last' }] } },
    ];
    for (const path of [RUN, PATH]) {
      const { body } = await ask(path);
      expect([...body.matchAll(LINK)].map(([, place]) => place)).toEqual(['7/0', '8/1', '9/0']);
      for (const text of ['first', 'cancelled', 'x'.repeat(29_600), 'last']) expect(body).toContain(text);
      expect(body.length).toBeLessThan(100_000);
    }
    const whole = async (place: string) => (await ask(`${RUN}/messages/${place}`)).body;
    expect(await whole('7/0')).toContain('u'.repeat(60_000));
    expect(await whole('8/1')).toContain('x'.repeat(59_600));
    expect(await whole('8/1')).toContain('"last": "&lt;/textarea&gt;&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(await whole('9/0')).toContain('r'.repeat(200_000));
    expect(await whole('8/1')).not.toContain('<script>alert');
  });

  test('shows the arguments that a person has changed, and has room for what is shown alone', async () => {
    const opaque = { signature: 's'.repeat(70_000) };
    const edited = { by: 'ann', arguments: { text: 'changed by hand' } };
    const result = { callId: 't1.c0', providerCallId: 'p', name: 'bank__pay' } as const;
    const outcome = { kind: 'cancelled', reason: 'over' } as const;
    messages = [
      { at: 7, message: { role: 'assistant', parts: [{ type: 'text', text: 'in sight', provider: opaque }] } },
      { at: 8, message: { role: 'tool', results: [{ ...result, outcome, edited }] } },
    ];
    const { body } = await ask(RUN);
    expect(body).toMatch(/sent as changed by [^]*ann[^]*changed by hand[^]*cancelled/);
    expect(body).toContain('in sight');
    expect(body).not.toMatch(LINK);
    const large = { ...edited, arguments: { text: 'y'.repeat(70_000) } };
    messages = [{ at: 8, message: { role: 'tool', results: [{ ...result, outcome, edited: large }] } }];
    expect((await ask(RUN)).body).toContain('href="/runs/run-1/messages/8/0-sent"');
    expect((await ask(`${RUN}/messages/8/0-sent`)).body).toContain('y'.repeat(69_000));
    expect((await ask(`${RUN}/messages/8/0`)).body).toContain('cancelled');
  });

  test('shows the ends of a long name of a tool, and the whole of it on the page of the call', async () => {
    const name = `first${'n'.repeat(100_000)}last`;
    messages = [{ at: 7, message: { role: 'assistant', parts: [{ ...call('t1.c0', 70_000), name }] } }];
    const { body } = await ask(RUN);
    expect(body).toMatch(/calls [^]*firstnn[^]* … [^]*nnlast[^]*100,009 characters/);
    expect(body.length).toBeLessThan(20_000);
    const whole = (await ask(`${RUN}/messages/7/0`)).body;
    expect(whole.split(name)).toHaveLength(2);
    expect(/<h1>([^]*)<\/h1>/.exec(whole)?.[1]?.length).toBeLessThan(1_000);
  });

  test('has no page of what it does not hold, or not any more', async () => {
    messages = [{ at: 7, message: { role: 'user', text: 'task' } }];
    for (const place of ['6/0', '7/1', 'x/y', '__proto__/0']) {
      const { statusCode, body } = await ask(`${RUN}/messages/${place}`);
      expect([statusCode, body]).toEqual([404, expect.stringContaining('not among the newest messages any more')]);
    }
    expect((await ask('/runs/other/messages/7/0')).statusCode).toBe(404);
  });
});

test('large arguments stand in the page once, and as JSON on a page of their own', async () => {
  shown = [{ ...request, arguments: { text: HOSTILE.repeat(3_000), last: 5 } }];
  const { body } = await ask(PATH);
  expect(body).toContain(`href="${PATH}/json"`);
  expect(body).not.toContain('class="raw"');
  const { body: whole } = await ask(`${PATH}/json`);
  expect(whole).toMatch(/\\u202e",\n {2}"last": 5/);
  expect(whole).not.toContain('<script>alert');
  shown = [];
  expect((await ask(`${PATH}/json`)).statusCode).toBe(409);
});

describe('the check of a ledger', () => {
  const path = '/runs/run-1/ledger';

  test('says what it shows, and what it does not', async () => {
    expect((await ask('/runs/run-1')).body).toContain(`href="${path}"`);
    const { body } = await ask(path);
    for (const part of ['The chain is unbroken.', 'All 7 entries', 'What it does not show', 'verify-ledger'])
      expect(body).toContain(part);
  });

  test('names what is wrong', async () => {
    const fault = { kind: 'altered', seq: 3, reason: `was changed ${HOSTILE}` } as const;
    checked = { ...checked, report: { ...checked.report, faults: [fault] } };
    const { body } = await ask(path);
    expect(body).toContain('This ledger is not what was recorded.');
    expect(body).toMatch(/Entry 3<\/strong>[\s\S]*was changed/);
    expect(body).not.toContain('The chain is unbroken.');
    expect(body).not.toContain('<script>alert');
  });

  test('does not pass a chain that leads elsewhere', async () => {
    checked = { ...checked, isHeadOfRun: false };
    const { body } = await ask(path);
    expect(body).not.toContain('The chain is unbroken.');
    expect(body).toContain('do not lead to the head');
  });

  test('that cannot reach the first entries proves nothing, and says so', async () => {
    refusal = new CountersignError('ARTIFACT_MISSING', 'Entries before 40 stand in the store.', {});
    const { body } = await ask(path);
    expect(body).toContain('It could not be checked');
    expect(body).not.toContain('The chain is unbroken.');
  });
});

describe('the start of a run', () => {
  test('is offered to whom it is permitted, and to nobody else', async () => {
    expect((await ask('/start')).body).toContain('You may not start runs');
    expect((await ask('/')).body).not.toContain('href="/start"');
    viewer = { ...ANN, may: new Set(['start']) };
    expect((await ask('/')).body).toContain('href="/start"');
    const { body } = await ask('/start');
    expect(body).toMatch(/value="payer" required +checked/);
    expect(body).not.toContain('<script>alert');
  });

  test('leads to the page of the run, under the key of its form', async () => {
    viewer = { ...ANN, may: new Set(['start']) };
    const key = /name="key" value="([^"]+)"/.exec((await ask('/start')).body)?.[1] ?? '';
    const answer = await post('/start', { agent: 'payer', input: 'Pay it.\r\nNow.', key });
    expect(answer.statusCode).toBe(303);
    expect(answer.headers.get('location')).toBe('/runs/run-1');
    expect(started).toEqual([{ agent: 'payer', input: 'Pay it.\nNow.', key }]);
  });

  test('that is refused keeps the words, the agent and the key', async () => {
    viewer = { ...ANN, may: new Set(['start']) };
    refusal = new CountersignError('SPEC_INVALID', `The run spec is not valid. ${HOSTILE}`, {});
    const answer = await post('/start', { agent: 'payer', input: `Pay ${HOSTILE}`, key: 'key-1' });
    expect(answer.statusCode).toBe(422);
    for (const part of ['SPEC_INVALID', 'Pay &lt;/textarea&gt;', 'name="key" value="key-1"'])
      expect(answer.body).toContain(part);
    expect(answer.body).not.toContain('<script>alert');
  });

  test('whose form has started another run shows that run, and starts a new one when sent again', async () => {
    viewer = { ...ANN, may: new Set(['start']) };
    refusal = new CountersignError('RUN_ID_CONFLICT', 'It exists with another spec.', { runId: 'api-1' });
    const answer = await post('/start', { agent: 'payer', input: 'Else.', key: 'key-1' });
    expect(answer.statusCode).toBe(409);
    for (const part of ['href="/runs/api-1"', 'RUN_ID_CONFLICT', 'Else.']) expect(answer.body).toContain(part);
    const key = /name="key" value="([^"]+)"/.exec(answer.body)?.[1];
    expect(key).toBeDefined();
    expect(key).not.toBe('key-1');
  });

  test.each(['', ' ', 'two words'])('with the key "%s" names no run, so nothing is started', async (key) => {
    viewer = { ...ANN, may: new Set(['start']) };
    const answer = await post('/start', { agent: 'payer', input: 'Pay it.', key });
    expect(answer.statusCode).toBe(422);
    expect(started).toEqual([]);
    expect(answer.body).toMatch(/name="key" value="[0-9a-f-]{36}"/);
    expect(answer.body).toContain('Pay it.');
  });
});

describe('a catalog', () => {
  const HASH = 'ab'.repeat(32);
  const at = new Date().toISOString();
  const setting = { enabled: true, requiresApproval: true, denied: false };
  const detail: CatalogDetail = {
    server: 'shop',
    status: 'connected',
    version: 3,
    counts: { tools: 1, enabled: 1, asking: 1, denied: 0, changed: 0, missing: 0 },
    waiting: 0,
    refreshing: false,
    tenant: 'acme',
    newTools: 'ask',
    tools: [
      {
        name: 'order',
        status: 'available',
        changed: false,
        definition: HASH,
        setting,
        firstSeen: at,
        lastSeen: at,
      },
    ],
    pending: [],
    ledger: { length: 1, head: HASH },
    may: [],
    offers: [],
  };
  let told: CatalogSent[];
  const holds = (changed: Partial<CatalogDetail>): void => {
    catalogs = {
      ...NO_CATALOGS,
      read: async () => ({ ...detail, ...changed }),
      send: async (_viewer, _server, message) => void told.push(message),
    };
  };
  const refuses = (error: CountersignError): void => {
    catalogs = {
      ...catalogs,
      send: async () => {
        throw error;
      },
    };
  };
  beforeEach(() => {
    told = [];
  });
  const formIn = (body: string, place: string): string =>
    new RegExp(`<form method="post" action="/catalogs/shop/${place}">[^]*?</form>`).exec(body)?.[0] ?? '';
  const shownBy = async (): Promise<Record<string, string>> => {
    const form = formIn((await ask('/catalogs/shop')).body, 'tools');
    const inputs = [...form.matchAll(/<input\s([^>]*)>/g)].map(([, fields = '']) => fields);
    const isSent = (fields: string): boolean =>
      !/\sdisabled/.test(fields) && (!fields.includes('checkbox') || /\schecked/.test(fields));
    return Object.fromEntries(
      inputs
        .filter(isSent)
        .map((fields) => [/name="([^"]*)"/.exec(fields)?.[1] ?? '', /value="([^"]*)"/.exec(fields)?.[1] ?? '']),
    );
  };

  test('keeps each switch that the page did not let its reader turn, although they may by now', async () => {
    holds({ offers: ['tighten'] });
    const form = await shownBy();
    expect(form).toMatchObject({ 'tool.0': 'order', 'enabled.0': 'on', 'shown.enabled.0': 'on' });
    expect(form).not.toHaveProperty(['requiresApproval.0']);
    holds({ offers: ['tighten', 'loosen'] });
    expect((await post('/catalogs/shop/tools', { ...form, 'denied.0': 'on' })).statusCode).toBe(303);
    expect(told).toMatchObject([{ kind: 'tools', body: { changes: [{ tool: 'order', denied: true }] } }]);
    expect(told).not.toMatchObject([{ body: { changes: [{ requiresApproval: false }] } }]);
  });

  test('is sent a turned switch with its version, although the catalog already is so by now', async () => {
    holds({ offers: ['tighten', 'loosen'] });
    const { 'requiresApproval.0': _, ...form } = await shownBy();
    holds({
      version: 4,
      offers: ['tighten', 'loosen'],
      tools: detail.tools.map((each) => ({ ...each, setting: { ...setting, requiresApproval: false } })),
    });
    await post('/catalogs/shop/tools', form);
    expect(told).toMatchObject([
      { kind: 'tools', body: { expectedVersion: 3, changes: [{ tool: 'order', requiresApproval: false }] } },
    ]);
  });

  test('that cannot be read is no missing one: the list leads to its page, and offers nobody to connect it', async () => {
    const list = async () => ({ catalogs: [], unread: ['shop'] });
    catalogs = { ...NO_CATALOGS, servers: ['shop', 'books'], mayConnect: () => true, list };
    const { body } = await ask('/catalogs');
    expect(body).toMatch(/No answer from the catalogs of <a href="\/catalogs\/shop">/);
    expect(body).not.toContain('No catalog yet');
    expect(body).toContain('<option value="books">');
    expect(body).not.toContain('<option value="shop">');
  });

  test('is connected by a form that keeps every field and the reason where it was refused', async () => {
    const error = new CountersignError('CATALOG_INVALID', 'the address is not allowed', { path: 'url' });
    catalogs = { ...NO_CATALOGS, mayConnect: () => true, list: async () => ({ catalogs: [], unread: [] }) };
    refuses(error);
    const typed = { server: 'books', url: `https://books.example/?${HOSTILE}`, credentials: 'robot', trusted: 'yes' };
    const { statusCode, body } = await post('/catalogs', { requestId: 'r1', ...typed });
    expect(statusCode).toBe(error.traits.httpStatus);
    expect(body).toMatch(/<details class="card choice"\s+open>/);
    expect(body).toMatch(/name="server"[^>]*value="books"/);
    expect(body).toMatch(/name="url"[^>]*value="https:\/\/books\.example\/\?&lt;\/textarea[^>]*aria-invalid="true"/);
    expect(body).toMatch(/name="credentials"[^>]*value="robot"/);
    expect(body).toMatch(/name="trusted" value="yes"\s+checked/);
    expect(body).toContain('the address is not allowed');
    expect(body).not.toContain('<script>alert');
    expect(liveIn(body)).toBeUndefined();
    const { body: misnamed } = await post('/catalogs', { requestId: 'r1', ...typed, server: 'a b' });
    expect(misnamed).toMatch(/name="server"[^>]*value="a b"[^>]*aria-invalid="true"/);
    expect(misnamed).toMatch(/name="credentials"[^>]*value="robot"/);
  });

  test('keeps its credentials and its queue where something else of its connection is changed', async () => {
    const connection = {
      url: 'https://shop.example/mcp',
      credentials: 'robot',
      taskQueue: 'zone-b',
      trusted: false,
    };
    holds({ offers: ['connect'], url: connection.url, connection });
    const form = formIn((await ask('/catalogs/shop')).body, 'connect');
    const inputs = [...form.matchAll(/name="(url|credentials|taskQueue)"[^>]*value="([^"]*)"/g)];
    const fields = Object.fromEntries(inputs.map(([, name = '', value = '']) => [name, value]));
    await post('/catalogs/shop/connect', { requestId: 'r1', version: '3', ...fields, trusted: 'yes' });
    expect(told).toEqual([
      { kind: 'connect', body: { requestId: 'r1', expectedVersion: 3, ...connection, trusted: true } },
    ]);
  });

  test('is not taken back to what it was by a form that was refused for something else', async () => {
    const refusedWith = async (error: CountersignError): Promise<string | undefined> => {
      holds({ version: 4, offers: ['connect'] });
      refuses(error);
      const typed = { requestId: 'r1', version: '3', url: 'https://shop.example/mcp', taskQueue: 'nobody' };
      const { body } = await post('/catalogs/shop/connect', typed);
      return /name="version"\s+value="([^"]*)"/.exec(formIn(body, 'connect'))?.[1];
    };
    // Its URL is that of version 3, and somebody else has changed the connection since.
    expect(await refusedWith(new CountersignError('CATALOG_SETTING_UNSUPPORTED', 'no such queue', {}))).toBe('3');
    expect(await refusedWith(new CountersignError('CATALOG_VERSION_CONFLICT', 'changed meanwhile', {}))).toBe('4');
  });

  test('names what its server lists and no run is offered, with the reason', async () => {
    const refused = [{ name: 'a b?<i>', reason: 'its name has other characters' }];
    holds({ lastRefresh: { refresh: 2, at, ok: true, refused } });
    const { body } = await ask('/catalogs/shop');
    expect(body).toContain('What the last refresh left out');
    expect(body).toMatch(/<code>.*a b\?&lt;i&gt;.*<\/code>: .*its name has other characters/);
    holds({ lastRefresh: { refresh: 2, at, ok: true, refused: [] } });
    expect((await ask('/catalogs/shop')).body).not.toContain('left out');
  });

  test('does not say, where no script runs, that its page follows what happens', async () => {
    holds({});
    const { body } = await ask('/catalogs/shop');
    expect(body).toContain('<noscript>Load this page again to see what has happened since.</noscript>');
    expect(body.replaceAll(/<noscript>[^]*?<\/noscript>/g, '')).not.toContain('follows what happens');
  });

  const FORMS = [
    ['tools', { 'tool.0': 'order', 'shown.denied.0': 'off', 'denied.0': 'on' }],
    ['refresh', {}],
    ['disconnect', {}],
    ['connect', { url: 'https://shop.example/mcp' }],
    ['changes/c1', { digest: 'ab'.repeat(32), verdict: 'approve' }],
  ] as const;

  test.each(FORMS)('keeps the filter in every form: of %s', async (form, fields) => {
    holds({ offers: ['loosen', 'tighten', 'refresh', 'connect', 'disconnect'], pending: pendingWith({}) });
    const { body } = await ask('/catalogs/shop?show=enabled');
    expect(formIn(body, form)).toContain('name="show" value="enabled"');
    const sentForm = { requestId: 'r1', version: '3', show: 'enabled', ...fields };
    const taken = await post(`/catalogs/shop/${form}`, sentForm);
    expect(taken.headers.get('location')).toBe('/catalogs/shop?show=enabled');
    refuses(new CountersignError('CATALOG_FORBIDDEN', 'not yours', {}));
    const refused = await post(`/catalogs/shop/${form}`, sentForm);
    expect(refused.statusCode).toBe(403);
    expect(refused.body).toMatch(/aria-current="true">Enabled/);
    expect(refused.body).toContain('not yours');
    if (form === 'tools') expect(refused.body).toMatch(/name="denied\.0"[^>]*checked/);
    if (form === 'connect') expect(refused.body).toContain('value="https://shop.example/mcp"');
  });

  const liveIn = (body: string): string | undefined => /<body data-live="([^"]*)">/.exec(body)?.[1];

  test('is followed by its page, and by no page with a refused form: what was turned would go', async () => {
    holds({ offers: ['tighten', 'loosen'] });
    expect(liveIn((await ask('/catalogs/shop')).body)).toBe('/live?catalog=shop');
    const form = await shownBy();
    holds({ offers: ['tighten', 'loosen'], refreshing: true });
    expect((await ask('/catalogs/shop')).body).toContain('A refresh goes on. This page shows its end');
    refuses(new CountersignError('CATALOG_VERSION_CONFLICT', 'somebody has changed it', {}));
    const refused = await post('/catalogs/shop/tools', { ...form, 'denied.0': 'on' });
    expect(refused.body).toContain('not saved: deny on');
    expect(liveIn(refused.body)).toBeUndefined();
    expect(refused.body).toContain('A refresh goes on. Load the page again');
  });

  test.each([
    ['/live?catalog=shop', 'shop'],
    ['/live?catalog=', undefined],
  ])('is told of at %s, and no run is', async (path, server) => {
    const followed: unknown[] = [];
    let tell = (): void => undefined;
    let isOver = false;
    catalogs = {
      ...NO_CATALOGS,
      changes: (person, of, listener) => {
        followed.push([person.id, of]);
        tell = listener;
        return () => void (isOver = true);
      },
    };
    let text = '';
    const headers = { cookie: '__Host-countersign=session-of-ann' };
    const stream = get(new URL(path, base), { headers, agent: false }, (answer) => {
      answer.setEncoding('utf8').on('data', (chunk: string) => void (text += chunk));
    });
    stream.on('error', () => undefined);
    const events = async (count: number): Promise<unknown> =>
      await until(() => text.split('event: change').length === count + 1, { what: `${count} events` });
    // The page may be older than the stream.
    await events(1);
    expect(followed).toEqual([['ann', server]]);
    tell();
    await events(2);
    stream.destroy();
    await until(() => isOver, { what: 'the end of the stream' });
  });

  test('is not followed for a reader that has gone while its session was checked', async () => {
    let follows = 0;
    catalogs = {
      ...NO_CATALOGS,
      changes: () => {
        follows += 1;
        return () => undefined;
      },
    };
    const opening = jest.spyOn(streams, 'open');
    const answered = new Promise<ServerResponse>((resolve) => {
      app.server.prependOnceListener('request', (_request, response) => resolve(response));
    });
    let pass = (): void => undefined;
    const isChecking = new Promise<void>((begun) => {
      checking = async () =>
        await new Promise((resolve) => {
          pass = resolve;
          begun();
        });
    });
    const headers = { cookie: '__Host-countersign=session-of-ann' };
    const reader = get(new URL('/live?catalog=shop', base), { headers, agent: false });
    reader.on('error', () => undefined);
    const response = await answered;
    await isChecking;
    const closed = new Promise((resolve) => void response.once('close', resolve));
    reader.destroy();
    await closed;
    pass();
    await until(() => opening.mock.calls.length > 0, { what: 'the stream' });
    expect([follows, streams.size]).toEqual([0, 0]);
  });

  const pendingWith = (
    change: Partial<CatalogDetail['pending'][number]['changes'][number]>,
  ): CatalogDetail['pending'] => [
    {
      changeId: 'c1',
      digest: HASH,
      by: { id: 'cleo', groups: [] },
      openedAt: at,
      deadline: new Date(Date.now() + 60_000).toISOString(),
      changes: [{ change: { tool: 'order' }, before: setting, after: setting, ...change }],
      offers: ['approve', 'reject'],
    },
  ];

  test('shows a second administrator all that would change', async () => {
    const before = { ...setting, approvers: { ids: ['ann'], groups: [], need: 2 }, deadlineSeconds: 60 };
    const approvers = { ids: ['mallory'], groups: ['everybody'], may: ['edit' as const] };
    const after = { ...setting, denied: true, approvers, deadlineSeconds: 7_200 };
    holds({ pending: pendingWith({ change: { tool: 'order', approvers, deadlineSeconds: 7_200 }, before, after }) });
    const waits = /aria-label="Change that waits"[^]*?<\/section>/.exec((await ask('/catalogs/shop')).body)?.[0] ?? '';
    for (const said of ['ann', 'mallory', 'everybody', 'edit', '60', '7200', 'approvers.need', 'denied'])
      expect(waits).toContain(said);
    expect(waits).toContain('value="approve"');
  });

  test('lets nobody agree to a definition that is not the one of now', async () => {
    holds({ pending: pendingWith({ change: { tool: 'order', acknowledge: HASH } }) });
    const { body } = await ask('/catalogs/shop');
    expect(body).toContain(`<code>${HASH}</code>`);
    expect(body).toContain('href="/catalogs/shop/tool?name=order">Read the definition');
    expect(body).toContain('value="approve"');
    holds({ pending: pendingWith({ change: { tool: 'order', acknowledge: 'cd'.repeat(32) } }) });
    const later = (await ask('/catalogs/shop')).body;
    expect(later).toContain('not its definition any more');
    expect(later).not.toContain('value="approve"');
    expect(later).toContain('value="reject"');
  });
});
