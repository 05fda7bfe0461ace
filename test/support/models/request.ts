/** Builds model requests and the conversations in them. */
import type { ModelAnswer, ModelRequest, ModelTool } from '../../../activities/models/port.ts';
import { callIdOf } from '../../../contracts/names.ts';
import type { Outcome } from '../../../contracts/schemas/call.ts';
import type { Message } from '../../../contracts/schemas/transcript.ts';

export const READ_FILE: ModelTool = {
  name: 'files__read_file',
  qualifiedName: 'files/read_file',
  description: 'Reads a file.',
  inputSchema: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
};

export const LIST_FILES: ModelTool = {
  name: 'files__list',
  qualifiedName: 'files/list',
  inputSchema: { type: 'object', properties: {} },
};

export const OPENING: readonly Message[] = [
  { role: 'system', text: 'You look after files.' },
  { role: 'user', text: 'What is in a.txt?' },
];

export function modelRequest(overrides: Partial<ModelRequest> = {}): ModelRequest {
  return {
    turn: 1,
    messages: OPENING,
    tools: [READ_FILE, LIST_FILES],
    signal: new AbortController().signal,
    ...overrides,
  };
}

export function succeeded(text: string): Outcome {
  return { kind: 'succeeded', result: { content: [{ type: 'text', text }] } };
}

/** One outcome of each kind, recognisable by a mark in its text. */
export const EVERY_OUTCOME: Readonly<Record<Outcome['kind'], Outcome>> = {
  succeeded: succeeded('mark-succeeded'),
  failed: { kind: 'failed', code: 'TOOL_FAILED', message: 'mark-failed', executed: true },
  denied: { kind: 'denied', code: 'POLICY_DENIED', message: 'mark-denied' },
  rejected: { kind: 'rejected', by: 'ann', reason: 'mark-rejected' },
  expired: { kind: 'expired', deadline: '2026-11-21T09:00:00.000Z' },
  cancelled: { kind: 'cancelled', reason: 'mark-cancelled' },
  unknown: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'mark-unknown' },
  answered: { kind: 'answered', by: 'ann', answer: 'mark-answered' },
};

/** Makes the two messages of a turn: the model's answer, and the outcomes of its calls. */
export function turnMessages(turn: number, answer: ModelAnswer, outcomes: readonly Outcome[]): readonly Message[] {
  let index = 0;
  const parts = answer.parts.map((part) => {
    if (part.type !== 'call') return part;
    const { malformed: _, ...call } = part;
    return { ...call, callId: callIdOf(turn, index++) };
  });
  const results = parts.flatMap((part, at) => {
    if (part.type !== 'call') return [];
    const { callId, providerCallId, name } = part;
    const position = parts.slice(0, at).filter(({ type }) => type === 'call').length;
    return [{ callId, providerCallId, name, outcome: outcomes[position] ?? succeeded('done') }];
  });
  return [
    { role: 'assistant', parts },
    { role: 'tool', results },
  ];
}
