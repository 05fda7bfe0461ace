/** Changes of edits, answers and standing decisions that would break waiting runs; see `mutations.ts`. */
import { always, never, removed, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';

export const DECISION_COMMANDS: readonly Mutation[] = [
  {
    name: 'what an approver wrote is not what is sent',
    noticedIn: 'agent-run.edited-of-two',
    change: replaced('acceptEdit', '{ ...$call, arguments: $_ }', '$call'),
  },
  {
    name: 'what stands answers every call of its tool',
    noticedIn: 'agent-run.standing',
    change: always('answers', 'covers($$)'),
  },
  {
    name: 'an edit is not judged',
    noticedIn: 'agent-run.edited-waits',
    change: never('decide', 'isEdit($_)'),
  },
  {
    name: 'who agreed to other arguments has agreed to these',
    noticedIn: 'agent-run.edited-waits',
    change: always('acceptEdit', 'isMet($_, [$_])'),
  },
];

export const DECISION_CONTENT: readonly Mutation[] = [
  {
    name: 'the model is not told that its arguments were changed',
    noticedIn: 'agent-run.edited-of-two',
    change: removed('resultsOf', 'edited: $_'),
  },
];

export const DECISION_REFUSALS: readonly Mutation[] = [
  {
    name: 'approvals may be remembered as far as anybody likes',
    noticedIn: 'agent-run.standing',
    change: replaced('mayRemember', '$remember?.includes($_) === true', '$remember !== undefined'),
  },
  {
    name: 'anybody may take back what stands',
    noticedIn: 'agent-run.standing',
    change: always('admitForget', 'mayDecide($$)'),
  },
  {
    name: 'whoever is asked may answer in the place of a tool',
    noticedIn: 'agent-run.edited-waits',
    change: replaced('permits', '$may?.includes($right)', "$right === 'respond' || $may?.includes($right)"),
  },
  {
    name: 'an edit may be of any size',
    noticedIn: 'agent-run.edited-waits',
    change: never('refuseEdit', '$_ > $_.argumentBytes'),
  },
];
