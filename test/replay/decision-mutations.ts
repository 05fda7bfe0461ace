/** Changes of edits, answers and standing decisions that would break waiting runs; see `mutations.ts`. */
import type { Mutation } from './mutant.ts';

export const DECISION_COMMANDS: readonly Mutation[] = [
  {
    name: 'what an approver wrote is not what is sent',
    noticedIn: 'agent-run.v2.edited-of-two',
    file: 'domain/request/edit.ts',
    find: 'call: { ...state.call, arguments: decision.arguments },',
    put: 'call: state.call,',
  },
  {
    name: 'what stands answers every call of its tool',
    noticedIn: 'agent-run.v2.standing',
    file: 'domain/request/standing.ts',
    find: '    covers(extent, standing.arguments, call.arguments) &&\n',
    put: '',
  },
  {
    name: 'an edit is not judged',
    noticedIn: 'agent-run.v2.edited-waits',
    file: 'workflows/run/handlers.ts',
    find: '  if (isEdit(decision)) return decideEdited(live, admission.state, decision);\n',
    put: '',
  },
  {
    name: 'who agreed to other arguments has agreed to these',
    noticedIn: 'agent-run.v2.edited-waits',
    file: 'domain/request/edit.ts',
    find: 'const isEnough = counts && isMet(rule, [voter]);',
    put: 'const isEnough = counts;',
  },
];

export const DECISION_CONTENT: readonly Mutation[] = [
  {
    name: 'the model is not told that its arguments were changed',
    noticedIn: 'agent-run.v2.edited-of-two',
    file: 'workflows/run/turn.ts',
    find: 'edit === undefined ? {} : { edited: { by: edit.by, arguments: call.arguments } };',
    put: 'edit === undefined ? {} : {};',
  },
];

export const DECISION_REFUSALS: readonly Mutation[] = [
  {
    name: 'approvals may be remembered as far as anybody likes',
    noticedIn: 'agent-run.v2.standing',
    file: 'domain/request/standing.ts',
    find: 'remember?.includes(scope) === true',
    put: 'remember !== undefined && scope !== undefined',
  },
  {
    name: 'anybody may take back what stands',
    noticedIn: 'agent-run.v2.standing',
    file: 'domain/request/standing-changes.ts',
    find: 'if (mayDecide(found.approvers, by)) return',
    put: "if (mayDecide(found.approvers, by) || by.id !== '') return",
  },
  {
    name: 'whoever is asked may answer in the place of a tool',
    noticedIn: 'agent-run.v2.edited-waits',
    file: 'domain/request/rights.ts',
    find: 'allOf.every(({ may }) => may?.includes(right) === true);',
    put: "allOf.every(({ may }) => right === 'respond' || may?.includes(right) === true);",
  },
  {
    name: 'an edit may be of any size',
    noticedIn: 'agent-run.v2.edited-waits',
    file: 'domain/request/edit.ts',
    find: '  if (bytes > limits.argumentBytes)\n',
    put: "  if (bytes > limits.argumentBytes && callId === '')\n",
  },
];
