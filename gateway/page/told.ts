/** What the page of a run says of messages to people: how many were sent, and each that was not. */
import type { MessagesState } from '../../contracts/schemas/run-state.ts';
import { foreign } from './kit/faithful.ts';
import { type Html, markup, type Shown } from './kit/markup.ts';
import { clock } from './kit/times.ts';

/** Rows of facts; none for a run whose policy tells nobody. */
export function toldFacts(messages: MessagesState | undefined): readonly (readonly [string, Shown])[] {
  if (messages === undefined) return [];
  const { sent, underWay, failed, failures } = messages;
  return [
    ['Messages', `${sent} sent, ${underWay.length} under way, ${failed} given up`],
    ...underWay.map((each) => ['Not told yet', markup`${about(each)}, since ${clock(each.since)}`] as const),
    ...failures.map(
      (each) =>
        [
          'Not told',
          markup`${about(each)}, at ${clock(each.at)}: <code>${each.code}</code> ${foreign(each.message)}`,
        ] as const,
    ),
  ];
}

type About = Pick<MessagesState['failures'][number], 'event' | 'calls' | 'channel'>;

function about({ event, calls, channel }: About): Html {
  return markup`<strong>${event}</strong> of ${calls.join(', ')} through ${foreign(channel)}`;
}
