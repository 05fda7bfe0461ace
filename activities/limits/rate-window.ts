/**
 * Limits how often something may begin: never more than so many in any stretch of time, wherever the stretch begins.
 *
 * Pure. It keeps a log of times instead of a token bucket: a bucket lets twice its size through around the moment at
 * which it is full.
 */

export interface Rate {
  readonly most: number;
  readonly windowMs: number;
}

/** `perSecond` 5 means 5 in any second; 0.5 means 1 in any two seconds; 2.5 means 2 in any 800 ms. */
export function rateOf(perSecond: number): Rate {
  const most = Math.max(1, Math.floor(perSecond));
  return { most, windowMs: Math.ceil((most * 1_000) / perSecond) };
}

/**
 * Returns the times that still count.
 * @param begun epoch ms, oldest first
 * @param now epoch ms
 */
export function within({ windowMs }: Rate, begun: readonly number[], now: number): readonly number[] {
  // A time in the future is from a clock that was set back since, and would count for ever.
  return begun.filter((at) => at <= now && now - at < windowMs);
}

/** Says how long the next must wait behind the `ahead` others that wait already, in ms; 0 if it may begin now. */
export function untilNext(rate: Rate, begun: readonly number[], now: number, ahead = 0): number {
  const counted = within(rate, begun, now);
  if (counted.length < rate.most) return 0;
  // Those that wait already take the places that become free first, window by window.
  const windows = Math.floor(ahead / rate.most);
  // Sound: at least `most` times are counted, and `most` is at least 1.
  const freed = counted[counted.length - rate.most + (ahead % rate.most)] as number;
  return Math.max(1, freed + rate.windowMs * (windows + 1) - now);
}
