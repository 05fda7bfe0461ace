/**
 * Connects to Temporal at the address of the standard environment and profile of every Temporal tool (`TEMPORAL_*`,
 * temporal.toml), waits for it if it does not answer yet, and repeats refused queries.
 *
 * 1. A client connection may be closed while calls are under way. The SDK's own retry would then throw from a timer,
 *    which ends the process (@temporalio/client 1.23, @grpc/grpc-js 1.14). Here such a call ends as CANCELLED.
 * 2. Only failures that may pass are waited out, and not that a service refuses this process or lacks the namespace.
 */
import { setTimeout as pause } from 'node:timers/promises';
import {
  InterceptingCall,
  type InterceptingListener,
  type Interceptor,
  Metadata,
  status as grpcStatus,
} from '@grpc/grpc-js';
import {
  Connection,
  type ConnectionOptions,
  defaultGrpcRetryOptions,
  isGrpcServiceError,
  makeGrpcRetryInterceptor,
  ServiceError,
  type WorkflowClientInterceptor,
} from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import type { InjectedSinks, NativeConnectionOptions, Runtime } from '@temporalio/worker';
import { defined } from '../contracts/defined.ts';
import { CountersignError } from '../contracts/errors.ts';
import { askedAgain, askedAt, isRefusedQuery, untilAnswered } from '../contracts/failure.ts';
import { METRICS } from '../contracts/metrics.ts';
import type { QueryGuardSinks } from '../workflows/interceptors/query-guard.ts';

export interface EngineAddress {
  readonly connectionOptions: NativeConnectionOptions;
  readonly namespace: string;
}

type EngineOverrides = { readonly [Name in 'address' | 'namespace' | 'profile']?: string | undefined };

export function locateEngine({ address, namespace, profile }: EngineOverrides = {}): EngineAddress {
  const found = loadClientConnectConfig(profile === undefined ? {} : { profile });
  return {
    connectionOptions: { ...found.connectionOptions, ...defined({ address }) },
    namespace: namespace ?? found.namespace ?? 'default',
  };
}

/** @throws as `Connection.connect` does, if the server does not answer in time */
export async function connectClient(options: ConnectionOptions): Promise<Connection> {
  return await Connection.connect(withSafeRetries(options));
}

/**
 * Limit of one answer of Temporal: pages of a history with large updates exceed the 4 MiB that gRPC accepts by default.
 * The client means to set as much, under a name that gRPC does not know (@temporalio/client 1.23).
 */
const MOST_RECEIVED_BYTES = 134_217_728;

/** Retries as the client does by default, but safely on a closed channel. */
export function withSafeRetries(options: ConnectionOptions): ConnectionOptions {
  const channelArgs = { 'grpc.max_receive_message_length': MOST_RECEIVED_BYTES, ...options.channelArgs };
  return { ...options, channelArgs, interceptors: [makeGrpcRetryInterceptor(defaultGrpcRetryOptions()), endIfClosed] };
}

const endIfClosed: Interceptor = (options, nextCall) => {
  try {
    return new InterceptingCall(nextCall(options));
  } catch {
    return new InterceptingCall(new ClosedCall());
  }
};

/** A call on a channel that is gone: it ends as soon as it starts. */
class ClosedCall {
  start(_metadata: Metadata, listener?: Partial<InterceptingListener>): void {
    process.nextTick(() => {
      listener?.onReceiveMessage?.(null);
      const details = 'The connection was closed.';
      listener?.onReceiveStatus?.({ code: grpcStatus.CANCELLED, details, metadata: new Metadata() });
    });
  }
  getPeer(): string {
    return 'closed';
  }
  getAuthContext(): null {
    return null;
  }
  cancelWithStatus(): void {}
  sendMessageWithContext(): void {}
  sendMessage(): void {}
  startRead(): void {}
  halfClose(): void {}
}

export interface EngineWait {
  /** Address of Temporal, for messages. */
  readonly address: string;
  readonly seconds: number;
  /** Called after each try that failed. */
  readonly say: (message: string, meta: { readonly address: string; readonly secondsLeft: number }) => void;
  readonly signal?: AbortSignal;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5_000;
const LONGEST_TRY_MS = 10_000;

const PASSING: ReadonlySet<number> = new Set([
  grpcStatus.UNAVAILABLE,
  grpcStatus.DEADLINE_EXCEEDED,
  grpcStatus.RESOURCE_EXHAUSTED,
  grpcStatus.CANCELLED,
]);

/**
 * @param start is told how long it may take, unless nobody waits
 * @throws CountersignError `ENGINE_UNAVAILABLE` at the end of the time, or what `start` threw if that does not pass
 */
export async function onceThere<T>(wait: EngineWait | undefined, start: (mostMs?: number) => Promise<T>): Promise<T> {
  if (wait === undefined) return await start();
  const { address, seconds, say, signal } = wait;
  const end = Date.now() + seconds * 1_000;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
    try {
      return await start(Math.max(FIRST_PAUSE_MS, Math.min(LONGEST_TRY_MS, end - Date.now())));
    } catch (error) {
      if (!isAway(error) || signal?.aborted === true) throw error;
      const secondsLeft = Math.max(0, Math.ceil((end - Date.now()) / 1_000));
      if (secondsLeft === 0) {
        const message = `Temporal did not answer at ${address} in ${seconds} s. Start it (countersign dev, for trials), or name another with --address; --deadline has the worker wait longer.`;
        throw new CountersignError('ENGINE_UNAVAILABLE', message, { address }, { cause: error });
      }
      const message = `Temporal does not answer at ${address}; the worker tries again for ${secondsLeft} s.`;
      say(message, { address, secondsLeft });
    }
    const pausedMs = Math.min(pauseMs, Math.max(1, end - Date.now()));
    await pause(pausedMs, undefined, signal && { signal }).catch(() => undefined);
  }
}

/** Recognises errors of the native connection by text and name, and that of an unused channel by text alone. */
export function isAway(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  if (error.name === 'TransportError' || /Failed to connect before the deadline/.test(error.message)) return true;
  const cause = error instanceof ServiceError ? error.cause : error;
  return isGrpcServiceError(cause) && PASSING.has(cause.code);
}

/** Counts refused queries of this worker's runs (docs/adr/0044), in a sink: the meter of workflows is silent there. */
export function countRefused({ metricMeter }: Pick<Runtime, 'metricMeter'>): InjectedSinks<QueryGuardSinks> {
  const refused = metricMeter.createCounter(METRICS.refusedQueries, '', 'Queries that were refused and asked again.');
  return {
    queryGuard: { refused: { fn: ({ workflowType }) => refused.add(1, { workflow: workflowType }) } },
  };
}

/** Repeats refused and lost queries of activities, which ask runs and catalogs too. */
export function askingAgain(): WorkflowClientInterceptor {
  return {
    query: async (input, next) => {
      try {
        const ask = (): Promise<unknown> => next({ ...input, args: askedAt(input.args, Date.now()) });
        return await untilAnswered(
          async () => await askedAgain(ask, async (ms) => await pause(ms, undefined, { ref: false })),
          pause,
        );
      } catch (error) {
        if (!isRefusedQuery(error)) throw error;
        // The SDK would report an unknown query, on which callers act; this is another error.
        throw new Error('the run was not read: it was between two workflow tasks each time', { cause: error });
      }
    },
  };
}
