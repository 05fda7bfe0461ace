/** Messages tell people of requests: which events there are, and who is told of which. Channels: `channels.ts`. */
import { z } from 'zod';
import { Identifier, Name, people, Sha256Hex } from './json.ts';

/**
 * `opened`: a request waits. `reminder` and `escalation`: by the times of its rule. `expiring`: its deadline is near.
 * `unknown`: nobody knows whether a call ran. `closed`: nobody needs to answer any more.
 */
export const MessageEvent = z.enum(['opened', 'reminder', 'escalation', 'expiring', 'unknown', 'closed']);
export type MessageEvent = z.infer<typeof MessageEvent>;

/** One line of `notify`: what is told through which channel, and to whom. */
export const NotifyRoute = z.strictObject({
  channel: Name,
  /** Absent: every event. */
  on: z.array(MessageEvent).min(1).max(6).optional(),
  /** Absent: whoever may decide at that time. */
  to: z.union([z.enum(['approvers', 'initiator']), z.strictObject(people)]).optional(),
  /** Time before the deadline at which `expiring` is told; absent: an hour. A request that opens later gets none. */
  expiringSeconds: z.int().min(1).max(31_536_000).optional(),
});
export type NotifyRoute = z.infer<typeof NotifyRoute>;

export const NotifyRoutes = z.array(NotifyRoute).max(20);

// What several runs have to tell is gathered by a workflow, which is given these. Whoever may write to the namespace
// can send them: they say where to look, and nothing else.

/** Whose digest it is: one channel and one set of people of one tenant. */
export const Digest = z.strictObject({
  tenant: Identifier,
  channel: Name,
  to: z.strictObject(people),
  seconds: z.int().min(1).max(86_400),
});
export type Digest = z.infer<typeof Digest>;

/** Where a run has something to tell. A later release may say more of it. */
export const Gathered = z.object({
  /** Key of the run's message, by which a repetition is known. */
  key: Sha256Hex,
  run: z.string().min(1).max(1_000),
  event: MessageEvent,
  calls: z
    .array(z.object({ callId: z.string().max(40), generation: z.int().positive() }))
    .min(1)
    .max(20),
});
export type Gathered = z.infer<typeof Gathered>;
