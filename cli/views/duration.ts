/** Times as people read them. */
import { visible } from '../../domain/escape.ts';

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const;

/** The two largest units: `23 h 59 min`. */
export function duration(ms: number): string {
  let rest = Math.max(0, Math.floor(ms / 1_000));
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count} ${unit}`);
    // `1 d 5 s` would look exact and is not worth reading.
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(' ') || '0 s';
}

/** @param instant ISO */
export function timeLeft(instant: string, now: number): string {
  const left = Date.parse(instant) - now;
  return left > 0 ? `${duration(left)} left` : `passed ${duration(-left)} ago`;
}

/** Down to the second, in UTC as everything on the wire. Some come from whoever may write to the namespace, and are no times. */
export function shortInstant(instant: string): string {
  return visible(instant.replace('T', ' ').replace(/(?:\.\d+)?Z$/, 'Z'));
}
