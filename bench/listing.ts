/**
 * `npx tsx bench/listing.ts`: what the inbox of 10,000 runs with one request each costs a gateway, cold and again. Its
 * reading is the gateway's own; the rows of its lists and the runs, which answer after `--answer` ms, are written by
 * hand. One JSON line each. Nothing is asserted. Needs no Temporal.
 */
import { parseArgs } from 'node:util';
import type { Client } from '@temporalio/client';
import type { Countersign } from '../client/index.ts';
import { RequestQuery, type RunRow } from '../contracts/schemas/http-api.ts';
import type { ApprovalRequest } from '../contracts/schemas/request.ts';
import { Reading } from '../gateway/inbox/reading.ts';
import type { Asker } from '../gateway/identity/person.ts';
import { Opened } from '../gateway/projection/opened.ts';
import { type Known, Projection } from '../gateway/projection/projection.ts';

const { values } = parseArgs({
  options: { runs: { type: 'string', default: '10000' }, answer: { type: 'string', default: '10' } },
});
const count = Number(values.runs);
const answerMs = Number(values.answer);
const NOW = Date.now();

const after = (minutes: number): string => new Date(NOW + minutes * 60_000).toISOString();
/** Deadlines in no order, as people and policies make them. */
const deadlineOf = (index: number): string => after(60 + ((index * 7_919) % count));

function knownAt(index: number): Known {
  const row: RunRow = {
    runId: `run-${index}`,
    tenant: 'default',
    initiator: 'ida',
    status: 'waiting',
    startedAt: after(-index),
    servers: ['bank'],
    pending: 1,
    nextDeadline: deadlineOf(index),
  };
  return { row, memo: undefined, approvers: ['id:ann'], mark: String(index), version: index, misses: 0 };
}

function requestOf(index: number): ApprovalRequest {
  return {
    namespace: 'default',
    tenant: 'default',
    workflowId: `run-${index}`,
    runId: `temporal-${index}`,
    callId: 't1.c0',
    generation: 1,
    status: 'open',
    digest: 'ab'.repeat(32),
    server: 'bank',
    serverUrl: 'https://bank.example/mcp',
    tool: 'pay',
    definitionHash: 'cd'.repeat(32),
    arguments: { amount: index, note: 'x'.repeat(1_000) },
    rules: ['organisation/rules/pay'],
    approvers: { allOf: [{ layer: 'organisation', ids: ['ann'], groups: [] }] },
    openedAt: after(-1),
    deadline: deadlineOf(index),
  };
}

/** Every run answers after the same time. */
const countersign = {
  run: (runId: string) => ({
    requests: async () => {
      await new Promise((resolve) => void setTimeout(resolve, answerMs));
      return [requestOf(Number(runId.slice(4)))];
    },
  }),
} as unknown as Countersign; // Sound: lists ask runs for nothing else.

/** The lists of a gateway, as they are after a sweep. */
class Filled extends Projection {
  readonly #held = new Map(Array.from({ length: count }, (_, index) => [`run-${index}`, knownAt(index)]));

  override run(runId: string): Known | undefined {
    return this.#held.get(runId);
  }
  override runs(): MapIterator<Known> {
    return this.#held.values();
  }
  override waiting(): readonly Known[] {
    return (this.#kept ??= this.#sorted());
  }
  #kept: readonly Known[] | undefined;
  #sorted(): readonly Known[] {
    return [...this.#held.values()].toSorted((one, other) =>
      (one.row.nextDeadline ?? '') < (other.row.nextDeadline ?? '') ? -1 : 1,
    );
  }
}

// Sound: nothing here asks Temporal.
const client = {} as Client;
const projection = new Filled({ client, most: count });
const opened = new Opened(projection, countersign);
const reading = new Reading(client, projection, opened);
const ann: Asker = { id: 'ann', groups: [], tenant: 'default', seesAll: false, may: new Set(), until: NOW + 3_600_000 };

async function look(what: string): Promise<void> {
  const asked = opened.asked;
  const cpu = process.cpuUsage();
  const at = performance.now();
  const { requests } = await reading.requests(RequestQuery.parse({ mine: 'decide' }), ann);
  const { user, system } = process.cpuUsage(cpu);
  const ms = Math.round((performance.now() - at) * 10) / 10;
  const figures = { rows: requests.length, runsAsked: opened.asked - asked, ms, cpuMs: (user + system) / 1_000 };
  process.stdout.write(`${JSON.stringify({ what, runs: count, answerMs, ...figures })}\n`);
}

await look('first look');
await look('second look');
for (let times = 0; times < 50; times += 1) await reading.requests(RequestQuery.parse({ mine: 'decide' }), ann);
await look('look after 50');
