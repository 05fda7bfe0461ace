/** Every route of the gateway, asked by everybody: nobody gets more than the token and the run's own rule give. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { GatewayConfig } from '../../contracts/schemas/gateway.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { type Gateway, openApiDocument } from '../../gateway/gateway.ts';
import { AUDIENCE, startTestGateway, startTestProvider, type TestProvider } from '../support/scenes/gateway-world.ts';
import { until } from '../support/until.ts';
import { startBank } from '../support/world/bank-world.ts';
import { factsOf } from '../support/world/run-record.ts';
import { openRequests, type World } from '../support/world/world.ts';

let provider: TestProvider;
let world: World;
let gateway: Gateway;
const tokens: Partial<Record<Who, string>> = {};

type Who = 'nobody' | 'audience' | 'expired' | 'forged' | 'tenant' | 'stranger' | 'reader' | 'admin' | 'approver';
const UNKNOWN = ['nobody', 'audience', 'expired', 'forged'] as const;

beforeAll(async () => {
  provider = await startTestProvider();
  ({ world } = await startBank({ policy: { approvers: { ids: ['ben'] } } }, { beside: [provider] }));
  gateway = await startTestGateway(world, provider, {
    config: { may: { read: { groups: ['audit'] }, administer: { ids: ['root'] } } },
  });
  tokens.audience = await provider.token({ sub: 'ben', aud: `${AUDIENCE}/other` });
  tokens.expired = await provider.token({ sub: 'ben', lives: -60 });
  tokens.forged = await provider.forged({ sub: 'ben' });
  // Everything but the tenant is that of the approver and administrator.
  tokens.tenant = await provider.token({ sub: 'ben', groups: ['audit'], tenant: 'other' });
  tokens.stranger = await provider.token({ sub: 'eve' });
  tokens.reader = await provider.token({ sub: 'rea', groups: ['audit'] });
  tokens.admin = await provider.token({ sub: 'root' });
  tokens.approver = await provider.token({ sub: 'ben' });
});
afterAll(async () => {
  await gateway.stop();
  await world.stop();
});

interface Asked {
  readonly run: RunHandle;
  readonly request: ApprovalRequest;
}

async function asking(): Promise<Asked> {
  const run = await world.start([
    { calls: [{ tool: 'bank/pay', arguments: { purpose: 'rights' } }] },
    { text: 'done' },
  ]);
  const [request] = await openRequests(run);
  await until(() => gateway.projection.run(run.runId)?.row.pending === 1, { what: 'the projection' });
  return { run, request };
}

interface Row {
  readonly route: string;
  readonly body?: (asked: Asked) => object;
  /** Status for each who is known; the others get 401. */
  readonly known: Readonly<Record<Exclude<Who, (typeof UNKNOWN)[number]>, number>>;
  /** True if the answer must not name the run to those who may not see it. */
  readonly isList?: true;
}

const seen = { tenant: 404, stranger: 404, reader: 200, admin: 200, approver: 200 };
const all = { tenant: 200, stranger: 200, reader: 200, admin: 200, approver: 200 };
const refused = { tenant: 404, stranger: 404, reader: 403, admin: 403, approver: 403 };
const CALL = '/v1/runs/{runId}/requests/{callId}';

const ROWS: readonly Row[] = [
  { route: 'get /v1/me', known: all },
  { route: 'get /v1/runs', known: all, isList: true },
  { route: 'get /v1/requests', known: all, isList: true },
  { route: 'get /v1/events', known: all },
  { route: 'get /v1/runs/{runId}', known: seen },
  { route: 'get /v1/runs/{runId}/ledger', known: seen },
  { route: 'get /v1/runs/{runId}/events', known: seen },
  { route: 'get /v1/runs/{runId}/requests', known: seen },
  { route: `get ${CALL}`, known: seen },
  {
    route: 'post /v1/runs',
    body: () => {
      const { initiator: _, ...spec } = world.spec([{ text: 'done' }]);
      return { spec };
    },
    known: { tenant: 403, stranger: 403, reader: 403, admin: 403, approver: 403 },
  },
  {
    route: 'post /v1/calls',
    body: () => ({ server: 'bank', tool: 'pay' }),
    known: { tenant: 403, stranger: 403, reader: 403, admin: 403, approver: 403 },
  },
  { route: 'get /v1/calls/{runId}', known: seen },
  {
    route: `post ${CALL}/decisions`,
    body: ({ request: { digest } }) => ({ kind: 'approve', digest }),
    known: { ...seen, reader: 403, admin: 403 },
  },
  {
    route: 'post /v1/decisions',
    body: ({ run, request: { digest, callId } }) => ({
      decisions: [{ run: run.runId, callId, kind: 'approve', digest }],
    }),
    // Each decision has an answer of its own.
    known: all,
  },
  {
    route: `post ${CALL}/provisions`,
    body: ({ request: { digest } }) => ({ kind: 'decline', digest }),
    known: refused,
  },
  {
    route: `post ${CALL}/authorizations`,
    body: ({ request: { digest } }) => ({ kind: 'consent', digest }),
    known: refused,
  },
  { route: `post ${CALL}/resolutions`, body: ({ request: { digest } }) => ({ kind: 'retry', digest }), known: refused },
  {
    route: 'post /v1/runs/{runId}/messages',
    body: () => ({ text: 'Go on.' }),
    known: { ...refused, admin: 200 },
  },
  {
    route: 'post /v1/runs/{runId}/forget',
    body: () => ({ standing: 'd-1' }),
    // The run knows no such standing decision.
    known: { tenant: 404, stranger: 404, reader: 404, admin: 404, approver: 404 },
  },
  {
    route: 'post /v1/runs/{runId}/stop',
    body: () => ({ reason: 'enough' }),
    known: { ...refused, admin: 200 },
  },
];

/** Open to everybody. */
const OPEN = ['get /health', 'get /openapi.json'];

test('the table has every route of the document', async () => {
  const { paths } = (await openApiDocument(GatewayConfig.parse({}))) as { paths: Record<string, object> };
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((each) => `${each} ${path}`),
  );
  expect([...ROWS.map(({ route }) => route), ...OPEN].toSorted()).toEqual(routes.toSorted());
});

/** Asks, and reads the whole answer unless it is a stream. */
async function ask({ route, body }: Row, asked: Asked, who: Who): Promise<{ status: number; text: string }> {
  const [method = '', path = ''] = route.split(' ');
  const over = new AbortController();
  const token = tokens[who];
  const response = await fetch(
    `${gateway.url}${path.replace('{runId}', asked.run.runId).replace('{callId}', asked.request.callId)}`,
    {
      method: method.toUpperCase(),
      signal: over.signal,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body(asked)) }),
    },
  );
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  const text = isStream ? '' : await response.text();
  over.abort();
  return { status: response.status, text };
}

test.each(ROWS)('$route answers each who asks as it may, and nobody decides in another name', async (row) => {
  const asked = await asking();
  for (const who of UNKNOWN) expect([who, (await ask(row, asked, who)).status]).toEqual([who, 401]);
  expect(factsOf(await asked.run.ledger(), 'decision.accepted')).toEqual([]);
  // Sound: the record has these keys and no others.
  for (const who of Object.keys(row.known) as (keyof Row['known'])[]) {
    const { status, text } = await ask(row, asked, who);
    expect([who, status, text]).toEqual([who, row.known[who], text]);
    const mayNotSee = who === 'tenant' || who === 'stranger';
    if (row.isList === true) expect([who, text.includes(asked.run.runId)]).toEqual([who, !mayNotSee]);
    if (row.route === 'post /v1/decisions')
      expect([who, /"kind":"(\w+)"/.exec(text)?.[1]]).toEqual([who, who === 'approver' ? 'accepted' : 'refused']);
  }
  const deciders = factsOf(await asked.run.ledger(), 'decision.accepted').map(({ approver }) => approver.id);
  expect(deciders.filter((id) => id !== 'ben')).toEqual([]);
  await asked.run.stop({ by: 'ann', reason: 'seen' }).catch(() => undefined);
  await asked.run.result();
});

test('what another tenant or a stranger gets for a run that is there is what anybody gets for one that is not', async () => {
  const asked = await asking();
  for (const row of ROWS.filter(({ route }) => route.includes('{runId}')))
    for (const who of ['tenant', 'stranger'] as const) {
      const there = await ask(row, asked, who);
      const ghost = { ...asked, run: { ...asked.run, runId: 'no-such-run' } as RunHandle };
      const missing = await ask(row, ghost, who);
      const plain = (text: string): string =>
        text.replaceAll(asked.run.runId, 'no-such-run').replace(/"requestId":"[^"]+"/, '');
      expect([row.route, who, there.status, plain(there.text)]).toEqual([
        row.route,
        who,
        missing.status,
        plain(missing.text),
      ]);
    }
  await asked.run.stop({ by: 'ann', reason: 'seen' });
  await asked.run.result();
});
