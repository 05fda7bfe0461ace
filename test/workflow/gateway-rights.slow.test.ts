/** Every route of the gateway, asked by everybody: nobody gets more than the token and the run's own rule give. */
import { beforeAll, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { CatalogRight } from '../../contracts/schemas/catalog.ts';
import { GatewayConfig } from '../../contracts/schemas/gateway.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { openApiDocument } from '../../gateway/gateway.ts';
import { connected } from '../support/scenes/catalogs.ts';
import { AUDIENCE, startTestGateway, startTestProvider } from '../support/scenes/gateway-world.ts';
import { until } from '../support/until.ts';
import { during } from '../support/world/during.ts';
import { useBank } from '../support/world/bank-world.ts';
import { factsOf } from '../support/world/run-record.ts';
import { openRequests } from '../support/world/world.ts';

const provider = during(() => startTestProvider());
const catalog = { administrators: [{ ids: ['cat'], may: [...CatalogRight.options] }] };
const { world } = useBank({ policy: { approvers: { ids: ['ben'] } }, catalog }, { names: ['bank', 'shop'] });
const gateway = during(() =>
  startTestGateway(world, provider, {
    config: { may: { read: { groups: ['audit'] }, administer: { ids: ['root'] } } },
  }),
);
const tokens: Partial<Record<Who, string>> = {};

type Who =
  | 'nobody'
  | 'audience'
  | 'expired'
  | 'forged'
  | 'tenant'
  | 'stranger'
  | 'reader'
  | 'admin'
  | 'approver'
  /** Administers catalogs. */
  | 'operator';
const UNKNOWN = ['nobody', 'audience', 'expired', 'forged'] as const;

beforeAll(async () => {
  await connected(world.countersign.catalog('shop'), world.config.servers['shop']?.url ?? '', { by: { id: 'cat' } });
  tokens.audience = await provider.token({ sub: 'ben', aud: `${AUDIENCE}/other` });
  tokens.expired = await provider.token({ sub: 'ben', lives: -60 });
  tokens.forged = await provider.forged({ sub: 'ben' });
  // Everything but the tenant is that of the approver and administrator.
  tokens.tenant = await provider.token({ sub: 'ben', groups: ['audit'], tenant: 'other' });
  tokens.stranger = await provider.token({ sub: 'eve' });
  tokens.reader = await provider.token({ sub: 'rea', groups: ['audit'] });
  tokens.admin = await provider.token({ sub: 'root' });
  tokens.approver = await provider.token({ sub: 'ben' });
  tokens.operator = await provider.token({ sub: 'cat' });
});

interface Asked {
  readonly run: RunHandle;
  readonly request: ApprovalRequest;
  readonly server: string;
  /** Version of the catalog. */
  readonly version: number;
}

async function asking(): Promise<Asked> {
  const steps = [{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'rights' } }] }, { text: 'done' }];
  // The other server is closed to runs once its catalog is disconnected.
  const run = await world.start(steps, { servers: [{ name: 'bank' }] });
  const [request] = await openRequests(run);
  await until(() => gateway.projection.run(run.runId)?.row.pending === 1, { what: 'the projection' });
  const { policyVersion: version } = await world.countersign.catalog('shop').snapshot();
  return { run, request, server: 'shop', version };
}

interface Row {
  readonly route: string;
  readonly body?: (asked: Asked) => object;
  /** Status for each who is known; the others get 401. */
  readonly known: Readonly<Record<Exclude<Who, (typeof UNKNOWN)[number]>, number>>;
  /** Part of the answer that only these get. */
  readonly shows?: { readonly part: (asked: Asked) => string; readonly to: readonly Who[] };
}

const seen = { tenant: 404, stranger: 404, reader: 200, admin: 200, approver: 200, operator: 404 };
const all = { tenant: 200, stranger: 200, reader: 200, admin: 200, approver: 200, operator: 200 };
const refused = { tenant: 404, stranger: 404, reader: 403, admin: 403, approver: 403, operator: 404 };
const kept = { tenant: 404, stranger: 404, reader: 200, admin: 200, approver: 404, operator: 200 };
const changed = { tenant: 404, stranger: 404, reader: 403, admin: 403, approver: 404, operator: 200 };
const ofRun = { part: ({ run }: Asked) => run.runId, to: ['reader', 'admin', 'approver'] as const };
const CALL = '/v1/runs/{runId}/requests/{callId}';
const CATALOG = '/v1/catalogs/{server}';

const ROWS: readonly Row[] = [
  { route: 'get /v1/me', known: all },
  { route: 'get /v1/runs', known: all, shows: ofRun },
  { route: 'get /v1/requests', known: all, shows: ofRun },
  { route: 'get /v1/events', known: all },
  { route: 'get /v1/runs/{runId}', known: seen },
  { route: 'get /v1/runs/{runId}/ledger', known: seen },
  { route: 'get /v1/runs/{runId}/events', known: seen },
  { route: 'get /v1/runs/{runId}/ledger/export', known: seen },
  { route: 'get /v1/runs/{runId}/messages', known: seen },
  // The approver is asked about one call, and the result is of the whole run.
  { route: 'get /v1/runs/{runId}/result', known: { ...seen, approver: 403 } },
  // The run names no artifact with this hash.
  {
    route: 'get /v1/runs/{runId}/artifacts/{sha256}',
    known: { tenant: 404, stranger: 404, reader: 404, admin: 404, approver: 404, operator: 404 },
  },
  {
    route: 'post /v1/policy/explain',
    body: () => ({ server: 'bank', tool: 'pay' }),
    // Readers and administrators of any kind are told; what another tenant’s auditor is told is about that tenant.
    known: { ...all, stranger: 403, approver: 403 },
  },
  { route: 'get /v1/runs/{runId}/requests', known: seen },
  { route: `get ${CALL}`, known: seen },
  {
    route: 'post /v1/runs',
    body: () => {
      const { initiator: _, ...spec } = world.spec([{ text: 'done' }]);
      return { spec };
    },
    known: { tenant: 403, stranger: 403, reader: 403, admin: 403, approver: 403, operator: 403 },
  },
  {
    route: 'post /v1/calls',
    body: () => ({ server: 'bank', tool: 'pay' }),
    known: { tenant: 403, stranger: 403, operator: 403, reader: 403, admin: 403, approver: 403 },
  },
  { route: 'get /v1/calls/{runId}', known: { ...seen, approver: 403 } },
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
    known: { tenant: 404, stranger: 404, reader: 404, admin: 404, approver: 404, operator: 404 },
  },
  {
    route: 'post /v1/runs/{runId}/stop',
    body: () => ({ reason: 'enough' }),
    known: { ...refused, admin: 200 },
  },
  {
    route: 'get /v1/catalogs',
    known: all,
    shows: { part: () => '"server":"shop"', to: ['reader', 'admin', 'operator'] },
  },
  { route: `get ${CATALOG}`, known: kept },
  { route: `get ${CATALOG}/tools/{tool}`, known: kept },
  { route: `get ${CATALOG}/file`, known: kept },
  { route: `get ${CATALOG}/ledger`, known: kept },
  // Who sees the catalogs of another tenant is told that they may not connect servers there.
  { route: `post ${CATALOG}/connect`, body: () => ({}), known: { ...changed, tenant: 403 } },
  { route: `post ${CATALOG}/refresh`, body: () => ({}), known: changed },
  {
    route: `post ${CATALOG}/tools`,
    body: ({ version }) => ({ expectedVersion: version, changes: [{ tool: 'pay', denied: true }] }),
    known: changed,
  },
  {
    route: `post ${CATALOG}/changes/{changeId}/decisions`,
    body: () => ({ digest: 'f'.repeat(64), verdict: 'approve' }),
    // No change waits.
    known: { ...changed, operator: 409 },
  },
  {
    route: `post ${CATALOG}/import`,
    body: () => ({ tools: { lookup: { enabled: true, requiresApproval: true, denied: true } } }),
    known: changed,
  },
  {
    // Last, since it ends what the others need.
    route: `post ${CATALOG}/disconnect`,
    body: ({ version }) => ({ expectedVersion: version }),
    known: changed,
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

function pathOf(path: string, { run, request, server }: Asked): string {
  const parts = {
    runId: run.runId,
    callId: request.callId,
    server,
    tool: 'pay',
    changeId: 'change-1',
    sha256: 'f'.repeat(64),
  };
  return Object.entries(parts).reduce((told, [name, value]) => told.replace(`{${name}}`, value), path);
}

/** Asks, and reads the whole answer unless it is a stream. */
async function ask({ route, body }: Row, asked: Asked, who: Who): Promise<{ status: number; text: string }> {
  const [method = '', path = ''] = route.split(' ');
  const over = new AbortController();
  const token = tokens[who];
  const response = await fetch(`${gateway.url}${pathOf(path, asked)}`, {
    method: method.toUpperCase(),
    signal: over.signal,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body(asked)) }),
  });
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
    if (row.shows !== undefined)
      expect([who, text.includes(row.shows.part(asked))]).toEqual([who, row.shows.to.includes(who)]);
    if (row.route === 'post /v1/decisions')
      expect([who, /"kind":"(\w+)"/.exec(text)?.[1]]).toEqual([who, who === 'approver' ? 'accepted' : 'refused']);
  }
  const deciders = factsOf(await asked.run.ledger(), 'decision.accepted').map(({ approver }) => approver.id);
  expect(deciders.filter((id) => id !== 'ben')).toEqual([]);
  await asked.run.stop({ by: 'ann', reason: 'seen' }).catch(() => undefined);
  await asked.run.result();
});

test('what another tenant or a stranger gets for what is there is what anybody gets for what is not', async () => {
  const asked = await asking();
  for (const row of ROWS.filter(({ route }) => /\{(?:runId|server)\}/.test(route)))
    for (const who of ['tenant', 'stranger'] as const) {
      const there = await ask(row, asked, who);
      const ghost = { ...asked, server: 'no-such-server', run: { ...asked.run, runId: 'no-such-run' } as RunHandle };
      const missing = await ask(row, ghost, who);
      const plain = (text: string): string =>
        text
          .replaceAll(asked.run.runId, 'no-such-run')
          .replaceAll(/\bshop\b/g, 'no-such-server')
          .replace(/"requestId":"[^"]+"/, '');
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
