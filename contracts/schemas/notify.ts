/** Messages tell people of requests: which events there are, and who is told of which. Channels: `channels.ts`. */
import { z } from 'zod';
import { Name, people } from './json.ts';

/**
 * `opened`: a request waits. `reminder` and `escalation`: by the times of its rule. `expiring`: its deadline is near.
 * `unknown`: nobody knows whether a call ran. `closed`: nobody needs to answer any more.
 */
export const MessageEvent = z.enum(['opened', 'reminder', 'escalation', 'expiring', 'unknown', 'closed']);
export type MessageEvent = z.infer<typeof MessageEvent>;

/** One line of `notify`: what is told through which channel, and to whom. */
export const NotifyRoute = z.strictObject({
  /** A channel of `notify.channels`. */
  channel: Name,
  /** Absent: every event. */
  on: z.array(MessageEvent).min(1).max(6).optional(),
  /** Absent: whoever may decide at that time. */
  to: z.union([z.enum(['approvers', 'initiator']), z.strictObject(people)]).optional(),
  /** Time before the deadline at which `expiring` is told; absent: an hour. A request that opens later than that is not told so. */
  expiringSeconds: z.int().min(1).max(31_536_000).optional(),
});
export type NotifyRoute = z.infer<typeof NotifyRoute>;

export const NotifyRoutes = z.array(NotifyRoute).max(20);
