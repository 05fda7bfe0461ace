/**
 * Somebody who may write to the namespace runs workflows that have the name of a run or a catalog and answer in any
 * way: lists show all others, and what cannot be shown is told by a code (INV-G2).
 */
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { QUERIES, SEARCH_ATTRIBUTES, WAITS_FOR } from '../../contracts/names.ts';
import type { RunEvent } from '../../contracts/schemas/http/opened-request.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import { type Caller, callerOf, startTestGateway, startTestProvider } from '../support/scenes/gateway-world.ts';
import { Hopeless, until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { during } from '../support/world/during.ts';
import { startOwnWorker } from '../support/world/own-worker.ts';
import { openRequests } from '../support/world/world.ts';

const provider = during(() => startTestProvider());
const { world } = useBank({ policy: { approvers: { ids: ['ben'] } } });
const gateway = during(() =>
  startTestGateway(world, provider, { config: { development: true, may: { read: { ids: ['ben'] } } } }),
);
during(() =>
  startOwnWorker(world.engine.server.address, {
    taskQueue: 'lies',
    workflowsPath: fileURLToPath(new URL('../support/forgery/lying-workflow.ts', import.meta.url)),
  }),
);

async function lying(type: 'agentRun' | 'toolCatalog', workflowId: string, answers: object): Promise<() => unknown> {
  const { pending, tenant, initiator, approvers, servers } = SEARCH_ATTRIBUTES;
  const handle = await world.client.workflow.start(type, {
    workflowId,
    taskQueue: 'lies',
    args: [answers],
    searchAttributes: {
      [pending.name]: [1],
      [tenant.name]: ['default'],
      [initiator.name]: ['eve'],
      [approvers.name]: [WAITS_FOR.id('ben')],
      [servers.name]: ['lie'],
    },
  });
  return async () => await handle.terminate();
}

function digested(request: ApprovalRequest): ApprovalRequest {
  return { ...request, digest: requestDigest({ ...request, target: request }) };
}

/** Signs in by the development login, and returns the cookie. */
async function signedIn(): Promise<string> {
  const login = await fetch(`${gateway.url}/sign-in`, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin: gateway.url },
    body: new URLSearchParams({ id: 'ben', tenant: 'default' }),
  });
  return (login.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
}

/** Returns the inbox as a browser reads it. */
async function inbox(): Promise<Response> {
  return await fetch(gateway.url, { headers: { cookie: await signedIn(), accept: 'text/html' } });
}

async function listed(ben: Caller): Promise<readonly string[]> {
  const { status, body } = await ben<{ requests: { run: string }[] }>('GET', '/v1/requests');
  expect(status).toBe(200);
  return body.requests.map(({ run }) => run);
}

test('a run that shows no requests, or those of another run, hides nobody else from lists and pages', async () => {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'true' } }] }, { text: 'done' }]);
  const [genuine] = await openRequests(run);
  const ben = callerOf(gateway, await provider.token({ sub: 'ben' }));
  const lies: readonly ((id: string) => unknown)[] = [
    () => null,
    () => [{ ...genuine, approvers: {} }],
    () => [{ ...genuine, votes: [null] }],
    () => [genuine],
    // A page could not link to this call, though the digest is right.
    (id) => [digested({ ...genuine, workflowId: id, callId: '\ud800' })],
  ];
  for (const [index, requestsOf] of lies.entries()) {
    const id = `lie-${index}`;
    const end = await lying('agentRun', id, { requests: requestsOf(id) });
    for (const each of [run.runId, id])
      await until(() => gateway.projection.run(each)?.row.pending === 1, { what: 'the projection' });
    expect(await listed(ben)).toEqual([run.runId]);
    const page = await inbox();
    expect(page.status).toBe(200);
    expect(await page.text()).toContain(`/runs/${run.runId}/requests/t1.c0`);
    expect(await ben('GET', `/v1/runs/${id}/requests`)).toMatchObject({
      status: 412,
      body: { code: 'DIGEST_MISMATCH' },
    });
    await end();
  }
  await run.stop({ by: 'ann', reason: 'seen' });
});

test('a run that shows no state, ledger or conversation is told so by API and pages, and one whose entries are new is shown', async () => {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'true' } }] }, { text: 'done' }]);
  await openRequests(run);
  const handle = world.client.workflow.getHandle(run.runId);
  // A run between two workflow tasks refuses a query, and answers the next one.
  const ask = async (query: string) =>
    await until(async () => await handle.query<object, [number, number]>(query, 0, 100), { what: query });
  const genuine = {
    state: await ask(QUERIES.state),
    ledger: await ask(QUERIES.ledger),
    transcript: await ask(QUERIES.transcript),
    requests: [],
  };
  const ben = callerOf(gateway, await provider.token({ sub: 'ben' }));
  const cookie = await signedIn();
  const told = async (id: string, answers: object, paths: readonly string[]) => {
    const end = await lying('agentRun', id, answers);
    await until(() => gateway.projection.run(id)?.row.pending === 1, { what: 'the projection' });
    const answered: unknown[] = [];
    for (const path of paths) {
      const { status, body } = await ben<{ code?: string }>('GET', `/v1/runs/${id}${path}`);
      answered.push([path, status, body.code]);
    }
    const page = await fetch(`${gateway.url}/runs/${id}`, { headers: { cookie, accept: 'text/html' } });
    await end();
    return { answered, page: page.status };
  };
  const all = ['', '/ledger', '/messages'];
  const [entry] = (genuine.ledger as { entries: object[] }).entries;
  const entries = (fact: unknown) => ({ ...genuine.ledger, total: 1, entries: [{ ...entry, fact }] });
  const shown = { answered: all.map((path) => [path, 200, undefined]), page: 200 };
  expect(await told('control', genuine, all)).toEqual(shown);
  expect(await told('newer', { ...genuine, ledger: entries({ kind: 'said.aloud', by: 'ann' }) }, all)).toEqual(shown);
  const lies: readonly (readonly [path: string, lie: object, page?: number])[] = [
    ['', { state: null }],
    ['/ledger', { ledger: null }],
    // It would be read without an end.
    ['/ledger', { ledger: { ...genuine.ledger, total: 1_000 } }],
    ['/messages', { transcript: null }],
    // So would this by the API; a page reads one part alone.
    ['/messages', { transcript: { ...genuine.transcript, total: 1_000 } }, 200],
  ];
  for (const [index, [path, lie, page = 412]] of lies.entries()) {
    const answered = [[path, 412, 'DIGEST_MISMATCH']];
    expect([lie, await told(`nonsense-${index}`, { ...genuine, ...lie }, [path])]).toEqual([lie, { answered, page }]);
  }
  await run.stop({ by: 'ann', reason: 'seen' });
});

test('whoever watches a run that shows the requests of another one is told so, and reads none of them', async () => {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'true' } }] }, { text: 'done' }]);
  const requests = await openRequests(run);
  const entries = await run.ledger();
  const ledger = { from: 0, total: entries.length, head: entries.at(-1)?.hash, entries };
  const end = await lying('agentRun', 'lie-watched', { ledger, requests });
  const events: RunEvent[] = [];
  const watching = async (): Promise<void> => {
    for await (const event of world.countersign.run('lie-watched').watch({ details: true })) events.push(event);
  };
  await expect(watching()).rejects.toMatchObject({
    code: 'DIGEST_MISMATCH',
    message: expect.stringContaining('lie-watched shows is no list of its requests.'),
  });
  expect(events.filter(({ request }) => request !== undefined)).toEqual([]);
  await end();
  await run.stop({ by: 'ann', reason: 'seen' });
});

test('a catalog that shows none is named as one that cannot be read, and hides no other', async () => {
  const ben = callerOf(gateway, await provider.token({ sub: 'ben' }));
  for (const [index, snapshot] of [null, {}, { status: 'connected' }].entries()) {
    const server = `lie-${index}`;
    const end = await lying('toolCatalog', `catalog/default/${server}`, { snapshot });
    const list = async () => await ben<{ unread: string[] }>('GET', '/v1/catalogs');
    // A list that could not be made is a failure at once.
    const unread = await until(
      async () => {
        const { status, body } = await list();
        if (status !== 200) throw new Hopeless(`the list is answered by ${status}`);
        return body.unread.length > 0 && body.unread;
      },
      { what: 'the list of catalogs' },
    );
    expect(unread).toEqual([server]);
    expect(await ben('GET', `/v1/catalogs/${server}`)).toMatchObject({
      status: 503,
      body: { code: 'CATALOG_UNAVAILABLE' },
    });
    await end();
    await until(async () => (await list()).body.unread.length === 0, { what: 'the end of that catalog' });
  }
});
