/** What is told of an answer to a request about something else than consent. What was answered is not among it: it may be personal data. */
import { visible } from '../../domain/escape.ts';
import type { Answer } from '../answer.ts';
import type { Answered } from '../pause-answer.ts';
import type { Paint } from '../terminal.ts';
import { shortInstant } from './duration.ts';
import { fields } from './fields.ts';
import { toolText } from './words.ts';

interface Words {
  readonly word: string;
  readonly colour: Parameters<Paint>[0];
  readonly next?: string;
}

export function pauseAnswer(runId: string, { ack, request }: Answered, { word, colour, next }: Words): Answer {
  const { callId, decisionId, decidedBy, decidedAt } = ack;
  const about = request === undefined ? {} : { server: request.server, tool: request.tool, digest: request.digest };
  const tool = request === undefined ? '' : `  ${toolText(request.server, request.tool)}`;
  return {
    json: { runId, ...ack, ...about },
    text: (paint) =>
      `${paint(colour, word)}  ${paint('bold', visible(callId))}${tool}\n${fields(paint, [
        ['by', `${visible(decidedBy)} at ${shortInstant(decidedAt)}`],
        ['digest', request?.digest],
        ['decision', visible(decisionId)],
        ['next', next === undefined ? undefined : `${next}; see: countersign watch ${visible(runId)}`],
      ])}`,
  };
}
