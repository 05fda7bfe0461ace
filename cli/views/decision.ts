/** Describes decisions, before and after they are sent. */
import type { BatchAnswer } from '../../client/index.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import type { Answer } from '../session/verb.ts';
import { fields, shortInstant, table, toolText } from './format.ts';
import { shownTo } from './request.ts';
import type { ApprovalRequest, DecisionAck, DecisionInput } from '../../contracts/schemas/request.ts';

const SHOWN_ARGUMENTS = 120;

/** @param reveal true to show what policy keeps out of lists */
export function planAnswer(runId: string, { kind, requests, others }: BatchPlan, reveal: boolean): Answer {
  const shown = requests.map((request) => shownTo(request, reveal));
  return {
    json: { runId, would: kind, requests: shown, others },
    text: (paint) => {
      const rows = shown.map(({ callId, server, tool, arguments: args, digest }) => [
        visible(callId),
        toolText(server, tool),
        bounded(visible(canonicalJson(args)), SHOWN_ARGUMENTS),
        digest.slice(0, 12),
      ]);
      const left = others.length === 0 ? '' : `\nwait for others: ${others.map(visible).join(', ')}`;
      if (rows.length === 0) return `Nothing of run ${visible(runId)} waits that you may decide.${left}`;
      return `Would ${kind}:\n${table(paint, [['CALL', 'TOOL', 'ARGUMENTS', 'DIGEST'], ...rows])}${left}`;
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
          ? [visible(answer.callId), answer.ack.status, visible(answer.decisionId), '']
          : [visible(answer.callId), answer.error.code, visible(answer.decisionId), visible(answer.error.message)],
      );
      const left = others.length === 0 ? '' : `\nwait for others: ${others.map(visible).join(', ')}`;
      return `${table(paint, [['CALL', 'ANSWER', 'DECISION', ''], ...rows])}${left}`;
    },
  };
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

export function decisionAnswer(runId: string, { ack, request }: Decided): Answer {
  const { callId, status, decidedBy, decidedAt, decisionId, until } = ack;
  return {
    json: {
      runId,
      ...ack,
      ...(request === undefined ? {} : { server: request.server, tool: request.tool, digest: request.digest }),
    },
    text: (paint) => {
      const tool = request === undefined ? '' : `  ${toolText(request.server, request.tool)}`;
      return `${paint(COLOURS[status], status)}  ${paint('bold', visible(callId))}${tool}\n${fields(paint, [
        ['by', `${visible(decidedBy)} at ${shortInstant(decidedAt)}`],
        ['deadline', until === undefined ? undefined : shortInstant(until)],
        ['digest', request?.digest],
        ['decision', visible(decisionId)],
        [
          'next',
          status === 'counted' || status === 'edited'
            ? `somebody else must agree${status === 'edited' ? ' to these arguments' : ''} too; see: countersign requests ${visible(runId)}`
            : undefined,
        ],
      ])}`;
    },
  };
}

export interface Decided {
  readonly ack: DecisionAck;
  /** Absent if the decision was found only in the ledger. */
  readonly request?: ApprovalRequest;
}

export interface BatchPlan {
  readonly kind: DecisionInput['kind'];
  readonly requests: readonly ApprovalRequest[];
  readonly decisions: readonly DecisionInput[];
  /** Calls that wait for other people; `--all` leaves them out. */
  readonly others: readonly string[];
}
