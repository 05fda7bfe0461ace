/** What stays real where a test moves the beat of intervals and, unless it keeps that, the clock. */
export const BUT_INTERVALS = [
  'nextTick',
  'queueMicrotask',
  'setImmediate',
  'clearImmediate',
  'setTimeout',
  'clearTimeout',
  'performance',
  'hrtime',
] as const;
