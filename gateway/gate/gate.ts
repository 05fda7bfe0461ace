/** Puts the gate together: who calls, what is offered, and how calls are made. Its HTTP routes and stdio share this. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Countersign } from '../../client/countersign.ts';
import type { ArtifactReader } from '../../client/ledger/ledger.ts';
import type { GateConfig } from '../../contracts/schemas/gateway.ts';
import type { Catalogs } from '../catalog/catalogs.ts';
import type { Waiters } from '../http/streams.ts';
import { GateCalls, type GateCallsParts } from './calls.ts';
import type { McpParts } from './mcp-server.ts';
import { type Offer, Offers } from './offers.ts';
import { Outcomes } from './outcomes.ts';
import type { GateRouteParts } from './routes.ts';
import { GateTasks, type GateTasksParts } from './tasks.ts';

export interface GateParts {
  readonly gate: GateConfig;
  readonly countersign: Pick<Countersign, 'tickets' | 'run'>;
  readonly catalogs: Catalogs;
  readonly start: GateCallsParts['start'];
  readonly stop: GateTasksParts['stop'];
  readonly artifacts: ArtifactReader | undefined;
  readonly waiters: Pick<Waiters, 'hold'>;
  /** Origin of the pages; undefined where there are none. */
  readonly pages: () => string | undefined;
  readonly version: string;
  readonly onAnswer?: ((status: string) => void) | undefined;
  readonly onTrouble: McpParts['onTrouble'];
}

export interface Gate extends McpParts {
  settled(): Promise<void>;
}

export function createGate(parts: GateParts): Gate {
  const { gate, countersign, catalogs, pages, start, stop, artifacts, waiters, onAnswer, version } = parts;
  const tickets = countersign.tickets(gate.keepSeconds);
  const outcomes = new Outcomes({
    run: (runId) => countersign.run(runId),
    artifacts,
    pageOf: (runId) => {
      const origin = pages();
      return origin === undefined ? undefined : `${origin}/runs/${encodeURIComponent(runId)}`;
    },
  });
  const calls = new GateCalls(
    {
      tickets,
      outcomes,
      start,
      present: async (runId, until) => await countersign.run(runId).present(until),
      waiters,
      isRepeatable: ({ server, definition, isTrusted }: Offer) => catalogs.isRepeatable(server, definition, isTrusted),
      onAnswer,
    },
    gate,
  );
  return {
    offers: new Offers(catalogs, gate.servers),
    calls,
    tasks: new GateTasks({ calls, outcomes, tickets, stop }),
    version,
    onTrouble: parts.onTrouble,
    settled: async () => await tickets.settled(),
  };
}

export interface OpenGate {
  readonly routes: GateRouteParts;
  /** Tells held clients that their calls go on, and waits a short time for answers and deliveries. */
  stop(): Promise<void>;
}

const MOST_STOPPING_MS = 3_000;

export function openGate(gate: Gate, about: Pick<GateRouteParts, 'callers' | 'issuer' | 'bodyBytes'>): OpenGate {
  const stopping = new AbortController();
  const answering: GateRouteParts['answering'] = new Set();
  return {
    routes: { ...gate, ...about, stopping: stopping.signal, answering },
    stop: async () => {
      stopping.abort();
      const through = Promise.allSettled(answering).then(async () => await gate.settled());
      await Promise.race([through, pause(MOST_STOPPING_MS, undefined, { ref: false })]);
    },
  };
}
