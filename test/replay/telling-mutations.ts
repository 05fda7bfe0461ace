/** Mutations of what a run tells people, and when. */
import { always, never, removed, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';

export const TELLING_COMMANDS: readonly Mutation[] = [
  {
    name: 'a request that opens is told to nobody',
    noticedIn: 'agent-run.told',
    change: removed('Messenger.look', 'this.#queue = [...this.#queue, ...told];'),
  },
  {
    name: 'a request that closes is told to nobody',
    noticedIn: 'agent-run.told-closed',
    change: never('follow', 'open[callId] === undefined && state !== undefined'),
  },
  {
    name: 'a reminder reminds nobody',
    noticedIn: 'agent-run.told-reminded',
    change: never('eventsOf', 'reminded !== undefined && before.reminded === undefined'),
  },
  {
    name: 'an escalation is told to nobody',
    noticedIn: 'agent-run.told-escalated',
    change: never('eventsOf', 'escalatedAt !== undefined && escalatedAt !== before.escalatedAt'),
  },
  {
    name: 'a run does not wake when a deadline comes near',
    noticedIn: 'agent-run.told-expiring',
    change: removed('Messenger.look', 'this.#warnAt(warnAt);'),
  },
  {
    name: 'a message that was refused for good is sent again',
    noticedIn: 'agent-run.told-refused-ended',
    change: replaced('Messenger.deliver', 'this.#fail(entry.input, error);', 'this.#send(entry.input);'),
  },
  {
    name: 'a digest is told at once',
    noticedIn: 'agent-run.told-gathered',
    change: replaced('Messenger.flush', 'gather[channel] === undefined', 'true'),
  },
  {
    name: 'a digest of several runs forgets what comes while it is sent',
    noticedIn: 'message-digest.sent',
    change: always('messageDigest', 'gathering.came === 0'),
  },
];

export const TELLING_CONTENT: readonly Mutation[] = [
  {
    name: 'a digest of several runs forgets what the execution before has gathered',
    noticedIn: 'message-digest.carried',
    change: replaced('Gathering.constructor', '[...carry.gathered]', '[]'),
  },
  {
    name: 'a digest of several runs has its whole time again in each execution',
    noticedIn: 'message-digest.carried',
    change: replaced('messageDigest', 'carry ?? { round: 0, restMs: windowMs }', '{ round: 0, restMs: windowMs }'),
  },
  {
    name: 'a digest of several runs tells nothing of what it has gathered',
    noticedIn: 'message-digest.sending',
    change: removed('Gathering.take', 'this.#waiting.push(read.value);'),
  },
  {
    name: 'the next execution knows nothing of what was told',
    noticedIn: 'agent-run.told-continued-second',
    change: replaced('agentRun', 'new Messenger($live, $_)', 'new Messenger($live, undefined)'),
  },
  {
    name: 'a message has the key of every other',
    noticedIn: 'agent-run.told',
    change: replaced('messagesOf', 'hashOf($_)', "'key'"),
  },
  {
    name: 'a message is handed on as if no try of it may have arrived',
    noticedIn: 'agent-run.told-continued-first',
    change: replaced('Messenger.carried', '{ ...input, again: $_ }', 'input'),
  },
  {
    name: 'a message shows what policy redacts, or what is too long',
    noticedIn: 'agent-run.told',
    change: replaced('toldRequest', 'argumentsLine($_)', "'all of it'"),
  },
];
