/** Times in a page: an instant that machines read, and how far away it is. `gateway/page/assets/page.js` counts on. */
import { type Html, markup } from './markup.ts';

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
] as const;

/** The largest units of a time: `2 h 5 min`. */
export function span(ms: number, most = 2): string {
  const rest = Math.max(0, ms);
  const first = UNITS.findIndex(([size]) => rest >= size);
  if (first < 0) return '0 s';
  let remaining = rest;
  const parts = UNITS.slice(first, first + most).map(([size, unit]) => {
    const count = Math.floor(remaining / size);
    remaining -= count * size;
    return [count, unit] as const;
  });
  return parts.flatMap(([count, unit], index) => (index > 0 && count === 0 ? [] : [`${count} ${unit}`])).join(' ');
}

export function ago(instant: string, now: number): Html {
  return markup`<time datetime="${instant}" data-count="ago" title="${instant}"
    >${span(now - Date.parse(instant), 1)} ago</time
  >`;
}

/** How long until then; what is nearly over is said to be urgent. */
export function left(instant: string, now: number): Html {
  const rest = Date.parse(instant) - now;
  const urgency = rest <= 0 ? 'over' : rest < URGENT_MS ? 'urgent' : rest < SOON_MS ? 'soon' : 'calm';
  return markup`<time class="left ${urgency}" datetime="${instant}" data-count="left" title="${instant}"
    >${rest <= 0 ? 'expired' : `${span(rest)} left`}</time
  >`;
}

const URGENT_MS = 10 * 60_000;
const SOON_MS = 60 * 60_000;

/** A time of day for a record. It names its zone: readers sit in others. */
export function clock(instant: string): Html {
  return markup`<time datetime="${instant}" title="${instant}">${instant.slice(0, 19).replace('T', ' ')} UTC</time>`;
}
