/** Changes that would let unproven messages count, or proven ones not: trust mode `signed`. */
import { always, never, removed, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';

/** A run in which answers are proven does not go on with an answer to something else (docs/adr/0047). */
export const SIGNED_QUESTIONS: readonly Mutation[] = [
  {
    name: 'dispatch is not told what was signed',
    noticedIn: 'agent-run.signed',
    change: removed('dispatchInput', '...$_.signedSpec'),
  },
  {
    name: 'a vote loses its signature',
    noticedIn: 'agent-run.signed-sent',
    change: replaced(
      'counted',
      'withoutComment(decision)',
      '(({ signature: _, ...vote }) => vote)(withoutComment(decision))',
    ),
  },
  {
    name: 'the review of a catalog is not told what was signed',
    noticedIn: 'tool-catalog.signed-continued-first',
    change: replaced('proofOf', '{ signed }', '{}'),
  },
];

/** As `OTHER_COMMANDS`. */
export const SIGNED_COMMANDS: readonly Mutation[] = [
  {
    name: 'a list of tools by somebody without a key is believed',
    noticedIn: 'agent-run.unproven-listed',
    change: always('checked', 'counts($$)'),
  },
  {
    name: 'that a call was not sent is believed of somebody without a key',
    noticedIn: 'agent-run.unproven-sent',
    change: replaced('checked', 'counts($$all)', "input.activityType === 'callTool' || counts($$all)"),
  },
  {
    name: 'what was not proven is not scheduled again',
    noticedIn: 'agent-run.unproven-listed',
    change: replaced('MOST_TRIES', 'ACTIVITIES.discoverTools', 'ACTIVITIES.pollTask'),
  },
];

/** As `OTHER_CONTENT`. */
export const SIGNED_CONTENT: readonly Mutation[] = [
  {
    name: 'a catalog forgets its keys when it continues as new',
    noticedIn: 'tool-catalog.signed-continued-first',
    change: always('LiveCatalog.carry', 'this.#signing === undefined'),
  },
];

/** As `OTHER_REFUSALS`. */
export const SIGNED_REFUSALS: readonly Mutation[] = [
  {
    name: 'a decision is believed without its signature',
    noticedIn: 'agent-run.signed',
    change: never('assertSignedAnswer', "$_.kind === 'refuse'"),
  },
  {
    name: 'a message is believed without its signature',
    noticedIn: 'agent-run.signed',
    change: replaced(
      'assertSigned',
      "if ($checked.kind === 'refuse') throw $_;",
      "if ($checked.kind === 'refuse') return;",
    ),
  },
  {
    name: 'one key makes a quorum',
    noticedIn: 'agent-run.signed',
    change: always('refuseSameKey', '!isSameVoice($$)'),
  },
  {
    name: 'what was signed for another message counts',
    noticedIn: 'agent-run.signed',
    change: replaced(
      'judgeClaims',
      '$claims[$name] !== $about[$name]',
      "$name !== 'payload' && $claims[$name] !== $about[$name]",
    ),
  },
  {
    name: 'a signature for one purpose is good for all',
    noticedIn: 'tool-catalog.signed-continued',
    change: replaced(
      'judgeClaims',
      '$claims[$name] !== $about[$name]',
      "$name !== 'purpose' && $name !== 'payload' && $claims[$name] !== $about[$name]",
    ),
  },
  {
    name: 'a change of a catalog is believed without its signature',
    noticedIn: 'tool-catalog.signed-continued',
    change: never('assertSignedChange', "$_.kind === 'refuse'"),
  },
  {
    name: 'one key is two administrators',
    noticedIn: 'tool-catalog.signed-continued',
    change: always('refuseSameVoice', '!isSameVoice($$)'),
  },
];
