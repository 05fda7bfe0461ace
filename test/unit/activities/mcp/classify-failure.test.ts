/** What a failure proves of the call, and what it tells of its server (INV-X1, INV-X2). */
import { describe, expect, test } from '@jest/globals';
import { SdkError, SdkErrorCode, SdkHttpError } from '@modelcontextprotocol/client';
import fc from 'fast-check';
import {
  endingOfConnect,
  endingOfError,
  endingOfFailure,
  faultOf,
  healthAfter,
  type Names,
  type Trace,
  withFault,
} from '../../../../activities/mcp/classify-failure.ts';
import type { CallEnding } from '../../../../activities/mcp/port.ts';
import { defined } from '../../../../contracts/defined.ts';
import { forAll } from '../../../support/for-all.ts';

const names: Names = { server: 'files', tool: 'write_file', quote: (text) => text };

function failed(
  error: unknown,
  fields: Partial<Extract<Trace, { kind: 'failed' }>> = {},
): Extract<Trace, { kind: 'failed' }> {
  return { kind: 'failed', error, stopped: undefined, reached: true, exchange: {}, ...fields };
}

function fetchFailed(code: string, syscall?: string): TypeError {
  return new TypeError('fetch failed', {
    cause: Object.assign(new Error(code), { code, ...defined({ syscall }) }),
  });
}

function http(status: number): SdkHttpError {
  return new SdkHttpError(SdkErrorCode.ClientHttpNotImplemented, 'Error POSTing to endpoint', {
    status,
    statusText: '',
    text: '',
  });
}

describe('a call that failed', () => {
  test.each(['cancelled', 'deadline', 'left', undefined] as const)(
    'INV-X1: a challenge for a nonce proves that it did not run, whoever stopped it (%s); after a question it proves nothing',
    (stopped) => {
      const trace = failed(http(401), { stopped, exchange: { status: 401, nonceWanted: true } });
      expect(endingOfFailure(trace, names)).toMatchObject({ kind: 'not-sent', code: 'TOOL_UNAVAILABLE' });
      expect(endingOfFailure({ ...trace, asked: true }, names)).toMatchObject({ kind: 'unknown' });
    },
  );

  test.each([
    'ENOTFOUND',
    'EAI_AGAIN',
    'ECONNREFUSED',
    'UND_ERR_CONNECT_TIMEOUT',
    'CERT_HAS_EXPIRED',
    'DEPTH_ZERO_SELF_SIGNED_CERT',
  ])('%s comes before anything is written: not sent', (code) => {
    expect(endingOfFailure(failed(fetchFailed(code)), names)).toMatchObject({
      kind: 'not-sent',
      code: 'TOOL_UNAVAILABLE',
      message: expect.stringContaining(code),
    });
  });

  test.each(['ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH'])(
    '%s is not sent while connecting, and unknown while reading',
    (code) => {
      expect(endingOfFailure(failed(fetchFailed(code, 'connect')), names).kind).toBe('not-sent');
      for (const syscall of ['read', 'write', undefined])
        expect(endingOfFailure(failed(fetchFailed(code, syscall)), names).kind).toBe('unknown');
    },
  );

  test('EHOSTUNREACH of all addresses of a name is not sent if each is of connect', () => {
    const tried = (...syscalls: readonly string[]): Error => {
      const errors = syscalls.map((syscall) => Object.assign(new Error(''), { code: 'EHOSTUNREACH', syscall }));
      const cause = Object.assign(new AggregateError(errors), { code: 'EHOSTUNREACH' });
      return Object.assign(new TypeError('fetch failed'), { cause });
    };
    expect(endingOfFailure(failed(tried('connect', 'connect')), names).kind).toBe('not-sent');
    expect(endingOfFailure(failed(tried('connect', 'read')), names).kind).toBe('unknown');
    expect(endingOfFailure(failed(tried()), names).kind).toBe('unknown');
  });

  test.each([
    'ECONNRESET',
    'EPIPE',
    'UND_ERR_SOCKET',
    'UND_ERR_BODY_TIMEOUT',
    'UND_ERR_ABORTED',
    'ERR_STREAM_PREMATURE_CLOSE',
    'SOMETHING_NEW',
  ])('%s may come after the request was read: unknown', (code) => {
    expect(endingOfFailure(failed(fetchFailed(code)), names)).toMatchObject({
      kind: 'unknown',
      code: 'OUTCOME_UNKNOWN',
    });
  });

  test.each(['deadline', 'cancelled', 'lost', undefined] as const)(
    'where no connection ever stood nothing was sent (stopped: %s)',
    (stopped) => {
      const error = new SdkError(SdkErrorCode.RequestTimeout, 'stopped');
      expect(endingOfFailure(failed(error, { reached: false, stopped }), names).kind).toBe('not-sent');
      expect(endingOfFailure(failed(error, { reached: true, stopped }), names).kind).toBe('unknown');
    },
  );

  test('no HTTP status of 5xx counts as refused, but 503 with Retry-After', () => {
    forAll(fc.integer({ min: 500, max: 599 }), (status) => {
      expect(endingOfFailure(failed(http(status)), names).kind).toBe('unknown');
    });
    expect(endingOfFailure(failed(http(503), { exchange: { retryAfterMs: 1 } }), names)).toMatchObject({
      kind: 'refused',
      code: 'TOOL_UNAVAILABLE',
      retryAfterMs: 1,
    });
  });

  test('anything at all that is thrown ends in a kind, and never in executed', () => {
    forAll(
      fc.anything(),
      fc.constantFrom('deadline' as const, 'cancelled' as const, 'lost' as const, undefined),
      (error, stopped) => {
        expect(endingOfFailure(failed(error, { stopped }), names).kind).toBe('unknown');
        expect(endingOfConnect({ error, exchange: {}, stopped: undefined }, names).kind).toBe('not-sent');
      },
    );
  });

  test('an error that is its own cause is read to an end', () => {
    const error = new Error('round');
    error.cause = error;
    expect(endingOfFailure(failed(error), names).kind).toBe('unknown');
  });

  test('an unknown outcome asks for a look at the server, not for another try (INV-X2)', () => {
    const { message } = endingOfFailure(failed(fetchFailed('ECONNRESET')), names) as { message: string };
    expect(message).toMatch(/may or may not have run/);
    expect(message).not.toMatch(/\b(?:retry|try again|call again)\b/i);
  });
});

describe('an answer that is a JSON-RPC error', () => {
  test.each([-32_700, -32_600, -32_601, -32_602, -32_020, -32_021, -32_022, -32_042])(
    '%i is given before the tool runs: refused',
    (code) => {
      expect(endingOfError({ kind: 'error', code, message: 'no' }, names)).toMatchObject({
        kind: 'refused',
        code: 'TOOL_REFUSED',
      });
    },
  );

  test('every other code is unknown', () => {
    forAll(fc.integer({ min: -32_599, max: 40_000 }), (code) => {
      expect(endingOfError({ kind: 'error', code, message: 'no' }, names).kind).toBe('unknown');
    });
  });

  test.each([
    ['Unknown tool: write_file', 'TOOL_UNKNOWN'],
    ['Tool write_file not found', 'TOOL_UNKNOWN'],
    ['Tool write_file disabled', 'TOOL_UNKNOWN'],
    ['No such tool as write_file: does not exist', 'TOOL_UNKNOWN'],
    ['File a.txt not found', 'TOOL_REFUSED'],
    ['Input validation error: Invalid arguments for tool write_file', 'TOOL_REFUSED'],
  ])('-32602 "%s" is %s', (message, code) => {
    expect(endingOfError({ kind: 'error', code: -32_602, message }, names)).toMatchObject({ kind: 'refused', code });
  });

  test.each([
    'Output validation error: Invalid structured content for tool write_file',
    'Tool write_file has an output schema but did not return structured content',
  ])('-32602 "%s" comes after it ran: unknown', (message) => {
    expect(endingOfError({ kind: 'error', code: -32_602, message }, names).kind).toBe('unknown');
  });
});

// What the end of a call tells of its server: what a breaker counts, and what nobody may make it count.

const network = (code: string): Error => Object.assign(new Error(code), { code });
const trace = { kind: 'failed', reached: true, stopped: undefined, exchange: {} } as const;
const unknown: CallEnding = { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: '' };
const refused: CallEnding = { kind: 'refused', code: 'TOOL_REFUSED', message: '' };
const notSent: CallEnding = { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: '' };
const executed: CallEnding = { kind: 'executed', isError: true, result: { content: [] } };

describe('the way to a server', () => {
  test.each([
    ['connect refused', network('ECONNREFUSED'), 'failure'],
    ['reset', network('ECONNRESET'), 'failure'],
    ['500', http(500), 'failure'],
    ['503', http(503), 'failure'],
    ['429', http(429), undefined],
    ['404', http(404), undefined],
    ['401', http(401), undefined],
    ['an answer that cannot be read', new Error('what?'), undefined],
  ])('%s', (_, error, fault) => {
    expect(faultOf({ ...trace, error }, 'call')).toBe(fault);
    expect(faultOf({ error, exchange: {}, stopped: undefined }, 'asking')).toBe(fault);
  });

  test('the status counts, also where the error does not say it', () => {
    expect(faultOf({ error: new Error('odd'), exchange: { status: 502 }, stopped: undefined }, 'asking')).toBe(
      'failure',
    );
    expect(faultOf({ error: network('ODD'), exchange: { status: 400 }, stopped: undefined }, 'asking')).toBeUndefined();
  });

  test('what we ended because nobody wants it tells nothing', () => {
    expect(faultOf({ ...trace, error: network('ECONNRESET'), stopped: 'cancelled' }, 'call')).toBeUndefined();
    expect(faultOf({ error: network('ECONNREFUSED'), exchange: {}, stopped: 'cancelled' }, 'asking')).toBeUndefined();
  });

  test('a stream that ends without an answer, and no greeting in time', () => {
    expect(faultOf({ ...trace, error: new Error('lost'), stopped: 'lost' }, 'call')).toBe('failure');
    expect(faultOf({ ...trace, error: new Error('late'), stopped: 'deadline' }, 'call')).toBe('timeout');
    expect(faultOf({ error: new Error('late'), exchange: {}, stopped: 'deadline' }, 'asking')).toBe('failure');
  });
});

test('a tool that failed has answered, and so has a server that refused; errors of tools open no breaker', () => {
  expect(healthAfter(withFault(executed, 'failure'), 120_000)).toBe('up');
  expect(healthAfter(refused, 120_000)).toBe('up');
  expect(healthAfter(withFault(refused, 'failure'), 120_000)).toBe('down');
  expect(healthAfter(withFault(unknown, 'failure'), 120_000)).toBe('down');
  expect(healthAfter(withFault(notSent, undefined), 120_000)).toBe('neutral');
  expect(healthAfter(unknown, 120_000)).toBe('neutral');
});

test('a run that gives its calls no time cannot close a server to others', () => {
  expect(healthAfter(withFault(unknown, 'timeout'), 1_000)).toBe('neutral');
  expect(healthAfter(withFault(unknown, 'timeout'), 30_000)).toBe('down');
});
