/** What all lanes do: 6 turns, 5 tool calls one after the other, the third behind a decision. */
import type { ConfigInput } from '../contracts/schemas/config.ts';
import type { Script } from '../contracts/schemas/script.ts';

export const BENCH_QUEUE = 'bench';
export const CALLS = 5;
export const GATED_STEP = 3;

export function isGated(turn: number): boolean {
  return turn === GATED_STEP;
}

/** The tool of a turn, or nothing where the agent is done. */
export function toolOf(turn: number): 'echo' | 'write' | undefined {
  if (turn > CALLS) return undefined;
  return isGated(turn) ? 'write' : 'echo';
}

/**
 * The run of a call, by its idempotency key: `RUN/CALL/DIGEST` from this service, `RUN/STEP` from the raw workflow. The
 * id of a run of the bench has no slash.
 */
export function runOf(key: string): string {
  const end = key.indexOf('/');
  return end < 0 ? key : key.slice(0, end);
}

/** @param scripts of further models, by name */
export function benchConfig(url: string, scripts: Readonly<Record<string, Script>> = {}): ConfigInput {
  const models = Object.entries({ bench: benchScript(), ...scripts });
  return {
    taskQueue: BENCH_QUEUE,
    egress: { allowLoopback: true },
    servers: {
      echo: {
        url,
        trusted: true,
        credentials: { kind: 'none' },
        protocol: 'legacy',
        // As an operator marks what may be called again: only such calls go into a stretch.
        repeatable: ['echo'],
      },
    },
    policy: { strategy: 'annotations' },
    models: Object.fromEntries(models.map(([name, script]) => [name, { provider: 'scripted', script }])),
  };
}

/** Each model step and each call is an activity of its own. */
export const WITHOUT_STRETCHES: Pick<ConfigInput, 'execution'> = { execution: { stretch: { turns: 0 } } };

export function benchScript(): Script {
  const steps = Array.from({ length: CALLS }, (_, index) => ({
    calls: [{ tool: `echo/${toolOf(index + 1)}`, arguments: { run: 'bench', step: index + 1 } }],
    branches: [],
    repeat: 1,
  }));
  return { steps: [...steps, { text: 'end', calls: [], branches: [], repeat: 1 }] };
}

/** A long conversation without a decision, for the growth of history. */
export function longScript(turns: number): Script {
  return {
    steps: [
      { calls: [{ tool: 'echo/echo', arguments: { run: 'long', step: 1 } }], branches: [], repeat: turns },
      { text: 'end', calls: [], branches: [], repeat: 1 },
    ],
  };
}

/** A conversation of so many turns, each with an answer of so many bytes, that waits in its last one. */
export function talkScript(turns: number, bytes: number): Script {
  const asked = (tool: string) => ({ tool: `echo/${tool}`, arguments: { run: 'talk', step: 1, bytes } });
  return {
    steps: [
      { calls: [asked('echo')], branches: [], repeat: turns - 1 },
      { calls: [asked('write')], branches: [], repeat: 1 },
      { text: 'end', calls: [], branches: [], repeat: 1 },
    ],
  };
}

/** Requests that a wide run waits with. */
export const OPEN_REQUESTS = 20;

/** One turn, all of whose calls wait for a decision. */
export function wideScript(): Script {
  const calls = Array.from({ length: OPEN_REQUESTS }, (_, index) => ({
    tool: 'echo/write',
    arguments: { run: 'wide', step: index + 1 },
  }));
  return { steps: [{ calls, branches: [], repeat: 1 }] };
}

export type ToWorker = { readonly kind: 'usage' } | { readonly kind: 'stop' };

export type FromWorker =
  | { readonly kind: 'ready'; readonly bundleBytes: number }
  | { readonly kind: 'waits'; readonly run: string }
  | {
      readonly kind: 'usage';
      readonly cpuMs: number;
      readonly rssBytes: number;
      readonly mainHeapBytes: number;
      readonly workflowHeapBytes: number;
    };
