/**
 * How often something may begin: never more than so many in any stretch of time, wherever the stretch begins.
 *
 * Pure. A log of times, not a bucket: a bucket lets twice its size through around the moment at which it is full.
 */

export interface Rate {
  readonly most: number;
  readonly windowMs: number;
}

/** `perSecond` 5 is 5 in any second; 0.5 is 1 in any two seconds; 2.5 is 2 in any 800 ms. */
export function rateOf(perSecond: number): Rate {
  const most = Math.max(1, Math.floor(perSecond));
  return { most, windowMs: Math.ceil((most * 1_000) / perSecond) };
}

/** Those that still count. @param begun epoch ms, oldest first @param now epoch ms */
export function within({ windowMs }: Rate, begun: readonly number[], now: number): readonly number[] {
  // One of the future is of a clock that was set back since, and would count for ever.
  return begun.filter((at) => at <= now && now - at < windowMs);
}

/** How long the next must wait, behind so many that wait already: 0 where it may begin now. */
export function untilNext(rate: Rate, begun: readonly number[], now: number, ahead = 0): number {
  const counted = within(rate, begun, now);
  if (counted.length < rate.most) return 0;
  // Who waits already takes what gets free first: window by window.
  const windows = Math.floor(ahead / rate.most);
  // Sound: as many as `most` are counted, and `most` is at least 1.
  const freed = counted[counted.length - rate.most + (ahead % rate.most)] as number;
  return Math.max(1, freed + rate.windowMs * (windows + 1) - now);
}
