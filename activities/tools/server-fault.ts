/**
 * Whether the end of a call tells of its server: what a breaker counts.
 *
 * Pure. Does not own what the end means for the call (`ending.ts`).
 *
 * 1. A 4xx, an error of JSON-RPC or of the tool is an answer: the server is there. 429 too, which has limits of its own.
 * 2. What we ended ourselves, because the call was withdrawn, tells nothing.
 * 3. A deadline tells something only where the call had time: whoever starts runs sets it, and must not close a server to others.
 */
import { SdkHttpError } from '@modelcontextprotocol/client';
import type { Health } from '../../domain/breaker.ts';
import { networkCodeOf } from './network.ts';
import type { CallEnding, ServerFault } from './port.ts';
import type { Trace } from './tool-call.ts';
import type { Exchange } from './wire.ts';

/** A server that was silent for so long may be taken for one that does not answer. */
const PATIENCE_MS = 30_000;

export function faultOfCall({ error, stopped, exchange }: Extract<Trace, { kind: 'failed' }>): ServerFault | undefined {
  if (stopped === 'cancelled' || stopped === 'left') return undefined;
  if (stopped === 'deadline') return 'timeout';
  // It has said more than is read.
  if (exchange.tooLarge === true) return undefined;
  return stopped === 'lost' ? 'failure' : faultIn(error, exchange);
}

/** @param stopped `deadline` is that of connecting, which is ours: its length depends on nobody */
export function faultOfConnect(
  cause: unknown,
  exchange: Exchange,
  stopped: 'cancelled' | 'deadline' | undefined,
): ServerFault | undefined {
  if (stopped === 'cancelled') return undefined;
  return stopped === 'deadline' ? 'failure' : faultIn(cause, exchange);
}

export function withFault(ending: CallEnding, fault: ServerFault | undefined): CallEnding {
  return fault === undefined || isAnswer(ending) ? ending : { ...ending, fault };
}

function isAnswer(ending: CallEnding): ending is Extract<CallEnding, { kind: 'executed' | 'input' | 'task' }> {
  return ending.kind === 'executed' || ending.kind === 'input' || ending.kind === 'task';
}

/** @param timeoutMs what the call was given */
export function healthAfter(ending: CallEnding, timeoutMs: number): Health {
  if (isAnswer(ending)) return 'up';
  if (ending.fault === 'timeout') return timeoutMs < PATIENCE_MS ? 'neutral' : 'down';
  if (ending.fault === 'failure') return 'down';
  return ending.kind === 'refused' ? 'up' : 'neutral';
}

function faultIn(error: unknown, exchange: Exchange): ServerFault | undefined {
  const status = SdkHttpError.isInstance(error) ? error.status : exchange.status;
  if (status !== undefined) return status >= 500 ? 'failure' : undefined;
  return networkCodeOf(error) === undefined ? undefined : 'failure';
}
