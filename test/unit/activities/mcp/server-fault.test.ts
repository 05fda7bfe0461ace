/** What the end of a call tells of its server: what a breaker counts, and what nobody may make it count. */
import { describe, expect, test } from '@jest/globals';
import { SdkErrorCode, SdkHttpError } from '@modelcontextprotocol/client';
import { faultOf, healthAfter, withFault } from '../../../../activities/mcp/classify-failure.ts';
import type { CallEnding } from '../../../../activities/mcp/port.ts';

const http = (status: number): Error =>
  new SdkHttpError(SdkErrorCode.ClientHttpNotImplemented, 'refused', { status, statusText: '', text: '' });
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
