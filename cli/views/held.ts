/** A call that waits for its server, in words. */
import type { HeldBy, HeldCall } from '../../contracts/schemas/held.ts';
import { bounded, visible } from '../../domain/escape.ts';
import { shortInstant } from './duration.ts';
import { toolText } from './words.ts';

export const HELD_BY: Readonly<Record<HeldBy, string>> = {
  concurrency: 'as many calls as its server takes at once',
  rate: 'as many calls as its server takes in that time',
  'retry-after': 'its server, which asked for time',
  breaker: 'an open breaker: its server failed again and again',
};

export function heldText({ callId, server, tool, because, since, next }: HeldCall): string {
  return `${visible(callId)} ${toolText(server, tool)} since ${shortInstant(since)}, asks again at ${shortInstant(next)}: ${bounded(visible(because), 300)}`;
}
