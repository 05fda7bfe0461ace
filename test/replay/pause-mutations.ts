/** Changes that would break runs that wait to hear what became of a call. */
import type { Mutation } from './mutant.ts';
import { OPEN_QUESTION_COMMANDS, OPEN_QUESTION_CONTENT, OPEN_QUESTION_REFUSALS } from './open-question-mutations.ts';

/** As `OTHER_COMMANDS`. */
export const PAUSE_COMMANDS: readonly Mutation[] = [
  ...OPEN_QUESTION_COMMANDS,
  {
    name: 'what results have linked to is forgotten',
    noticedIn: 'agent-run.v2.linked-continued-first',
    file: 'domain/run/resource-link.ts',
    find: '  return { ...run, links: newest([...before, ...latest.values()]) };',
    put: '  return run;',
  },
  {
    name: 'what nobody has linked to may be read',
    noticedIn: 'agent-run.v2.linked-continued-first',
    file: 'domain/run/resource-link.ts',
    find: "  if (target?.tool !== READ_RESOURCE || verdict.kind === 'deny') return judgement;",
    put: "  if (target?.tool !== undefined || verdict.kind === 'deny') return judgement;",
  },
  {
    name: 'a read is denied that an earlier build has sent',
    noticedIn: 'agent-run.v2.linked-undenied',
    file: 'workflows/run/turn.ts',
    find: "return allowed === judgement || patched('links') ? allowed : judgement;",
    put: 'return allowed;',
  },
  {
    name: 'a task is waited for whose call an earlier build has ended',
    noticedIn: 'agent-run.v2.task-not-waited',
    file: 'workflows/run/call.ts',
    find: "if (patched('tasks')) live.commit(",
    put: 'live.commit(',
  },
  {
    name: 'tasks are waited for by nobody',
    noticedIn: 'agent-run.v2.task-continued-first',
    file: 'workflows/run/call.ts',
    find: "if (patched('tasks')) live.commit(",
    put: "if (patched('tasks') && live.rolling) live.commit(",
  },
  {
    name: 'nobody is asked what became of a call',
    noticedIn: 'agent-run.v2.lost-sent-again',
    file: 'workflows/run/pauses.ts',
    find: 'return live.prepared.pauses?.includes(kind) === true;',
    put: 'return live.prepared.pauses?.includes(kind) === undefined;',
  },
  {
    name: 'a call is asked about that an earlier build has ended',
    noticedIn: 'agent-run.v2.lost-sent-again',
    file: 'workflows/run/pauses.ts',
    find: "live.work.consideredCancelled || !patched('pauses'))\n    return false;",
    put: 'live.work.consideredCancelled)\n    return false;',
  },
  {
    name: 'what a person recorded is sent again all the same',
    noticedIn: 'agent-run.v2.lost-answered',
    file: 'domain/request/outcome.ts',
    find: "if (resolution.kind !== 'retry') {",
    put: "if (resolution.kind !== 'retry' && state.attempts > 9) {",
  },
  {
    name: 'a call that is sent again is asked for consent anew',
    noticedIn: 'agent-run.v2.lost-sent-again',
    file: 'domain/request/pause.ts',
    find: ": { status: 'approved', ...resolved, ...consented };",
    put: ": ({ status: 'asking', ...resolved, request: consented.request } as never);",
  },
  {
    name: 'what is asked is no part of what is shown',
    noticedIn: 'agent-run.v2.lost-sent-again',
    file: 'domain/request/digest.ts',
    find: '    ...(parts.about === undefined ? {} : { about: parts.about }),\n',
    put: '',
  },
  {
    name: 'the answer of a lost worker is asked for nowhere',
    noticedIn: 'agent-run.v2.handed-on',
    file: 'workflows/run/call.ts',
    find: 'for (let asked = 0; isResumable(',
    put: 'for (let asked = 3; isResumable(',
  },
  {
    name: 'a call whose worker is lost is handed to another one that sends it again',
    noticedIn: 'agent-run.v2.handed-on',
    file: 'workflows/run/call.ts',
    find: 'const { resumeCall } = resumeActivities(',
    put: 'const { callTool: resumeCall } = callActivities(',
  },
  {
    name: 'what a server asks is not put before people',
    noticedIn: 'agent-run.v2.server-asks',
    file: 'workflows/run/call.ts',
    find: 'return askInput(live, flight, result);',
    put: "return settle(live, callId, { kind: 'cancelled', reason: 'The server asks.' });",
  },
  {
    name: 'nobody is asked for the authorization that a server wants',
    noticedIn: 'agent-run.v2.unauthorized',
    file: 'workflows/run/pauses.ts',
    find: "if (outcome.kind !== 'failed' || outcome.executed) return false;",
    put: 'if (outcome.kind !== undefined) return false;',
  },
  {
    name: 'consent of one is enough where two must give it',
    noticedIn: 'agent-run.v2.unconsented-ended',
    file: 'domain/request/authorization.ts',
    find: "    answer.kind === 'consent' && !isMet(",
    put: "    answer.kind === 'consent' && answer.callId === '' && !isMet(",
  },
];

/** As `OTHER_CONTENT`. */
export const PAUSE_CONTENT: readonly Mutation[] = [
  ...OPEN_QUESTION_CONTENT,
  {
    name: 'a server is told no answer that people gave it before',
    noticedIn: 'agent-run.v2.server-asks-ended',
    file: 'domain/request/provision.ts',
    find: 'return { ...sendable, input: { ...input, provided: [...kept, fresh] } };',
    put: 'return { ...sendable, input: { ...input, provided: [fresh] } };',
  },
  {
    name: 'a server is not given its state back',
    noticedIn: 'agent-run.v2.server-asks-again',
    file: 'domain/request/provision.ts',
    find: 'used, ...(state === undefined ? {} : { state }) };',
    put: 'used };',
  },
  {
    name: 'a worker is not told that it may leave where the answer comes',
    noticedIn: 'agent-run.v2.task-not-waited',
    file: 'workflows/run/dispatch-input.ts',
    find: '...(prepared.lostAnswers === undefined ? {} : { resumable: true }),',
    put: '',
  },
  {
    name: 'dispatch is not told who said that a call is sent again',
    noticedIn: 'agent-run.v2.lost-sent-again',
    file: 'workflows/run/dispatch-input.ts',
    find: '...(state.retry === undefined ? {} : { retry: retryProof(state.retry) }),',
    put: '',
  },
  {
    name: 'the model takes what a person recorded for the result of the tool',
    noticedIn: 'agent-run.v2.lost-ended',
    file: 'domain/request/outcome.ts',
    find: "{ kind: 'succeeded', result: { content: [{ type: 'text', text: resolution.result }] }, recordedBy }",
    put: "{ kind: 'succeeded', result: { content: [{ type: 'text', text: resolution.result }] } }",
  },
  {
    name: 'dispatch is not given the grant that took the place of the first',
    noticedIn: 'agent-run.v2.unauthorized-granted',
    file: 'workflows/run/dispatch-input.ts',
    find: '...authorizationProofs(live, state),',
    put: '',
  },
  {
    name: 'a fresh grant stands for one call only',
    noticedIn: 'agent-run.v2.unauthorized-granted',
    file: 'domain/request/authorization.ts',
    find: "answer.kind === 'grant' ? regranted(resumedRun, given) : resumedRun",
    put: "answer.callId === '' ? regranted(resumedRun, given) : resumedRun",
  },
  {
    name: 'dispatch is shown one consent where two were given',
    noticedIn: 'agent-run.v2.unconsented-ended',
    file: 'workflows/run/pauses.ts',
    find: '      ...(further === undefined\n',
    put: '      ...(further !== undefined || further === undefined\n',
  },
];

/** As `OTHER_REFUSALS`. */
export const PAUSE_REFUSALS: readonly Mutation[] = [
  ...OPEN_QUESTION_REFUSALS,
  {
    name: 'any answer fits what a server asks',
    noticedIn: 'agent-run.v2.server-asks-continued',
    file: 'domain/request/provision.ts',
    find: 'if (problem !== undefined) {',
    put: 'if (problem === undefined) {',
  },
  {
    name: 'anybody may say what became of a call',
    noticedIn: 'agent-run.v2.lost-continued',
    file: 'domain/request/pause.ts',
    find: 'if (mayDecide(state.request.approvers, answererOf(state, answer, now)))',
    put: "if (mayDecide(state.request.approvers, answererOf(state, answer, now)) || approver.id !== '')",
  },
  {
    name: 'an approval answers what became of a call',
    noticedIn: 'agent-run.v2.lost-continued',
    file: 'domain/request/decision.ts',
    find: 'if (state.request.about !== undefined) return refuseUpdate(state.request.about.kind, callId);',
    put: "if (state.request.about !== undefined && callId === '') return refuseUpdate(state.request.about.kind, callId);",
  },
  {
    name: 'consent is taken for a grant',
    noticedIn: 'agent-run.v2.unauthorized',
    file: 'domain/request/authorization.ts',
    find: 'if (answer.kind !== about.wants)',
    put: "if (answer.kind !== about.wants && callId === '')",
  },
  {
    name: 'one person consents for two',
    noticedIn: 'agent-run.v2.unconsented-counted',
    file: 'domain/request/authorization.ts',
    find: '  if (own !== undefined) {',
    put: "  if (own !== undefined && approver.id === '') {",
  },
];
