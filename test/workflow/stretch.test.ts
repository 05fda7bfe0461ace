/**
 * Goes on in stretches: model steps, and the calls between them that need nobody and may be repeated, in one activity
 * (docs/adr/0058). What people see of a run is as before.
 */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { MASK } from '../../activities/scrubbing/scrubber.ts';
import { assertIntact } from '../../client/index.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { StretchRecord } from '../../contracts/wire/stretch.ts';
import { CanaryScanner } from '../support/canary/scan.ts';
import { startCanaryServer } from '../support/canary/server.ts';
import { valueOf } from '../support/forgery/impostor.ts';
import { heardItsEnd } from '../support/faults/stretches.ts';
import { answered, failed } from '../support/models/bench.ts';
import { chatDialect } from '../support/models/chat.ts';
import { said } from '../support/models/dialect.ts';
import { startModelProvider } from '../support/models/provider.ts';
import { startRawServer } from '../support/servers/raw-server.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { executions, factsOf, results } from '../support/world/run-record.ts';
import { decideNext, startWorld, type World, useWorld } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const ALLOWED = ['shop/lookup', 'shop/slow', 'shop/fail', 'shop/odd'];

const shop = during(() => startRecordingServer());
const provider = during(() => startModelProvider(chatDialect.schema));
const world = useWorld(() => ({ config: configOf() }));

function configOf(over: ConfigInput = {}): ConfigInput {
  return {
    servers: {
      shop: { url: shop.url, credentials: { kind: 'none' }, repeatable: ['lookup', 'slow', 'fail', 'pay'] },
    },
    policy: { never: ALLOWED },
    models: { real: { provider: 'openai-compatible', model: chatDialect.model, baseUrl: provider.baseUrl } },
    ...over,
  };
}

/** Starts workers with another configuration beside those of the file. */
async function beside(over: ConfigInput): Promise<World> {
  return await startWorld({ engine: world.engine, bundle: world.bundle, config: configOf(over) });
}

const lookup = (purpose: string, n: number) => ({ tool: 'shop/lookup', arguments: { purpose, n } });

/** Types of the activities of a run, in the order in which they were scheduled. */
async function activitiesOf(runId: string, where = world): Promise<readonly string[]> {
  return (await executions(where, runId)).flatMap(({ events }) =>
    events.flatMap(({ activityTaskScheduledEventAttributes: scheduled }) => scheduled?.activityType?.name ?? []),
  );
}

describe('a stretch', () => {
  test('takes the steps and calls that need nobody in one activity; ledger and conversation are as ever', async () => {
    const run = await world.start([
      { calls: [lookup('plain', 1)] },
      { calls: [lookup('plain', 2), lookup('plain', 3)] },
      { calls: [{ tool: 'shop/fail', arguments: { purpose: 'plain' } }] },
      { text: 'done' },
    ]);
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'done', turns: 4, calls: 4 });
    // The first activity of a run is its first stretch.
    expect(await activitiesOf(run.runId)).toEqual(['prepareRun']);
    expect(shop.callsFor('plain').map(({ arguments: { n } }) => n)).toEqual([1, 2, 3, undefined]);
    const ledger = await run.ledger();
    assertIntact(ledger, run.runId);
    expect(factsOf(ledger, 'dispatched').map(({ callId, attempt }) => [callId, attempt])).toEqual([
      ['t1.c0', 1],
      ['t2.c0', 1],
      ['t2.c1', 1],
      ['t3.c0', 1],
    ]);
    expect(factsOf(ledger, 'outcome').map(({ outcome }) => outcome)).toEqual([
      'succeeded',
      'succeeded',
      'succeeded',
      'failed',
    ]);
    const times = ledger.map(({ at }) => at);
    expect(times).toEqual(times.toSorted());
    expect((await results(world, run)).map(({ callId }) => callId)).toEqual(['t1.c0', 't2.c0', 't2.c1', 't3.c0']);
  });

  test('tells when each thing happened, also what came before the first activity had ended', async () => {
    const run = await world.start([
      { calls: [lookup('when', 1)] },
      { calls: [{ tool: 'shop/slow', arguments: { purpose: 'when' } }] },
      { text: 'done' },
    ]);
    await shop.held('when');
    const held = Date.now();
    const handle = world.client.workflow.getHandle(run.runId);
    const details = async (): Promise<string | undefined> =>
      (await handle.query<{ currentDetails?: string }>('__temporal_workflow_metadata')).currentDetails;
    expect(await details()).toMatch(/^\*\*preparing\*\*[^]*What goes on now[^]*Pending Activities/);
    // The call is under way for as long as its worker's clock takes to move on.
    await until(async () => await Promise.resolve(Date.now() > held + 1 ? true : undefined));
    shop.release('when');
    await run.result();
    const ledger = await run.ledger();
    assertIntact(ledger, run.runId);
    const before = ledger.filter(({ at }) => Date.parse(at) <= held).map(({ fact }) => fact.kind);
    expect(before).toEqual([
      'run.started',
      'tools.discovered',
      'turn.proposed',
      'verdict',
      'dispatched',
      'outcome',
      'turn.proposed',
      'verdict',
      'dispatched',
    ]);
    const { startTime } = await handle.describe();
    // Temporal UI lists the calls, each turn with its time.
    const [first, second] = ledger.flatMap(({ fact, at }) => (fact.kind === 'turn.proposed' ? [at] : []));
    expect(await details()).toContain(
      `newest turn first\n\n- turn 2 at ${second}: shop/slow\n- turn 1 at ${first}: shop/lookup`,
    );
    expect(Date.parse(ledger[0]?.at ?? '')).toBeGreaterThanOrEqual(startTime.getTime());
  });

  test('ends where a person must be asked; the call that was asked leaves alone, and the run goes on in a stretch', async () => {
    const run = await world.start([
      { calls: [lookup('asked', 1)] },
      { calls: [{ tool: 'shop/pay', arguments: { purpose: 'asked' } }] },
      { calls: [lookup('asked', 2)] },
      { text: 'paid' },
    ]);
    await decideNext(run, 'ann');
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'paid' });
    expect(await activitiesOf(run.runId)).toEqual(['prepareRun', 'callTool', 'stretch']);
    expect(shop.callsFor('asked').map(({ tool }) => tool)).toEqual(['lookup', 'pay', 'lookup']);
  });

  test('ends where a call may run only once: that call is an activity of one attempt (INV-X1)', async () => {
    const run = await world.start([
      { calls: [{ tool: 'shop/odd', arguments: { purpose: 'once' } }, lookup('once', 1)] },
      { text: 'done' },
    ]);
    await run.result();
    expect(await activitiesOf(run.runId)).toEqual(['prepareRun', 'callTool', 'callTool', 'stretch']);
  });

  test('an interruption ends it at once: what was done is on record, and the model reads the message next', async () => {
    const run = await world.start([
      { calls: [lookup('told', 1)] },
      { calls: [{ tool: 'shop/slow', arguments: { purpose: 'told' } }] },
      { text: 'heard' },
    ]);
    await shop.held('told');
    await run.say({ messageId: 'm1', from: 'ann', text: 'Stop that.', interrupt: true });
    await heardItsEnd(world.client, run);
    shop.release('told');
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'heard' });
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'outcome').map(({ outcome }) => outcome)).toEqual(['succeeded', 'succeeded']);
    expect(await activitiesOf(run.runId)).toEqual(['prepareRun', 'stretch']);
  });
});

test('a call whose answer was lost is named in the details, and by the timer that sends it again', async () => {
  const mute = await startRawServer({
    era: 'modern',
    tools: {
      lookup: (exchange, attempt) => {
        exchange.execute();
        if (attempt === 1) exchange.reset();
        else exchange.text('found');
      },
    },
  });
  const losing = await beside({
    taskQueue: 'losing',
    servers: { mute: { url: mute.url, credentials: { kind: 'none' }, repeatable: ['lookup'] } },
    policy: { never: ['mute/lookup'] },
  });
  try {
    const run = await losing.start([{ calls: [{ tool: 'mute/lookup' }] }, { text: 'done' }]);
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(await activitiesOf(run.runId, losing)).toEqual(['prepareRun', 'callTool', 'stretch']);
    const { events } = await losing.client.workflow.getHandle(run.runId).fetchHistory();
    const summaries = (events ?? []).map(({ userMetadata }) =>
      Buffer.from(userMetadata?.summary?.data ?? []).toString(),
    );
    expect(summaries).toContainEqual('"try t1.c0 again: it may have run"');
    const { currentDetails } = await losing.client.workflow
      .getHandle(run.runId)
      .query<{ currentDetails?: string }>('__temporal_workflow_metadata');
    expect(currentDetails).toContain('mute/lookup (**answer lost**, left to the run)');
  } finally {
    await losing.stop();
    await mute.close();
  }
});

test.each(['prepareRun', 'stretch'])(
  'a lost worker is final to Temporal (%s): the run itself takes over what was on record, and no other attempt does',
  async (type) => {
    const run = await world.start([
      { calls: [{ tool: 'shop/odd', arguments: { purpose: `final ${type}` } }] },
      { text: 'done' },
    ]);
    await run.result();
    const policies = (await executions(world, run.runId)).flatMap(({ events }) =>
      events.flatMap(({ activityTaskScheduledEventAttributes: scheduled }) =>
        scheduled?.activityType?.name === type ? [scheduled.retryPolicy?.nonRetryableErrorTypes] : [],
      ),
    );
    expect(policies).toEqual([['TemporalTimeout:Heartbeat', 'TemporalTimeout:StartToClose']]);
  },
);

describe('a model that refuses a step', () => {
  const agent = { name: 'clerk', model: 'real' };

  test('the first one for good is asked once: the run fails as one whose steps are activities of their own', async () => {
    const single = await beside({ taskQueue: 'single', execution: { stretch: { turns: 0 } } });
    try {
      const ends: unknown[] = [];
      for (const where of [world, single]) {
        provider.enqueue(failed(401, JSON.stringify({ error: { message: 'No.', type: 'authentication_error' } })));
        const run = await where.start([{ text: 'not asked for' }], { agent });
        const failure = codedFailureIn(await run.result().catch((error: unknown) => error));
        const ledger = (await run.ledger()).map(({ fact }) => ({ ...fact, at: undefined }));
        ends.push({ ...failure, facts: { ...failure?.facts, runId: undefined }, ledger });
      }
      expect(ends[0]).toMatchObject({ code: 'MODEL_REJECTED', facts: { status: 401 } });
      expect(ends[0]).toEqual(ends[1]);
      expect(provider.received).toHaveLength(2);
      expect(await activitiesOf(world.runs.at(-1) ?? '')).toEqual(['prepareRun']);
    } finally {
      await single.stop();
    }
  });

  test('a later step for good, too, in the first stretch and in a later one', async () => {
    const single = await beside({ taskQueue: 'single-later', execution: { stretch: { turns: 0 } } });
    const asking = (name: string, purpose: string) => {
      const part = { type: 'call', id: purpose, name, json: JSON.stringify({ purpose }) } as const;
      return answered(chatDialect.events(said([part])));
    };
    try {
      const before = provider.received.length;
      const ends: unknown[] = [];
      for (const where of [world, single]) {
        provider.enqueue(
          asking('shop__lookup', 'later 1'),
          asking('shop__odd', 'later 2'),
          asking('shop__lookup', 'later 3'),
          failed(401, JSON.stringify({ error: { message: 'No.', type: 'authentication_error' } })),
        );
        const run = await where.start([{ text: 'not asked for' }], { agent });
        const failure = codedFailureIn(await run.result().catch((error: unknown) => error));
        const kinds = (await run.ledger()).map(({ fact }) => fact.kind);
        ends.push({ ...failure, facts: { ...failure?.facts, runId: undefined }, kinds });
      }
      expect(ends[0]).toMatchObject({ code: 'MODEL_REJECTED', facts: { status: 401 } });
      expect(ends[0]).toEqual(ends[1]);
      expect(provider.received.slice(before)).toHaveLength(8);

      provider.enqueue(
        asking('shop__lookup', 'early'),
        failed(401, JSON.stringify({ error: { message: 'No.', type: 'authentication_error' } })),
      );
      const early = await world.start([{ text: 'not asked for' }], { agent });
      expect(codedFailureIn(await early.result().catch((error: unknown) => error))?.code).toBe('MODEL_REJECTED');
      expect(provider.received.slice(before)).toHaveLength(10);
      expect(await activitiesOf(early.runId)).toEqual(['prepareRun']);
    } finally {
      await single.stop();
    }
  });

  test('for a while is asked again', async () => {
    provider.enqueue(failed(503, '{}'), answered(chatDialect.events(said([{ type: 'text', text: 'Back again.' }]))));
    const run = await world.start([{ text: 'not asked for' }], { agent });
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'Back again.' });
  });
});

test('INV-S1: the record of a stretch under way holds no secret that its servers give away', async () => {
  const secret = `secret~${randomBytes(20).toString('hex')}+/x==`;
  const leaking = await startCanaryServer();
  const tools = ['words', 'error', 'structured', 'image', 'resource', 'encoded', 'pieces', 'rpc-refused', 'held'];
  const telling = await beside({
    taskQueue: 'telling',
    servers: {
      leaking: {
        url: leaking.url,
        credentials: { kind: 'none' },
        headers: { 'x-api-key': secret },
        repeatable: tools,
      },
    },
    policy: { servers: { leaking: { default: 'allow' } } },
  });
  try {
    const calls = tools.map((tool) => ({ tool: `leaking/${tool}`, arguments: { note: 'n' } }));
    const run = await telling.start([{ calls }, { text: 'done' }]);
    await leaking.held();
    const details = await until(
      async () => {
        const { raw } = await telling.client.workflow.getHandle(run.runId).describe();
        const [payload] = raw.pendingActivities?.[0]?.heartbeatDetails?.payloads ?? [];
        const [turn] = payload ? (valueOf<Partial<StretchRecord>>(payload).turns ?? []) : [];
        const known = turn?.calls?.filter(({ result }) => result !== undefined) ?? [];
        return known.length === tools.length - 1 ? (payload?.data ?? undefined) : undefined;
      },
      { what: 'a record with all results but one' },
    );
    expect(Buffer.from(details).toString()).toContain(MASK);
    expect(new CanaryScanner([{ name: 'header', value: secret }]).scan('the record', details)).toEqual([]);
    leaking.release();
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(await activitiesOf(run.runId, telling)).toContain('prepareRun');
    expect(leaking.seen.some(({ headers }) => headers['x-api-key'] === secret)).toBe(true);
  } finally {
    leaking.release();
    await telling.stop();
    await leaking.close();
  }
});

test('a trusted server whose tool says that it only reads: its calls leave within a stretch where policy says so, and no others', async () => {
  const servers = { shop: { url: shop.url, credentials: { kind: 'none' }, trusted: true } } as const;
  const trusting = await beside({
    taskQueue: 'trusting',
    servers,
    policy: { never: ALLOWED, repeatable: 'trusted-reads' },
  });
  const listing = await beside({ taskQueue: 'listing', servers });
  try {
    const steps = (purpose: string) => [
      { calls: [lookup(purpose, 1)] },
      { calls: [{ tool: 'shop/fail', arguments: { purpose } }] },
      { text: 'done' },
    ];
    const read = await trusting.start(steps('read'));
    await read.result();
    expect(await activitiesOf(read.runId, trusting)).toEqual(['prepareRun', 'callTool', 'stretch']);
    const listed = await listing.start(steps('listed'));
    await listed.result();
    expect(await activitiesOf(listed.runId, listing)).toEqual([
      'prepareRun',
      'callTool',
      'stretch',
      'callTool',
      'stretch',
    ]);
  } finally {
    await trusting.stop();
    await listing.stop();
  }
});
