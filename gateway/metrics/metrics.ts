/**
 * Counts what a gateway does, for Prometheus.
 *
 * 1. Labels are words of ours: codes, routes, statuses, and the groups that the operator lists. No id of a run or a
 *    person, and nothing that tenants choose, becomes one.
 * 2. What is known without asking a run is counted; a scrape asks nobody.
 * 3. What operators are alerted to stands at 0 from the start, so that the first one is seen as a change.
 */
import { collectDefaultMetrics, Counter, Gauge, Histogram } from 'prom-client';
import { type ErrorCode, ERRORS } from '../../contracts/errors.ts';
import { GATEWAY_METRICS } from '../../contracts/metrics.ts';
import { Authorization, Decision, Provision, Resolution } from '../../contracts/schemas/request.ts';
import type { Projection } from '../projection/projection.ts';
import { HttpMetrics } from './server.ts';
import { AGES, type ClosedRequest, type WaitingRequests } from './waiting.ts';

/** Kinds of answers that people give; a body of another kind is `other`. */
const KINDS: ReadonlySet<string> = new Set(
  [Decision, Resolution, Provision, Authorization].flatMap(({ options }) =>
    options.map(({ shape }) => shape.kind.value),
  ),
);

/** Refusals that somebody is called for (`CountersignAnswersUnsigned` in deploy/prometheus/alerts.yaml). */
const UNSIGNED = Object.keys(ERRORS).filter((code) => /^(?:SIGNATURE_.+|SIGNER_NOT_ENTITLED|TRUST_.+)$/.test(code));

/** From seconds to weeks: people answer so. */
const DECISION_SECONDS = [10, 60, 300, 900, 3_600, 14_400, 86_400, 604_800];

export interface Measured {
  readonly projection: Pick<Projection, 'asOf' | 'size' | 'isCut' | 'stuck'>;
  readonly waiting: Pick<WaitingRequests, 'counted'>;
  readonly streams: { readonly size: number };
  readonly opened: { readonly stuck: number };
}

export class GatewayMetrics extends HttpMetrics {
  readonly #answers: Counter<'kind' | 'result'>;
  readonly #gateCalls: Counter<'status'>;
  readonly #readsFailed: Counter<'code'>;
  readonly #closed: Histogram<'result'>;
  readonly #runsEnded: Counter<'status'>;
  /** Counts open requests, once for all metrics of them. */
  #countOpen = (): void => undefined;

  constructor() {
    const names = GATEWAY_METRICS;
    super(names);
    const registers = [this.registry];
    const counter = <Label extends string>(name: string, help: string, labelNames: Label[]): Counter<Label> =>
      new Counter({ name, help, labelNames, registers });
    const histogram = <Label extends string>(name: string, help: string, labelNames: Label[], buckets: number[]) =>
      new Histogram({ name, help, labelNames, buckets, registers });
    this.#answers = counter(names.answers, 'Answers of people by this gateway: accepted, or the code of the refusal.', [
      'kind',
      'result',
    ]);
    this.#gateCalls = counter(names.gateCalls, 'Answers to calls of MCP clients, by what became of the call.', [
      'status',
    ]);
    this.#readsFailed = counter(names.readsFailed, 'Reads of runs that failed, by code.', ['code']);
    this.#closed = histogram(names.closed, 'Time for which a request was open.', ['result'], DECISION_SECONDS);
    this.#runsEnded = counter(names.runsEnded, 'Runs that ended while this gateway looked.', ['status']);
    for (const status of ['succeeded', 'waiting']) this.#gateCalls.inc({ status }, 0);
    for (const kind of KINDS) for (const result of UNSIGNED) this.#answers.inc({ kind, result }, 0);
    this.#closed.zero({ result: 'closed' });
    this.#closed.zero({ result: 'expired' });
    for (const code of ['RUN_STUCK', 'ENGINE_UNAVAILABLE']) this.#readsFailed.inc({ code }, 0);
  }

  /** Counts an answer. @param refusal absent if the run took it */
  answered(kind: unknown, refusal?: ErrorCode): void {
    const known = typeof kind === 'string' && KINDS.has(kind) ? kind : 'other';
    this.#answers.inc({ kind: known, result: refusal ?? 'accepted' });
  }

  answeredCall(status: string): void {
    this.#gateCalls.inc({ status });
  }

  readFailed(code: ErrorCode): void {
    this.#readsFailed.inc({ code });
  }

  closed({ result, seconds }: ClosedRequest): void {
    this.#closed.observe({ result }, seconds);
  }

  runEnded(status: string): void {
    this.#runsEnded.inc({ status });
  }

  /** Adds what is read when Prometheus asks, and what Node tells of the process. */
  measure({ projection, waiting, streams, opened }: Measured): void {
    const registers = [this.registry];
    const names = GATEWAY_METRICS;
    const gauge = (name: string, help: string, read: () => number): void => {
      // prom-client calls `collect` with the gauge as `this`.
      const made: Gauge = new Gauge({ name, help, registers, collect: () => made.set(read()) });
    };
    // Before the first sweep lists are as old as the gateway.
    const startedAt = Date.now();
    gauge(names.stale, 'Age of the lists.', () => (Date.now() - (projection.asOf ?? startedAt)) / 1_000);
    gauge(names.runs, 'Runs in the lists.', () => projection.size);
    gauge(names.cut, '1 if there are more runs than lists hold.', () => Number(projection.isCut));
    gauge(names.streams, 'Event streams that are open.', () => streams.size);
    const stuck = 'Runs that do not go on: those that Temporal marks, or those that somebody has opened.';
    gauge(names.runsStuck, stuck, () => Math.max(opened.stuck, projection.stuck ?? 0));
    const labelled = <Label extends string>(name: string, help: string, ...labelNames: Label[]): Gauge<Label> =>
      new Gauge({ name, help, labelNames, registers });
    const dueSoon = labelled(names.dueSoon, 'Open requests with a deadline within the hour.');
    const open = labelled(names.open, 'Open requests by age.', 'age');
    const byGroup = labelled(
      names.openByGroup,
      'Open requests by age, for each group that their run waits for.',
      'group',
      'age',
    );
    const bySubject = labelled(names.openBySubject, 'Open requests by what they ask for.', 'about');
    this.#countOpen = () => {
      const counted = waiting.counted(Date.now());
      dueSoon.set(counted.dueSoon);
      for (const [about, count] of counted.bySubject) bySubject.set({ about }, count);
      for (const age of AGES) open.set({ age }, counted.byAge.get(age) ?? 0);
      for (const [group, counts] of counted.byGroup)
        for (const age of AGES) byGroup.set({ group, age }, counts.get(age) ?? 0);
    };
    collectDefaultMetrics({ register: this.registry });
  }

  override async text(): Promise<string> {
    this.#countOpen();
    return await super.text();
  }
}
