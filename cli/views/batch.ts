/** What is told of several decisions: before they are sent, and after. */
import type { BatchAnswer } from '../../client/index.ts';
import { canonicalJson } from '../../domain/canonical.ts';
import { bounded, visible } from '../../domain/escape.ts';
import type { Answer } from '../answer.ts';
import type { BatchPlan } from '../batch.ts';
import { table } from './fields.ts';
import { shownTo } from './request.ts';
import { toolText } from './words.ts';

const SHOWN_ARGUMENTS = 120;

/** @param reveal show what policy keeps out of lists */
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
