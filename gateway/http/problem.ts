/**
 * Tells errors as problem details (RFC 9457), from the error table.
 *
 * 1. A status comes from the table alone: one code has one status everywhere.
 * 2. Nothing of a fault is told but its code; the log has the rest, under the request id.
 */
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { troubleOf } from '../../client/engine/trouble.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorFacts, nodeCodeOf } from '../../contracts/errors.ts';
import type { ProblemDetails } from '../../contracts/schemas/http-api.ts';
import type { Problem } from '../../contracts/schemas/parse.ts';

/** An input that does not fit its schema. */
export class Misfit extends CountersignError {
  readonly errors: readonly Problem[];
  constructor(errors: readonly Problem[], where: string) {
    const [first] = errors;
    const told = first === undefined ? 'it does not fit its schema' : `${first.path || 'it'} ${first.reason}`;
    super('USAGE', `The ${where} is not valid: ${told}. Correct it and try again.`, defined({ path: first?.path }));
    this.errors = errors;
  }
}

const OF_FASTIFY: Readonly<Record<string, () => CountersignError>> = {
  FST_ERR_MAX_PARAM_LENGTH: () => new Misfit([{ path: '', reason: 'has an id that is too long' }], 'path'),
  FST_ERR_BAD_URL: () => new Misfit([{ path: '', reason: 'is not percent-encoded' }], 'path'),
  FST_ERR_CTP_BODY_TOO_LARGE: () =>
    new CountersignError('BODY_TOO_LARGE', 'The body has more bytes than this server takes. Nothing was changed.'),
};

export function tooMany(what: string): CountersignError {
  return new CountersignError(
    'RATE_LIMITED',
    `That was more than this server allows: ${what}. Try again later (Retry-After).`,
  );
}

export function codedOf(error: unknown): CountersignError {
  if (error instanceof CountersignError) return error;
  const own = OF_FASTIFY[nodeCodeOf(error) ?? ''];
  if (own !== undefined) return own();
  const status = typeof error === 'object' && error !== null && 'statusCode' in error ? Number(error.statusCode) : 0;
  if (status >= 400 && status < 500)
    return new CountersignError(
      'BODY_UNREADABLE',
      'The request cannot be read: send one JSON document with Content-Type: application/json. Nothing was changed.',
    );
  return troubleOf(error, '');
}

const FAULT = 'The server met a fault; its log says more under the request id. Try again later.';

/** Returns the words of an error for readers outside. */
export function detailOf({ code, message }: CountersignError): string {
  return code === 'INTERNAL' ? FAULT : message;
}

/** True if a message that ended so may have been taken all the same. */
export function isUncertain({ code }: CountersignError): boolean {
  return code === 'RESULT_UNCERTAIN' || code === 'INTERNAL';
}

export function problemOf(error: CountersignError, requestId: string): ProblemDetails {
  const { code, facts, traits } = error;
  return {
    type: `urn:x-countersign:error:${code}`,
    title: titleOf(code),
    status: traits.httpStatus,
    detail: detailOf(error),
    code,
    requestId,
    retryable: traits.retryable,
    facts: code === 'INTERNAL' ? {} : plainFacts(facts),
    ...(error instanceof Misfit
      ? { errors: error.errors.map(({ path, reason }) => ({ path, reason })) }
      : ofPath(error)),
  };
}

/** Shape errors of the client library name one path. */
function ofPath(error: CountersignError): Pick<ProblemDetails, 'errors'> {
  const { path } = error.facts;
  const isShape = error.traits.httpStatus === 422 && !isForOperator(error);
  return path === undefined || !isShape ? {} : { errors: [{ path, reason: error.message }] };
}

/** True if whoever runs the gateway has to hear of it: no request is the cause. */
export function isForOperator({ code, traits }: CountersignError): boolean {
  return traits.httpStatus >= 500 || code === 'CONFIG_INVALID';
}

function plainFacts(facts: ErrorFacts): ProblemDetails['facts'] {
  const told = Object.entries(facts).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
  return Object.fromEntries(told);
}

function titleOf(code: string): string {
  const words = code.toLowerCase().replaceAll('_', ' ');
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}`;
}

/** Answers what Node could not read as a request: no route, no hook and no person has seen it. */
export function refuseUnread(error: unknown, socket: Socket, headers: Readonly<Record<string, string>>): void {
  const code = nodeCodeOf(error);
  // Nobody reads an answer.
  if (code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const problem = problemOf(unreadAs(code), randomUUID());
  const body = JSON.stringify(problem);
  const lines = {
    ...headers,
    'content-type': 'application/problem+json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    'x-request-id': problem.requestId,
    connection: 'close',
  };
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`);
  // Words after the status may be left out (RFC 9112 §4).
  socket.end(`HTTP/1.1 ${problem.status} \r\n${head.join('')}\r\n${body}`);
}

function unreadAs(code: string | undefined): CountersignError {
  if (code === 'HPE_HEADER_OVERFLOW')
    return new CountersignError(
      'HEADERS_TOO_LARGE',
      'Path and headers have more bytes than this gateway takes. Nothing was changed.',
    );
  const reason = code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'did not arrive whole in time' : 'is no HTTP/1.1';
  return new CountersignError('BODY_UNREADABLE', `The request ${reason}. Nothing was changed; send it again.`);
}
