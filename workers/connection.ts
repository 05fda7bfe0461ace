/**
 * Connects to Temporal at the address of the standard environment and profile of every Temporal tool
 * (`TEMPORAL_*`, temporal.toml).
 *
 * 1. A client connection may be closed while calls are under way. The SDK's own retry fires from a timer and throws
 *    there if the channel is closed by then, which ends the process (@temporalio/client 1.23, @grpc/grpc-js 1.14). Here
 *    such a call ends with the status CANCELLED instead.
 */
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
  makeGrpcRetryInterceptor,
} from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import type { NativeConnectionOptions } from '@temporalio/worker';

export interface EngineAddress {
  readonly connectionOptions: NativeConnectionOptions;
  readonly namespace: string;
}

export interface EngineOverrides {
  readonly address?: string | undefined;
  readonly namespace?: string | undefined;
  readonly profile?: string | undefined;
}

export function locateEngine({ address, namespace, profile }: EngineOverrides = {}): EngineAddress {
  const found = loadClientConnectConfig(profile === undefined ? {} : { profile });
  return {
    connectionOptions: { ...found.connectionOptions, ...(address === undefined ? {} : { address }) },
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
      listener?.onReceiveStatus?.({
        code: grpcStatus.CANCELLED,
        details: 'The connection was closed.',
        metadata: new Metadata(),
      });
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
