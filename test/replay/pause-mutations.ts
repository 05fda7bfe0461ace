/** Changes that would break runs that wait to hear what became of a call. */
import type { Mutation } from './mutant.ts';

/** As `OTHER_COMMANDS`. */
export const PAUSE_COMMANDS: readonly Mutation[] = [
  {
    name: 'nobody is asked what became of a call',
    file: 'workflows/pauses.ts',
    find: 'return live.prepared.pauses?.includes(kind) === true;',
    put: 'return live.prepared.pauses?.includes(kind) === undefined;',
  },
  {
    name: 'a call is asked about that an earlier build has ended',
    file: 'workflows/pauses.ts',
    find: "live.work.consideredCancelled || !patched('pauses'))\n    return false;",
    put: 'live.work.consideredCancelled)\n    return false;',
  },
  {
    name: 'what a person recorded is sent again all the same',
    file: 'domain/resolution.ts',
    find: "if (resolution.kind !== 'retry') {",
    put: "if (resolution.kind !== 'retry' && state.attempts > 9) {",
  },
  {
    name: 'a call that is sent again is asked for consent anew',
    file: 'domain/pause.ts',
    find: ": { status: 'approved', ...resolved, ...consented };",
    put: ": ({ status: 'asking', ...resolved, request: consented.request } as never);",
  },
  {
    name: 'what is asked is no part of what is shown',
    file: 'domain/digest.ts',
    find: '    ...(parts.about === undefined ? {} : { about: parts.about }),\n',
    put: '',
  },
  {
    name: 'what a server asks is not put before people',
    file: 'workflows/settle-call.ts',
    find: 'return askInput(live, flight, result);',
    put: "return settle(live, callId, { kind: 'cancelled', reason: 'The server asks.' });",
  },
  {
    name: 'nobody is asked for the authorization that a server wants',
    file: 'workflows/pauses.ts',
    find: "if (outcome.kind !== 'failed' || outcome.executed) return false;",
    put: 'if (outcome.kind !== undefined) return false;',
  },
];

/** As `OTHER_CONTENT`. */
export const PAUSE_CONTENT: readonly Mutation[] = [
  {
    name: 'a server is told no answer that people gave it before',
    file: 'domain/provision.ts',
    find: 'return { ...sendable, input: { ...input, provided: [...kept, fresh] } };',
    put: 'return { ...sendable, input: { ...input, provided: [fresh] } };',
  },
  {
    name: 'a server is not given its state back',
    file: 'domain/provision.ts',
    find: 'used, ...(state === undefined ? {} : { state }) };',
    put: 'used };',
  },
  {
    name: 'dispatch is not told who said that a call is sent again',
    file: 'workflows/dispatch-input.ts',
    find: '...(state.retry === undefined ? {} : { retry: retryProof(state.retry) }),',
    put: '',
  },
  {
    name: 'the model takes what a person recorded for the result of the tool',
    file: 'domain/resolution.ts',
    find: "{ kind: 'succeeded', result: { content: [{ type: 'text', text: resolution.result }] }, recordedBy }",
    put: "{ kind: 'succeeded', result: { content: [{ type: 'text', text: resolution.result }] } }",
  },
  {
    name: 'dispatch is not given the grant that took the place of the first',
    file: 'workflows/dispatch-input.ts',
    find: '...authorizationProofs(live, state),',
    put: '',
  },
  {
    name: 'a fresh grant stands for one call only',
    file: 'domain/authorization.ts',
    find: "answer.kind === 'grant' ? regranted(resumedRun, given) : resumedRun",
    put: "answer.callId === '' ? regranted(resumedRun, given) : resumedRun",
  },
];

/** As `OTHER_REFUSALS`. */
export const PAUSE_REFUSALS: readonly Mutation[] = [
  {
    name: 'any answer fits what a server asks',
    file: 'domain/provision.ts',
    find: 'if (problem !== undefined) {',
    put: 'if (problem === undefined) {',
  },
  {
    name: 'anybody may say what became of a call',
    file: 'domain/pause.ts',
    find: 'if (mayDecide(state.request.approvers, answererOf(state, answer, now)))',
    put: "if (mayDecide(state.request.approvers, answererOf(state, answer, now)) || approver.id !== '')",
  },
  {
    name: 'an approval answers what became of a call',
    file: 'domain/decision.ts',
    find: 'if (state.request.about !== undefined) return refuseUpdate(state.request.about.kind, callId);',
    put: "if (state.request.about !== undefined && callId === '') return refuseUpdate(state.request.about.kind, callId);",
  },
  {
    name: 'consent is taken for a grant',
    file: 'domain/authorization.ts',
    find: 'if (answer.kind !== about.wants)',
    put: "if (answer.kind !== about.wants && callId === '')",
  },
];
