/** Mutations of how a call in flight asks people on the open connection of its server, and goes on. */
import type { Mutation } from './mutant.ts';

export const OPEN_QUESTION_COMMANDS: readonly Mutation[] = [
  {
    name: 'a question on an open connection leaves no marker',
    noticedIn: 'agent-run.v2.open-question',
    file: 'workflows/legacy-2025/open-question.ts',
    find: "if (!patched('held')) throw",
    put: 'if (live.rolling) throw',
  },
  {
    name: 'nobody runs the deadline of a question on an open connection',
    noticedIn: 'agent-run.v2.open-question',
    file: 'workflows/legacy-2025/open-question.ts',
    find: 'void live.work.run(() => waitForPeople(live, state));',
    put: 'void waitForPeople;',
  },
  {
    name: 'a question stays open when its call has ended',
    noticedIn: 'agent-run.v2.open-question-lost',
    file: 'workflows/run/call.ts',
    find: '  closeQuestion(live, callId);\n',
    put: '  if (live.rolling) closeQuestion(live, callId);\n',
  },
];

export const OPEN_QUESTION_CONTENT: readonly Mutation[] = [
  {
    name: 'the ledger does not say what a server was told to what it asked',
    noticedIn: 'agent-run.v2.open-question-ended',
    file: 'workflows/run/call.ts',
    find: '  live.commit(toldHeld(live.run, flight, result));\n',
    put: '  void toldHeld;\n',
  },
  {
    name: 'a dispatch that may wait for people has no more time than another',
    noticedIn: 'agent-run.v2.open-question',
    file: 'workflows/run/call.ts',
    find: 'input.limits.callTimeoutSeconds + (input.hold?.seconds ?? 0)',
    put: 'input.limits.callTimeoutSeconds',
  },
  {
    name: 'a dispatch is told that it may wait longer for people than its run was prepared for',
    noticedIn: 'agent-run.v2.open-question',
    file: 'workflows/legacy-2025/open-question.ts',
    find: 'return { hold: { seconds } };',
    put: 'return { hold: { seconds: seconds + 1 } };',
  },
  {
    name: 'people have longer than the connection is held',
    noticedIn: 'agent-run.v2.open-question',
    file: 'domain/legacy-2025/open-question.ts',
    find: 'Math.min(deadlineSeconds * 1_000, holdSeconds * 1_000 - waited)',
    put: 'Math.max(deadlineSeconds * 1_000, holdSeconds * 1_000 - waited)',
  },
];

export const OPEN_QUESTION_REFUSALS: readonly Mutation[] = [
  {
    name: 'a worker that is lost asks people while its answer is asked for',
    noticedIn: 'agent-run.v2.open-question-too-late',
    file: 'workflows/run/call.ts',
    find: '  live.dispatching.delete(callId);\n',
    put: '  if (live.rolling) live.dispatching.delete(callId);\n',
  },
  {
    name: 'a question that nobody answers keeps the next one from being asked',
    noticedIn: 'agent-run.v2.open-question-second',
    file: 'domain/legacy-2025/open-question.ts',
    find: "if (isHeldOpen(state)) return flownOn(state, { kind: 'cancelled' }, Math.min(at, state.request.deadline));",
    put: 'if (isHeldOpen(state) && at > 0) return undefined;',
  },
  {
    name: 'another dispatch than the one under way may ask',
    noticedIn: 'agent-run.v2.open-question-answered',
    file: 'domain/legacy-2025/open-question.ts',
    find: ' && state.attempts === attempt;',
    put: ';',
  },
  {
    name: 'questions on an open connection come in any order',
    noticedIn: 'agent-run.v2.open-question-answered',
    file: 'domain/legacy-2025/open-question.ts',
    find: 'round <= (state.heldInput?.rounds ?? 0)',
    put: 'round === 0',
  },
  {
    name: 'nobody is told that a question on an open connection has expired',
    noticedIn: 'agent-run.v2.open-question-expired',
    file: 'domain/request/closed-request.ts',
    find: "if (held?.kind === 'expired') return",
    put: "if (held?.kind === 'expired' && held.deadline === 0) return",
  },
];
