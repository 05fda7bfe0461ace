/**
 * Lists every change of a run's commands that a waiting run must survive, as `patched` ids. An id is never used again.
 * `since` is the release that brought the change. `until` is the release from which no open run needs it; an ADR then
 * removes it.
 */
export const PATCHES = {
  'separate-tasks': {
    since: '1.0.0-rc.4',
    reason: 'A workflow task without a command is taken together with the next one (docs/adr/0087).',
  },
  'as-documented': {
    since: '1.0.0-rc.4',
    reason:
      'A call that was sent again by itself did not say so, one that is asked again had its attempts of before counted, a standing decision that was taken back left the rest of a deadline, entries were dated before those of the execution before, and long entries were carried. A message that interrupted waited for as long as a server wanted before another attempt, or until the client of an approved call was back. A run did not continue as new while a call waited for as long as its server wanted. In catalogs, trust was given although whoever had asked for it could not give it any more.',
  },
} as const satisfies Readonly<
  Record<string, { readonly since: string; readonly reason: string; readonly until?: string }>
>;

/** Prefix of the markers of unreadable inputs (`workflows/entity/unread.ts`); no id of `PATCHES` has it. */
export const UNREAD = 'unread-';

/** Prefix of the markers of unproven inputs (`workflows/interceptors/zone.ts`); no id of `PATCHES` has it. */
export const UNPROVEN = 'unproven-';
