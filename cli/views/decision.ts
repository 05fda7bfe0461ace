/** Describes decisions, before and after they are sent. */
import type { BatchAnswer } from '../../client/index.ts';
import { visible } from '../../domain/text/escape.ts';
import type { Paint } from '../session/terminal.ts';
import type { Answer } from '../session/verb.ts';
import { lastWord } from '../session/shell-word.ts';
import { fields, given, shortInstant, table, toolText } from './format.ts';
import { requestText, shownTo } from './request.ts';
import type { ApprovalRequest, DecisionAck, DecisionInput, PauseAck } from '../../contracts/schemas/request.ts';

/** @param reveal true to show what policy keeps out of lists */
export function planAnswer(
  runId: string,
  { kind, requests, digest: together, others }: BatchPlan,
  reveal: boolean,
): Answer {
  const shown = requests.map((request) => shownTo(request, reveal));
  return {
    json: { runId, would: kind, digest: together, requests: shown, others },
    text: (paint) => {
      const calls = requests.map((request) => requestText(request, { full: true, reveal, now: Date.now() }, paint));
      const left = othersText(others);
      if (calls.length === 0) return `Nothing of run ${visible(runId)} waits that you may decide.${left}`;
      return `Would ${kind}:\n${calls.join('\n')}\ndigest of these together: ${together}${left}`;
    },
  };
}

export function batchAnswer(runId: string, { requests, others }: BatchPlan, answers: readonly BatchAnswer[]): Answer {
  return {
    json: {
      runId,
      others,
      results: answers.map((answer) => {
        const { callId, decisionId } = answer;
        const { server, tool } = requests.find((request) => request.callId === callId) ?? {};
        if (answer.kind === 'accepted') return { ...answer.ack, server, tool };
        const { code, message, facts } = answer.error;
        return { callId, decisionId, server, tool, error: { code, message, facts } };
      }),
    },
    text: (paint) => {
      const rows = answers.map((answer) =>
        answer.kind === 'accepted'
          ? [visible(answer.callId), visible(answer.ack.status), visible(answer.decisionId), '']
          : [visible(answer.callId), answer.error.code, visible(answer.decisionId), visible(answer.error.message)],
      );
      const left = othersText(others);
      return `${table(paint, [['CALL', 'ANSWER', 'DECISION', ''], ...rows])}${left}`;
    },
  };
}

function othersText(others: readonly string[]): string {
  return others.length === 0 ? '' : `\nwait for others: ${others.map(visible).join(', ')}`;
}

const COLOURS = {
  approved: 'green',
  answered: 'green',
  rejected: 'red',
  counted: 'yellow',
  edited: 'yellow',
  withdrawn: 'yellow',
  extended: 'yellow',
} as const;

export function decisionAnswer(runId: string, decided: Decided): Answer {
  const { status: word } = decided.ack;
  const others = word === 'counted' || word === 'edited';
  const too = `somebody else must agree${word === 'edited' ? ' to these arguments' : ''} too; see: countersign requests`;
  return receipt(runId, decided, { word, colour: COLOURS[word] ?? 'yellow', ...(others ? { next: too } : {}) });
}

export function pauseAnswer(runId: string, answered: Answered, { next, ...words }: Words): Answer {
  return receipt(runId, answered, { ...words, ...(next !== undefined && { next: `${next}; see: countersign watch` }) });
}

interface Words {
  readonly word: string;
  readonly colour: Parameters<Paint>[0];
  /** Says what happens next, and names the command that shows it. */
  readonly next?: string;
}

/** Says which answer was taken. Its content, which may be personal data, is not repeated. */
function receipt(runId: string, { ack, request }: Decided | Answered, { word, colour, next }: Words): Answer {
  const { callId, decisionId, decidedBy, decidedAt } = ack;
  const about = request === undefined ? {} : { server: request.server, tool: request.tool, digest: request.digest };
  const tool = request === undefined ? '' : `  ${toolText(request.server, request.tool)}`;
  return {
    json: { runId, ...ack, ...about },
    text: (paint) =>
      `${paint(colour, visible(word))}  ${paint('bold', visible(callId))}${tool}\n${fields(paint, [
        ['by', `${visible(decidedBy)} at ${shortInstant(decidedAt)}`],
        ['deadline', 'until' in ack ? given(ack.until, shortInstant) : undefined],
        ['digest', request?.digest],
        ['decision', visible(decisionId)],
        ['next', given(next, (command) => `${command} ${lastWord(runId)}`)],
      ])}`,
  };
}

interface Receipt<Ack> {
  readonly ack: Ack;
  /** Absent if the answer was found only in the ledger. */
  readonly request?: ApprovalRequest;
}
export type Decided = Receipt<DecisionAck>;
export type Answered = Receipt<PauseAck>;

export interface BatchPlan {
  readonly kind: DecisionInput['kind'];
  readonly requests: readonly ApprovalRequest[];
  readonly decisions: readonly DecisionInput[];
  /** Hash of the digests of all requests, in their order. */
  readonly digest: string;
  /** Calls that wait for other people; `--all` leaves them out. */
  readonly others: readonly string[];
}
