/**
 * Drops invalid trace headers of messages.
 *
 * Anyone who may write to the namespace may send any header, and the tracing interceptors throw on one that they cannot
 * read. A signal with such a header would stop a run for good (docs/adr/0046).
 * 1. It comes before the tracing interceptors. A header that is no trace is left out; the message counts.
 * 2. It calls the next interceptor without a promise of its own, so that recorded runs replay (INV-D1).
 */
import type { Headers } from '@temporalio/common';
import type { WorkflowInterceptors } from '@temporalio/workflow';
import { payloadConverter } from '../../contracts/payload-converter.ts';
import { isFields } from '../../domain/shapes/inputs.ts';

/** The name that `@temporalio/interceptors-opentelemetry-v2` uses. */
const TRACE_HEADER = '_tracer-data';

export function interceptors(): WorkflowInterceptors {
  return {
    inbound: [
      {
        execute: (input, next) => next(readableIn(input)),
        handleSignal: (input, next) => next(readableIn(input)),
        handleUpdate: (input, next) => next(readableIn(input)),
        validateUpdate: (input, next) => next(readableIn(input)),
        handleQuery: (input, next) => next(readableIn(input)),
      },
    ],
  };
}

function readableIn<Input extends { readonly headers: Headers }>(input: Input): Input {
  return isTrace(input.headers[TRACE_HEADER]) ? input : { ...input, headers: withoutTrace(input.headers) };
}

/** Checks the form of W3C Trace Context: names with texts, and nothing else. */
function isTrace(header: Headers[string] | undefined): boolean {
  if (header === undefined) return true;
  const trace: unknown = payloadConverter.fromPayload(header);
  return isFields(trace) && Object.values(trace).every((value) => typeof value === 'string');
}

function withoutTrace({ [TRACE_HEADER]: _, ...others }: Headers): Headers {
  return others;
}
