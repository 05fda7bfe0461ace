/**
 * What Prometheus reads of a worker process and of a gateway, and that alert rules and dashboard in `deploy/` name
 * nothing else.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { z } from 'zod';
import { CODEC_METRICS, GATEWAY_METRICS, METRICS } from '../../contracts/metrics.ts';
import { CodecMetrics } from '../../gateway/codec/server.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { freePort } from '../../workers/dev-server.ts';
import { ROOT } from '../architecture/source-tree.ts';
import type { RunHandle } from '../../client/index.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { callerOf, startTestGateway, startTestProvider, type TestProvider } from '../support/scenes/gateway-world.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { MESSAGE_SECRET } from '../support/servers/message-receiver.ts';
import { until } from '../support/until.ts';
import { replayOwn } from '../support/world/run-record.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';
import { openRequests } from '../support/world/world.ts';

/** Longer than the heartbeat timeout of a call, on a busy machine. */
const RECOVERY_MS = 180_000;

let world: FaultWorld;
let server: RawServer;
let provider: TestProvider;
let gateway: Gateway;
let port: number;
let worker: WorkerProcess;
/** True when a call has reached the server, which never answers it. */
let isHanging = false;

beforeAll(async () => {
  server = await startRawServer({
    era: 'modern',
    tools: {
      pay: (exchange) => exchange.result({ content: [] }),
      lose: (exchange) => exchange.status(500),
      hang: () => {
        isHanging = true;
      },
    },
  });
  const [free, away] = await Promise.all([freePort(), freePort()]);
  port = free;
  provider = await startTestProvider();
  const calls = (tool: string) => ({
    provider: 'scripted' as const,
    script: { steps: [{ calls: [{ tool, arguments: {} }] }, { text: 'done' }] },
  });
  world = await startFaultWorld({
    config: {
      policy: {
        strategy: 'never',
        servers: { desk: { tools: { pay: 'ask' } } },
        approvers: { ids: ['ben'], groups: ['finance', 'a-tenant-chose-this'] },
        notify: [{ channel: 'gone' }],
      },
      notify: {
        channels: { gone: { kind: 'webhook', url: `http://127.0.0.1:${away}/`, secret: MESSAGE_SECRET } },
      },
      metrics: { prometheus: `127.0.0.1:${port}` },
      models: { pays: calls('desk/pay'), loses: calls('desk/lose'), hangs: calls('desk/hang') },
      servers: { desk: { url: server.url, credentials: { kind: 'none' } } },
    },
  });
  worker = await world.startWorker();
  gateway = await startTestGateway(world, provider, {
    config: { metrics: { prometheus: '127.0.0.1:0', groups: ['finance'] } },
  });
}, 120_000);
afterAll(async () => {
  await gateway?.stop();
  await replayOwn(world);
  await world.stop();
  await Promise.all([server.close(), provider.close()]);
});

async function scraped(url: string): Promise<readonly string[]> {
  const answer = await fetch(url);
  expect(answer.status).toBe(200);
  return (await answer.text()).split('\n');
}
const ofWorker = async () => await scraped(`http://127.0.0.1:${port}/metrics`);
const ofGateway = async () => await scraped(gateway.metricsUrl ?? 'none');

/** Waits until a line of this metric has all of these parts, and returns its value. */
async function shown(read: () => Promise<readonly string[]>, name: string, ...parts: string[]): Promise<number> {
  const fitting = async () =>
    (await read()).find((line) => line.startsWith(`${name}`) && parts.every((part) => line.includes(part)));
  const line = await until(fitting, {
    what: `${name} with ${parts.join(' ')}`,
    instead: async () => (await read()).filter((each) => each.startsWith(name)),
  });
  return Number(line.split(' ').at(-1));
}

/** Waits until the run asks what became of its call, and says that it failed. */
async function toldFailed(run: RunHandle, meanwhile: () => Promise<void>): Promise<void> {
  const request = await lostCall(run, 't1.c0', 1, RECOVERY_MS);
  await shown(ofGateway, GATEWAY_METRICS.openBySubject, 'about="outcome"} 1');
  await meanwhile();
  await run.resolveOutcome(resolutionOf(request, 'ben', { kind: 'failed', message: 'It did not run.' }));
  await run.result();
  await shown(ofGateway, GATEWAY_METRICS.openBySubject, 'about="outcome"} 0');
}

test('requests by age and group, how long they were open, answers and refusals, from start to end of a run', async () => {
  const run = await world.start('pays');
  const [request] = await openRequests(run);
  await until(() => gateway.projection.run(run.runId)?.row.pending === 1, { what: 'the projection' });
  await shown(ofGateway, GATEWAY_METRICS.open, 'age="5m"} 1');
  await shown(ofGateway, GATEWAY_METRICS.openByGroup, 'group="finance"', 'age="5m"} 1');
  await shown(ofGateway, GATEWAY_METRICS.openByGroup, 'group="(other)"', 'age="5m"} 1');
  await shown(ofGateway, GATEWAY_METRICS.openBySubject, 'about="consent"} 1');
  await shown(ofGateway, GATEWAY_METRICS.openBySubject, 'about="outcome"} 0');
  await shown(ofGateway, GATEWAY_METRICS.dueSoon, ' 0');
  const ben = callerOf(gateway, await provider.token({ sub: 'ben' }));
  const eve = callerOf(gateway, await provider.token({ sub: 'eve' }));
  const path = `/v1/runs/${run.runId}/requests/t1.c0/decisions`;
  expect((await eve('POST', path, { kind: 'approve', digest: request.digest })).status).toBe(404);
  expect((await ben('POST', path, { kind: 'approve', digest: '0'.repeat(64) })).status).toBe(412);
  expect((await ben('POST', path, { kind: 'approve', digest: request.digest })).status).toBe(200);
  await run.result();
  await shown(ofGateway, GATEWAY_METRICS.answers, 'kind="approve"', 'result="accepted"} 1');
  await shown(ofGateway, GATEWAY_METRICS.answers, 'kind="approve"', 'result="DIGEST_MISMATCH"} 1');
  await shown(ofGateway, GATEWAY_METRICS.answers, 'kind="approve"', 'result="RUN_NOT_FOUND"} 1');
  await shown(ofGateway, `${GATEWAY_METRICS.closed}_count`, 'result="closed"} 1');
  await shown(ofGateway, `${GATEWAY_METRICS.closed}_count`, 'result="expired"} 0');
  await shown(ofGateway, GATEWAY_METRICS.runsEnded, 'status="completed"} 1');
  await shown(ofGateway, GATEWAY_METRICS.open, 'age="5m"} 0');
  const route = 'route="/v1/runs/:runId/requests/:callId/decisions"';
  await shown(ofGateway, GATEWAY_METRICS.http, 'method="POST"', route, 'status="412"} 1');
  await shown(ofWorker, METRICS.calls, 'server="desk"', 'outcome="succeeded"', ' 1');
});

test('nothing that a tenant, a person or a caller chose is a label', async () => {
  const stranger = callerOf(gateway, undefined);
  expect((await stranger('GET', '/chosen-by-a-caller')).status).toBe(404);
  await shown(ofGateway, GATEWAY_METRICS.http, 'route="(unknown)"', 'status="404"');
  const lines = [...(await ofGateway()), ...(await ofWorker())].join('\n');
  for (const chosen of [...world.runs, 'a-tenant-chose-this', 'chosen-by-a-caller', '"ben"', '"eve"'])
    expect(lines).not.toContain(chosen);
});

test('metrics are read on their own address alone, and the API is not', async () => {
  expect((await fetch(`${gateway.url}/metrics`)).status).toBe(404);
  const own = new URL(gateway.metricsUrl ?? '');
  expect((await fetch(`${own.origin}/v1/requests`)).status).toBe(404);
});

describe('alert rules and dashboard', () => {
  const Rules = z.object({
    groups: z.array(
      z.object({
        name: z.string(),
        rules: z.array(
          z.object({
            alert: z.string().regex(/^Countersign[A-Z]\w+$/),
            expr: z.string(),
            for: z.string(),
            labels: z.object({ severity: z.enum(['page', 'ticket']) }),
            annotations: z.object({ summary: z.string().min(10), runbook: z.string() }),
          }),
        ),
      }),
    ),
  });
  const Dashboard = z.object({
    panels: z.array(z.object({ title: z.string(), targets: z.array(z.object({ expr: z.string() })).default([]) })),
  });
  const read = async (...path: string[]) => await readFile(join(ROOT, ...path), 'utf8');

  /** Names of metrics in a query, without what Prometheus makes of histograms and of targets. */
  function namesIn(expr: string): readonly string[] {
    return [...expr.matchAll(/\b((?:countersign|temporal|process|nodejs)_\w+)/g)].map(([, name = '']) => name);
  }

  test('name what a worker and a gateway really serve', async () => {
    const lost = await world.start('loses');
    await toldFailed(lost, async () => {
      await shown(ofWorker, METRICS.calls, 'outcome="unknown"', 'server="desk"', ' 1');
    });
    await shown(ofWorker, METRICS.messages, 'channel="gone"', 'event="opened"', 'result="failed"');
    // A workflow that no worker knows: its tasks fail until it is ended.
    const unknown = await world.client.workflow.start('unheardOf', {
      workflowId: 'unheard-of',
      taskQueue: world.config.taskQueue,
    });
    await shown(ofWorker, 'temporal_workflow_task_execution_failed', 'workflow_type="unheardOf"');
    await unknown.terminate();
    // By this a worker that has never reached Temporal is told from one that serves.
    const pollers = (await ofWorker()).filter((line) => line.startsWith('temporal_num_pollers{'));
    expect(pollers.some((line) => Number(line.split(' ').at(-1)) > 0)).toBe(true);
    const rules = Rules.parse(parse(await read('deploy', 'prometheus', 'alerts.yaml')));
    const inRules = rules.groups.flatMap((group) => group.rules.flatMap(({ expr }) => namesIn(expr)));
    expect(inRules).toContain('temporal_num_pollers');
    const served = new Set(
      [...(await ofWorker()), ...(await ofGateway()), ...(await new CodecMetrics().text()).split('\n')].flatMap(
        (line) => /^[a-zA-Z_:][\w:]*/.exec(line)?.[0] ?? [],
      ),
    );
    const { panels } = Dashboard.parse(JSON.parse(await read('deploy', 'grafana', 'countersign.json')));
    const inPanels = panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => namesIn(expr)));
    expect(inRules.length).toBeGreaterThan(10);
    expect(inPanels.length).toBeGreaterThan(10);
    expect([...new Set([...inRules, ...inPanels])].filter((name) => !served.has(name))).toEqual([]);
    // Each of ours is of use to somebody.
    const used = new Set([...inRules, ...inPanels].map((name) => name.replace(/_(?:bucket|sum|count)$/, '')));
    const ours = [...Object.values(METRICS), ...Object.values(GATEWAY_METRICS), CODEC_METRICS.payloads];
    expect(ours.filter((name) => !used.has(name))).toEqual([METRICS.refusedQueries]);
  });

  test('each alert has its page on call, and each page its alert', async () => {
    const rules = Rules.parse(parse(await read('deploy', 'prometheus', 'alerts.yaml')));
    const page = await read('docs', 'operations', 'alerts.md');
    const alerts = rules.groups.flatMap((group) => group.rules);
    const names = alerts.map(({ alert }) => alert);
    expect(new Set(names).size).toBe(names.length);
    const sections = [...page.matchAll(/^## (Countersign\w+)$/gm)].map(([, name]) => name);
    expect(sections).toEqual(names);
    for (const { alert, annotations } of alerts)
      expect(annotations.runbook).toBe(`docs/operations/alerts.md#${alert.toLowerCase()}`);
    // What it means, what to look at, what to do.
    const bodies = page.split(/^## /m).slice(1);
    for (const body of bodies) for (const part of ['Means.', 'Look at.', 'Do.']) expect(body).toContain(`**${part}**`);
  });
});

test(
  'a call that its worker takes along is counted by no worker, and the gateway sees what its run asks',
  async () => {
    const run = await world.start('hangs');
    await until(() => isHanging, { what: 'the call at the server' });
    await worker.kill();
    worker = await world.startWorker();
    await toldFailed(run, async () => {
      await shown(ofWorker, METRICS.calls, 'outcome="unknown"', 'server="desk"', ' 0');
    });
  },
  RECOVERY_MS,
);
