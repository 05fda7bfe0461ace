import { expect, test } from '@jest/globals';
import { defined } from '../../../contracts/defined.ts';
import { ERRORS } from '../../../contracts/errors.ts';
import { GATEWAY_METRICS } from '../../../contracts/metrics.ts';
import { GatewayMetrics } from '../../../gateway/metrics/metrics.ts';
import type { Counted } from '../../../gateway/metrics/waiting.ts';
import { readDeployed } from '../../support/package/deployment.ts';

const NOTHING: Counted = { byAge: new Map(), byGroup: new Map(), bySubject: new Map(), dueSoon: 0 };

/** @param stuck runs that do not go on: as Temporal marks them, and of those that somebody has opened */
function measuring(counted = () => NOTHING, stuck: { readonly marked?: number; readonly opened?: number } = {}) {
  const metrics = new GatewayMetrics();
  metrics.measure({
    projection: { asOf: undefined, size: 0, isCut: false, stuck: stuck.marked },
    waiting: { counted },
    streams: { size: 0 },
    opened: { stuck: stuck.opened ?? 0 },
  });
  return metrics;
}

test('one scrape counts open requests once, for all metrics of them', async () => {
  let times = 0;
  const counted = (): Counted => {
    times += 1;
    return {
      byAge: new Map([['5m', times]]),
      byGroup: new Map([['finance', new Map([['5m', times]])]]),
      bySubject: new Map([['outcome', times]]),
      dueSoon: times,
    };
  };
  const metrics = measuring(counted);
  for (const scrape of [1, 2]) {
    const lines = (await metrics.text()).split('\n');
    expect(lines).toEqual(
      expect.arrayContaining([
        `${GATEWAY_METRICS.open}{age="5m"} ${scrape}`,
        `${GATEWAY_METRICS.openByGroup}{group="finance",age="5m"} ${scrape}`,
        `${GATEWAY_METRICS.openBySubject}{about="outcome"} ${scrape}`,
        `${GATEWAY_METRICS.dueSoon} ${scrape}`,
      ]),
    );
    expect(times).toBe(scrape);
  }
});

test('lists that visibility has not given yet are as old as the gateway', async () => {
  const text = await measuring().text();
  const [, seconds] = new RegExp(`^${GATEWAY_METRICS.stale} (\\S+)$`, 'm').exec(text) ?? [];
  expect(Number(seconds)).toBeLessThan(60);
});

test('a first answer whose signature a run does not take is a change: Prometheus sees none where a counter begins at 1', async () => {
  const [, wanted = ''] =
    /countersign_answers\{\s*result=~"([^"]+)"\}/.exec(readDeployed('prometheus/alerts.yaml')) ?? [];
  const codes = Object.keys(ERRORS).filter((code) => new RegExp(`^(?:${wanted})$`).test(code));
  expect(codes).toContain('SIGNATURE_INVALID');
  const metrics = new GatewayMetrics();
  const lineOf = (code: string, count: number) =>
    `${GATEWAY_METRICS.answers}{kind="approve",result="${code}"} ${count}`;
  expect((await metrics.text()).split('\n')).toEqual(expect.arrayContaining(codes.map((code) => lineOf(code, 0))));
  metrics.answered('approve', 'SIGNATURE_INVALID');
  expect(await metrics.text()).toContain(lineOf('SIGNATURE_INVALID', 1));
});

test.each([
  ['only those that somebody has opened, where Temporal cannot tell', undefined, 1, 1],
  ['also those that nobody has opened', 3, 1, 3],
  ['also those that Temporal has not marked yet', 0, 1, 1],
])('runs that are stuck are counted: %s', async (_, marked, opened, counted) => {
  const metrics = measuring(undefined, { ...defined({ marked }), opened });
  expect(await metrics.text()).toContain(`${GATEWAY_METRICS.runsStuck} ${counted}\n`);
});
