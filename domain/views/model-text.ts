/** The model reads these texts of outcomes (INV-X2): each kind is told apart, and none invites a blind repeat. */
import type { Outcome, ResultPart, ToolResult } from '../../contracts/schemas/call.ts';
import type { CallResult } from '../../contracts/schemas/transcript.ts';
import { canonicalJson } from '../text/canonical.ts';

export interface ModelText {
  readonly text: string;
  readonly isError: boolean;
}

/** Text of a result. Edited arguments come first: else the model would take the result for that of its own. */
export function resultOf({ outcome, edited }: Pick<CallResult, 'outcome' | 'edited'>): ModelText {
  const { text, isError } = modelText(outcome);
  const wasSent = outcome.kind === 'succeeded' || outcome.kind === 'failed' || outcome.kind === 'unknown';
  if (edited === undefined || !wasSent) return { text, isError };
  return {
    text: `${edited.by} approved this call with other arguments than you proposed: ${canonicalJson(edited.arguments)} What follows is about the call with these arguments. Do not repeat it with yours.\n${text}`,
    isError,
  };
}

/** Only a tool's own result has no error mark: what people wrote or recorded is kept apart from it. */
export function modelText(outcome: Outcome): ModelText {
  return { text: textOf(outcome), isError: outcome.kind !== 'succeeded' || outcome.recordedBy !== undefined };
}

function textOf(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'succeeded':
      if (outcome.recordedBy !== undefined)
        return recordedText(outcome.recordedBy, 'succeeded', resultText(outcome.result));
      return resultText(outcome.result);
    case 'failed':
      if (outcome.recordedBy !== undefined) return recordedText(outcome.recordedBy, 'failed', outcome.message);
      if (!outcome.executed) return `Not executed (${outcome.code}): ${outcome.message}`;
      return `The tool ran and reported an error (${outcome.code}).\n${failureText(outcome)}`;
    case 'denied':
      if (outcome.repeatOf !== undefined)
        return repeatText(outcome.repeatOf, `refused by policy (${outcome.code}): ${closed(outcome.message)}`);
      return `Not executed: refused by policy (${outcome.code}): ${closed(outcome.message)} Do not retry this exact tool call.`;
    case 'rejected':
      if (outcome.repeatOf !== undefined)
        return repeatText(outcome.repeatOf, `rejected by a person. Reason given: ${closed(outcome.reason)}`);
      return `Not executed: a person rejected this call. Reason given: ${closed(outcome.reason)} Do not retry this exact tool call.`;
    case 'expired':
      return `Not executed: nobody decided before ${outcome.deadline}. This is no rejection; the call may be proposed again if it still matters.`;
    case 'cancelled':
      return `Not executed: the call was cancelled. ${outcome.reason}`;
    case 'answered':
      return `Not executed: ${outcome.by} answered in the tool's place. Do not retry this exact tool call; take the answer that follows, which is theirs and not the tool's.\n${outcome.answer}`;
    case 'unknown':
      return `It is not known whether this call was executed (${outcome.code}): ${outcome.message} Do not repeat it; first find out by other means whether it took effect.`;
  }
}

function recordedText(by: string, what: 'succeeded' | 'failed', words: string): string {
  return `This call was sent, and its answer was lost. ${by} has found out what became of it: it ${what}. Take this as final and do not repeat the call. What follows are the words of ${by}, not the tool's.\n${words}`;
}

/** Ends what people or operators wrote, so that it does not run into our own words. */
function closed(words: string): string {
  const text = words.trimEnd();
  return /[.!?…:;。！？]["'”’»)\]]*$/u.test(text) ? text : `${text}.`;
}

function repeatText(before: string, how: string): string {
  return `Not executed: this exact call was made before, as ${before}, and ${how} Nobody was asked again, and nobody will be before the user says more. Do not retry this exact tool call.`;
}

export function resultText(result: ToolResult): string {
  const parts = result.content.map(partText);
  if (parts.length === 0 && result.structured !== undefined) parts.push(canonicalJson(result.structured));
  if (parts.length === 0) parts.push('The tool returned no content.');
  return parts.join('\n');
}

function failureText(outcome: Extract<Outcome, { kind: 'failed' }>): string {
  return outcome.result === undefined ? outcome.message : resultText(outcome.result);
}

function partText(part: ResultPart): string {
  switch (part.type) {
    case 'text':
      return part.text;
    case 'image':
    case 'audio':
      return `[${part.type} ${part.mimeType}, ${part.artifact.bytes} bytes, artifact ${part.artifact.sha256}]`;
    case 'resource_link':
      return `[resource ${part.name}: ${part.uri}]`;
    case 'resource':
      return part.text ?? `[resource ${part.uri}, kept as an artifact]`;
  }
}
