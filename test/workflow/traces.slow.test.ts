/** W3C Trace Context in `_meta` of calls (SEP-414): that of the run where tracing is on, and nothing where it is off. */
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { defaultPayloadConverter } from '@temporalio/common';
import type { Config } from '../../contracts/schemas/config.ts';
import type { RecordingServer } from '../support/servers/recording-server.ts';
import { startBank } from '../support/world/bank-world.ts';
import { decisionOn, openRequests, type World } from '../support/world/world.ts';

type Meta = Readonly<Record<string, unknown>>;

describe.each<[Config['tracing']]>([['console'], ['off']])('with tracing: %s', (tracing) => {
  let bank: RecordingServer;
  let world: World;

  beforeAll(async () => {
    // Spans are printed, which nobody reads here.
    jest.spyOn(console, 'dir').mockReturnValue(undefined);
    ({ bank, world } = await startBank({
      tracing,
      policy: { rules: [{ id: 'look', match: { tool: 'lookup' }, then: 'allow' }] },
      servers: {},
    }));
    const server = world.config.servers['bank'];
    if (server !== undefined) server.repeatable = ['lookup'];
    await world.restartWorkers();
  });
  afterAll(async () => await world.stop());

  /** One call in a stretch, and one that is an activity of its own. */
  async function called(purpose: string) {
    const from = bank.seen.length;
    const args = { arguments: { purpose } };
    const run = await world.start([
      { calls: [{ tool: 'bank/lookup', ...args }] },
      { calls: [{ tool: 'bank/pay', ...args }] },
      { text: 'done' },
    ]);
    const [request] = await openRequests(run);
    await run.decide(decisionOn(request, 'ann'));
    await run.result();
    expect(bank.callsFor(purpose).map(({ tool }) => tool)).toEqual(['lookup', 'pay']);
    const { history } = await world.client.workflow
      .getHandle(run.runId)
      .fetchHistory()
      .then((found) => ({ history: found }));
    const parents = (history.events ?? []).flatMap(({ activityTaskScheduledEventAttributes: scheduled }) => {
      const header = scheduled?.header?.fields?.['_tracer-data'];
      // Sound: the interceptors write it.
      return header ? [defaultPayloadConverter.fromPayload<{ readonly traceparent?: string }>(header)] : [];
    });
    const seen = bank.seen.slice(from);
    const calls = seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call');
    // Sound: `_meta` of a request is an object.
    const metas = calls.map(({ params }) => params['_meta'] as Meta);
    return { seen, metas, parents };
  }

  const traceOf = (traceparent: unknown): string => String(traceparent).split('-')[1] ?? '';

  test(tracing === 'off' ? 'nothing is sent' : 'every call names the trace of its run, and no other', async () => {
    const [one, other] = [await called('one'), await called('other')];
    for (const { seen, metas, parents } of [one, other]) {
      expect(metas).toHaveLength(2);
      for (const { headers } of seen) expect(headers).not.toHaveProperty('traceparent');
      const sent = metas.map((meta) => traceOf(meta['traceparent']));
      if (tracing === 'off') {
        for (const meta of metas) expect(Object.keys(meta)).not.toContain('traceparent');
        for (const meta of metas) expect(Object.keys(meta)).not.toContain('tracestate');
      } else {
        expect(sent[0]).toMatch(/^[0-9a-f]{32}$/);
        expect(new Set([...sent, ...parents.map(({ traceparent }) => traceOf(traceparent))])).toEqual(
          new Set([sent[0]]),
        );
      }
    }
    if (tracing !== 'off')
      expect(traceOf(one.metas[0]?.['traceparent'])).not.toBe(traceOf(other.metas[0]?.['traceparent']));
  });
});
