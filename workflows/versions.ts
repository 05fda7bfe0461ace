/**
 * Lists every change of a run's commands that a waiting run must survive, as `patched` ids. An id is never used again.
 * `since` is the release that brought the change. `until` is the release from which no open run needs it; an ADR then
 * removes it.
 */
export const PATCHES = {
  pauses: {
    since: '0.1.0',
    reason:
      'asks people where an earlier build ends the call: such a build is not to take the run up, nor a later one to ask where it did not',
  },
  lists: {
    since: '0.1.0',
    reason: 'waits for people, or lists again, where an earlier build ends a run whose tools cannot be listed',
  },
  'lost-answers': {
    since: '0.1.0',
    reason: 'asks the server for the answer of a lost worker where an earlier build says at once that it is lost',
  },
  tasks: {
    since: '0.1.0',
    reason: 'waits for what a server works on as a task where an earlier build ends the call as it stands',
  },
  links: {
    since: '0.1.0',
    reason:
      'denies a read of what no result has linked to where an earlier build asks about it or sends it to be refused',
  },
  held: {
    since: '0.1.0',
    reason: 'asks people in the middle of a call that is under way, which an earlier build knows nothing of',
  },
  messages: {
    since: '0.1.0',
    reason: 'tells people of requests, and waits for their deadlines to come near, where an earlier build tells nobody',
  },
} as const satisfies Record<string, { readonly since: string; readonly reason: string; readonly until?: string }>;

/**
 * Prefix of the markers of inputs that an execution could not read on arrival (`workflows/entity/unread.ts`): one
 * marker for each. No id of `PATCHES` begins with it.
 */
export const UNREAD = 'unread-';

/**
 * Prefix of the markers of inputs that were not proven on arrival (`workflows/interceptors/zone.ts`); no id of
 * `PATCHES` begins with it.
 */
export const UNPROVEN = 'unproven-';
