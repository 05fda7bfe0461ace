/**
 * Hands the trace of an activity to the requests that it makes (W3C Trace Context; SEP-414 for MCP).
 *
 * 1. Only a worker that traces has a trace: with `tracing: off` nothing is set, whatever headers a message has.
 * 2. Anyone who may write to the namespace can send any header. What is no trace goes nowhere.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { isFields } from '../../domain/shapes/inputs.ts';

/** The fields of W3C Trace Context, under their own names. */
export interface Trace {
  readonly traceparent: string;
  readonly tracestate?: string;
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
/** Printable ASCII, as far as the specification asks senders to pass it on. */
const TRACESTATE = /^[\x20-\x7e]{1,512}$/;

const traces = new AsyncLocalStorage<Trace>();

/** Returns the trace of the activity that runs here, if the worker traces. */
export function currentTrace(): Trace | undefined {
  return traces.getStore();
}

/**
 * Does this in the trace that the header of an activity names.
 * @param header as the tracing interceptors of workflows send it
 */
export async function inTrace<T>(header: Payload | undefined, act: () => Promise<T>): Promise<T> {
  const trace = traceIn(header);
  return trace === undefined ? await act() : await traces.run(trace, act);
}

function traceIn(header: Payload | undefined): Trace | undefined {
  let carrier: unknown;
  try {
    carrier = header === undefined ? undefined : defaultPayloadConverter.fromPayload(header);
  } catch {
    return undefined;
  }
  if (!isFields(carrier)) return undefined;
  const { traceparent, tracestate } = carrier;
  if (typeof traceparent !== 'string' || !TRACEPARENT.test(traceparent)) return undefined;
  return typeof tracestate === 'string' && TRACESTATE.test(tracestate) ? { traceparent, tracestate } : { traceparent };
}
