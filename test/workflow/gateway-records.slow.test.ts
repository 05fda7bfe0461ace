/** What the gateway tells of a run beside its requests: conversation, end, artifacts, the ledger as a file, and explain. */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { loadGatewaySettings, startOn } from '../../cli/session/gateway.ts';
import { loadClientSettings } from '../../cli/session/session.ts';
import type { RunHandle } from '../../client/index.ts';
import { Explained, MessagePage, RunEnd } from '../../contracts/schemas/http/records.ts';
import { documentOf, runCommand } from '../support/cli.ts';
import {
  type Caller,
  callerOf,
  type Claims,
  startTestGateway,
  startTestProvider,
} from '../support/scenes/gateway-world.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { decideNext, openRequests, rolled } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Has a large result in a stored segment, and a request that waits for ben. */
let run: RunHandle;
let ann: Caller;
let ben: Caller;

const pay = (purpose: string) => ({ tool: 'bank/pay', arguments: { purpose } });

const provider = during(() => startTestProvider());
const policy = {
  servers: { bank: { tools: { big: 'allow' as const } } },
  approvers: { ids: ['ben'] },
  rules: [
    { id: 'large', match: { server: 'bank', tool: 'transfer' }, when: 'args.amount > 10', then: 'deny' as const },
  ],
};
const { world } = useBank({ policy });
const gateway = during(() => startTestGateway(world, provider, { config: { may: { read: { groups: ['audit'] } } } }));
beforeAll(async () => {
  ann = await as('ann');
  ben = await as('ben');
  run = await world.start(
    [
      { calls: [{ tool: 'bank/big', arguments: { characters: 20_000 } }] },
      { calls: [pay('first')] },
      { calls: [pay('second')] },
      { text: 'done' },
    ],
    { limits: { resultBytes: 1_000 } },
  );
  await openRequests(run);
  await rolled(world, run.runId);
  await decideNext(run, 'ben');
  await until(async () => (await run.state()).turn === 3, { what: 'turn 3' });
  await openRequests(run);
  await until(() => gateway.projection.run(run.runId)?.row.pending === 1, { what: 'the projection' });
});

async function as(claims: Claims | string): Promise<Caller> {
  return callerOf(gateway, await provider.token(typeof claims === 'string' ? { sub: claims } : claims));
}

const at = (path: string): string => `/v1/runs/${run.runId}${path}`;

async function raw(path: string, by: string): Promise<Response> {
  return await fetch(`${gateway.url}${path}`, {
    headers: { authorization: `Bearer ${await provider.token({ sub: by })}` },
  });
}

/** Reads messages of the conversation. */
async function told(by: Caller, query = ''): Promise<MessagePage> {
  const { status, body } = await by('GET', at(`/messages${query}`));
  expect([status, body]).toEqual([200, body]);
  return MessagePage.parse(body);
}

/** Hash of the large result. */
async function largeResult(): Promise<string> {
  const { messages } = await told(ann);
  const hashes = messages.flatMap((message) =>
    message.role === 'tool'
      ? message.results.flatMap(({ outcome }) =>
          outcome.kind === 'succeeded' && outcome.result.full !== undefined ? [outcome.result.full.sha256] : [],
        )
      : [],
  );
  expect(hashes).toHaveLength(1);
  return hashes[0] ?? '';
}

describe('the conversation', () => {
  test('is read whole by its initiator, page by page, what is stored too', async () => {
    const { messages, next } = await told(ann);
    expect(next).toBeUndefined();
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant', 'tool', 'assistant']);
    const pages: MessagePage['messages'] = [];
    for (let from: number | undefined = 0; from !== undefined;) {
      const page = await told(ann, `?from=${from}&most=2`);
      pages.push(...page.messages);
      from = page.next;
    }
    expect(pages).toEqual(messages);
  });

  test('is cut to the words and the calls that they are asked about, for approvers', async () => {
    const { messages } = await told(ben);
    expect(messages).toEqual([
      expect.objectContaining({ role: 'user' }),
      { role: 'assistant', parts: [expect.objectContaining({ type: 'call', callId: 't3.c0' })] },
    ]);
  });
});

describe('an artifact', () => {
  test('is given by the run that names it, as a file of bytes', async () => {
    const sha256 = await largeResult();
    const response = await raw(at(`/artifacts/${sha256}`), 'ann');
    expect(response.status).toBe(200);
    expect(response.headers.get('content-disposition')).toBe(`attachment; filename="${sha256}"`);
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
    const bytes = new Uint8Array(await response.arrayBuffer());
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(sha256);
    expect(bytes.length).toBeGreaterThan(20_000);
  });

  test('is not given to approvers, to other tenants, by another run, or where only the store has it', async () => {
    const sha256 = await largeResult();
    const other = await world.start([{ text: 'done' }]);
    await other.result();
    const code = async (by: Caller, path: string): Promise<unknown> => (await by('GET', path)).body['code'];
    const stranger = await as({ sub: 'ann', tenant: 'other' });
    expect(await code(ben, at(`/artifacts/${sha256}`))).toBe('ARTIFACT_UNKNOWN');
    expect(await code(stranger, at(`/artifacts/${sha256}`))).toBe('RUN_NOT_FOUND');
    expect(await code(ann, `/v1/runs/${other.runId}/artifacts/${sha256}`)).toBe('ARTIFACT_UNKNOWN');
    // A segment is in the store, and holds more than every reader may see.
    const { segment } = await run.state();
    expect(segment).toBeDefined();
    expect(await code(ann, at(`/artifacts/${segment?.sha256 ?? ''}`))).toBe('ARTIFACT_UNKNOWN');
    expect(await code(ann, at('/artifacts/..%2Fsecrets'))).toBe('USAGE');
  });
});

test('the ledger as a file is whole, and verify-ledger says that it is intact', async () => {
  const response = await raw(at('/ledger/export'), 'ben');
  expect(response.headers.get('content-type')).toBe('application/x-ndjson');
  expect(response.headers.get('content-disposition')).toBe(`attachment; filename="${run.runId}.jsonl"`);
  const text = await response.text();
  const { ledgerLength } = await run.state();
  expect(text.split('\n').length - 1).toBe(ledgerLength);
  const { directory } = world.engine;
  await writeFile(join(directory, 'exported.jsonl'), text);
  const check = async (file: string) =>
    await runCommand(['verify-ledger', run.runId, '--json', '--file', file], { directory });
  const report = await check('exported.jsonl');
  expect([report.exitCode, documentOf<object>(report)]).toMatchObject([
    0,
    { verdict: 'chained', length: ledgerLength, faults: [] },
  ]);
  // A line that is missing is found.
  const lines = text.split('\n');
  await writeFile(join(directory, 'short.jsonl'), [...lines.slice(0, 3), ...lines.slice(4)].join('\n'));
  expect((await check('short.jsonl')).exitCode).toBe(7);
});

test('the end of a run is waited for, and a failure has its code', async () => {
  expect(RunEnd.parse((await ann('GET', at('/result'))).body)).toEqual({ ended: false });
  const short = await world.start([{ text: 'all done' }]);
  const ended = RunEnd.parse((await ann('GET', `/v1/runs/${short.runId}/result?waitSeconds=30`)).body);
  expect(ended).toMatchObject({ ended: true, result: { status: 'completed', output: 'all done' } });
  const bad = await world.start([{ text: 'never' }], { agent: { name: 'clerk', model: 'nobody' } });
  const failed = RunEnd.parse((await ann('GET', `/v1/runs/${bad.runId}/result?waitSeconds=30`)).body);
  expect(failed).toMatchObject({ ended: true, failure: { code: 'MODEL_UNKNOWN' } });
});

test('explain judges a call as it would be judged for who asks, and a run’s own policy on top', async () => {
  const audit = await as({ sub: 'rea', groups: ['audit'] });
  const explain = async (body: object): Promise<Explained> =>
    Explained.parse((await audit('POST', '/v1/policy/explain', body)).body);
  expect(await explain({ server: 'bank', tool: 'big' })).toMatchObject({ verdict: { kind: 'allow' } });
  const small = { server: 'bank', tool: 'transfer', args: { amount: 5 } };
  expect(await explain(small)).toMatchObject({
    verdict: { kind: 'ask', approvers: { allOf: [{ ids: ['ben'] }] } },
    layers: [{ layer: 'organisation', considered: [{ holds: false, decides: false }, { decides: true }] }],
  });
  expect(await explain({ ...small, args: { amount: 50 } })).toMatchObject({ verdict: { kind: 'deny' } });
  expect(await explain({ ...small, run: { servers: { bank: { tools: { transfer: 'deny' } } } } })).toMatchObject({
    verdict: { kind: 'deny' },
  });
  const bad = {
    ...small,
    run: { rules: [{ id: 'bad', match: { tool: 'transfer' }, when: 'args.amount >', then: 'deny' }] },
  };
  expect(await audit('POST', '/v1/policy/explain', bad)).toMatchObject({ status: 422, body: { code: 'SPEC_INVALID' } });
});

describe('a gateway with a configuration file', () => {
  const yaml = (then: string): string => `
taskQueue: ${world.config.taskQueue}
gateway: { development: true, port: 0, may: { start: { ids: [ann] } } }
policy:
  strategy: never
  rules: [{ id: large, match: { server: bank, tool: transfer }, then: ${then} }]
`;

  test('explains by the policy of the file as it is now, as workers judge; a bad file changes nothing', async () => {
    const { directory } = world.engine;
    const path = join(directory, 'gateway.yaml');
    const lines: string[] = [];
    const place = { env: {}, directory };
    await writeFile(path, yaml('deny'));
    const settings = await loadGatewaySettings(place, { config: path });
    const session = { client: world.client, settings: await loadClientSettings(path, place) };
    const started = await startOn(session, settings, { warn: (message) => void lines.push(message) }, {});
    try {
      const answer = await fetch(`${started.url}/v1/development/sign-in`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ id: 'ann', groups: [], tenant: 'default' }),
      });
      // Sound: the answer of the development login.
      const { token } = (await answer.json()) as { token: string };
      const caller = callerOf(started, token);
      const verdict = async (): Promise<string> =>
        Explained.parse((await caller('POST', '/v1/policy/explain', { server: 'bank', tool: 'transfer' })).body).verdict
          .kind;
      expect(await verdict()).toBe('deny');
      await writeFile(path, yaml('allow'));
      await until(async () => (await verdict()) === 'allow', { what: 'the policy of the changed file' });
      await writeFile(path, yaml('perhaps'));
      await until(() => lines.some((line) => line.includes('The policy of before stays in force')), {
        what: 'the bad file in the log',
      });
      expect(await verdict()).toBe('allow');
    } finally {
      await started.stop();
      await settings.close();
    }
  });
});
