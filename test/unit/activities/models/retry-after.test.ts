/** When a provider wants to be asked again. */
import { describe, expect, test } from '@jest/globals';
import { retryAfterMs } from '../../../../activities/models/refusal.ts';

const NOW = Date.parse('2026-11-21T09:00:00Z');

describe('the delay that a provider asks for', () => {
  test.each<[Record<string, string>, number | undefined]>([
    [{}, undefined],
    [{ 'retry-after': '3' }, 3_000],
    [{ 'retry-after': '0.5' }, 500],
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after-ms': '250' }, 250],
    [{ 'retry-after-ms': '12.3', 'retry-after': '1' }, 13],
    [{ 'retry-after-ms': 'soon', 'retry-after': '1' }, 1_000],
    [{ 'retry-after': 'Sat, 21 Nov 2026 09:01:00 GMT' }, 60_000],
    [{ 'retry-after': 'Sat, 21 Nov 2026 08:00:00 GMT' }, 0],
    [{ 'retry-after': 'Fri, 31 Dec 2100 00:00:00 GMT' }, 3_600_000],
    [{ 'retry-after': '86400' }, 3_600_000],
    [{ 'retry-after': 'tomorrow' }, undefined],
    [{ 'retry-after': 'NaN' }, undefined],
  ])('of %j is %s ms', (headers, expected) => {
    expect(retryAfterMs(headers, NOW)).toBe(expected);
  });
});
