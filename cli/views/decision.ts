/** What a decider is told. */
import type { Answer } from '../answer.ts';
import type { Decided } from '../decide.ts';
import { visible } from '../../domain/escape.ts';
import { shortInstant } from './duration.ts';
import { fields } from './fields.ts';
import { toolText } from './words.ts';

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
